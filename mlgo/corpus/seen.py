"""Function bodies that were seen in training, exactly or nearly, and those of libraries that all projects use.

The bodies of projects are a table: name, exact hash and sketch of each.
"""

import contextlib
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pyarrow as pa

from mlgo.base.artifacts import BODIES, SEEN, Row, provenance, read_table, write_table
from mlgo.base.files import content_hash
from mlgo.base.scratch import scratch_directory
from mlgo.base.threads import in_threads
from mlgo.corpus.functions import (
    BINDINGS,
    LEAST_INSTRUCTIONS,
    OWN,
    SKETCH,
    STANDARD,
    Function,
    Reader,
    family_of,
    sketches,
)
from mlgo.corpus.store import Module
from mlgo.errors import ArtifactError

VERSION = 2
"""Of the method; tables of another version cannot be compared."""

Printer = Callable[[Path, Path], None]
"""Prints bitcode as textual IR to a file, or raises `CompileError`; see `FrontEnd.print_ir`."""


def project_bodies(
    printer: Printer, modules: Sequence[Module], bitcode: Mapping[str, Path], kept: Path, num_threads: int = 1
) -> pa.Table:
    """Rows of ``artifacts.BODIES``, one for each function of each module in order; kept from an earlier call.

    Raises:
        CompileError: a module cannot be read.
    """
    content = content_hash([VERSION, [(module.project, module.name, module.sha256) for module in modules]])
    path = kept / f"{content}.parquet"
    with contextlib.suppress(ArtifactError):
        return read_table(path, BODIES)
    table = body_table(read_bodies(printer, [(one, bitcode[one.key]) for one in modules], num_threads))
    write_table(path, table, BODIES, provenance(content=content))
    return table


def read_bodies(
    printer: Printer, modules: Iterable[tuple[Module, Path]], num_threads: int = 1
) -> Iterator[tuple[Module, list[Function]]]:
    """Functions of modules, given with their bitcode."""
    reader = Reader()
    with scratch_directory() as folder:

        def printed(job: tuple[int, tuple[Module, Path]]) -> tuple[Module, Path]:
            number, (module, path) = job
            printer(path.absolute(), folder / f"{number}.ll")
            return module, folder / f"{number}.ll"

        for module, text in in_threads(printed, enumerate(modules), num_threads):
            yield module, list(reader.functions(text.read_bytes()))
            text.unlink()


def body_table(modules: Iterable[tuple[Module, Sequence[Function]]]) -> pa.Table:
    """Rows of ``artifacts.BODIES``."""
    rows = []
    for module, functions in modules:
        families = [family_of(one.name) for one in functions]
        long = [at for at, one in enumerate(functions) if one.size >= LEAST_INSTRUCTIONS and families[at] == OWN]
        of_long = dict(zip(long, sketches([functions[at] for at in long]).astype("<u4"), strict=True))
        for at, one in enumerate(functions):
            sketch = of_long[at].tobytes() if at in of_long else None
            rows.append((module.project, module.name, one.name, families[at], one.body, one.size, sketch))
    columns = {name: [row[at] for row in rows] for at, name in enumerate(BODIES.names)}
    return pa.table(columns, schema=BODIES.remove_metadata())


def sketch_array(bodies: pa.Table) -> tuple[np.ndarray, np.ndarray]:
    """Numbers of the rows that have a sketch, int64 [num], and the sketches, uint32 [num, `SKETCH`]."""
    column = bodies["sketch"].combine_chunks()
    rows = np.flatnonzero(column.is_valid().to_numpy(zero_copy_only=False))
    data = b"".join(one.as_py() for one in column.drop_null())
    return rows, np.frombuffer(data, "<u4").astype(np.uint32).reshape(len(rows), SKETCH)


UNSEEN, NEAR, EXACT = "unseen", "near", "exact"
"""Kinds of bodies of a project's own code."""

KINDS = (UNSEEN, NEAR, EXACT, STANDARD, BINDINGS)
"""Kinds of bodies."""

