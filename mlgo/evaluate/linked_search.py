"""A search that is judged by linked files, and the policy that it makes."""

from collections import Counter, defaultdict, deque
from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack, suppress
from dataclasses import dataclass, field
from functools import cached_property, partial
from pathlib import Path
from typing import Any

import numpy as np

from mlgo.base.artifacts import Row
from mlgo.base.files import hash64, read_input
from mlgo.base.scratch import scratch_directory
from mlgo.base.seeding import generator
from mlgo.base.threads import in_threads
from mlgo.corpus.functions import Reader
from mlgo.corpus.link_time import fat_module
from mlgo.corpus.seen import Printer
from mlgo.corpus.store import Module, Program
from mlgo.errors import CompileError
from mlgo.evaluate.evaluation import thin_linked
from mlgo.evaluate.search import MODULE_WIDE, Search, doubt_of, search, sizes_of
from mlgo.evaluate.shipped import EvaluationRun, Linking, measure_programs, modules_of, objects_of
from mlgo.evaluate.worker import CompileJob, CompileOutcome
from mlgo.host.linker import LinkedFile, link_file, section_sizes
from mlgo.host.log import Header
from mlgo.host.module_file import generation_of
from mlgo.host.session import CallAttribution, CompileResult
from mlgo.host.tasks.task import Advisor, EchoAdvisor, PureAdvisor, get_task
from mlgo.host.toolchain import Quirks
from mlgo.objects.symbols import demangled
from mlgo.policy.policy import Overrides, OverridingAdvisor, Policy
from mlgo.policy.stored import StoredPolicy

SEARCH = "search"
"""Name of the contender."""

OF_CALLER = ("caller_users", "caller_basic_block_count", "caller_conditionally_executed_blocks")
"""Features that describe the caller as it is by then. One changed answer changes them in all later questions of the
function, and what was found for these would not hold any more; so they are not used to tell questions apart."""

_SHIPPED = "shipped"  # score of a compile: total bytes of the linked files


def search_linked(
    programs: "LinkedPrograms",
    policy: StoredPolicy,
    budget: int,
    flips_per_round: int,
    seed: int,
    more_starts: Sequence[PureAdvisor] = (),
    after_round: Callable[["ProgramBuild", "ProgramBuild"], bool] = lambda first, best: True,
    tried: set[int] | None = None,
    method: Callable[..., Search] = search,
) -> "tuple[ProgramBuild, ProgramBuild]":
    """Search a project for answers that make its linked files smaller.

    An answer holds for its question in every module, and a compile of the search is one of all modules, but for those
    of which it changes no answer. It begins with the answers of the policy, of the heuristic where the compiler tells
    them without hiding a feature, and of ``more_starts``; see `search`.

    Args:
        budget: compiles of modules, in all variants at first.
        after_round: called with the policy's build and the smallest; a false result ends the search.
        tried: of an earlier search, see `search`.
        method: another way to search, with the arguments of `search`.

    Returns:
        The same two builds. Of equal ones, the earlier is the smallest.

    Raises:
        CompileError: the programs cannot be built under the policy.
    """
    ignored, end = _ignored(policy), programs.num_compiles + budget
    programs.choose_variants(policy)
    starts = [OverridingAdvisor(one, ignored=ignored) for one in (policy, *programs.heuristic, *more_starts)]

    def left(num_builds: int) -> int:
        return max(0, end - programs.num_compiles) // programs.compiles_per_build

    rng = generator(seed, "linked-search", programs.project)
    one = method(starts, programs.ask, doubt_of(policy), _SHIPPED, left, flips_per_round, rng, tried)
    advisors = next(one)
    with suppress(StopIteration):
        while True:
            outcomes = programs.outcomes(advisors)
            if not after_round(*programs.found):
                break
            advisors = one.send(outcomes)
    return programs.found


def measure_build(linking: Linking, build: "ProgramBuild") -> list[Row]:
    """Measure the programs of a search's build; rows of ``artifacts.SHIPPED_SIZES`` of the contender `SEARCH`."""
    pairs = [(program, build.objects(number)) for number, program in enumerate(build.programs)]
    return [row for program, objects in pairs for row in measure_programs(linking, SEARCH, [program], objects)]


