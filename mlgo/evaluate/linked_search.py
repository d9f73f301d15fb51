"""A search that is judged by linked files, and the policy that it makes."""

import math
from collections import Counter, defaultdict
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from mlgo.base.artifacts import Row
from mlgo.base.files import hash64, read_input
from mlgo.base.scratch import scratch_directory
from mlgo.base.seeding import generator
from mlgo.corpus.functions import Reader
from mlgo.corpus.seen import Printer
from mlgo.corpus.store import Module
from mlgo.errors import CompileError
from mlgo.evaluate.evaluation import Evaluation
from mlgo.evaluate.headroom import FIXED
from mlgo.evaluate.search import MODULE_WIDE, doubt_of, run_searches, search, sizes_of
from mlgo.evaluate.shipped import EvaluationRun, measure_programs, modules_of, objects_of
from mlgo.evaluate.worker import CompileJob, CompileOutcome
from mlgo.host.linker import LinkedFile, link_file, section_sizes
from mlgo.host.log import Header
from mlgo.host.session import CompileResult
from mlgo.host.tasks.task import EchoAdvisor, PureAdvisor, get_task
from mlgo.host.toolchain import Quirks
from mlgo.objects.symbols import demangled
from mlgo.policy.policy import Overrides, OverridingAdvisor, Policy
from mlgo.policy.stored import StoredPolicy

SEARCH = "search"
"""Name of the contender."""

_SHIPPED = "shipped"  # score of a compile: total bytes of the linked files that hold the module


def search_linked(
    run: EvaluationRun,
    policy: StoredPolicy,
    objects: Mapping[str, Path],
    budget: int,
    flips_per_round: int,
    seed: int,
    quirks: Quirks,
    more_starts: Sequence[PureAdvisor] = (),
    after_round: Callable[["Sequence[LinkedModule]"], bool] = lambda modules: True,
) -> "list[LinkedModule]":
    """Search each module of a project for answers that make its linked files smaller.

    Each module is searched by itself while all others stay as the policy compiles them. What is judged of a compile is
    the total of the linked files that hold the module. It begins with the heuristic's answers, the policy's, those
    of `FIXED` and of ``more_starts``; see `search`. Where the compiler's own decision hides a feature, none begins with
    the heuristic's.

    Args:
        objects: of all modules under the policy, by key.
        budget: compiles of each module.
        after_round: called with what is known so far; a false result ends the search.
    """
    heuristic = [] if quirks.default_hides_a_feature else [EchoAdvisor(quirks.default_slot)]
    first: list[PureAdvisor] = [*heuristic, policy, *more_starts, *FIXED.values()]
    starts = [OverridingAdvisor(advisor, ignored=MODULE_WIDE) for advisor in first]
    modules = [
        LinkedModule(run, one, objects, bool(heuristic))
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
        lambda: after_round(modules),
    )
    return modules


def measure_search(run: EvaluationRun, objects: Mapping[str, Path], modules: "Sequence[LinkedModule]") -> Evaluation:
    """Link all files from the best objects of a search, see `search_linked`.

    Returns:
        Rows of ``artifacts.SHIPPED_SIZES`` of the contender `SEARCH`, and how each search went.
    """
    best = {**objects, **{one.module.key: one.best for one in modules}}
    sizes = measure_programs(run.linking, SEARCH, run.programs, best)
    return Evaluation([], sizes=sizes, course=[row for one in modules for row in one.course()])


def overrides_of(modules: "Sequence[LinkedModule]", policy: Policy) -> Overrides | None:
    """What the best compiles answered otherwise than the policy, by what questions hold.

    Where two modules answer the same question differently, that counts which saved more. None where nothing is smaller.
    """
    features: tuple[str, ...] = ()
    known: dict[tuple[int, ...], int | None] = {}  # None where the policy's own answer is the best
    for one in sorted(modules, key=lambda one: -one.saved):
        if one.saved <= 0:
            continue
        header, observations, answers = one.best_questions()
        features = told_apart(header, policy)
        rows = header.numbers(observations)[:, [header.index(name) for name in features]].tolist()
        votes = defaultdict[tuple[int, ...], Counter[int]](Counter)
        for row, answer in zip(rows, answers.tolist(), strict=True):
            votes[tuple(row)][answer] += 1
        own = policy.decide_for(header)(observations)
        changed = {tuple(row) for row, old, new in zip(rows, own.tolist(), answers.tolist(), strict=True) if old != new}
        for question, count in votes.items():
            known.setdefault(question, count.most_common(1)[0][0] if question in changed else None)
    found = {question: answer for question, answer in known.items() if answer is not None}
    if not found:
        return None
    questions = np.array(sorted(found), np.int64)
    return Overrides(features, questions, np.array([found[one] for one in sorted(found)], np.int64))


