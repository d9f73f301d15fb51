"""`mlgo explain`: why a policy makes modules larger, and which features it listens to."""

import argparse
import os
from dataclasses import asdict
from pathlib import Path
from typing import Any

import pyarrow.compute as pc

from mlgo.base.artifacts import MODULES, RESULTS, read_table
from mlgo.base.config import judged_split
from mlgo.base.scratch import scratch_directory
from mlgo.cli.options import add_command, add_config_options, positive, read_config, say
from mlgo.corpus.store import load_modules, unpack_bitcode
from mlgo.evaluate.compiles import CompileHost
from mlgo.evaluate.training import needed_copies
from mlgo.host.actions import Binary
from mlgo.host.tasks.task import get_task, settings_for_policy
from mlgo.host.toolchain import find_toolchain
from mlgo.policy.stored import load_policy
from mlgo.report.importance import feature_importances
from mlgo.research.explanation import SHOWN_FEATURES, Departure, Explanation, explain_regressions, worst_regressions

_EXAMPLES = """
mlgo explain --policy data/policies/marginal-s0                 the five modules that grew most, and why
mlgo explain --policy data/policies/marginal-s0 --modules 2 --flips 50 --json
mlgo explain --policy data/policies/marginal-s0 --importance    the features that its answers hang on
"""
_WORDS = {0: "call", 1: "inline"}
_TITLES = {
    "callee_users": "users",
    "cost_estimate": "cost",
    "callsite_cost": "callsite",
    "caller_basic_block_count": "caller",
    "callee_basic_block_count": "callee",
    "last_call_to_static_bonus": "last",
}


def add_parser(commands: Any) -> None:
    """Register the sub-command."""
    parser = add_command(commands, "explain", "why a policy makes modules larger, and what it listens to", _EXAMPLES)
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
    parser.add_argument("--json", action="store_true", help="print JSON")
    add_config_options(parser)
    parser.set_defaults(run=run)


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
