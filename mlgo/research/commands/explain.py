"""`mlgo explain`: why a policy makes modules larger, and which features it listens to."""

import argparse
import os
from collections.abc import Iterable, Mapping, Sequence
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
from mlgo.host.tasks.task import Advisor, RecordedAdvisor, Task, get_task, settings_for_policy
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
    """One departure from the heuristic, taken back."""

    question: int
    times: int  # questions that look the same and were answered together; `question` is the first, from 0
    policy_answer: int
    heuristic_answer: int
    logit: float
    change_bytes: int | None  # size after the flip minus size under the policy; None when the compile failed
    failure: str
    features: dict[str, int]  # what is known of the call, see `SHOWN_FEATURES`


@dataclass(frozen=True)
class Explanation:
    """What is known about one regression."""

    module: str  # its key
    heuristic_bytes: int
    policy_bytes: int
    num_questions: int
    num_differing: int  # answers that are not the heuristic's
    # Size after all flips at once minus size under the policy; None when that compile failed. What single flips save
    # does not add up: calls that come back with an inlined caller are asked about anew.
    together_bytes: int | None
    flips: tuple[Departure, ...]  # those that were tried, the one that saves most first


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

    def compiled(advisors: Iterable[Advisor], with_heuristic_feature: bool) -> list[CompileResult]:
        jobs = [
            CompileJob(key, bitcode[key], one, with_heuristic_feature=with_heuristic_feature, record=True)
            for key, one in zip(keys, advisors, strict=True)
        ]
        outcomes = dict(zip(keys, host.compile_all(jobs), strict=True))
        for key, outcome in outcomes.items():
            if outcome.result is None:
                raise ArtifactError(f"{key} does not compile any more: {outcome.reason}")
        return [outcome.result for outcome in outcomes.values() if outcome.result]

    results = compiled([policy] * len(keys), not quirks.default_hides_a_feature)
    for one, result in zip(regressions, results, strict=True):
        if result.score(objective) != one.policy_bytes:  # the wrong thing would be explained
            raise ArtifactError(
                f"{one.module.key} has {result.score(objective):.0f} bytes under the policy, but the evaluation found "
                f"{one.policy_bytes}: policy, compiler or settings have changed since; run the evaluate stage again"
            )
    with_default = results  # the heuristic's answers to the same questions are among the features
    if quirks.default_hides_a_feature:
        with_default = compiled([RecordedAdvisor(result.answers) for result in results], True)
    departures = [
        _departures(task, policy, result, _columns(same)[quirks.default_slot])
        for result, same in zip(results, with_default, strict=True)
    ]
    jobs = []
    for key, result, flips in zip(keys, results, departures, strict=True):
        contents = _keys(task, result)
        singly = [{contents[flip.question]: flip.heuristic_answer} for flip in flips[:max_flips]]
        for answers in [*singly, {content: answer for flip in singly for content, answer in flip.items()}]:
            jobs.append(CompileJob(key, bitcode[key], OverridingAdvisor(policy, answers, task.default_features)))
    outcomes = iter(host.compile_all(jobs, "flips"))

    def change(outcome: CompileOutcome, one: Regression) -> int | None:
        return None if outcome.result is None else int(outcome.score(objective)) - one.policy_bytes

    explanations = []
    for one, result, flips in zip(regressions, results, departures, strict=True):
        tried = [(flip, next(outcomes)) for flip in flips[:max_flips]]
        done = [replace(flip, change_bytes=change(end, one), failure=end.failure) for flip, end in tried]
        done.sort(key=lambda flip: (flip.change_bytes is None, flip.change_bytes or 0, flip.question))
        num_differing, together = sum(flip.times for flip in flips), change(next(outcomes), one)
        sizes = one.heuristic_bytes, one.policy_bytes
        explanations.append(
            Explanation(one.module.key, *sizes, result.num_questions, num_differing, together, tuple(done))
        )
    return explanations


def _departures(task: Task, policy: Policy, result: CompileResult, default: np.ndarray) -> list[Departure]:
    """The questions that policy and heuristic answer differently, equal ones as one, the policy's surest first.

    ``default`` is what the heuristic would have answered to each question, int64 [num_questions].
    """
    asked = result.questions()
    columns, contents, logit = _columns(result), _keys(task, result), policy.logits_for(asked.header)
    by_content: dict[bytes, list[int]] = {}
    for question in np.flatnonzero((asked.answers != 0) != (default != 0)).tolist():
        by_content.setdefault(contents[question], []).append(question)
    flips = [
        Departure(
            question=first,
            times=len(same),
            policy_answer=int(asked.answers[first]),
            heuristic_answer=int(default[first] != 0),
            logit=float(logit(asked.observations[first].tobytes())),
            change_bytes=None,
            failure="",
            features={name: int(columns[name][first]) for name in SHOWN_FEATURES if name in columns},
        )
        for first, same in ((questions[0], questions) for questions in by_content.values())
    ]
    return sorted(flips, key=lambda flip: (-abs(flip.logit), flip.question))


