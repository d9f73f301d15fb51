"""The function bodies of projects, as a table: what each is called, its exact hash, and its sketch."""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from itertools import islice
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa

from mlgo.base.artifacts import BODIES, provenance, read_provenance, read_table, write_table
from mlgo.base.files import content_hash
from mlgo.base.scratch import scratch_directory
from mlgo.corpus.families import OWN, family_of
from mlgo.corpus.functions import LEAST_INSTRUCTIONS, SKETCH, Function, Reader, sketches
from mlgo.corpus.store import Module
from mlgo.errors import ArtifactError

VERSION = 2
"""Of the method; tables of another version cannot be compared."""

Printer = Callable[[Path, Path], None]
"""Prints bitcode as textual IR to a file, or raises `CompileError`; see `SourceCompiler.print_ir`."""


def project_bodies(
    printer: Printer, modules: Sequence[Module], bitcode: Mapping[str, Path], kept: Path, num_threads: int = 1
) -> pa.Table:
    """Read the functions of a project's modules, or take what an earlier call has kept.

    Args:
        printer: prints bitcode.
        modules: of one project.
        bitcode: file by module key.
        kept: folder for tables that were made.
        num_threads: prints at a time.

    Returns:
        A row of ``artifacts.BODIES`` for each function of each module, in their order.

    Raises:
        CompileError: a module cannot be read.
        ArtifactError: the table cannot be written.
    """
    content = content_hash([VERSION, [(module.project, module.name, module.sha256) for module in modules]])
    path = kept / f"{content}.parquet"
    try:
        if read_provenance(path).get("content") == content:
            return read_table(path, BODIES)
    except ArtifactError:
        pass
    table = body_table(read_bodies(printer, [(one, bitcode[one.key]) for one in modules], num_threads))
    write_table(path, table, BODIES, provenance(content=content))
    return table


def read_bodies(
    printer: Printer, modules: Iterable[tuple[Module, Path]], num_threads: int = 1
) -> Iterator[tuple[Module, list[Function]]]:
    """Functions of modules, given with their bitcode.

    Raises:
        CompileError: a module cannot be read.
    """
    reader = Reader()
    with scratch_directory() as folder, ThreadPoolExecutor(num_threads) as pool:

        def printed(job: tuple[int, tuple[Module, Path]]) -> tuple[Module, Path]:
            number, (module, path) = job
            printer(path.absolute(), folder / f"{number}.ll")
            return module, folder / f"{number}.ll"

        todo = enumerate(modules)
        while some := list(islice(todo, 4 * num_threads)):  # a few at a time: printed IR is ten times as long
            for module, text in pool.map(printed, some):
                yield module, list(reader.functions(text.read_bytes()))
                text.unlink()


def body_table(modules: Iterable[tuple[Module, Sequence[Function]]]) -> pa.Table:
    """Rows of ``artifacts.BODIES``."""
    columns: dict[str, list[Any]] = {name: [] for name in BODIES.names}
    for module, functions in modules:
        families = [family_of(one.name) for one in functions]
        long = [at for at, one in enumerate(functions) if one.size >= LEAST_INSTRUCTIONS and families[at] == OWN]
        rows = dict(zip(long, sketches([functions[at] for at in long]), strict=True))
        columns["project"] += [module.project] * len(functions)
        columns["module"] += [module.name] * len(functions)
        columns["function"] += [one.name for one in functions]
        columns["family"] += families
        columns["body"] += [one.body for one in functions]
        columns["instructions"] += [one.size for one in functions]
        columns["sketch"] += [rows[at].astype("<u4").tobytes() if at in rows else None for at in range(len(functions))]
    return pa.table(columns, schema=BODIES.remove_metadata())


def sketch_array(bodies: pa.Table) -> tuple[np.ndarray, np.ndarray]:
    """Sketches of the rows that have one.

    Returns:
        Numbers of these rows, int64 [num], and sketches, uint32 [num, `SKETCH`].
    """
    column = bodies["sketch"].combine_chunks()
    rows = np.flatnonzero(column.is_valid().to_numpy(zero_copy_only=False))
    data = b"".join(one.as_py() for one in column.drop_null())
    return rows, np.frombuffer(data, "<u4").astype(np.uint32).reshape(len(rows), SKETCH)
