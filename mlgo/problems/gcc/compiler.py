"""Translation units or their functions as units, a stock GCC's partial redundancy elimination as what is chosen."""

import hashlib
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from tqdm import tqdm

from mlgo.compiler.counting import CountedRun, find_valgrind
from mlgo.compiler.frontend import LANGUAGES
from mlgo.compiler.toolchain import find_linker
from mlgo.core.artifacts import CSE_SOURCES, read_table
from mlgo.core.compiler_options import check_options
from mlgo.core.config import GccConfig
from mlgo.core.errors import ArtifactError, CompileError, ConfigError
from mlgo.core.files import content_hash
from mlgo.core.scratch import scratch_directory
from mlgo.problems.gcc.compile import GccObject, GccSettings, compile_unit
from mlgo.problems.gcc.find import Gcc, find_gcc
from mlgo.problems.gcc.preprocess import preprocess
from mlgo.problems.gcc.program import Counting, ProgramUnit, count_program
from mlgo.problems.gcc.rtl import FEATURES
from mlgo.problems.gcc.rtl import Candidates as Eliminations
from mlgo.problems.subset.compiler import Candidates, Compiled, Decisions, Failed, Outcome, Request, Unit

FUNCTION_MARK = ":"
"""Between source and function in the name of a unit."""

CACHE = Path("data/work/zig-cache")
"""Where the linker of programs keeps its C library."""


@dataclass(frozen=True)
class TranslationUnit:
    """A preprocessed source.

    Attributes:
        name: ``project/source``.
        project: whose it is.
        language: c or c++.
        arguments: options of the front end.
        text: preprocessed.
    """

    name: str
    project: str
    language: str
    arguments: tuple[str, ...]
    text: bytes


@dataclass(frozen=True)
class GccSpec:
    """How to open a GCC on a table of translation units.

    Attributes:
        settings: which GCC, level, counter, score and deadline.
        sources: ``artifacts.CSE_SOURCES``.
    """

    settings: GccConfig
    sources: Path

    def open(self) -> "GccCompiler":
        """See `CompilerSpec.open`; raises also where the table is missing or damaged."""
        rows = read_table(self.sources, CSE_SOURCES).to_pylist()
        units = [
            TranslationUnit(row["unit"], row["project"], row["language"], tuple(row["arguments"]), row["source"])
            for row in rows
            if row["source"] is not None
        ]
        for unit in units:
            try:
                check_options(unit.arguments)
            except ConfigError as error:
                raise ArtifactError(f"{self.sources}: {unit.name}: {error}") from error
        return GccCompiler(self.settings, units)

    def described(self) -> dict[str, Any]:
        """Compiler and settings for provenance: plain JSON values, no paths."""
        gcc = find_gcc(self.settings.command, counter=self.settings.counter)
        return {"name": gcc.name, "sha256": gcc.sha256, **self.settings.model_dump(exclude={"command"})}


