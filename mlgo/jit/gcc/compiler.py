"""Translation units or their functions as units, a stock GCC's partial redundancy elimination as what is chosen."""

import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import Any, ClassVar

from tqdm import tqdm

from mlgo.base.artifacts import CSE_SOURCES, read_table
from mlgo.base.config import GccConfig
from mlgo.base.files import content_hash, file_sha256
from mlgo.errors import ArtifactError, CompileError, ConfigError, ToolchainError
from mlgo.host.command_line import check_options
from mlgo.host.counting import find_valgrind
from mlgo.host.frontend import LANGUAGES
from mlgo.host.toolchain import find_linker
from mlgo.jit.choices.compiler import (
    ChoiceCompiler,
    Compiled,
    CompilerSpec,
    Decisions,
    Failed,
    Found,
    Outcome,
    Place,
    Request,
    Unit,
    units_of_batches,
)
from mlgo.jit.choices.pool import LOST, ChoicePool
from mlgo.jit.gcc.compile import GccObject, GccSettings, TranslationUnit, compile_unit
from mlgo.jit.gcc.find import Gcc, find_gcc
from mlgo.jit.gcc.parts import Own, Part, ProgramRun
from mlgo.jit.gcc.preprocess import preprocess
from mlgo.jit.gcc.program import Counting, count_program
from mlgo.objects.measures import SIZES_VERSION
from mlgo.pool.records import MALFORMED

FUNCTION_MARK = ":"
"""Between source and function in the name of a unit."""

CACHE = Path("data/work/zig-cache")
"""Where the linker of programs keeps its C library."""


@dataclass(frozen=True)
class GccSpec(CompilerSpec):
    """How to open a GCC on a table of translation units.

    Attributes:
        ordered: no; the counter has its own order.
        static: yes; candidates stay as they are.
        settings: which GCC, level, counter, score and deadline.
        sources: ``artifacts.CSE_SOURCES``.
        sha256: hashes of the GCC that results are to come from; None takes whatever is found.
    """

    ordered: ClassVar[bool] = False
    static: ClassVar[bool] = True
    settings: GccConfig
    sources: Path
    sha256: dict[str, str] | None = None

    @staticmethod
    def of(settings: GccConfig, sources: Path) -> "GccSpec":
        """The GCC of this machine.

        Raises:
            ToolchainError: no GCC, or one without debug counters.
        """
        return GccSpec(settings, sources, find_gcc(settings.command).sha256)

    def open(self) -> "GccCompiler":
        """See `CompilerSpec.open`; raises also where the table is missing or damaged."""
        return GccCompiler(self.settings, self.translation_units())

    def translation_units(self) -> list[TranslationUnit]:
        """What the table holds that compiles.

        Raises:
            ArtifactError: it is missing or damaged, or holds options that could run or load other code.
        """
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
        return units

    def described(self) -> dict[str, Any]:
        """Compiler and settings for provenance: plain JSON values, no paths."""
        gcc = find_gcc(self.settings.command)
        return {"name": gcc.name, "sha256": gcc.sha256, **self.settings.model_dump(exclude={"command"})}

    def key(self) -> dict[str, Any]:
        """See `CompilerSpec.key`: also what links and runs programs, where their instructions are counted."""
        counting = {}
        if self.settings.score == "instructions":
            counting = {"linker_sha256": file_sha256(find_linker()), "valgrind": find_valgrind().version}
        described = {name: value for name, value in self.described().items() if name != "timeout_s"}
        return {**described, **counting, "measure": SIZES_VERSION}

    def find_units(self, pool: ChoicePool) -> list[Found]:
        """Units of all sources."""
        sources = self.translation_units()
        with tqdm(total=len(sources), desc="baseline", unit="source", disable=None) as bar:
            found = pool.map(units_of_batches, [(source.name,) for source in sources], bar.update)
        return [one for source in sources for one in found.get(source.name, [Found(_whole(source), LOST, LOST)])]

    def split(
        self, found: Sequence[Found], splits: Mapping[str, Sequence[str]], seed: int
    ) -> tuple[dict[str, str], dict[str, str]]:
        """Units are on the side of their project."""
        side = {project: split for split, projects in splits.items() for project in projects}
        return {one.unit.name: side[one.unit.project] for one in found}, {}

    def check(self) -> None:
        """See `CompilerSpec.check`.

        Raises:
            ToolchainError: no GCC, or another one.
        """
        found = find_gcc(self.settings.command)
        if self.sha256 not in (None, found.sha256):
            raise ToolchainError(f"{found.binary} is {found.name}, but another build than the driver's; install that")

    def place(self, unit: str) -> Place:
        """See `CompilerSpec.place`: by the text and options of a source, or of all sources of its program."""
        source = _source_name(unit, self._hashes)
        if self.settings.score != "instructions":
            return Place(self._hashes[source][1], source)
        project = self._hashes[source][0]
        return Place(content_hash([one for one in self._hashes.items() if one[1][0] == project]), "")

    def base(self, content: str) -> str | None:
        """See `CompilerSpec.base`."""
        places = map(self.place, self._hashes)
        return next((place.base for place in places if place.content == content), None)

    @cached_property
    def _hashes(self) -> dict[str, tuple[str, str]]:
        """Project and hash of each source, by name."""
        return {one.name: (one.project, one.sha256) for one in self.translation_units()}


