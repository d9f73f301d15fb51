"""How small modules and linked files can be made: by fixed answers, by what trees know, and by a search."""

import math
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from functools import partial
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from mlgo.base.artifacts import SCORES, Row, RowView
from mlgo.base.config import HeadroomConfig
from mlgo.base.seeding import generator
from mlgo.corpus.store import Module
from mlgo.errors import CompileError
from mlgo.evaluate.baseline import ScoredModule
from mlgo.evaluate.compiles import CompileHost
from mlgo.evaluate.episodes import best_walk
from mlgo.evaluate.evaluation import Evaluation
from mlgo.evaluate.search import MODULE_WIDE, SearchResult, ask_trees, doubt_of, run_searches, search
from mlgo.evaluate.shipped import EvaluationRun, measure_programs, modules_of, objects_of
from mlgo.evaluate.worker import CompileJob, CompileOutcome
from mlgo.host.linker import LinkedFile, link_file, section_sizes
from mlgo.host.log import Header
from mlgo.host.session import CompileResult
from mlgo.host.tasks.task import ConstantAdvisor, EchoAdvisor, PureAdvisor
from mlgo.host.toolchain import Quirks
from mlgo.objects.measures import SIZES, Scores
from mlgo.policy.policy import OverridingAdvisor, Policy, observation_keys
from mlgo.policy.stored import StoredPolicy
from mlgo.pool.response_tree import ModuleLeaf
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

VARIANTS = ("heuristic", "random", *FIXED, "trees", "search")
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
    known = [_best_in_tree(store, one, policies[0], objective) if config.known_trees else None for one in modules]
    fixed = [OverridingAdvisor(advisor, ignored=MODULE_WIDE) for advisor in (*FIXED.values(), *policies)]
    doubt, searches = doubt_of(policies[0]), []
    for one, best in zip(modules, known, strict=True):
        starts = [*fixed, *([best[1]] if best else [])]
        ask, rng = ask_trees(store, one.module.sha256), generator(seed, "headroom", one.module.key)
        searches.append(search(starts, ask, doubt, objective, config.budget, config.flips_per_round, rng))

    def job(number: int, advisor: OverridingAdvisor) -> CompileJob:
        module = modules[number].module
        return CompileJob(module.key, bitcode[module.key], advisor, sha256=module.sha256)

    results = run_searches(host, searches, job, "headroom")
    drawn = scores.select(SCORES.names).filter(pc.field("advisor") == "random").to_pylist()
    random = {f"{row['project']}/{row['module']}": row for row in drawn}
    return [
        row
        for one, best, result in zip(modules, known, results, strict=True)
        for row in _rows(one, random.get(one.module.key), best[0] if best else None, result)
    ]


def _best_in_tree(
    store: ReplayStore, scored: ScoredModule, base: PureAdvisor, objective: str
) -> tuple[ModuleLeaf, OverridingAdvisor] | None:
    """The smallest compile that a module's tree knows, and an advisor that gives its answers."""
    trees = store.load(scored.module.sha256)
    if trees is None or (walk := best_walk(trees, objective)) is None:
        return None
    assert isinstance(walk.leaf, ModuleLeaf)
    keys = observation_keys(trees.header, trees.by_context[0].observations[walk.nodes], MODULE_WIDE)
    return walk.leaf, OverridingAdvisor(base, dict(zip(keys, walk.answers.tolist(), strict=True)), MODULE_WIDE)


def _rows(scored: ScoredModule, random: RowView | None, in_tree: ModuleLeaf | None, result: SearchResult) -> list[Row]:
    """All variants of one module, in the order of `VARIANTS`."""
    last = result.best or result.start[-1]
    found: dict[str, Row] = {"heuristic": _sizes(scored.scores)}
    if random:
        found["random"] = {name: random[name] for name in (*SIZES, "failure", "message")}
    for variant, outcome in zip(FIXED, result.start, strict=False):
        found[variant] = {**_outcome(outcome), "num_compiles": 1}
    if in_tree:
        found["trees"] = _sizes(in_tree.scores)
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


SEARCH = "search"
"""Name of the contender."""

_SHIPPED = "shipped"  # score of a compile: total bytes of the linked files that hold the module


