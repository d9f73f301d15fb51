"""Response trees on disk, shared by processes and runs.

One file per module and key, only ever appended to, see `mlgo.pool.records` for the frame of its records. A writer first
reads what others have appended, then adds its own branches; so node numbers mean the same to everybody. The first
payload is, compressed by zlib, the header line of the stream and the names of the contexts as one line of JSON. Each
further one is what a compile has added, compressed by zlib:

    num_branches u32 | length of the leaves u32 | leaves, as JSON
    | tree u32 [num_branches] | node i64 [num_branches] | answer i64 [num_branches] | num_new u32 [num_branches]
    | answers i64 [sum of num_new] | observations u8 [payload_bytes, sum of num_new], differences modulo 256

A leaf is an object with the sizes and other fields of a `ModuleLeaf`, or a list of the costs in a `FunctionLeaf`,
without names. Observations are stored column by column as differences along the questions, because consecutive ones are
alike.
"""

import itertools
import json
import math
import struct
import tempfile
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import asdict
from functools import partial
from operator import itemgetter
from pathlib import Path
from typing import Any

import numpy as np
from pydantic import ConfigDict, FiniteFloat
from pydantic.dataclasses import dataclass

from mlgo.base.files import content_hash, place
from mlgo.errors import ArtifactError, ReplayMismatch
from mlgo.host.conversation import AnswerPrefix
from mlgo.host.log import Header, parse_header, write_header
from mlgo.host.session import CompileResult
from mlgo.objects.measures import MEASURES, SIZES, SIZES_VERSION, Measure
from mlgo.objects.remarks import SpillCosts
from mlgo.pool.module_trees import WHOLE_MODULE, Growth, ModuleTrees, Visit, check_order, visits_of
from mlgo.pool.records import RecordFile, current_keys, outdated_keys, packed, unpacked
from mlgo.pool.response_tree import AnyLeaf, Branch, FunctionLeaf, ModuleLeaf, PackedObservations

RECORDS_VERSION = 3
"""Of this format. It is part of a tree's key, so trees of another version are left alone, and pruned in time."""

MAGIC = b"MLT%d" % RECORDS_VERSION
"""With which each record of such a file begins."""

_LENGTHS = struct.Struct("<II")
MAX_CONTEXTS = 1 << 17
"""Contexts that a file may have. No module has so many functions."""


def encode_beginning(header: Header, contexts: Sequence[str]) -> bytes:
    """Payload of a file's first record."""
    return packed(write_header(header) + json.dumps(contexts).encode())


def decode_beginning(payload: bytes) -> ModuleTrees:
    """The trees of a file's first record, which are empty; raises one of `MALFORMED`."""
    line, _, names = unpacked(payload).partition(b"\n")
    header, contexts = parse_header(line), json.loads(names)
    if header.advice is None:
        raise ValueError("a header without advice")
    if not isinstance(contexts, list) or not all(isinstance(name, str) for name in contexts):
        raise ValueError("contexts that are no list of names")
    if not 0 < len(contexts) <= MAX_CONTEXTS or len(set(contexts)) != len(contexts):
        raise ValueError("contexts that are none, too many, or named twice")
    return ModuleTrees(header, contexts)


def encode_growth(growth: Sequence[Growth]) -> bytes:
    """Payload of what a compile has added; at least one branch."""
    branches = [one.branch for one in growth]
    leaves = json.dumps([_plain(branch.leaf) for branch in branches], separators=(",", ":")).encode()
    observations = np.concatenate([branch.observations for branch in branches])
    differences = np.diff(observations, axis=0, prepend=np.uint8(0))  # modulo 256
    parts = [
        _LENGTHS.pack(len(branches), len(leaves)),
        leaves,
        np.array([one.tree for one in growth], "<u4").tobytes(),
        np.array([branch.node for branch in branches], "<i8").tobytes(),
        np.array([branch.answer for branch in branches], "<i8").tobytes(),
        np.array([len(branch.answers) for branch in branches], "<u4").tobytes(),
        np.concatenate([branch.answers for branch in branches]).astype("<i8").tobytes(),
        differences.T.tobytes(),
    ]
    return packed(b"".join(parts))