def _keys(task: Task, result: CompileResult) -> list[bytes]:
    """Key of each question, without the default: the compiles with flips do not ask for it."""
    asked = result.questions()
    return observation_keys(asked.header, asked.observations, task.default_features)


def _columns(result: CompileResult) -> dict[str, np.ndarray]:
    asked = result.questions()
    values = asked.header.numbers(asked.observations)
    return {spec.name: values[:, i] for i, spec in enumerate(asked.header.features)}


_WORDS = {0: "call", 1: "inline"}


def add_parser(commands: Any) -> None:
    parser = add_command(commands, "explain", run)
    parser.add_argument("--policy", type=Path, required=True, help="folder named <algorithm>-s<seed>")
    add_options(parser, "--data")
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
    """Why a policy makes modules larger, and what it listens to.

    mlgo explain --policy data/policies/marginal-s0                 the five modules that grew most, and why
    mlgo explain --policy data/policies/marginal-s0 --modules 2 --flips 50 --json
    mlgo explain --policy data/policies/marginal-s0 --importance    the features that its answers hang on
    """
    name = args.policy.resolve().name
    path, schema = ("corpus/modules.parquet", MODULES) if args.importance else ("evaluation/results.parquet", RESULTS)
    table = read_table(args.data / path, schema)
    split = args.split or judged_split(pc.unique(table["split"]).to_pylist())
    if args.importance:
        folder, trace = args.policy.resolve().parent, args.data / "baseline" / "trace.parquet"
        top = feature_importances(folder, [name], trace, table, split, read_config(args).seed)[name][: args.top]
        head = f"{name}: share of its answers on the {split} projects that change when a feature is permuted"
        lines = (f"  {one.feature:<40} {100 * one.changed_share:>6.2f} %" for one in top)
        say(args, [asdict(one) for one in top], "\n".join([head, *lines]))
        return
    explanations, objective = _explain(args, table, split)
    text = "\n\n".join(_text(one, objective) for one in explanations)
    say(args, [asdict(one) for one in explanations], text or f"{name} makes no {split} module larger.")


def _explain(args: argparse.Namespace, results: pa.Table, split: str) -> tuple[list[Explanation], str]:
    """Explanations of the worst regressions, and what they are measured by."""
    config, policy = read_config(args), load_policy(args.policy, Binary)
    task, toolchain = get_task(policy.task), find_toolchain(config.toolchain, config.target)
    compiling = settings_for_policy(policy.features, task, config.compile)
    corpus, objective = args.data / "corpus", compiling.objective
    copies = needed_copies(compiling, args.data / "baseline")
    name, modules = args.policy.resolve().name, load_modules(corpus)
    worst = worst_regressions(results, modules, name, split, objective, args.modules)
    with scratch_directory() as folder:
        bitcode = unpack_bitcode(corpus, [one.module for one in worst], folder)
        with CompileHost(toolchain, task.name, compiling, args.jobs, copies=copies) as host:
            found = explain_regressions(host, task, toolchain.quirks, policy, worst, bitcode, objective, args.flips)
    return found, objective


def _text(one: Explanation, objective: str) -> str:
    before, after = one.heuristic_bytes, one.policy_bytes
    growth = f" ({100 * (after / before - 1):+.2f} %)" if before else ""
    together = "a failed compile" if one.together_bytes is None else f"{one.together_bytes:+d} bytes"
    lines = [
        f"{one.module}: {objective} {before} under the heuristic, {after} under the policy{growth}",
        f"{one.num_differing} of {one.num_questions} questions answered otherwise than by the heuristic; "
        f"{len(one.flips)} of these calls taken back, all at once {together}, singly:",
        f"  {'question':>8} {'policy':>7} {'heuristic':>9} {'logit':>7} {'bytes':>7}  "
        + " ".join(f"{_TITLES[name]:>8}" for name in SHOWN_FEATURES),
    ]
    for flip in one.flips:
        change = flip.failure if flip.change_bytes is None else f"{flip.change_bytes:+d}"
        features = " ".join(f"{flip.features.get(name, '-'):>8}" for name in SHOWN_FEATURES)
        lines.append(
            f"  {flip.question:>8} {_WORDS[int(flip.policy_answer != 0)]:>7} {_WORDS[flip.heuristic_answer]:>9} "
            f"{flip.logit:>+7.2f} {change:>7}  {features}{f'  x{flip.times}' if flip.times > 1 else ''}"
        )
    return "\n".join(lines)