class GccCompiler(ChoiceCompiler):
    """See `ChoiceCompiler`. What the pass does in one function changes nothing of what it asks elsewhere.

    A unit is a translation unit, or one of its functions; then all other functions are left to GCC, or, where several
    of a translation unit are asked for at once, to each other: functions are compiled one by one, so a compile can
    answer for all of them. The heuristic is what GCC does by itself: it performs everything.

    Attributes:
        ordered: see `GccSpec`.
        static: see `GccSpec`.
        num_compiles: compiles done so far.

    Args:
        settings: which GCC, level, counter, unit, score and deadline.
        sources: what is compiled.

    Raises:
        ToolchainError: no GCC, or one without debug counters.
    """

    ordered, static = GccSpec.ordered, GccSpec.static

    def __init__(self, settings: GccConfig, sources: Sequence[TranslationUnit]) -> None:
        self._gcc: Gcc = find_gcc(settings.command)
        self._by_function, self._score = settings.unit == "function", settings.score
        self._by_expression = settings.candidate == "expression"
        self._settings = GccSettings(settings.optimization, settings.timeout_s)
        self._sources: Mapping[str, TranslationUnit] = {source.name: source for source in sources}
        self._own: dict[str, Own] = {}
        self._counting = Counting(find_linker(), find_valgrind(), CACHE) if self._score == "instructions" else None
        self._own_runs: dict[str, ProgramRun] = {}
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
        gcc = find_gcc(settings.command)
        return GccCompiler(settings, [_preprocessed(gcc, path) for path in paths])

    def units(self, batch: str = "") -> Sequence[Unit]:
        """Units of a source, or all in the order of their sources; functions without candidates are none.

        A source that does not compile is one unit, whose compiles fail.

        Raises:
            ConfigError: an unknown source.
        """
        sources = [self._source_of(batch)] if batch else self._sources.values()
        return [unit for source in sources for unit in self._units_of(source)]

    def compile_many(self, requests: Sequence[Request]) -> list[Outcome]:
        """See `ChoiceCompiler.compile_many`: each compile answers one request of every function of a translation unit.

        Positions that a unit does not have are skipped, as the JIT does.

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

    def notes(self, unit: str) -> Any:
        """See `ChoiceCompiler.notes`: what GCC does by itself with the unit's source, and with its program."""
        source = self._source_of(unit)
        own, run = self._own.get(source.name), self._own_runs.get(source.project)
        return None if own is None else {"own": own.plain(), "run": None if run is None else list(run)}

    def take_notes(self, unit: str, notes: Any) -> None:
        """See `ChoiceCompiler.take_notes`."""
        source = self._source_of(unit)
        try:
            self._own[source.name] = Own.of(notes["own"])
            if notes["run"] is not None:
                self._own_runs[source.project] = ProgramRun(*notes["run"])
        except MALFORMED as error:
            raise ArtifactError(f"what is known of {source.name} is malformed ({error}); delete its files") from error

    def _source_of(self, unit: str) -> TranslationUnit:
        return self._sources[_source_name(unit, self._sources)]

    def _compile_together(self, source: TranslationUnit, choices: Mapping[str, Decisions | None]) -> dict[str, Outcome]:
        try:
            own = self._own_of(source)
            parts = {self._name(source, part): part for part in own.parts}
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
            performed = [one for one in range(own.num_eliminations) if one not in denied] if denied else None
            if self._counting is not None:
                (unit, decisions), *_ = choices.items()
                return {unit: self._counted(source, performed, parts[unit], decisions, self._counting)}
            found = own if performed is None else self._run(source, performed)
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
        part: Part,
        decisions: Decisions | None,
        counting: Counting,
    ) -> Outcome:
        """What the source's program executes with these eliminations, all other sources left to GCC."""
        if source.project not in self._own_runs:
            self._own_runs[source.project] = self._program(source, None, counting)
        own = self._own_runs[source.project]
        run = own if performed is None else self._program(source, performed, counting)
        if run.exit_status or run.output_sha256 != own.output_sha256:
            return Failed("program", f"it ends with status {run.exit_status}, or prints something else")
        return _compiled(part, decisions, run.instructions, run.function_bytes)

    def _program(self, changed: TranslationUnit, performed: Sequence[int] | None, counting: Counting) -> ProgramRun:
        """A run of the program that a source belongs to."""
        units = [
            (one, performed if one is changed else None)
            for one in self._sources.values()
            if one.project == changed.project
        ]
        self.num_compiles += 1
        run, objects = count_program(self._gcc, "program", units, self._settings, counting)
        output = hashlib.sha256(run.stdout).hexdigest()
        return ProgramRun(run.instructions, run.exit_status, output, sum(one.function_bytes for one in objects))

    def _outcome(self, part: Part, decisions: Decisions | None, found: GccObject | Own) -> Outcome:
        if not self._by_function:
            return _compiled(part, decisions, getattr(found, self._score), found.text_bytes)
        if part.function not in found.function_sizes:
            return Failed("object", f"the object has no function {part.function}")
        size = found.function_sizes[part.function]
        return _compiled(part, decisions, size, size)

    def _name(self, source: TranslationUnit, part: Part) -> str:
        return f"{source.name}{FUNCTION_MARK}{part.function}" if self._by_function else source.name

    def _units_of(self, source: TranslationUnit) -> list[Unit]:
        if not self._by_function:
            return [_whole(source)]
        try:
            parts = self._own_of(source).parts
        except CompileError:
            return [replace(_whole(source), batch=source.name)]
        return [
            Unit(self._name(source, part), source.project, part.body_sha256, source.language, source.name)
            for part in parts
        ]

    def _own_of(self, source: TranslationUnit) -> Own:
        """From the dumps of a compile in which all are performed; once for each source."""
        if source.name not in self._own:
            found = self._run(source, None, want_candidates=True)
            self._own[source.name] = Own.read(found, by_function=self._by_function, by_expression=self._by_expression)
        return self._own[source.name]

    def _run(
        self, source: TranslationUnit, performed: Sequence[int] | None, *, want_candidates: bool = False
    ) -> GccObject:
        self.num_compiles += 1
        return compile_unit(self._gcc, source, performed, self._settings, want_candidates=want_candidates)


def _compiled(part: Part, decisions: Decisions | None, score: int, code_bytes: int) -> Compiled:
    num = len(part.candidates)
    requested = tuple(range(num)) if decisions is None else decisions
    num_performed = len({position for position in requested if position < num})
    return Compiled(float(score), code_bytes, requested, num_performed, part.candidates)


def _whole(source: TranslationUnit) -> Unit:
    """All of a source as one unit."""
    return Unit(source.name, source.project, hashlib.sha256(source.text).hexdigest(), source.language)


def _source_name(unit: str, sources: Mapping[str, Any]) -> str:
    """Name of the source that a unit belongs to; raises `ConfigError` where there is none."""
    for name in (unit, unit.rpartition(FUNCTION_MARK)[0]):
        if name in sources:
            return name
    raise ConfigError(f"{unit} is not among the units of {len(sources)} sources")


def _preprocessed(gcc: Gcc, path: Path) -> TranslationUnit:
    language = LANGUAGES[path.suffix]
    text = preprocess(gcc, path.parent, language, [], path.name)
    return TranslationUnit(str(path), "", language, (), text)
