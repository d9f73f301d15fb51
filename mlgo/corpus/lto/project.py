"""A project whose modules are put together before they are compiled."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from mlgo.base.scratch import scratch_directory
from mlgo.corpus.build import columns_without
from mlgo.errors import CompileError
from mlgo.host.frontend import FrontEnd
from mlgo.host.linked import LinkedFile

Row = dict[str, Any]


@dataclass(frozen=True)
class Tools:
    """What puts modules together.

    Attributes:
        front_end: compiles, and reads what came out.
        linker: what `toolchain.find_linker` gives.
        max_instructions: of a merged module, before optimization.
        num_threads: compiles and links at a time.
    """

    front_end: FrontEnd
    linker: Path
    max_instructions: int
    num_threads: int

    @property
    def timeout_s(self) -> float:
        """Deadline of one link."""
        return self.front_end.settings.compile_timeout_s


@dataclass(frozen=True)
class Sources:
    """A project's modules as files.

    Attributes:
        rows: of ``artifacts.PROJECT``, by name of the module; those with bitcode.
        paths: file of each.
    """

    rows: Mapping[str, Row]
    paths: Mapping[str, Path]

    def named_as(self, name: str, members: Sequence[str]) -> Row:
        """Columns of a module that is made of others, without its code."""
        first = self.rows[members[0]]
        languages = {self.rows[member]["language"] for member in members}
        return {**first, "module": name, "language": "c++" if "c++" in languages else first["language"]}


@contextmanager
def sources_of(rows: Sequence[Row]) -> Iterator[Sources]:
    """Write a project's modules to files, for a while."""
    with scratch_directory() as folder:
        kept = {row["module"]: row for row in rows if not row["skip_reason"]}
        paths = {name: folder / f"{number}.bc" for number, name in enumerate(kept)}
        for name, path in paths.items():
            path.write_bytes(kept[name]["bitcode"])
        yield Sources(kept, paths)


Made = tuple[Row, list[Row]]
"""A linked file, row of ``artifacts.PROGRAMS_OF_PROJECT``, with its modules."""


def remade(
    rows: Sequence[Row], programs: Sequence[Row], tools: Tools, make: Callable[[LinkedFile], list[Row]]
) -> tuple[list[Row], list[Row]]:
    """Make the modules of each linked file anew.

    Args:
        rows: of ``artifacts.PROJECT``.
        programs: rows of ``artifacts.PROGRAMS_OF_PROJECT``.
        tools: for threads.
        make: gives the new modules of a linked file in the order of linking, or raises `CompileError`.

    Returns:
        Both tables. Of the old modules those remain, without code, that were none before or that no linked file holds.
    """

    def one(program: Row) -> Made:
        file = LinkedFile.of_row(program)
        try:
            made = make(file)
        except CompileError as error:
            empty = {"project": file.project, "module": file.name, "language": "c", "licence": ""}
            made = [empty | columns_without(f"{error.kind}: {error}")]
        names = [row["module"] for row in made if not row["skip_reason"]]
        return program | {"parts": [{"kind": "object", "modules": [name]} for name in names]}, made

    with ThreadPoolExecutor(tools.num_threads) as pool:
        done = list(pool.map(one, programs))
    linked = {name for program in programs for part in program["parts"] for name in part["modules"]}
    left = [
        row if row["skip_reason"] else row | columns_without("unlinked: no linked file that was taken holds it")
        for row in rows
        if row["skip_reason"] or row["module"] not in linked
    ]
    modules = left + [row for _, made in done for row in made]
    return sorted(modules, key=lambda row: str(row["module"])), [program for program, _ in done]
