"""`mlgo explain`: why a policy makes modules larger, and which features it listens to."""

import argparse
import os
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from mlgo.base.artifacts import MODULES, RESULTS, read_table
from mlgo.base.config import judged_split
from mlgo.base.scratch import scratch_directory
from mlgo.cli.program import CONFIG, add_command, add_options, positive, read_config, say
from mlgo.compare.modules import with_contenders
from mlgo.corpus.store import Module, load_modules, unpack_bitcode
from mlgo.errors import ArtifactError
from mlgo.evaluate.compiles import CompileHost
from mlgo.evaluate.training import needed_copies
from mlgo.evaluate.worker import CompileJob, CompileOutcome
from mlgo.host.actions import Binary
from mlgo.host.session import CompileResult
from mlgo.host.tasks.advisors import RecordedAdvisor
from mlgo.host.tasks.task import Task, get_task, settings_for_policy
from mlgo.host.toolchain import Quirks, find_toolchain
from mlgo.policy.policy import OverridingAdvisor, Policy, observation_keys
from mlgo.policy.stored import load_policy
from mlgo.report.inputs import feature_importances

_TITLES = {
    "callee_users": "users",
    "cost_estimate": "cost",
    "callsite_cost": "callsite",
    "caller_basic_block_count": "caller",
    "callee_basic_block_count": "callee",
    "last_call_to_static_bonus": "last",
}
SHOWN_FEATURES = tuple(_TITLES)
"""What is said of a call: uses of the callee, LLVM's two estimates of what inlining costs, blocks on both sides, and
whether this is the only call of a local function (see llvm/include/llvm/Analysis/InlineModelFeatureMaps.h)."""


@dataclass(frozen=True)
class Regression:
    """A module that a policy makes larger."""

    module: Module
    heuristic_bytes: int
    policy_bytes: int


@dataclass(frozen=True)
class Departure:
    """One departure from the heuristic, taken back.

    Attributes:
        times: questions that look the same and were answered together; ``question`` is the first, from 0.
        change_bytes: size after the flip minus size under the policy; None when the compile failed.
        features: what is known of the call, see `SHOWN_FEATURES`.
    """

    question: int
    times: int
    policy_answer: int
    heuristic_answer: int
    logit: float
    change_bytes: int | None
    failure: str
    features: dict[str, int]


@dataclass(frozen=True)
class Explanation:
    """What is known about one regression.

    Attributes:
        flips: those that were tried, the one that saves most first.
        together_bytes: size after all of them at once minus size under the policy; None when that compile failed.
            What single flips save does not add up: calls that come back with an inlined caller are asked about anew.
    """

    regression: Regression
    num_questions: int
    num_differing: int
    flips: tuple[Departure, ...]
    together_bytes: int | None


def worst_regressions(
    results: pa.Table, modules: Sequence[Module], policy: str, split: str, objective: str, count: int
) -> list[Regression]:
    """List the modules that a policy makes largest in proportion; none that it does not make larger."""
    results = with_contenders(results.filter(pc.field("failure") == ""))
    evaluated = set(zip(results["contender"].to_pylist(), results["split"].to_pylist(), strict=True))
    if (policy, split) not in evaluated:
        known = ", ".join(sorted(" on ".join(pair) for pair in evaluated))
        raise ArtifactError(f"the evaluation holds no modules of {policy} on {split}; it holds: {known or 'nothing'}")
    name, baseline = pc.field(objective), pc.field(f"baseline_{objective}")
    grown = (pc.field("contender") == policy) & (pc.field("split") == split) & (name > baseline)
    rows = results.filter(grown).to_pylist()
    rows.sort(key=lambda row: (-row[objective] / max(row[f"baseline_{objective}"], 1), row["project"], row["module"]))
    by_key = {(module.project, module.name): module for module in modules}
    worst = []
    for row in rows[:count]:
        module = by_key.get((row["project"], row["module"]))
        if module is None:
            raise ArtifactError(f"{row['project']}/{row['module']} was evaluated, but is not in the corpus")
        worst.append(Regression(module, row[f"baseline_{objective}"], row[objective]))
    return worst