class GccCompiler:
    """See `CseCompiler`. What the pass does in one function changes nothing of what it asks elsewhere.

    A unit is a translation unit, or one of its functions; then all other functions are left to GCC, or, where several
    of a translation unit are asked for at once, to each other: functions are compiled one by one, so a compile can
    answer for all of them. The heuristic is what GCC does by itself: it performs everything.

    Attributes:
        ordered: the counter has its own order.
        static: candidates stay as they are.
        num_compiles: compiles done so far.

    Args:
        settings: which GCC, level, counter, unit, score and deadline.
        sources: what is compiled.

    Raises:
        ToolchainError: no GCC, or one without debug counters.
    """

    ordered, static = False, True

    def __init__(self, settings: GccConfig, sources: Sequence[TranslationUnit]) -> None:
        self._gcc: Gcc = find_gcc(settings.command, counter=settings.counter)
        self._by_function, self._score = settings.unit == "function", settings.score
        self._by_expression = settings.candidate == "expression"
        self._settings = GccSettings(settings.optimization, settings.counter, settings.timeout_s)
        self._sources: Mapping[str, TranslationUnit] = {source.name: source for source in sources}
        self._parts: dict[str, dict[str, Part]] = {}
        self._scratch = ExitStack()
        self._folder = self._scratch.enter_context(scratch_directory())
        self._counting = Counting(find_linker(), find_valgrind(), CACHE) if self._score == "instructions" else None
        self._own_runs: dict[str, tuple[CountedRun, int]] = {}
        self.num_compiles = 0

    @staticmethod
    def of_files(settings: GccConfig, sources: Sequence[str]) -> "GccCompiler":
        """Compile single files, each in its own folder.

        Raises:
            ConfigError: none is given, or one is no C or C++ file.
            CompileError: one does not compile.
            ToolchainError: no GCC, or one without debug counters.
        """
        paths = [Path(source) for source in sources]
        if not paths:
            raise ConfigError("give either sources=[files] or table=, a sources.parquet that the pipeline made")
        for path in paths:
            if path.suffix not in LANGUAGES or not path.is_file():
                raise ConfigError(f"{path} is no C or C++ file; known suffixes: {', '.join(LANGUAGES)}")
        gcc = find_gcc(settings.command, counter=settings.counter)
        return GccCompiler(settings, [_preprocessed(gcc, path) for path in paths])

    def units(self, threads: int = 1) -> Sequence[Unit]:
        """All units, in the order of their sources; functions without candidates are none.

        A source that does not compile is one unit, whose compiles fail.

        Args:
            threads: compiles at a time, where functions have to be found.
        """
        if not self._by_function:
            return [self._unit(source.name, source, hashlib.sha256(source.text).hexdigest()) for source in self._all]
        with ThreadPoolExecutor(threads) as pool:
            found = list(tqdm(pool.map(self._try_parts, self._all), "functions", len(self._all), disable=None))
        return [
            self._unit(name, source, body)
            for source, parts in zip(self._all, found, strict=True)
            for name, body in (
                [(source.name, hashlib.sha256(source.text).hexdigest())]
                if parts is None
                else [(name, part.body_sha256) for name, part in parts.items()]
            )
        ]

    def compile(self, unit: str, decisions: Decisions | None) -> Outcome:
        """See `CseCompiler.compile`. Positions that the unit does not have are skipped, as the JIT does.

        Raises:
            ConfigError: an unknown unit.
        """
        return self.compile_many([(unit, decisions)])[0]

    def compile_many(self, requests: Sequence[Request]) -> list[Outcome]:
        """See `CseCompiler.compile_many`: each compile answers one request of every function of a translation unit.

        Raises:
            ConfigError: an unknown unit.
        """
        outcomes: list[Outcome | None] = [None] * len(requests)
        waiting: dict[str, dict[str, list[int]]] = {}
        for place, (unit, _) in enumerate(requests):
            waiting.setdefault(self._source_of(unit).name, {}).setdefault(unit, []).append(place)
        for name, places in waiting.items():
            while places:
                # A program's count cannot be told apart by functions, so there each choice is run by itself.
                served = list(places)[:1] if self._counting is not None else list(places)
                together = {unit: places[unit].pop(0) for unit in served}
                choices = {unit: requests[place][1] for unit, place in together.items()}
                for unit, outcome in self._compile_together(self._sources[name], choices).items():
                    outcomes[together[unit]] = outcome
                places = {unit: left for unit, left in places.items() if left}
        return [outcome for outcome in outcomes if outcome is not None]

    def forget(self) -> None:
        """Nothing: what is kept are candidates and outputs, which are always the same."""

    def close(self) -> None:
        """Remove scratch files."""
        self._scratch.close()

    @property
    def _all(self) -> list[TranslationUnit]:
        return list(self._sources.values())

    def _unit(self, name: str, source: TranslationUnit, body_sha256: str) -> Unit:
        batch = source.name if self._by_function else ""
        return Unit(name, source.project, body_sha256, source.language, batch)

    def _source_of(self, unit: str) -> TranslationUnit:
        name = unit.rpartition(FUNCTION_MARK)[0] if self._by_function and unit not in self._sources else unit
        if name not in self._sources:
            raise ConfigError(f"{unit} is not among the units of {len(self._sources)} sources")
        return self._sources[name]

    def _compile_together(self, source: TranslationUnit, choices: Mapping[str, Decisions | None]) -> dict[str, Outcome]:
        try:
            parts = self._parts_of(source)
            if self._by_function and source.name in choices:  # the compile that was to find its functions had failed
                return dict.fromkeys(choices, Failed("object", f"{source.name} was not split into its functions"))
            if unknown := [unit for unit in choices if unit not in parts]:
                raise ConfigError(f"{unknown[0]} is no function with candidates")
            denied = {
                number
                for unit, decisions in choices.items()
                if decisions is not None
                for position in set(range(len(parts[unit].numbers))) - set(decisions)
                for number in parts[unit].numbers[position]
            }
            num = sum(len(numbers) for part in parts.values() for numbers in part.numbers)
            performed = [one for one in range(num) if one not in denied] if denied else None
            if self._counting is not None:
                (unit, decisions), *_ = choices.items()
                return {unit: self._counted(source, performed, parts[unit], decisions, self._counting)}
            found = self._run(source, performed)
        except CompileError as error:
            if len(choices) == 1:
                return dict.fromkeys(choices, Failed(error.kind, str(error)))
            alone = [self._compile_together(source, {unit: choice}) for unit, choice in choices.items()]
            return {unit: outcome for one in alone for unit, outcome in one.items()}  # one must not spoil the others
        return {unit: self._outcome(parts[unit], decisions, found) for unit, decisions in choices.items()}

    def _counted(
        self,
        source: TranslationUnit,
        performed: Sequence[int] | None,
        part: "Part",
        decisions: Decisions | None,
        counting: Counting,
    ) -> Outcome:
        """What the source's program executes with these eliminations, all other sources left to GCC."""
        if source.project not in self._own_runs:
            self._own_runs[source.project] = self._program(source, None, counting)
        own = self._own_runs[source.project]
        run, size = own if performed is None else self._program(source, tuple(performed), counting)
        if run.exit_status or run.stdout != own[0].stdout:
            return Failed("program", f"it ends with status {run.exit_status}, or prints something else")
        num = len(part.candidates)
        requested = tuple(range(num)) if decisions is None else decisions
        num_performed = len({one for one in requested if one < num})
        return Compiled(float(run.instructions), size, requested, num_performed, part.candidates)

    def _program(
        self, changed: TranslationUnit, performed: tuple[int, ...] | None, counting: Counting
    ) -> tuple[CountedRun, int]:
        """A run of the program that a source belongs to, and the code of its functions in bytes."""
        units = [
            ProgramUnit(self._path(one), one.language, one.arguments, performed if one is changed else None)
            for one in self._all
            if one.project == changed.project
        ]
        self.num_compiles += 1
        run, objects = count_program(self._gcc, "program", units, self._settings, counting)
        return run, sum(one.function_bytes for one in objects)

    def _outcome(self, part: "Part", decisions: Decisions | None, found: GccObject) -> Outcome:
        num = len(part.candidates)
        requested = tuple(range(num)) if decisions is None else decisions
        performed = len({position for position in requested if position < num})
        if not self._by_function:
            score = float(getattr(found, self._score))
            return Compiled(score, found.text_bytes, requested, performed, part.candidates)
        if part.function not in found.function_sizes:
            return Failed("object", f"the object has no function {part.function}")
        size = found.function_sizes[part.function]
        return Compiled(float(size), size, requested, performed, part.candidates)

    def _try_parts(self, source: TranslationUnit) -> "dict[str, Part] | None":
        try:
            return self._parts_of(source)
        except CompileError:
            return None

    def _parts_of(self, source: TranslationUnit) -> "dict[str, Part]":
        """From the dumps of a compile in which all are performed; once for each source."""
        if source.name not in self._parts:
            found = self._run(source, None, want_candidates=True).candidates
            assert found is not None
            functions = [one.function for one in found.candidates]
            spans = _spans(functions) if self._by_function else [("", 0, len(functions))]
            self._parts[source.name] = {
                f"{source.name}{FUNCTION_MARK}{function}" if self._by_function else source.name: _part(
                    function, found, range(start, end), self._by_expression
                )
                for function, start, end in spans
            }
        return self._parts[source.name]

    def _run(
        self, source: TranslationUnit, performed: Sequence[int] | None, *, want_candidates: bool = False
    ) -> GccObject:
        self.num_compiles += 1
        return compile_unit(
            self._gcc,
            self._path(source),
            source.language,
            performed,
            self._settings,
            arguments=source.arguments,
            want_candidates=want_candidates,
        )

    def _path(self, source: TranslationUnit) -> Path:
        path = self._folder / hashlib.sha256(source.name.encode()).hexdigest()[:16]
        if not path.exists():
            path.write_bytes(source.text)
        return path


