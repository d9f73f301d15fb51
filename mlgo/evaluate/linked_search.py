"""How small the linked files of a project are known to be possible: a search, judged by what ships.

Each module is searched by itself while all others stay as the policy compiles them. What is judged of a compile is the
total of the linked files that hold the module. In the end all files are linked from the best objects found.
"""

import itertools
import math
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
from tqdm import tqdm

from mlgo.base.artifacts import Row
from mlgo.base.seeding import generator
from mlgo.corpus.store import Module
from mlgo.errors import CompileError
from mlgo.evaluate.evaluation import EvaluationRun, Shipped
from mlgo.evaluate.headroom import FIXED
from mlgo.evaluate.jobs import CompileJob, CompileOutcome
from mlgo.evaluate.search import MODULE_WIDE, Search, doubt_of, search
from mlgo.evaluate.shipped import measure_programs
from mlgo.host.linker import LinkedFile, linked_total
from mlgo.host.log import Header
from mlgo.host.session import CompileResult
from mlgo.host.tasks.advisors import EchoAdvisor
from mlgo.host.tasks.task import PureAdvisor
from mlgo.host.toolchain import Quirks
from mlgo.policy.advisors import OverridingAdvisor
from mlgo.policy.stored import StoredPolicy

SEARCH = "search"
"""Name of the contender."""

_SHIPPED = "shipped"
"""Score of a compile: total bytes of the linked files that hold the module."""


@dataclass(frozen=True)
class SearchSettings:
    """How modules are searched.

    Attributes:
        flips_per_round: as of `search`.
        quirks: of the compiler. Where its own decision hides a feature, no search begins with the heuristic's answers.
    """

    budget: int
    flips_per_round: int
    seed: int
    quirks: Quirks


def measure_search(
    run: EvaluationRun, policy: StoredPolicy, how: SearchSettings, objects: Mapping[str, Path]
) -> Shipped:
    """Search each module of a project for answers that make its linked files smaller, then link them.

    A search begins with the heuristic's answers, the policy's, and those of `FIXED`; see `search`.

    Returns:
        Rows of ``artifacts.SHIPPED_SIZES`` of the contender `SEARCH`, and how each search went.
    """
    heuristic = [] if how.quirks.default_hides_a_feature else [EchoAdvisor(how.quirks.default_slot)]
    first: list[PureAdvisor] = [*heuristic, policy, *FIXED.values()]
    starts = [OverridingAdvisor(advisor, ignored=MODULE_WIDE) for advisor in first]
    linked = {module.key: module for program in run.programs for module in program.modules}
    modules = [
        _ModuleSearch(run, one, objects, bool(heuristic)) for one in linked.values() if objects[one.key].exists()
    ]
    for one in modules:
        rng, promise = generator(how.seed, "linked-search", one.module.key), doubt_of(policy)
        one.begin(search(starts, one.ask, promise, _SHIPPED, how.budget, how.flips_per_round, rng))
    with (
        tqdm(total=how.budget * len(modules), desc=SEARCH, unit="compile") as progress,
        ThreadPoolExecutor(run.linking.num_threads) as pool,
    ):
        while going := [one for one in modules if one.wanted]:
            outcomes = iter(run.host.compile_all([job for one in going for job in one.jobs()]))
            found = [list(itertools.islice(outcomes, len(one.wanted))) for one in going]
            list(pool.map(_ModuleSearch.go_on, going, found))
            progress.total -= sum(how.budget - one.num_compiles for one in going if not one.wanted)
            progress.update(sum(map(len, found)))
    best = {**objects, **{one.module.key: one.best for one in modules}}
    sizes = measure_programs(run.linking, SEARCH, run.programs, best)
    return Shipped([], sizes, [row for one in modules for row in one.course])


class _ModuleSearch:
    """The search of one module: its compiles are linked with the policy's objects of all others."""

    def __init__(
        self, run: EvaluationRun, module: Module, objects: Mapping[str, Path], with_heuristic_feature: bool
    ) -> None:
        self.module, self.best, self.wanted = module, objects[module.key], list[OverridingAdvisor]()
        self._run, self._objects, self._with_default = run, objects, with_heuristic_feature
        self._programs = [one for one in run.programs if module.key in {part.key for part in one.modules}]
        self._folder = run.folder / SEARCH / self.best.stem
        self._folder.mkdir(parents=True)
        self._known: dict[int, CompileResult] = {}  # by identity of the advisor, which the search keeps
        self._least, self._shipped, self._count = math.inf, math.inf, itertools.count()
        self._paths, self.num_compiles, self.course = list[Path](), 0, list[Row]()

    def begin(self, steps: Search) -> None:
        """Start a search that asks this module."""
        self._steps, self.wanted = steps, next(steps)

    def ask(self, advisor: OverridingAdvisor) -> tuple[Header, np.ndarray, np.ndarray]:
        """Questions and answers of the best compile."""
        asked = self._known[id(advisor)].questions()
        return asked.header, asked.observations, asked.answers

    def jobs(self) -> list[CompileJob]:
        """The compiles that are wanted."""
        self._paths = [self._folder / f"{next(self._count)}.o" for _ in self.wanted]
        key, bitcode = self.module.key, self._run.bitcode[self.module.key]
        return [
            CompileJob(
                key,
                bitcode,
                advisor,
                with_heuristic_feature=self._with_default,
                record=True,
                object_path=path,
                with_credit=True,
            )
            for advisor, path in zip(self.wanted, self._paths, strict=True)
        ]

    def go_on(self, outcomes: Sequence[CompileOutcome]) -> None:
        """Link the outcomes of `jobs`, and let the search choose the next."""
        if self.num_compiles == 0:
            with suppress(CompileError):
                self._shipped = self._linked(self._objects)
                self._note(self._shipped)
        judged = [self._judge(outcome, path) for outcome, path in zip(outcomes, self._paths, strict=True)]
        for advisor, outcome, path in zip(self.wanted, judged, self._paths, strict=True):
            size = outcome.score(_SHIPPED)
            if size < self._least:  # as the search does: the first of the smallest
                assert outcome.result is not None
                self._least, self._known = size, {id(advisor): outcome.result}
            if size < self._shipped:
                self._shipped, self.best = size, path
        for path in self._paths:
            if path != self.best:
                path.unlink(missing_ok=True)
        self.num_compiles += len(judged)
        try:
            self.wanted = self._steps.send(judged)
        except StopIteration:
            self.wanted = []
        if self.course and (not self.wanted or self._shipped < self.course[-1]["total"]):
            self._note(self._shipped)

    def _judge(self, outcome: CompileOutcome, path: Path) -> CompileOutcome:
        if outcome.result is None:
            return outcome
        try:
            total = self._linked({**self._objects, self.module.key: path})
        except CompileError as error:
            return CompileOutcome(None, error.kind, str(error))
        return replace(outcome, result=replace(outcome.result, scores={**outcome.result.scores, _SHIPPED: total}))

    def _linked(self, objects: Mapping[str, Path]) -> int:
        linking = self._run.linking
        return sum(
            linked_total(
                linking.linker,
                LinkedFile.of_row(program.row),
                {one.name: objects[one.key] for one in program.modules},
                linking.timeout_s,
            )
            for program in self._programs
        )

    def _note(self, total: float) -> None:
        key = {"project": self.module.project, "module": self.module.name}
        self.course.append({**key, "num_compiles": self.num_compiles, "total": int(total)})