def explain_regressions(
    host: CompileHost,
    task: Task,
    quirks: Quirks,
    policy: Policy,
    regressions: Sequence[Regression],
    bitcode: Mapping[str, Path],
    objective: str,
    max_flips: int,
) -> list[Explanation]:
    """Compile each module under the policy, then once for each departure from the heuristic, and once for all.

    A flip gives the heuristic's answer to one question, known by all of its features, wherever it comes up; the policy
    answers the rest, also what is asked anew because of it. When there are more departures than flips, the policy's
    surest, those with the largest absolute logit, are taken.
    """
    keys = [one.module.key for one in regressions]
    jobs = [
        CompileJob(key, bitcode[key], policy, with_heuristic_feature=not quirks.default_hides_a_feature, record=True)
        for key in keys
    ]
    compiled = [_as_evaluated(*pair, objective) for pair in zip(regressions, host.compile_all(jobs), strict=True)]
    defaults = _default_answers(host, quirks, keys, bitcode, compiled)
    departures = [_departures(task, policy, *pair) for pair in zip(compiled, defaults, strict=True)]
    chosen = [sorted(flips, key=lambda flip: (-abs(flip.logit), flip.question))[:max_flips] for flips, _ in departures]
    flip_jobs = []
    for key, result, flips in zip(keys, compiled, chosen, strict=True):
        contents = _keys(task, result)
        singly = [{contents[flip.question]: flip.heuristic_answer} for flip in flips]
        together = {content: answer for flip in singly for content, answer in flip.items()}
        for answers in [*singly, together]:
            flip_jobs.append(CompileJob(key, bitcode[key], OverridingAdvisor(policy, answers, task.default_features)))
    outcomes = iter(host.compile_all(flip_jobs, "flips"))
    explanations = []
    for one, result, flips, (_, num_differing) in zip(regressions, compiled, chosen, departures, strict=True):
        done = []
        for flip in flips:
            outcome = next(outcomes)
            change = _change(outcome, one.policy_bytes, objective)
            done.append(replace(flip, change_bytes=change, failure=outcome.failure))
        done.sort(key=lambda flip: (flip.change_bytes is None, flip.change_bytes or 0, flip.question))
        together_bytes = _change(next(outcomes), one.policy_bytes, objective)
        explanations.append(Explanation(one, result.num_questions, num_differing, tuple(done), together_bytes))
    return explanations


def _compiled(key: str, outcome: CompileOutcome) -> CompileResult:
    if outcome.result is None:
        raise ArtifactError(f"{key} does not compile any more: {outcome.failure}: {outcome.message}")
    return outcome.result


def _as_evaluated(one: Regression, outcome: CompileOutcome, objective: str) -> CompileResult:
    """The compile, if it has the size of the evaluation; else the wrong thing would be explained."""
    result = _compiled(one.module.key, outcome)
    if outcome.score(objective) != one.policy_bytes:
        raise ArtifactError(
            f"{one.module.key} has {outcome.score(objective):.0f} bytes under the policy, but the evaluation found "
            f"{one.policy_bytes}: policy, compiler or settings have changed since; run the evaluate stage again"
        )
    return result


def _default_answers(
    host: CompileHost,
    quirks: Quirks,
    keys: Sequence[str],
    bitcode: Mapping[str, Path],
    compiled: Sequence[CompileResult],
) -> list[np.ndarray]:
    """What the heuristic would have answered to each question, int64 [num_questions] for each module."""
    if quirks.default_hides_a_feature:
        jobs = [
            CompileJob(key, bitcode[key], RecordedAdvisor(result.answers), with_heuristic_feature=True, record=True)
            for key, result in zip(keys, compiled, strict=True)
        ]
        compiled = [_compiled(*pair) for pair in zip(keys, host.compile_all(jobs), strict=True)]
    return [_columns(result)[quirks.default_slot] for result in compiled]


def _departures(task: Task, policy: Policy, result: CompileResult, default: np.ndarray) -> tuple[list[Departure], int]:
    """The questions that policy and heuristic answer differently, equal ones as one; and their number."""
    asked = result.questions()
    answers = asked.answers
    differing = np.flatnonzero((answers != 0) != (default != 0))
    columns, contents, logit = _columns(result), _keys(task, result), policy.logits_for(asked.header)
    shown = [name for name in SHOWN_FEATURES if name in columns]
    by_content: dict[bytes, list[int]] = {}
    for question in differing.tolist():
        by_content.setdefault(contents[question], []).append(question)
    flips = [
        Departure(
            first,
            len(same),
            int(answers[first]),
            int(default[first] != 0),
            float(logit(asked.observations[first].tobytes())),
            None,
            "",
            {name: int(columns[name][first]) for name in shown},
        )
        for same in by_content.values()
        for first in same[:1]
    ]
    return flips, len(differing)


def _change(outcome: CompileOutcome, policy_bytes: int, objective: str) -> int | None:
    return None if outcome.result is None else int(outcome.score(objective)) - policy_bytes


def _keys(task: Task, result: CompileResult) -> list[bytes]:
    """Key of each question, without the default: the compiles with flips do not ask for it."""
    asked = result.questions()
    return observation_keys(asked.header, asked.observations, task.default_features)


def _columns(result: CompileResult) -> dict[str, np.ndarray]:
    asked = result.questions()
    values = asked.header.numbers(asked.observations)
    return {spec.name: values[:, i] for i, spec in enumerate(asked.header.features)}


_EXAMPLES = """
mlgo explain --policy data/policies/marginal-s0                 the five modules that grew most, and why
mlgo explain --policy data/policies/marginal-s0 --modules 2 --flips 50 --json
mlgo explain --policy data/policies/marginal-s0 --importance    the features that its answers hang on
"""
_WORDS = {0: "call", 1: "inline"}