def decode_growth(payload: bytes, payload_bytes: int, contexts: Sequence[str]) -> list[Growth]:
    """Read it back; raises one of `MALFORMED`. Whether the branches fit the trees is seen when they are added."""
    data = unpacked(payload)
    count, offset = _LENGTHS.unpack_from(data)[0], _LENGTHS.size

    def take(dtype: str, length: int) -> np.ndarray:
        nonlocal offset
        found = np.frombuffer(data, dtype, length, offset)
        offset += found.nbytes
        return found

    leaves = json.loads(take("u1", _LENGTHS.unpack_from(data)[1]).tobytes())
    trees, nodes, given, lengths = take("<u4", count), take("<i8", count), take("<i8", count), take("<u4", count)
    ends = np.cumsum(lengths, dtype=np.int64)
    num_new = int(ends[-1])
    answers = take("<i8", num_new).astype(np.int64)
    columns = take("u1", num_new * payload_bytes).reshape(payload_bytes, num_new)
    if offset != len(data) or len(leaves) != count:
        raise ValueError(f"{len(data)} bytes and {len(leaves)} leaves, where {offset} and {count} are announced")
    is_whole = tuple(contexts) == WHOLE_MODULE
    observations: Sequence[np.ndarray | PackedObservations]
    if is_whole and count == 1:  # as after each compile of a module: large, and few walks will come by
        observations = [PackedObservations(payload, partial(_unpack, shape=columns.shape))]
    else:
        observations = np.split(_rows(columns), ends[:-1])
    growth = []
    for i, (start, end) in enumerate(zip(ends - lengths, ends, strict=True)):
        leaf = _leaf(leaves[i]) if is_whole else _function_leaf(leaves[i], contexts[int(trees[i])])
        branch = Branch(int(nodes[i]), int(given[i]), observations[i], answers[start:end], leaf)
        growth.append(Growth(int(trees[i]), branch))
    return growth


def _unpack(payload: bytes, shape: tuple[int, int]) -> np.ndarray:
    """Observations of a payload, whose differences have this shape."""
    data = unpacked(payload)
    return _rows(np.frombuffer(data, np.uint8, offset=len(data) - shape[0] * shape[1]).reshape(shape))


def _rows(columns: np.ndarray) -> np.ndarray:
    """Observations uint8 [num, payload_bytes] of their differences [payload_bytes, num]."""
    return np.ascontiguousarray(np.cumsum(columns, axis=1, dtype=np.uint8).T)


def _plain(leaf: AnyLeaf) -> Any:
    if isinstance(leaf, ModuleLeaf):
        return {**leaf.scores, "object_sha256": leaf.object_sha256, "truncated": leaf.truncated}
    return [one[1:] for one in leaf.spills]


def _leaf(record: Any) -> ModuleLeaf:
    if not isinstance(record, dict):
        raise ValueError(f"a leaf of a module that is no mapping: {str(record)[:200]}")
    leaf = ModuleLeaf({name: record.pop(name) for name in SIZES}, record.pop("object_sha256"), record.pop("truncated"))
    are_sizes = all(_is_size(MEASURES[name], size) for name, size in leaf.scores.items())
    if record or not are_sizes or type(leaf.object_sha256) is not str or type(leaf.truncated) is not bool:
        raise ValueError(f"a leaf with other values than a compile has: {leaf} {record}"[:250])
    return leaf


def _is_size(measure: Measure, size: Any) -> bool:
    if size is None:
        return not measure.is_of_object
    return type(size) is (int if measure.is_integer else float) and 0 <= size < 1 << 63


def _function_leaf(record: Any, context: str) -> FunctionLeaf:
    if not isinstance(record, list):
        raise ValueError(f"a leaf of a function that is no list: {str(record)[:200]}")
    for cost in (cost for costs in record for cost in costs):
        if type(cost) not in (int, float) or not math.isfinite(cost) or cost < 0:
            raise ValueError(f"a cost that is no number from 0 on: {str(cost)[:200]}")
    return FunctionLeaf(tuple(SpillCosts(context, *costs) for costs in record))


