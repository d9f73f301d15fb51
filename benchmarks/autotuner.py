"""The search of `mlgo tune` and a published autotuner of inlining, after equally many compiles.

The other method is that of Theodoridis, Grosser and Su (Understanding and Exploiting Optimal Function Inlining, ASPLOS
2022): a round decides each call otherwise in a compile of its own, and goes on from what all that helped are together,
or, where that is not smaller, from the best of them.

Example:
    mlgo capture -o captured/ujson --sdist ujson==5.10.0
    python -m benchmarks.autotuner captured/ujson --ships whole --budget 30 100 300
"""

import argparse
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.arguments import add_policy_option, benchmark_parser, print_record, run_benchmark
from mlgo.base.scratch import shared_folder
from mlgo.base.ships import AS_BUILT, Ships
from mlgo.cli.evaluate import EvaluationTools
from mlgo.cli.program import CONFIG, add_options, positive, settings_of
from mlgo.cli.tune import linked_programs
from mlgo.errors import CorpusError
from mlgo.evaluate.linked_search import search_linked
from mlgo.evaluate.sealed_log import log_if_sealed
from mlgo.evaluate.search import Ask, Promise, Search, SearchResult, TriedCompile, search, smallest_of
from mlgo.evaluate.targets import one_project
from mlgo.host.actions import Binary
from mlgo.policy.policy import OverridingAdvisor, observation_keys
from mlgo.policy.stored import load_policy
from mlgo.pool.cores import usable_cores


def rounds_over_calls(
    starts: Sequence[OverridingAdvisor],
    ask: Ask,
    promise: Promise,
    objective: str,
    left: Callable[[int], int],
    flips_per_round: int,
    rng: np.random.Generator,
    tried: set[int] | None = None,
) -> Search:
    """The published method, with the arguments of `search`; calls are taken in an order that is drawn."""
    first = yield list(starts)
    num_compiles, best = len(starts), smallest_of(starts, first, objective)
    while best is not None and left(num_compiles) > 0:
        base, helped = best, dict[bytes, int]()
        header, payloads, answers = ask(base.advisor)
        keys = observation_keys(header, payloads, base.advisor.ignored)
        turned = {key: int(answer == 0) for key, answer in zip(keys, answers.tolist(), strict=True)}
        waiting = [list(turned)[number] for number in rng.permutation(len(turned))]
        while waiting and (count := min(flips_per_round, left(num_compiles))) > 0:
            flipped, waiting = waiting[:count], waiting[count:]
            advisors = [base.advisor.with_answers({key: turned[key]}) for key in flipped]
            outcomes = yield advisors
            num_compiles += len(advisors)
            best = _smaller(best, smallest_of(advisors, outcomes, objective))
            scores = [one.score(objective) for one in outcomes]
            helped |= {key: turned[key] for score, key in zip(scores, flipped, strict=True) if score < base.size}
        if not helped:
            break
        if left(num_compiles) > 0:
            together = [base.advisor.with_answers(helped)]
            best = _smaller(best, smallest_of(together, (yield together), objective))
            num_compiles += 1
    return SearchResult(first, best.outcome if best else None, num_compiles)


def _smaller(best: TriedCompile, other: TriedCompile | None) -> TriedCompile:
    return other if other is not None and other.size < best.size else best


def main() -> None:
    """Search by both and print what they found."""
    parser = benchmark_parser("benchmarks.autotuner", __doc__)
    parser.add_argument("project", type=Path, metavar="DIR", help="what mlgo capture has written")
    parser.add_argument("--ships", type=Ships.of, default=AS_BUILT, metavar="RECORD", help="as of mlgo tune")
    parser.add_argument("--budget", type=positive, nargs="+", default=[100], metavar="N", help="compiles of a search")
    parser.add_argument("--reason", default="", metavar="TEXT", help="to search a sealed project, as of mlgo tune")
    parser.add_argument("--workers", type=positive, default=usable_cores(), help="(default: %(default)s)")
    add_policy_option(parser, "to begin with")
    add_options(parser, "--json", *CONFIG)
    args = parser.parse_args()
    print_record(compare(args), as_json=args.json)


def compare(args: argparse.Namespace) -> dict[str, Any]:
    """Bytes of the linked files under the policy, and after each budget by each method."""
    values, policy = settings_of(args), load_policy(args.policy, Binary)
    target = one_project(args.project, shared_folder() / "bitcode")
    tools = EvaluationTools.of(args, values, policy, args.ships, [target])
    log_if_sealed(policy, args.policy, str(tools.compiling.ships), {target.project: target.content}, args.reason)
    (target,) = tools.in_form([target])
    if not target.programs:
        raise CorpusError(f"{args.project} has no linked file; capture a build that links")
    found: dict[str, Any] = {"project": target.project, "ships": str(args.ships)}
    for name, method in ("search", search), ("rounds", rounds_over_calls):
        with linked_programs(target, tools, policy, args.workers, values) as (_, programs):
            flips, seed = values.value("headroom.flips_per_round"), values.value("seed")
            first, best = search_linked(programs, policy, max(args.budget), flips, seed, method=method)
            course, each = programs.course(), programs.compiles_per_build
        found["policy"] = first.total
        for budget in args.budget:
            known = [row["total"] for row in course if row["num_compiles"] * each <= budget]
            total = best.total if budget == max(args.budget) else known[-1]  # what is known needs no compile again
            found |= {f"{name}_{budget}": total, f"{name}_{budget}_gain": round(1 - total / first.total, 5)}
    return found


if __name__ == "__main__":
    run_benchmark("benchmarks.autotuner")