LEAST_SIMILARITY = 0.6
"""Share of the numbers of two sketches that are equal, from which bodies count as nearly the same. Measured in
docs/decisions/0039-seen-in-training.md."""

Kinds = Mapping[str, Mapping[str, str]]
"""Kind of each function, by module key and symbol."""

SEEN_NAME = "seen.parquet"
"""Table of ``artifacts.SEEN`` in the folder of a corpus: functions of all projects that are not trained on."""
TRAINED_NAME = "trained.parquet"
"""Table of ``artifacts.BODIES`` there: bodies of the projects that are, each once."""

_ROWS = 3
_BANDS = SKETCH // _ROWS
_MOST_PAIRS = 1 << 20


@dataclass(frozen=True)
class SeenBodies:
    """Bodies of a training set."""

    hashes: np.ndarray  # exact hashes of all bodies, uint64 [num_bodies], ascending, each once
    sketches: np.ndarray  # of the bodies of projects' own code, uint32 [num_sketches, SKETCH], each once
    # Function that each sketch is of, `project/module: function`; the first with this sketch.
    places: Sequence[str]

    @classmethod
    def of(cls, bodies: pa.Table) -> "SeenBodies":
        """Take the bodies of a table, ``artifacts.BODIES``."""
        rows, every = sketch_array(bodies)
        sketches, first = np.unique(every, axis=0, return_index=True)
        named = bodies.take(rows[first]).select(["project", "module", "function"]).to_pylist()
        places = [f"{row['project']}/{row['module']}: {row['function']}" for row in named]
        return cls(np.unique(bodies["body"].to_numpy()), sketches, places)

    def kinds(self, bodies: pa.Table) -> np.ndarray:
        """Kind of each body of a table, ``artifacts.BODIES``: place in `KINDS`, int8 [num_rows]."""
        kinds = np.zeros(bodies.num_rows, np.int8)
        families = np.array(bodies["family"].to_pylist(), object)
        rows, sketches = sketch_array(bodies)
        kinds[rows[self.nearest(sketches) >= 0]] = KINDS.index(NEAR)
        kinds[np.isin(bodies["body"].to_numpy(), self.hashes)] = KINDS.index(EXACT)
        for family in (STANDARD, BINDINGS):
            kinds[families == family] = KINDS.index(family)
        return kinds

    def longest(self, bodies: pa.Table, kinds: np.ndarray, most: int) -> list[Row]:
        """The longest functions of a project's own code that were seen, each body once, with what they are like."""
        places = np.flatnonzero(np.isin(kinds, (KINDS.index(NEAR), KINDS.index(EXACT))))
        seen = bodies.take(places).append_column("kind", pa.array([KINDS[kind] for kind in kinds[places]]))
        seen = seen.take(np.unique(seen["body"].to_numpy(), return_index=True)[1])
        seen = seen.sort_by([("instructions", "descending"), ("function", "ascending")]).slice(0, most)
        rows, sketches = sketch_array(seen)
        like = dict(zip(rows.tolist(), self.nearest(sketches).tolist(), strict=True))
        columns = ["module", "function", "instructions", "kind"]
        return [
            row | {"like": self.places[like[at]] if like.get(at, -1) >= 0 else "short"}
            for at, row in enumerate(seen.select(columns).to_pylist())
        ]

    def nearest(self, sketches: np.ndarray) -> np.ndarray:
        """Find a body that is nearly the same.

        Sketches that have `_ROWS` numbers of the same places in common are compared in full (locality-sensitive
        hashing): at a similarity of 0.6, 99 of 100 pairs are found, and nearly all above.

        Args:
            sketches: uint32 [num, SKETCH].

        Returns:
            The first that is found to be similar, as place in `self.sketches`; -1 without one; int64 [num].
        """
        own, back = np.unique(sketches, axis=0, return_inverse=True)
        found = np.full(len(own), -1)
        for start in range(0, _BANDS * _ROWS, _ROWS):
            open_ones = np.flatnonzero(found < 0)
            band = slice(start, start + _ROWS)
            for queries, candidates in _equal_pairs(own[open_ones, band], self.sketches[:, band]):
                queries = open_ones[queries]
                close = (own[queries] == self.sketches[candidates]).mean(axis=1) >= LEAST_SIMILARITY
                found[queries[close]] = candidates[close]
        return found[back.reshape(-1)]


