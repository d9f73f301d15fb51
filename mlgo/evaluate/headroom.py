"""How small modules and linked files can be made: by fixed answers, and by a search."""

from collections.abc import Mapping, Sequence
from pathlib import Path

import pyarrow as pa
import pyarrow.compute as pc

from mlgo.base.artifacts import SCORES, Row, RowView
from mlgo.base.config import HeadroomConfig
from mlgo.base.seeding import generator
from mlgo.evaluate.baseline import ScoredModule
from mlgo.evaluate.compiles import CompileHost
from mlgo.evaluate.search import MODULE_WIDE, SearchResult, ask_trees, doubt_of, run_searches, search
from mlgo.evaluate.worker import CompileJob, CompileOutcome
from mlgo.host.tasks.task import ConstantAdvisor, EchoAdvisor, PureAdvisor
from mlgo.objects.measures import SIZES, Scores
from mlgo.policy.policy import OverridingAdvisor, Policy
from mlgo.pool.tree_store import ReplayStore

SOLE_CALL_FEATURE = "last_call_to_static_bonus"
"""1 where the callee is local to the module and this call is its only use, so that inlining removes the callee
(``isSoleCallToLocalFunction`` in llvm/lib/Analysis/InlineCost.cpp). The count ``callee_users`` alone does not tell:
it does not know linkage."""

FIXED: dict[str, PureAdvisor] = {
    "never": ConstantAdvisor(0),
    "always": ConstantAdvisor(1),
    "single-call": EchoAdvisor(SOLE_CALL_FEATURE),
}
"""Ways of answering that need no training; each search begins with them, too."""

VARIANTS = ("heuristic", "random", *FIXED, "search")
"""All ways of answering, in the order of the rows; the first two are known from the baseline."""


def measure_headroom(
    host: CompileHost,
    store: ReplayStore,
    modules: Sequence[ScoredModule],
    bitcode: Mapping[str, Path],
    scores: pa.Table,
    policies: Sequence[Policy],
    config: HeadroomConfig,
    objective: str,
    seed: int,
) -> list[Row]:
    """Search each module for smaller code.

    Args:
        host: runs the compiles, with ``store`` as its memory.
        policies: searches begin with these as well as with `FIXED`; the first also answers and ranks questions.
        objective: size that the search makes smaller, by the names of ``compile.objective``.

    Returns:
        Rows of ``artifacts.HEADROOM``, by module and variant.
    """
    fixed = [OverridingAdvisor(advisor, ignored=MODULE_WIDE) for advisor in (*FIXED.values(), *policies)]
    doubt, searches = doubt_of(policies[0]), []

    def left(num_compiles: int) -> int:
        return config.budget - num_compiles

    for one in modules:
        ask, rng = ask_trees(store, one.module.sha256), generator(seed, "headroom", one.module.key)
        searches.append(search(fixed, ask, doubt, objective, left, config.flips_per_round, rng))

    def job(number: int, advisor: OverridingAdvisor) -> CompileJob:
        module = modules[number].module
        return CompileJob(module.key, bitcode[module.key], advisor, sha256=module.sha256)

    results = run_searches(host, searches, job, "headroom")
    drawn = scores.select(SCORES.names).filter(pc.field("advisor") == "random").to_pylist()
    random = {f"{row['project']}/{row['module']}": row for row in drawn}
    return [
        row
        for one, result in zip(modules, results, strict=True)
        for row in _rows(one, random.get(one.module.key), result)
    ]


def _rows(scored: ScoredModule, random: RowView | None, result: SearchResult) -> list[Row]:
    """All variants of one module, in the order of `VARIANTS`."""
    last = result.best or result.start[-1]
    found: dict[str, Row] = {"heuristic": _sizes(scored.scores)}
    if random:
        found["random"] = {name: random[name] for name in (*SIZES, "failure", "message")}
    for variant, outcome in zip(FIXED, result.start, strict=False):
        found[variant] = {**_outcome(outcome), "num_compiles": 1}
    found["search"] = {**_outcome(last), "num_compiles": result.num_compiles}
    module = scored.module
    key = {"project": module.project, "module": module.name, "language": module.language, "split": module.split}
    return [
        {**key, "variant": variant, "num_compiles": 0, "failure": "", "message": "", **row}
        for variant, row in found.items()
    ]


def _outcome(outcome: CompileOutcome) -> Row:
    scores = outcome.result.scores if outcome.result else {}
    return {**_sizes(scores), "failure": outcome.failure, "message": outcome.message}


def _sizes(scores: Scores) -> dict[str, int | float | None]:
    return {name: scores.get(name) for name in SIZES}