def measure_search(
    run: EvaluationRun,
    policy: StoredPolicy,
    objects: Mapping[str, Path],
    budget: int,
    flips_per_round: int,
    seed: int,
    quirks: Quirks,
) -> Evaluation:
    """Search each module of a project for answers that make its linked files smaller, then link them.

    Each module is searched by itself while all others stay as the policy compiles them. What is judged of a compile is
    the total of the linked files that hold the module. In the end all files are linked from the best objects. A search
    begins with the heuristic's answers, the policy's, and those of `FIXED`; see `search`. Where the compiler's own
    decision hides a feature, none begins with the heuristic's.

    Returns:
        Rows of ``artifacts.SHIPPED_SIZES`` of the contender `SEARCH`, and how each search went.
    """
    heuristic = [] if quirks.default_hides_a_feature else [EchoAdvisor(quirks.default_slot)]
    first: list[PureAdvisor] = [*heuristic, policy, *FIXED.values()]
    starts = [OverridingAdvisor(advisor, ignored=MODULE_WIDE) for advisor in first]
    modules = [
        _LinkedModule(run, one, objects, bool(heuristic))
        for one in modules_of(run.programs)
        if objects[one.key].exists()
    ]
    doubt, searches = doubt_of(policy), []
    for one in modules:
        rng = generator(seed, "linked-search", one.module.key)
        searches.append(search(starts, one.ask, doubt, _SHIPPED, budget, flips_per_round, rng))
    run_searches(
        run.host,
        searches,
        lambda number, advisor: modules[number].job(advisor),
        SEARCH,
        lambda number, advisors, outcomes: modules[number].judge(advisors, outcomes),
        run.linking.num_threads,
    )
    best = {**objects, **{one.module.key: one.best for one in modules}}
    sizes = measure_programs(run.linking, SEARCH, run.programs, best)
    return Evaluation([], sizes=sizes, course=[row for one in modules for row in one.course()])


class _LinkedModule:
    """A module whose compiles are linked with the policy's objects of all others; ``best`` makes the smallest files."""

    def __init__(
        self, run: EvaluationRun, module: Module, objects: Mapping[str, Path], with_heuristic_feature: bool
    ) -> None:
        self.module, self.best = module, objects[module.key]
        self._run, self._objects, self._with_default = run, objects, with_heuristic_feature
        self._programs = [one for one in run.programs if module.key in {part.key for part in one.modules}]
        self._folder = run.folder / SEARCH / self.best.stem
        self._folder.mkdir(parents=True)
        self._known: dict[int, CompileResult] = {}  # by identity of the advisor, which the search keeps
        self._least, self._shipped, self._num_compiles = math.inf, math.inf, 0
        self._paths, self._course = list[Path](), list[Row]()

    def ask(self, advisor: OverridingAdvisor) -> tuple[Header, np.ndarray, np.ndarray]:
        """Questions and answers of the best compile."""
        asked = self._known[id(advisor)].questions()
        return asked.header, asked.observations, asked.answers

    def job(self, advisor: OverridingAdvisor) -> CompileJob:
        """A compile of the next outcomes to `judge`."""
        path = self._folder / f"{self._num_compiles + len(self._paths)}.o"
        self._paths.append(path)
        key, bitcode, asked = self.module.key, self._run.bitcode[self.module.key], self._with_default
        return CompileJob(
            key, bitcode, advisor, with_heuristic_feature=asked, record=True, object_path=path, with_credit=True
        )

    def judge(self, advisors: Sequence[OverridingAdvisor], outcomes: Sequence[CompileOutcome]) -> list[CompileOutcome]:
        """Link what was compiled, for its score, and keep the best object."""
        if self._num_compiles == 0:
            with suppress(CompileError):
                self._shipped = self._total(self._objects)
                self._note()
        paths, self._paths = self._paths, []
        judged = [self._linked(outcome, path) for outcome, path in zip(outcomes, paths, strict=True)]
        for advisor, outcome, path in zip(advisors, judged, paths, strict=True):
            size = outcome.score(_SHIPPED)
            if size < self._least:  # as the search does: the first of the smallest
                assert outcome.result is not None
                self._least, self._known = size, {id(advisor): outcome.result}
            if size < self._shipped:
                self._shipped, self.best = size, path
        for path in paths:
            if path != self.best:
                path.unlink(missing_ok=True)
        self._num_compiles += len(judged)
        if self._course and self._shipped < self._course[-1]["total"]:
            self._note()
        return judged

    def course(self) -> list[Row]:
        """Rows of ``artifacts.SEARCH_COURSE``, once the search has ended; none if the policy's objects do not link."""
        if self._course and self._course[-1]["num_compiles"] < self._num_compiles:
            self._note()
        return self._course

    def _linked(self, outcome: CompileOutcome, path: Path) -> CompileOutcome:
        if outcome.result is None:
            return outcome
        try:
            total = self._total({**self._objects, self.module.key: path})
        except CompileError as error:
            return CompileOutcome(None, error.kind, str(error))
        return replace(outcome, result=replace(outcome.result, scores={**outcome.result.scores, _SHIPPED: total}))

    def _total(self, objects: Mapping[str, Path]) -> int:
        how = self._run.linking
        link = partial(link_file, how.linker, timeout_s=how.timeout_s, ships=how.ships)
        files = (link(LinkedFile.of_row(one.row), objects_of(one, objects)) for one in self._programs)
        return sum(how.ships.total(section_sizes(data)) for data in files)

    def _note(self) -> None:
        key = {"project": self.module.project, "module": self.module.name}
        self._course.append({**key, "num_compiles": self._num_compiles, "total": int(self._shipped)})