@dataclass(frozen=True)
class Part:
    """Candidates of a translation unit that are chosen together.

    Attributes:
        function: symbol of their function; empty where they are all of the translation unit.
        numbers: of each candidate, the eliminations of the translation unit that it stands for.
        candidates: themselves.
        body_sha256: equal for functions with the same eliminations, feature for feature and expression for expression.
    """

    function: str
    numbers: tuple[tuple[int, ...], ...]
    candidates: Candidates
    body_sha256: str


def _part(function: str, found: Eliminations, numbers: range, by_expression: bool) -> Part:
    """Eliminations as candidates; those of an expression have the features of the one that is executed most."""
    groups: dict[object, list[int]] = {}
    for number in numbers:
        one = found.candidates[number]
        groups.setdefault((one.function, one.expression) if by_expression else number, []).append(number)
    frequency = found.features[:, FEATURES.index("frequency")]
    rows = [max(group, key=lambda number: (frequency[number], -number)) for group in groups.values()]
    values = found.features[rows].reshape(len(rows), len(FEATURES))
    told = [[found.candidates[number].rtl, found.features[number].tolist()] for number in numbers]
    return Part(
        function,
        tuple(tuple(group) for group in groups.values()),
        Candidates(FEATURES, values, np.ones(len(rows), bool)),
        content_hash(told),
    )


def _spans(functions: Sequence[str]) -> list[tuple[str, int, int]]:
    """Stretches of equal names, with their ends; GCC compiles functions one after another."""
    starts = [i for i, name in enumerate(functions) if i == 0 or functions[i - 1] != name]
    ends = [*starts[1:], len(functions)][: len(starts)]
    return [(functions[start], start, end) for start, end in zip(starts, ends, strict=True)]


def _preprocessed(gcc: Gcc, path: Path) -> TranslationUnit:
    language = LANGUAGES[path.suffix]
    text = preprocess(gcc, path.parent, language, [], path.name)
    return TranslationUnit(str(path), "", language, (), text)