def overrides_of(build: "ProgramBuild", policy: Policy) -> Overrides | None:
    """What a build answered otherwise than the policy would have, by what questions hold; None where nothing."""
    header, observations, answers = build.questions
    features = told_apart(header, policy)
    rows = list(map(tuple, header.numbers(observations, features).tolist()))
    votes = defaultdict[tuple[int, ...], Counter[int]](Counter)
    for row, answer in zip(rows, answers.tolist(), strict=True):
        votes[row][answer] += 1
    own = policy.decide_for(header)(observations)
    changed = {row for row, old, new in zip(rows, own.tolist(), answers.tolist(), strict=True) if old != new}
    if not changed:
        return None
    questions = np.array(sorted(changed), np.int64)
    return Overrides(features, questions, np.array([votes[one].most_common(1)[0][0] for one in sorted(changed)]))


def told_apart(header: Header, policy: Policy) -> tuple[str, ...]:
    """Features by which questions are known again: what a build's compiler sends, but `MODULE_WIDE` and `OF_CALLER`."""
    return tuple(spec.name for spec in header.features if spec.name not in _ignored(policy))


def _ignored(policy: StoredPolicy) -> tuple[str, ...]:
    return (*MODULE_WIDE, *OF_CALLER, *get_task(policy.task).default_features)


def known_share(overrides: Overrides, build: "ProgramBuild") -> float:
    """Share of the questions with other answers that a build asked."""
    header, observations, _ = build.questions
    asked = {row.tobytes() for row in header.numbers(observations, overrides.features).astype(np.int64)}
    return sum(one.tobytes() in asked for one in overrides.questions) / len(overrides.questions)


def changed_calls(print_ir: Printer, before: "ProgramBuild", after: "ProgramBuild", policy: Policy) -> list[Row]:
    """Calls that a build decides otherwise than the policy, and bytes of caller and callee before and after.

    Functions are named as in the source; those that are gone have no bytes.
    """
    rows: dict[tuple[Any, ...], Row] = {}
    if before.credit is None or after.credit is None:
        return []
    sizes = sizes_of(before.credit), sizes_of(after.credit)
    for part in after.every_part:
        asked, credit, names = part.result.questions(), part.result.credit, None
        assert credit is not None
        own = policy.decide_for(asked.header)(asked.observations)
        for number in np.flatnonzero(own != asked.answers).tolist():
            names = names or _names(print_ir, part.bitcode)
            row: Row = {"module": part.module.name, "decision": "inline" if asked.answers[number] else "do not inline"}
            for name, side in ("caller", credit.callers), ("callee", credit.callees):
                end = int(credit.names[side[number]])
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


@dataclass(frozen=True)
class _Part:
    """One compile of a module, in a build."""

    module: Module
    bitcode: Path
    result: CompileResult
    path: Path  # of the object

    def is_answered_by(self, advisor: Advisor | None) -> bool:
        """Whether the advisor gives all answers of this compile, so that it would be the same again."""
        if not isinstance(advisor, OverridingAdvisor):
            return False
        header, observations, answers = self.result.questions()
        return np.array_equal(advisor.decide_for(header)(observations), answers)


_Unit = tuple[int, str, str]
"""What is compiled: number of the program, where it is a back end of ThinLTO, else -1; key and hash of the module."""