_BEFORE_RECORDS = 2
_LEAST_LOADED_BYTES = 1 << 26
_MOST_FUNCTIONS_BYTES = 1 << 24
"""Memory at which the trees of a module's functions stop growing. Their questions are large, and those of all modules
of a generation should be loaded at the same time."""

_SUFFIX = ".tree"
_PART_BYTES = 1 << 22
"""Observations of a merge that are encoded at once, about, in bytes."""


@dataclass(frozen=True, config=ConfigDict(strict=True, extra="forbid"))
class TreeKey:
    """Everything but the module that decides a compile."""

    compiler_sha256: str
    target: str
    task: str
    optimization: str
    size_stop_factor: FiniteFloat  # growth at which the compiler stops asking
    flags: str = ""  # hash of all other options of a compile
    measure: int | str = SIZES_VERSION  # what is read of objects, and in which version
    records: int = RECORDS_VERSION

    @property
    def folder(self) -> str:
        """Name of the folder that holds this key's trees."""
        return content_hash(asdict(self))


class _OpenTree(RecordFile):
    """The trees of a module, as far as its file was read."""

    magic = MAGIC

    def __init__(self, path: Path, key: TreeKey) -> None:
        super().__init__(path, asdict(key))
        self.trees: ModuleTrees | None = None

    def trees_for(self, header: Header, contexts: Sequence[str]) -> ModuleTrees:
        """Those of the file, or empty ones."""
        if self.trees is None:
            return ModuleTrees(header, contexts)
        if self.trees.header != header:
            raise ReplayMismatch("the compiler offers other features than before")
        check_order(contexts, self.trees.contexts)
        return self.trees

    def forget(self) -> None:
        super().forget()
        self.trees = None

    def take(self, payload: bytes) -> None:
        if self.trees is None:
            self.trees = decode_beginning(payload)
        else:
            self.trees.add(decode_growth(payload, self.trees.header.payload_bytes, self.trees.contexts))


