"""Programs as they are shipped: compiled and linked under one contender after another, and measured."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

import numpy as np

from mlgo.base.artifacts import Row
from mlgo.base.files import read_input
from mlgo.base.ships import Ships
from mlgo.base.threads import in_threads
from mlgo.corpus.capture.options import module_at_level
from mlgo.corpus.link_time import FULL, USE_BITCODE, fat_module
from mlgo.corpus.seen import KINDS, Kinds, kind_of
from mlgo.corpus.store import Module, Program
from mlgo.errors import CompileError, LinkError
from mlgo.evaluate.compiles import CompileHost
from mlgo.evaluate.worker import CompileJob, CompileOutcome
from mlgo.host.frontend import FrontEnd
from mlgo.host.linker import LinkedFile, link_and_place, link_file, measure_file
from mlgo.host.module_file import bitcode_of, generation_of, module_file, write_variants
from mlgo.host.tasks.task import HEURISTIC, Advisor, Task, get_task
from mlgo.objects.symbols import SHIPPED, FunctionExtent

LEVELS = ("-Oz", "-Os", "-O2")
"""Levels that a user could have chosen instead."""

FULL_LTO = "full LTO"
"""The linker optimizes the whole program; it asks nothing."""

NEVER = "never"
"""Nothing is inlined that the compiler asks about."""

UNMERGED = "unmerged"
"""Why a program could not be made one module, in its row."""

Sizes = tuple[Mapping[str, int], list[Row] | None]
"""Bytes of a linked file by measure, and by kind of its functions; None where that is not known."""


AdvisorOf = Callable[[Module], Advisor | None]
"""Who decides in a module; None is the heuristic."""


@dataclass(frozen=True)
class Linking:
    """How projects are linked."""

    linker: Path  # what `toolchain.find_linker` gives
    timeout_s: float
    num_threads: int
    ships: Ships = field(default_factory=Ships)
    # Kind of each function by module key and symbol, see mlgo/corpus/seen.py; empty where it is not known.
    kinds: Kinds = field(default_factory=dict)


@dataclass(frozen=True)
class EvaluationRun:
    """Modules that are compiled and programs that are linked of them, under one contender after another."""

    host: CompileHost
    modules: Sequence[Module]  # of which results are wanted
    programs: Sequence[Program]  # linked of these modules, and perhaps of others
    bitcode: Mapping[str, Path]  # file by module key
    linking: Linking
    folder: Path

    @property
    def every_module(self) -> list[Module]:
        """Modules, and others that the programs need."""
        return [*self.modules, *other_modules(self.modules, self.programs)]

    def objects(self, contender: str) -> dict[str, Path]:
        """Object files by module key; none are kept where no program is linked."""
        return object_paths(self.every_module, self.folder / contender) if self.programs else {}

    def compile(
        self,
        contender: str = HEURISTIC,
        advisor_of: AdvisorOf = lambda module: None,
        modules: Sequence[Module] | None = None,
    ) -> list[CompileOutcome]:
        """Compile under a contender; of modules that only programs need, just the objects are kept.

        Args:
            modules: of which outcomes are wanted, by default all.
        """
        wanted = self.modules if modules is None else modules
        every = [*wanted, *other_modules(self.modules, self.programs)]
        compiled = self.compile_variants(every, advisor_of, contender, self.objects(contender))
        return [outcome for _, outcome in compiled[: len(wanted)]]

    def compile_variants(
        self, modules: Sequence[Module], advisor_of: AdvisorOf, label: str, objects: Mapping[str, Path]
    ) -> list[tuple[Path, CompileOutcome]]:
        """Compile each module, a merged one as that of its variants whose linked file is the smallest.

        A link with `mlgo ld` compiles all variants, too.

        Returns:
            Files and outcomes. An object is at its place in ``objects``, by module key.
        """
        folder = self.folder / "variants" / label
        every = [(one, write_variants(self.bitcode[one.key], folder / one.sha256)) for one in modules]
        jobs = [
            CompileJob(one.key, file, advisor_of(one), object_path=_of_variant(number, objects.get(one.key)))
            for one, files in every
            for number, file in enumerate(files)
        ]
        outcomes, found = iter(self.host.compile_all(jobs, label)), list[tuple[Path, CompileOutcome]]()
        for one, files in every:
            some = [next(outcomes) for _ in files]
            sizes = [outcome.score("linked_bytes") for outcome in some] if len(some) > 1 else [0.0]
            best = int(np.argmin(np.nan_to_num(sizes, nan=np.inf)))
            if best and (smallest := _of_variant(best, objects.get(one.key))):
                smallest.replace(objects[one.key])
            found.append((files[best], some[best]))
        return found

    def link(self, contender: str) -> list[Row]:
        """Link and measure what was compiled under a contender; rows of ``artifacts.SHIPPED_SIZES``."""
        return measure_programs(self.linking, contender, self.programs, self.objects(contender))

    def ship(
        self,
        contender: str,
        programs: Sequence[Program],
        bitcode: Mapping[str, Path],
        advisor_of: AdvisorOf,
        folder: Path,
        level: str = "",
        label: str = "",
    ) -> list[Row]:
        """Compile the modules of programs anew, as other bitcode or at another level, and link them; see `link`."""
        modules = modules_of(programs)
        objects = object_paths(modules, folder)
        jobs = [
            CompileJob(one.key, bitcode[one.key], advisor_of(one), optimization=level, object_path=objects[one.key])
            for one in modules
            if one.key in bitcode
        ]
        self.host.compile_all(jobs, label or contender)
        return measure_programs(self.linking, contender, programs, objects)


def modules_of(programs: Sequence[Program]) -> list[Module]:
    """Modules of some programs, each once."""
    return list({module.key: module for program in programs for module in program.modules}.values())


def other_modules(modules: Sequence[Module], programs: Sequence[Program]) -> list[Module]:
    """What programs need besides some modules: duplicates of others, and what was left out of the evaluation."""
    known = {module.key for module in modules}
    return [module for module in modules_of(programs) if module.key not in known]


def _of_variant(number: int, path: Path | None) -> Path | None:
    return path.with_suffix(f".{number}.o") if number and path else path


def object_paths(modules: Sequence[Module], folder: Path) -> dict[str, Path]:
    """Where to keep the object of each module, by its key."""
    return {module.key: folder / f"{number:06d}.o" for number, module in enumerate(modules)}


def objects_of(program: Program, objects: Mapping[str, Path]) -> dict[str, Path]:
    """Objects of a program by the names of its modules; `CompileError` where some are missing, or were not made."""
    if UNMERGED in program.row:
        raise LinkError(program.row[UNMERGED])
    own = {module.name: objects[module.key] for module in program.modules}
    if missing := [name for name, path in own.items() if not path.exists()]:
        raise CompileError(f"{len(missing)} of {len(own)} modules did not compile; the first is {missing[0]}")
    return own


def measure_programs(
    linking: Linking, contender: str, programs: Sequence[Program], objects: Mapping[str, Path]
) -> list[Row]:
    """Link each program as its build does, but for what the record says, and with identical code folded; measure it.

    Returns:
        Rows of ``artifacts.SHIPPED_SIZES``. A program of which a compile failed has no size.
    """

    def measure(job: tuple[Program, bool]) -> Row:
        program, fold = job
        try:
            return _row(contender, program, fold, _sizes(linking, program, objects, fold))
        except CompileError as error:
            return _row(contender, program, fold, error)

    jobs = [(program, fold) for program in programs for fold in (False, True)]
    return list(in_threads(measure, jobs, linking.num_threads))


def _sizes(linking: Linking, program: Program, objects: Mapping[str, Path], fold: bool) -> Sizes:
    ships = linking.ships.model_copy(update={"folding": "all"}) if fold else linking.ships
    file, own = LinkedFile.of_row(program.row), objects_of(program, objects)
    if fold or not linking.kinds:
        return _counted(link_file(linking.linker, file, own, linking.timeout_s, ships), ships), None
    linked, functions = link_and_place(linking.linker, file, own, linking.timeout_s, ships)
    return _counted(linked, ships), bytes_by_kind(functions, program, linking.kinds)


def _counted(linked: bytes, ships: Ships) -> Mapping[str, int]:
    sizes = measure_file(linked)
    return sizes | {"total": ships.total(sizes)}


def bytes_by_kind(functions: Sequence[FunctionExtent], program: Program, kinds: Kinds) -> list[Row]:
    """Add up code and unwind entries of a linked file by kinds of its functions."""
    known = {module.name: kinds.get(module.key, {}) for module in program.modules}
    found = {kind: [0, 0] for kind in KINDS}
    for one in functions:
        kind = next(filter(None, (kind_of(symbol, known[one.input]) for symbol in one.symbols)), "")
        if kind:
            found[kind][0] += one.text
            found[kind][1] += one.unwind
    return [{"kind": kind, "text": text, "unwind": unwind} for kind, (text, unwind) in found.items()]


def not_measured(contender: str, program: Program, error: CompileError) -> list[Row]:
    """Rows of ``artifacts.SHIPPED_SIZES`` of a program that did not come to be."""
    return [_row(contender, program, fold, error) for fold in (False, True)]


def _row(contender: str, program: Program, fold: bool, measured: Sizes | CompileError) -> Row:
    error = measured if isinstance(measured, CompileError) else None
    total, kinds = (dict.fromkeys(SHIPPED), None) if isinstance(measured, CompileError) else measured
    return {
        "project": program.row["project"],
        "split": program.split,
        "program": program.row["program"],
        "kind": program.row["kind"],
        "language": program.language,
        "contender": contender,
        "folded": fold,
        **total,
        "kinds": kinds,
        "num_modules": len(program.modules),
        "num_foreign": len(program.row["foreign"]),
        "failure": error.kind if error else "",
        "message": str(error) if error else "",
    }


def reference_names(task: Task, optimization: str) -> tuple[str, ...]:
    """Contenders beside the heuristic and the policies, in the order of tables."""
    return () if task.in_code_generation else (NEVER, *(level for level in LEVELS if level != optimization))


def measure_references(run: EvaluationRun, front_end: FrontEnd, task_name: str) -> list[Row]:
    """Compile the modules of programs in each of these ways, link the programs, and measure them.

    Args:
        run: its host compiles at the level of ``front_end`` unless a job names another.

    Returns:
        Rows of ``artifacts.SHIPPED_SIZES``. Modules after ThinLTO's import are compiled at no other level, since a
        level decides before the import, too.
    """
    task = get_task(task_name)
    imported = any(generation_of(run.bitcode[one.key]).index for one in modules_of(run.programs))
    rows: list[Row] = []
    for name in [NEVER] if imported else reference_names(task, front_end.settings.optimization):
        if name == NEVER:
            folder = run.folder / "references" / name
            rows += run.ship(name, run.programs, run.bitcode, lambda module: task.references.passive, folder)
        else:
            rows += measure_level(run, front_end, name)
    return rows


def measure_level(run: EvaluationRun, front_end: FrontEnd, level: str, advisor: Advisor | None = None) -> list[Row]:
    """Compile the modules of programs at another level and link them; rows as of `measure_references`."""
    folder = run.folder / "references" / level
    return run.ship(
        level, run.programs, _at_level(run, front_end, level, folder), lambda module: advisor, folder, level
    )


def measure_full_lto(run: EvaluationRun) -> list[Row]:
    """Compile sources and link them as ``-flto`` does; rows of ``artifacts.SHIPPED_SIZES``."""
    folder = run.folder / FULL_LTO
    folder.mkdir(parents=True)
    files = {key: folder / f"{number}.bc" for number, key in enumerate(run.bitcode)}
    for key, path in files.items():
        path.write_bytes(fat_module(run.bitcode[key], FULL))
    programs = [replace(one, row={**one.row, "options": [*one.row["options"], USE_BITCODE]}) for one in run.programs]
    return run.ship(FULL_LTO, programs, files, lambda module: None, folder)


def in_record(run: EvaluationRun, front_end: FrontEnd, folder: Path) -> EvaluationRun:
    """The same with modules as the record of what ships wants them: of its level, with its options."""
    ships, files = run.linking.ships, dict(run.bitcode)
    if ships.level:
        files |= _at_level(run, front_end, ships.level, folder / "level")
    if (options := ships.code_options) and ships.form != "whole":  # whose merge has given them
        for number, (key, path) in enumerate(files.items()):
            own = generation_of(path)
            files[key] = folder / f"{number:06d}.bc"
            generation = replace(own, options=(*own.options, *options), variants=())
            files[key].write_bytes(module_file(bitcode_of(read_input(path)), generation))
    return replace(run, bitcode=files)


def _at_level(run: EvaluationRun, front_end: FrontEnd, level: str, folder: Path) -> dict[str, Path]:
    """Files of modules as another level wants them, by key."""
    files = {key: path.with_suffix(".bc") for key, path in object_paths(modules_of(run.programs), folder).items()}
    folder.mkdir(parents=True, exist_ok=True)

    def write(key: str) -> bool:
        try:
            module_at_level(front_end, run.bitcode[key], level, files[key])
        except CompileError:
            return False
        return True

    written = in_threads(write, files, run.linking.num_threads)
    return {key: path for (key, path), done in zip(files.items(), written, strict=True) if done}