def add_parser(commands: Any) -> None:
    parser = add_command(
        commands, "explain", "why a policy makes modules larger, and what it listens to", _EXAMPLES, run
    )
    parser.add_argument("--policy", type=Path, required=True, help="folder named <algorithm>-s<seed>")
    parser.add_argument("--data", type=Path, default=Path("data"), help="folder of the results (default: %(default)s)")
    parser.add_argument("--modules", type=positive, default=5, help="explain at most so many (default: %(default)s)")
    parser.add_argument(
        "--split", choices=("test", "validation", "train"), help="where to look (default: the split that was judged)"
    )
    parser.add_argument(
        "--flips", type=positive, default=20, help="decisions taken back per module (default: %(default)s)"
    )
    parser.add_argument("--jobs", type=positive, default=os.cpu_count() or 1, help="workers (default: %(default)s)")
    parser.add_argument(
        "--importance", action="store_true", help="instead: permute each feature, count the answers that change"
    )
    parser.add_argument("--top", type=positive, default=10, help="features shown (default: %(default)s)")
    add_options(parser, "--json", *CONFIG)


def run(args: argparse.Namespace) -> None:
    """Print explanations or importances."""
    if args.importance:
        _importance(args)
    else:
        _regressions(args)


def _importance(args: argparse.Namespace) -> None:
    name, folder = _name(args.policy), args.policy.resolve().parent
    modules = read_table(args.data / "corpus" / "modules.parquet", MODULES)
    trace = args.data / "baseline" / "trace.parquet"
    split = args.split or judged_split(pc.unique(modules["split"]).to_pylist())
    top = feature_importances(folder, [name], trace, modules, split, read_config(args).seed)[name][: args.top]
    head = f"{name}: share of its answers on the {split} projects that change when a feature is permuted"
    lines = (f"  {one.feature:<40} {100 * one.changed_share:>6.2f} %" for one in top)
    say(args, [asdict(one) for one in top], "\n".join([head, *lines]))


def _regressions(args: argparse.Namespace) -> None:
    config, policy = read_config(args), load_policy(args.policy, Binary)
    task, toolchain = get_task(policy.task), find_toolchain(config.toolchain, config.target)
    compiling = settings_for_policy(policy.features, task, config.compile)
    corpus, objective = args.data / "corpus", compiling.objective
    results = read_table(args.data / "evaluation" / "results.parquet", RESULTS)
    copies = needed_copies(compiling, args.data / "baseline")
    split = args.split or judged_split(pc.unique(results["split"]).to_pylist())
    worst = worst_regressions(results, load_modules(corpus), _name(args.policy), split, objective, args.modules)
    with scratch_directory() as folder:
        bitcode = unpack_bitcode(corpus, [one.module for one in worst], folder)
        with CompileHost(toolchain, task.name, compiling, args.jobs, copies=copies) as host:
            explanations = explain_regressions(
                host, task, toolchain.quirks, policy, worst, bitcode, objective, args.flips
            )
    text = "\n\n".join(_text(one, objective) for one in explanations)
    none = f"{_name(args.policy)} makes no {split} module larger."
    say(args, [_record(one) for one in explanations], text or none)


def _name(policy: Path) -> str:
    return policy.resolve().name


def _record(one: Explanation) -> dict[str, Any]:
    return {
        "module": one.regression.module.key,
        "heuristic_bytes": one.regression.heuristic_bytes,
        "policy_bytes": one.regression.policy_bytes,
        "num_questions": one.num_questions,
        "num_differing": one.num_differing,
        "together_bytes": one.together_bytes,
        "flips": [asdict(flip) for flip in one.flips],
    }


def _text(one: Explanation, objective: str) -> str:
    before, after = one.regression.heuristic_bytes, one.regression.policy_bytes
    growth = f" ({100 * (after / before - 1):+.2f} %)" if before else ""
    together = "a failed compile" if one.together_bytes is None else f"{one.together_bytes:+d} bytes"
    lines = [
        f"{one.regression.module.key}: {objective} {before} under the heuristic, {after} under the policy{growth}",
        f"{one.num_differing} of {one.num_questions} questions answered otherwise than by the heuristic; "
        f"{len(one.flips)} of these calls taken back, all at once {together}, singly:",
        f"  {'question':>8} {'policy':>7} {'heuristic':>9} {'logit':>7} {'bytes':>7}  "
        + " ".join(f"{_TITLES[name]:>8}" for name in SHOWN_FEATURES),
    ]
    return "\n".join([*lines, *(_line(flip) for flip in one.flips)])


def _line(flip: Departure) -> str:
    change = flip.failure if flip.change_bytes is None else f"{flip.change_bytes:+d}"
    return (
        f"  {flip.question:>8} {_WORDS[int(flip.policy_answer != 0)]:>7} {_WORDS[flip.heuristic_answer]:>9} "
        f"{flip.logit:>+7.2f} {change:>7}  "
        + " ".join(f"{flip.features.get(name, '-'):>8}" for name in SHOWN_FEATURES)
        + (f"  x{flip.times}" if flip.times > 1 else "")
    )