def shares(bodies: pa.Table, kinds: np.ndarray) -> dict[str, int]:
    """Instructions of a project by kind; of several copies of a function one counts, as in a linked file.

    Args:
        bodies: ``artifacts.BODIES``.
        kinds: what `SeenBodies.kinds` gives for it, int8 [num_rows].
    """
    numbered = bodies.append_column("row", pa.array(np.arange(bodies.num_rows)))
    once = numbered.group_by(["project", "function", "body"]).aggregate([("row", "min")])["row_min"].to_numpy()
    totals = np.bincount(kinds[once], weights=bodies["instructions"].to_numpy()[once], minlength=len(KINDS))
    return {kind: int(total) for kind, total in zip(KINDS, totals, strict=True)}


def seen_table(bodies: pa.Table, kinds: np.ndarray) -> pa.Table:
    """Rows of ``artifacts.SEEN``; arguments are those of `shares`."""
    names = pa.array([KINDS[kind] for kind in kinds], pa.string())
    return bodies.append_column("kind", names).select(SEEN.names)


def kinds_by_name(seen: pa.Table) -> dict[str, dict[str, str]]:
    """Kind of each function, by module key and symbol, of a table ``artifacts.SEEN``."""
    found: dict[str, dict[str, str]] = {}
    for row in seen.select(["project", "module", "function", "kind"]).to_pylist():
        found.setdefault(f"{row['project']}/{row['module']}", {})[row["function"]] = row["kind"]
    return found


def kind_of(symbol: str, kinds: Mapping[str, str]) -> str:
    """Kind of a function of an object; empty for one that the compiler has made up.

    Args:
        symbol: its name. The compiler makes parts and copies of functions, whose names go on after a dot.
        kinds: of the functions of its module before optimization, by symbol.
    """
    while symbol not in kinds and "." in symbol:
        symbol = symbol.rpartition(".")[0]
    return kinds.get(symbol, "")


def each_once(bodies: pa.Table) -> pa.Table:
    """The rows of a table, ``artifacts.BODIES``, with one for each body: the first, if possible with a sketch."""
    sketched = bodies["sketch"].is_valid().to_numpy()
    order = np.concatenate([np.flatnonzero(sketched), np.flatnonzero(~sketched)])
    first = np.unique(bodies["body"].to_numpy()[order], return_index=True)[1]
    return bodies.take(np.sort(order[first]))


def seen_share(instructions: Mapping[str, int]) -> float:
    """Share of a project's own code that was seen, exactly or nearly; 0 where it has none; of what `shares` gives."""
    seen = instructions[NEAR] + instructions[EXACT]
    own = seen + instructions[UNSEEN]
    return seen / own if own else 0.0


def _equal_pairs(queries: np.ndarray, known: np.ndarray) -> Iterator[tuple[np.ndarray, np.ndarray]]:
    """Pairs of rows that are equal, some at a time: numbers of rows in both."""
    keys, wanted = _as_keys(known), _as_keys(queries)
    order = np.argsort(keys, kind="stable")
    first, last = (np.searchsorted(keys[order], wanted, side) for side in ("left", "right"))
    counts = last - first
    ends = np.cumsum(counts)
    start = 0
    while start < len(wanted):
        before = ends[start - 1] if start else 0
        stop = max(start + 1, int(np.searchsorted(ends, before + _MOST_PAIRS, "right")))
        number = np.repeat(np.arange(start, stop), counts[start:stop])
        offset = np.arange(len(number)) - np.repeat(ends[start:stop] - counts[start:stop] - before, counts[start:stop])
        yield number, order[first[number] + offset]
        start = stop


def _as_keys(rows: np.ndarray) -> np.ndarray:
    return np.ascontiguousarray(rows).view([("", np.uint32)] * rows.shape[1]).reshape(-1)