@dataclass
class ProgramBuild:
    """Programs of a project under one advisor; None is the heuristic."""

    advisor: Advisor | None
    programs: Sequence[Program]
    wanted: Mapping[_Unit, tuple[Module, Path]]  # module and bitcode of each compile
    folder: Path
    parts: dict[_Unit, _Part] = field(default_factory=dict)  # what was compiled
    earlier: dict[_Unit, _Part] = field(default_factory=dict)  # and before the import of ThinLTO
    total: int = 0  # bytes of the linked files
    error: CompileError | None = None  # the first, of a build that failed

    def objects(self, program: int) -> dict[str, Path]:
        """Objects that a program is linked of, by key of the module."""
        return {key: part.path for (number, key, _), part in self.parts.items() if number in (-1, program)}

    @property
    def every_part(self) -> list[_Part]:
        """Compiles in the order of linking, those before an import first."""
        return [*self.earlier.values(), *self.parts.values()]

    @cached_property
    def questions(self) -> tuple[Header, np.ndarray, np.ndarray]:
        """Questions of all compiles: header, observations uint8 [num, payload_bytes], answers int64 [num]."""
        asked = [part.result.questions() for part in self.every_part]
        observations, answers = (np.concatenate([one[i] for one in asked]) for i in (1, 2))
        return asked[0].header, observations, answers

    @cached_property
    def credit(self) -> CallAttribution | None:
        """Functions of all decisions; None where some compile does not tell. Of several copies, the first is linked."""
        asked = [part.result.credit for part in self.every_part]
        if not all(asked):
            return None
        names = np.unique(np.concatenate([one.names for one in filter(None, asked)]))
        sizes = np.full(len(names), -1.0, np.float32)
        for part in reversed(self.parts.values()):
            assert part.result.credit is not None
            there = part.result.credit.sizes >= 0
            sizes[np.searchsorted(names, part.result.credit.names[there])] = part.result.credit.sizes[there]
        ends = [
            np.concatenate([np.searchsorted(names, one.names[getattr(one, side)]) for one in filter(None, asked)])
            for side in ("callers", "callees")
        ]
        return CallAttribution(names, sizes, *ends)


