"""Projects as a whole: their objects together, without second copies, and linked."""

from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, TypeVar

from mlgo.base.artifacts import PROJECT_MEASURES
from mlgo.corpus.seen import Kinds
from mlgo.corpus.store import Module
from mlgo.errors import CompileError
from mlgo.host.linker import linked_text
from mlgo.objects.comdat import comdat_groups, deduplicated_text
from mlgo.objects.elf import text_size
from mlgo.objects.sections import read_sections

Size = TypeVar("Size")


@dataclass(frozen=True)
class Linking:
    """How projects are linked.

    Attributes:
        linker: what `compiler.toolchain.find_linker` gives.
        timeout_s: deadline of one link.
        num_threads: projects at a time.
        kinds: kind of each function by module key and symbol, see mlgo/corpus/seen.py; empty where it is not known.
    """

    linker: Path
    timeout_s: float
    num_threads: int
    kinds: Kinds = field(default_factory=dict)


def object_paths(modules: Sequence[Module], folder: Path) -> dict[str, Path]:
    """Where to keep the object of each module, by its key."""
    return {module.key: folder / f"{number:06d}.o" for number, module in enumerate(modules)}


def measure_projects(
    linking: Linking, contender: str, modules: Sequence[Module], objects: Mapping[str, Path]
) -> list[dict[str, Any]]:
    """Measure each project's objects under one contender.

    Args:
        linking: how to link.
        contender: who decided; the name for the rows.
        modules: what was compiled; within a project, their order is that of linking.
        objects: object file by module key; there is none where the compile failed.

    Returns:
        Rows of ``artifacts.LINKED``, projects in the order of their first modules. A project of which a compile failed
        has no size, since it could not be compared with the others'.
    """
    by_project: dict[tuple[str, str], list[Module]] = {}
    for module in modules:
        by_project.setdefault((module.split, module.project), []).append(module)

    def measure(members: list[Module]) -> list[dict[str, Any]]:
        return _measure_project(linking, contender, members, [objects[one.key] for one in members])

    with ThreadPoolExecutor(linking.num_threads) as pool:
        return [row for rows in pool.map(measure, by_project.values()) for row in rows]


def _measure_project(
    linking: Linking, contender: str, modules: Sequence[Module], objects: Sequence[Path]
) -> list[dict[str, Any]]:
    by_name = {module.name: path for module, path in zip(modules, objects, strict=True)}
    measures: dict[str, Callable[[], int]] = {
        "object": lambda: sum(text_size(read_sections(path.read_bytes())) for path in objects),
        "deduplicated": lambda: deduplicated_text(
            (text_size(read_sections(data)), comdat_groups(data)) for data in map(Path.read_bytes, objects)
        ),
        "linked": lambda: linked_text(linking.linker, objects, linking.timeout_s),
        "folded": lambda: linked_text(linking.linker, objects, linking.timeout_s, fold=True),
    }

    def row(measure: str) -> dict[str, Any]:
        size, failure, message = measured(by_name, measures[measure])
        return {
            "project": modules[0].project,
            "split": modules[0].split,
            "contender": contender,
            "measure": measure,
            "bytes": size,
            "num_modules": len(modules),
            "failure": failure,
            "message": message,
        }

    return [row(measure) for measure in PROJECT_MEASURES]


def measured(objects: Mapping[str, Path], measure: Callable[[], Size]) -> tuple[Size | None, str, str]:
    """Measure what several objects make together.

    Args:
        objects: object file by name of the module; there is none where the compile failed.
        measure: links and measures.

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