def told_apart(header: Header, policy: Policy) -> tuple[str, ...]:
    """Features by which questions are known again: all that a build's compiler sends, but those of the whole module."""
    left_out = (*MODULE_WIDE, *get_task(policy.task).default_features)
    return tuple(spec.name for spec in header.features if spec.name not in left_out)


def changed_calls(
    run: EvaluationRun, print_ir: Printer, modules: "Sequence[LinkedModule]", policy: Policy, tuned: Policy
) -> list[Row]:
    """Calls that a tuned policy decides otherwise than its base, and bytes of caller and callee before and after.

    Functions are named as in the source; those that are gone have no bytes.
    """
    rows: dict[tuple[Any, ...], Row] = {}
    jobs = [
        CompileJob(one.module.key, run.bitcode[one.module.key], advisor, record=True, with_credit=True)
        for one in modules
        for advisor in (policy, tuned)
    ]
    outcomes = iter(run.host.compile_all(jobs))
    for one in modules:
        before, after = next(outcomes).result, next(outcomes).result
        if before is None or after is None or before.credit is None or after.credit is None:
            continue
        names = _names(print_ir, run.bitcode[one.module.key])
        sizes = sizes_of(before.credit), sizes_of(after.credit)
        asked = after.questions()
        own = policy.decide_for(asked.header)(asked.observations)
        for number in np.flatnonzero(own != asked.answers).tolist():
            ends = [int(after.credit.names[side[number]]) for side in (after.credit.callers, after.credit.callees)]
            row: Row = {"module": one.module.name, "decision": "inline" if asked.answers[number] else "do not inline"}
            for end, name in zip(ends, ("caller", "callee"), strict=True):
                row[name] = names.get(end, "")
                row |= {
                    f"{name}_{when}": int(of.get(end, 0)) for when, of in zip(("before", "after"), sizes, strict=True)
                }
            rows.setdefault(tuple(row.values()), row)
    return list(rows.values())


def _names(print_ir: Printer, bitcode: Path) -> dict[int, str]:
    """Functions of a module, by hash of the symbol, as in the source."""
    with scratch_directory() as folder:
        print_ir(bitcode.absolute(), folder / "module.ll")
        symbols = [one.name for one in Reader().functions(read_input(folder / "module.ll"))]
    named = dict(zip(symbols, symbols, strict=True))
    with suppress(OSError):  # no C++ run-time library: symbols stay
        named = {name: demangled(name) for name in symbols}
    return {hash64(name.encode()): text for name, text in named.items()}


class LinkedModule:
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
        self._least, self._shipped, self._first, self.num_compiles = math.inf, math.inf, math.inf, 0
        self._paths, self._course = list[Path](), list[Row]()

    @property
    def saved(self) -> int:
        """Bytes that the best object saves against the policy's."""
        return int(self._first - self._shipped) if math.isfinite(self._first) else 0

    def best_questions(self) -> tuple[Header, np.ndarray, np.ndarray]:
        """Questions of the smallest compile: header, observations uint8 [num, payload_bytes], answers int64 [num]."""
        (result,) = self._known.values()
        return result.questions()

    def ask(self, advisor: OverridingAdvisor) -> tuple[Header, np.ndarray, np.ndarray]:
        """The same of the compile of an advisor, which is the smallest: uint8 [num, payload_bytes], int64 [num]."""
        return self._known[id(advisor)].questions()

    def job(self, advisor: OverridingAdvisor) -> CompileJob:
        """A compile of the next outcomes to `judge`."""
        path = self._folder / f"{self.num_compiles + len(self._paths)}.o"
        self._paths.append(path)
        key, bitcode, asked = self.module.key, self._run.bitcode[self.module.key], self._with_default
        return CompileJob(
            key, bitcode, advisor, with_heuristic_feature=asked, record=True, object_path=path, with_credit=True
        )

    def judge(self, advisors: Sequence[OverridingAdvisor], outcomes: Sequence[CompileOutcome]) -> list[CompileOutcome]:
        """Link what was compiled, for its score, and keep the best object."""
        if self.num_compiles == 0:
            with suppress(CompileError):
                self._shipped = self._first = self._total(self._objects)
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
        self.num_compiles += len(judged)
        if self._course and self._shipped < self._course[-1]["total"]:
            self._note()
        return judged

    def course(self) -> list[Row]:
        """Rows of ``artifacts.SEARCH_COURSE``, once the search has ended; none if the policy's objects do not link."""
        if self._course and self._course[-1]["num_compiles"] < self.num_compiles:
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
        self._course.append({**key, "num_compiles": self.num_compiles, "total": int(self._shipped)})