class ReplayStore:
    """Trees of one key.

    Args:
        max_loaded_bytes: memory for loaded trees; the least recently used are dropped beyond it.
        fetch: gives the file of a module from another machine, by its name, None where there is none; asked once for
            each module without a file here.
    """

    def __init__(
        self,
        root: Path,
        key: TreeKey,
        max_loaded_bytes: int = 1 << 30,
        fetch: Callable[[str], bytes | None] | None = None,
    ) -> None:
        self.key, self._root, self._folder = key, root, root / key.folder
        self._max_loaded_bytes, self._fetch = max_loaded_bytes, fetch
        self._loaded: dict[str, _OpenTree] = {}
        self._asked: set[str] = set()

    def shared_by(self, num_processes: int) -> "ReplayStore":
        """The same trees for each of several processes, none loaded; together they hold as much as this one may."""
        loaded_bytes = max(_LEAST_LOADED_BYTES, self._max_loaded_bytes // max(1, num_processes))
        return ReplayStore(self._root, self.key, loaded_bytes)

    def modules(self) -> list[str]:
        """Hashes of the modules with a tree."""
        return sorted(path.stem for path in self._folder.glob(f"*{_SUFFIX}"))

    def path(self, module_sha256: str) -> Path:
        """File of a module's tree, whether it exists or not."""
        return self._folder / f"{module_sha256}{_SUFFIX}"

    def file_bytes(self, module_sha256: str) -> int:
        """Size of a module's tree on disk."""
        return self.path(module_sha256).stat().st_size

    def check_writable(self) -> None:
        """See that trees can be kept."""
        try:
            self._folder.mkdir(parents=True, exist_ok=True)
            tempfile.TemporaryFile(dir=self._folder).close()
        except OSError as error:
            raise ArtifactError(
                f"cannot write to {self._folder}, where response trees are kept: {error.strerror or error}"
            ) from error

    def moved_to(self, root: Path, fetch: Callable[[Path], bytes | None]) -> "ReplayStore":
        """The same trees on a machine that does not see these files; what is added there, under ``root``, stays there.

        ``fetch`` gives the content of one of these files, None where there is none.
        """
        return ReplayStore(root, self.key, self._max_loaded_bytes, lambda sha256: fetch(self.path(sha256)))

    def load(self, module_sha256: str) -> ModuleTrees | None:
        """The trees of a module with all that is on disk; None when nothing is known."""
        if self._fetch is not None and module_sha256 not in self._asked:
            self._asked.add(module_sha256)
            path = self.path(module_sha256)
            if not path.exists() and (data := self._fetch(module_sha256)) is not None:
                place(path, data)
        entry = self._entry(module_sha256)
        entry.read()
        return entry.trees

    def insert(self, module_sha256: str, result: CompileResult, known: AnswerPrefix | None = None) -> None:
        """Add a finished compile, recorded with its observations; one that cannot be taken apart is left out."""
        assert result.header is not None
        visits = visits_of(result, known)
        if visits is None or len(visits) > MAX_CONTEXTS:
            return
        contexts = [visit.context for visit in visits]
        self._add(module_sha256, result.header, contexts, enumerate(visits))

    def merge(self, module_sha256: str, other: ModuleTrees) -> int:
        """Add all compiles that trees of another store of this key hold; gives the number of results that are new."""
        return self._add(module_sha256, other.header, other.contexts, other.visits())

    def _add(
        self, module_sha256: str, header: Header, contexts: Sequence[str], visits: Iterable[tuple[int, Visit]]
    ) -> int:
        """Add what compiles show; gives the number of results that are new."""
        entry = self._entry(module_sha256)
        try:
            with entry.writing() as append:
                trees = entry.trees_for(header, contexts)
                is_full = trees.whole is None and trees.num_bytes >= _MOST_FUNCTIONS_BYTES
                growth = trees.take_in(visits, grow=not is_full)
                if growth:
                    beginning = [encode_beginning(header, contexts)] if entry.trees is None else []
                    append([*beginning, *map(encode_growth, _parts(growth))])
                    entry.trees = trees
        except ReplayMismatch as error:
            raise ReplayMismatch(f"module {module_sha256[:16]}: {error}") from error
        return len(growth)

    def _entry(self, module_sha256: str) -> _OpenTree:
        entry = self._loaded.pop(module_sha256, None) or _OpenTree(self.path(module_sha256), self.key)
        self._loaded[module_sha256] = entry  # most recently used last
        sizes = {name: one.trees.num_bytes if one.trees else 0 for name, one in self._loaded.items()}
        excess = sum(sizes.values()) - self._max_loaded_bytes  # the least recently used are dropped
        for name in list(sizes)[:-1]:
            if excess > 0:
                excess -= sizes[name]
                del self._loaded[name]
        return entry


def _parts(growth: list[Growth]) -> Iterator[list[Growth]]:
    """Cut growth into pieces of a size that is encoded at once."""
    ends = itertools.accumulate(one.branch.observations.nbytes for one in growth)
    numbered = zip((end // _PART_BYTES for end in ends), growth, strict=True)
    for _, part in itertools.groupby(numbered, itemgetter(0)):
        yield [one for _, one in part]


def stores(root: Path) -> list[ReplayStore]:
    """The stores of all keys under ``root`` whose files are of this version."""
    return [ReplayStore(root, key) for key in current_keys(root, _SUFFIX, _decode_key)]


def outdated_folders(root: Path) -> list[Path]:
    """Folders under ``root`` whose trees no run of this version will read: of other files, or measured otherwise."""
    return outdated_keys(root, _SUFFIX, _decode_key)


def _decode_key(value: Any) -> TreeKey | None:
    key = TreeKey(**{"records": _BEFORE_RECORDS, **value})
    return key if (key.records, key.measure) == (RECORDS_VERSION, SIZES_VERSION) else None