class LinkedPrograms:
    """Programs of a project, built under one advisor after another.

    Attributes:
        project: its name.
        heuristic: advisors that answer as the compiler would; none where asking for that hides a feature.
        compiles_per_build: compiles of a build that changes answers in every module.
        num_variants: compiles that choose among variants of merged modules.
        num_compiles: compiles of all builds so far.
    """

    def __init__(self, run: EvaluationRun, programs: Sequence[Program], quirks: Quirks) -> None:
        self.project, self._run, self._programs = str(programs[0].row["project"]), run, programs
        self.heuristic = [] if quirks.default_hides_a_feature else [EchoAdvisor(quirks.default_slot)]
        self._modules, self._is_thin = modules_of(programs), run.linking.ships.form == "thin"
        self.compiles_per_build = len(self._modules) * (2 if self._is_thin else 1)
        self.num_compiles = self._num_builds = 0
        self._first: ProgramBuild | None = None
        self._best: ProgramBuild | None = None
        self._course, self._folders = list[Row](), dict[Path, ExitStack]()
        self._files = {one.key: run.bitcode[one.key] for one in self._modules}
        folder = run.folder / SEARCH
        folder.mkdir(parents=True)
        for number, (key, path) in enumerate(self._files.items() if self._is_thin else ()):
            self._files[key] = folder / f"{number}.bc"
            self._files[key].write_bytes(fat_module(path))

    @property
    def num_variants(self) -> int:
        found = [generation_of(path).variants for path in self._files.values()]
        return sum(1 + len(others) for others in found if others)

    def choose_variants(self, advisor: Advisor) -> None:
        """Build each merged module as that of its variants which is the smallest under an advisor."""
        if num_variants := self.num_variants:
            self.num_compiles += num_variants
            compiled = self._run.compile_variants(self._modules, lambda module: advisor, SEARCH, {})
            self._files = {one.key: file for one, (file, _) in zip(self._modules, compiled, strict=True)}

    @property
    def found(self) -> tuple[ProgramBuild, ProgramBuild]:
        """The first build of a search, and the smallest, the earlier of equal ones."""
        assert self._first is not None
        assert self._best is not None
        return self._first, self._best

    def ask(self, advisor: Advisor) -> tuple[Header, np.ndarray, np.ndarray]:
        """`ProgramBuild.questions` under an advisor, which is the smallest: uint8 [num, payload_bytes], int64 [num]."""
        _, best = self.found
        assert best.advisor is advisor
        return best.questions

    def outcomes(self, advisors: Sequence[OverridingAdvisor]) -> list[CompileOutcome]:
        """ProgramBuild under each advisor of a search, and keep the smallest build; CompileError if the first fails."""
        builds, found = self.build(advisors), list[CompileOutcome]()
        for build in builds:
            if build.error is not None and self._first is None:
                raise build.error
            self._num_builds += 1
            if build.error is not None:
                found.append(CompileOutcome(None, build.error.kind, str(build.error)))
                continue
            found.append(CompileOutcome(CompileResult({_SHIPPED: build.total}, "", 0.0, credit=build.credit)))
            if self._best is None or build.total < self._best.total:
                self._note(self._num_builds if self._first else 0, build.total)
                self._first, self._best = self._first or build, build
        kept = {part.path.parent for build in self.found for part in build.every_part}
        for folder in self._folders.keys() - kept:
            self._folders.pop(folder).close()
        return found

    def build(self, advisors: Sequence[Advisor | None]) -> list[ProgramBuild]:
        """Compile and link under each advisor. Its files stay until the next round of a search."""
        every = {(-1, one.key, one.sha256): (one, self._files[one.key]) for one in self._modules}
        builds = [ProgramBuild(advisor, self._programs, every, self._new_folder()) for advisor in advisors]
        self._compile(builds)
        if self._is_thin:
            self._each(builds, self._import)
            self._compile(builds)
        self._each(builds, self._link)
        return builds

    def course(self) -> list[Row]:
        """Rows of ``artifacts.SEARCH_COURSE``, once the search has ended."""
        if self._course[-1]["num_compiles"] < self._num_builds:
            self._note(self._num_builds, self._course[-1]["total"])
        return self._course

    def _note(self, num_builds: int, total: int) -> None:
        self._course.append({"project": self.project, "num_compiles": num_builds, "total": total})

    def _new_folder(self) -> Path:
        stack = ExitStack()
        folder = stack.enter_context(scratch_directory())
        self._folders[folder] = stack
        return folder

    def _each(self, builds: Sequence[ProgramBuild], step: Callable[[ProgramBuild], None]) -> None:
        """Go on with all builds that have not failed."""

        def tried(build: ProgramBuild) -> None:
            try:
                step(build)
            except CompileError as error:
                build.error = error

        deque(in_threads(tried, [one for one in builds if one.error is None], self._run.linking.num_threads), 0)

    def _compile(self, builds: Sequence[ProgramBuild]) -> None:
        """Compile what builds want, but for what the smallest build has with the same answers."""
        known = self._best.earlier | self._best.parts if self._best else {}
        jobs = list[tuple[ProgramBuild, _Unit, CompileJob]]()
        for build in builds:
            for number, (unit, (module, bitcode)) in enumerate(build.wanted.items() if build.error is None else ()):
                if unit in known and known[unit].is_answered_by(build.advisor):
                    build.parts[unit] = known[unit]
                    continue
                job = CompileJob(
                    module.key,
                    bitcode,
                    build.advisor,
                    with_heuristic_feature=bool(self.heuristic) and build.advisor is not None,
                    record=True,
                    object_path=build.folder / f"{len(build.earlier) + number}.o",
                    with_credit=True,
                )
                jobs.append((build, unit, job))
        self.num_compiles += len(jobs)
        outcomes = self._run.host.compile_all([job for _, _, job in jobs], SEARCH)
        for (build, unit, job), outcome in zip(jobs, outcomes, strict=True):
            if outcome.result is None:
                build.error = build.error or CompileError(f"{job.module}: {outcome.reason}")
            else:
                assert job.object_path is not None
                build.parts[unit] = _Part(build.wanted[unit][0], job.bitcode, outcome.result, job.object_path)
        for build in builds:  # in the order of linking, whatever was known
            build.parts = {unit: build.parts[unit] for unit in build.wanted if unit in build.parts}

    def _import(self, build: ProgramBuild) -> None:
        """Let each module import what ThinLTO's index says."""
        programs, wanted = list[Program](), dict[_Unit, tuple[Module, Path]]()
        for number, program in enumerate(build.programs):
            folder = build.folder / f"link-{number}"
            folder.mkdir()
            linked, files = thin_linked(self._run, program, build.objects(number), folder)
            programs.append(linked)
            wanted |= {(number, one.key, one.sha256): (one, files[one.key]) for one in linked.modules}
        build.programs, build.wanted, build.earlier, build.parts = programs, wanted, build.parts, {}

    def _link(self, build: ProgramBuild) -> None:
        how = self._run.linking
        link = partial(link_file, how.linker, timeout_s=how.timeout_s, ships=how.ships)
        for number, program in enumerate(build.programs):
            data = link(LinkedFile.of_row(program.row), objects_of(program, build.objects(number)))
            build.total += how.ships.total(section_sizes(data))
