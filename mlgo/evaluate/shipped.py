"""Programs as they are shipped: linked of the objects of one contender, and measured."""

from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path
from typing import TypeVar

from mlgo.base.artifacts import Row
from mlgo.corpus.seen import KINDS, Kinds, kind_of
from mlgo.corpus.store import Module, Program
from mlgo.errors import CompileError
from mlgo.host.linker import LinkedFile, link_and_place, shipped_sizes
from mlgo.objects.functions import SHIPPED, FunctionExtent

Size = TypeVar("Size")


@dataclass(frozen=True)
class Linking:
    """How projects are linked.

    Attributes:
        linker: what `compiler.toolchain.find_linker` gives.
        kinds: kind of each function by module key and symbol, see mlgo/corpus/seen.py; empty where it is not known.
    """

    linker: Path
    timeout_s: float
    num_threads: int
    kinds: Kinds = field(default_factory=dict)


def object_paths(modules: Sequence[Module], folder: Path) -> dict[str, Path]:
    """Where to keep the object of each module, by its key."""
    return {module.key: folder / f"{number:06d}.o" for number, module in enumerate(modules)}


def measured(objects: Mapping[str, Path], measure: Callable[[], Size]) -> tuple[Size | None, str, str]:
    """Measure what several objects make together.

    Returns:
        What was measured, or None, and kind and message of the failure, empty without one.
    """
    if missing := not_compiled(objects):
        return None, "compile", missing
    try:
        return measure(), "", ""
    except CompileError as error:
        return None, error.kind, str(error)


def not_compiled(objects: Mapping[str, Path]) -> str:
    """That some objects are missing, for a message; empty if all are there."""
    missing = [name for name, path in objects.items() if not path.exists()]
    return f"{len(missing)} of {len(objects)} modules did not compile; the first is {missing[0]}" if missing else ""


Sizes = tuple[Mapping[str, int], list[Row] | None]
"""Bytes of a linked file by measure, and by kind of its functions; None where that is not known."""


def other_modules(modules: Sequence[Module], programs: Sequence[Program]) -> list[Module]:
    """What programs need besides some modules: duplicates of others, and what was left out of the evaluation."""
    known = {module.key for module in modules}
    needed = {module.key: module for program in programs for module in program.modules}
    return [module for key, module in needed.items() if key not in known]


def measure_programs(
    linking: Linking, contender: str, programs: Sequence[Program], objects: Mapping[str, Path]
) -> list[Row]:
    """Link each program as its build does, with and without folding of identical code, and measure it.

    Returns:
        Rows of ``artifacts.SHIPPED_SIZES``. A program of which a compile failed has no size.
    """

    def measure(job: tuple[Program, bool]) -> Row:
        program, fold = job
        return _sizes_row(linking, contender, program, {one.name: objects[one.key] for one in program.modules}, fold)

    with ThreadPoolExecutor(linking.num_threads) as pool:
        return list(pool.map(measure, [(program, fold) for program in programs for fold in (False, True)]))


def _sizes_row(linking: Linking, contender: str, program: Program, objects: Mapping[str, Path], fold: bool) -> Row:
    file = LinkedFile.of_row(program.row)

    def measure() -> Sizes:
        if fold or not linking.kinds:
            return shipped_sizes(linking.linker, file, objects, linking.timeout_s, fold=fold), None
        linked = link_and_place(linking.linker, file, objects, linking.timeout_s)
        return linked.sizes, bytes_by_kind(linked.functions, program, linking.kinds)

    sizes, failure, message = measured(objects, measure)
    return _row(contender, program, fold, sizes, failure, message)


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
    return [_row(contender, program, fold, None, error.kind, str(error)) for fold in (False, True)]


def _row(contender: str, program: Program, fold: bool, sizes: Sizes | None, failure: str, message: str) -> Row:
    total, kinds = sizes or (dict.fromkeys(SHIPPED), None)
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
        "failure": failure,
        "message": message,
    }
