"""Response trees on disk, shared by processes and runs.

One file per module and key, only ever appended to. A writer first reads what others have appended, then adds its own
branches; so node numbers mean the same to everybody.
"""

import contextlib
import math
import os
import tempfile
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from pathlib import Path

from mlgo.base.files import content_hash, place, read_json, write_json
from mlgo.errors import ArtifactError, ReplayMismatch
from mlgo.host.conversation import AnswerPrefix
from mlgo.host.log import Header
from mlgo.host.session import CompileResult
from mlgo.objects.measures import SIZES_VERSION
from mlgo.pool.records import RecordFile, outdated_keys
from mlgo.pool.trees.module import Growth, ModuleTrees, visits_of
from mlgo.pool.trees.record import (
    MAGIC,
    MAX_CONTEXTS,
    RECORDS_VERSION,
    decode_beginning,
    decode_growth,
    encode_beginning,
    encode_growth,
)

_BEFORE_RECORDS = 2
_LEAST_LOADED_BYTES = 1 << 26

KEY_NAME = "key.json"
"""File in each key's folder that says what its trees were made with."""

_PART_BYTES = 1 << 22
"""Observations of a merge that are encoded at once, about, in bytes."""


@dataclass(frozen=True)
class TreeKey:
    """Everything but the module that decides a compile.

    Attributes:
        size_stop_factor: growth at which the compiler stops asking.
        flags: hash of all other options of a compile.
        measure: what is read of objects, and in which version.
    """

    compiler_sha256: str
    target: str
    task: str
    optimization: str
    size_stop_factor: float
    flags: str = ""
    measure: int | str = SIZES_VERSION
    records: int = RECORDS_VERSION

    @property
    def folder(self) -> str:
        """Name of the folder that holds this key's trees."""
        return content_hash(asdict(self))


_Append = Callable[[Sequence[bytes]], None]


class _OpenTree:
    """The trees of a module, as far as its file was read."""

    def __init__(self, path: Path) -> None:
        self.header: Header | None = None
        self.trees: ModuleTrees | None = None
        self.file = RecordFile(path, MAGIC, self._clear, self._take)

    def write(self, append: _Append, header: Header, trees: ModuleTrees, new: list[bytes]) -> None:
        """Append payloads; the first ones of a file come after its beginning."""
        append(new if self.trees is not None else [encode_beginning(header, trees.contexts), *new])
        self.header, self.trees = header, trees

    def _clear(self) -> None:
        self.header, self.trees = None, None

    def _take(self, payload: bytes) -> None:
        if self.header is None or self.trees is None:
            self.header, contexts = decode_beginning(payload)
            self.trees = ModuleTrees(self.header.payload_bytes, contexts)
        else:
            self.trees.add(decode_growth(payload, self.header.payload_bytes, self.trees.contexts))


class ReplayStore:
    """Trees of one key.

    Args:
        max_loaded_bytes: memory for loaded trees; the least recently used are dropped beyond it.
        max_functions_bytes: memory at which the trees of a module's functions stop growing. Their questions are large,
            and those of all modules of a generation should be loaded at the same time.
        fetch: gives the file of a module from another machine, by its name, None where there is none; asked once for
            each module without a file here.
    """

    def __init__(
        self,
        root: Path,
        key: TreeKey,
        max_loaded_bytes: int = 1 << 30,
        max_functions_bytes: int = 1 << 24,
        fetch: Callable[[str], bytes | None] | None = None,
    ) -> None:
        self.key = key
        self._root = root
        self._folder = root / key.folder
        self._key_path = self._folder / KEY_NAME
        self._max_loaded_bytes, self._max_functions_bytes = max_loaded_bytes, max_functions_bytes
        self._loaded: dict[str, _OpenTree] = {}
        self._fetch = fetch
        self._asked: set[str] = set()

    def shared_by(self, num_processes: int) -> "ReplayStore":
        """The same trees for each of several processes, none loaded; together they hold as much as this one may."""
        loaded_bytes = max(_LEAST_LOADED_BYTES, self._max_loaded_bytes // max(1, num_processes))
        return ReplayStore(self._root, self.key, loaded_bytes, self._max_functions_bytes)

    def modules(self) -> list[str]:
        """Hashes of the modules with a tree."""
        return sorted(path.stem for path in self._folder.glob("*.tree"))

    def path(self, module_sha256: str) -> Path:
        """File of a module's tree, whether it exists or not."""
        return self._folder / f"{module_sha256}.tree"

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
        """The same trees on a machine that does not see these files; what is added there stays there.

        Args:
            root: folder of all keys on that machine.
            fetch: gives the content of one of these files, None where there is none.
        """
        return ReplayStore(
            root,
            self.key,
            self._max_loaded_bytes,
            self._max_functions_bytes,
            lambda module_sha256: fetch(self.path(module_sha256)),
        )

    def load(self, module_sha256: str) -> tuple[Header, ModuleTrees] | None:
        """The trees of a module with all that is on disk; None when nothing is known."""
        if self._fetch is not None and module_sha256 not in self._asked:
            self._asked.add(module_sha256)
            path = self.path(module_sha256)
            if not path.exists() and (data := self._fetch(module_sha256)) is not None:
                place(path, data)
        entry = self._entry(module_sha256)
        try:
            if entry.file.read():
                with contextlib.suppress(OSError):  # not where it may only be read
                    os.utime(entry.file.path)  # recently used
        except FileNotFoundError:
            return None
        if entry.header is None or entry.trees is None:
            return None
        return entry.header, entry.trees

    def insert(self, module_sha256: str, result: CompileResult, known: AnswerPrefix | None = None) -> None:
        """Add a finished compile, recorded with its observations; one that cannot be taken apart is left out."""
        assert result.header is not None
        visits = visits_of(result, known)
        if visits is None or len(visits) > MAX_CONTEXTS:
            return
        with self._writing(module_sha256) as (entry, append):
            trees = self._forest(entry, result.header, [visit.context for visit in visits])
            growth = trees.growth_of(visits)
            if growth and not self._is_full(trees):
                entry.write(append, result.header, trees, [encode_growth(growth)])
                trees.add(growth)

    def merge(self, module_sha256: str, header: Header, other: ModuleTrees) -> int:
        """Add all compiles that trees of another store hold, which must be of this key.

        Returns:
            Number of results that were not known here, of the module or of its functions.
        """
        with self._writing(module_sha256) as (entry, append):
            trees = self._forest(entry, header, other.contexts)
            if self._is_full(trees):
                return 0
            try:
                growth = trees.take_over(other)
                if growth:
                    entry.write(append, header, trees, [encode_growth(part) for part in _parts(growth)])
            except BaseException:
                entry.file.forget()  # it holds what is not on disk
                raise
        return len(growth)

    @contextmanager
    def _writing(self, module_sha256: str) -> Iterator[tuple[_OpenTree, _Append]]:
        """The trees of a module with all that is on disk, and what appends to their locked file."""
        entry = self._entry(module_sha256)
        if not self._key_path.exists():
            write_json(self._key_path, asdict(self.key))
        try:
            with entry.file.writing() as append:
                yield entry, append
        except ReplayMismatch as error:
            raise ReplayMismatch(f"module {module_sha256[:16]}: {error}") from error
        except OSError as error:
            raise ArtifactError(f"cannot write {entry.file.path}: {error.strerror or error}") from error

    def _forest(self, entry: _OpenTree, header: Header, contexts: Sequence[str]) -> ModuleTrees:
        if entry.header not in (None, header):
            raise ReplayMismatch("the compiler offers other features than before")
        return entry.trees or ModuleTrees(header.payload_bytes, contexts)

    def _is_full(self, trees: ModuleTrees) -> bool:
        return trees.whole is None and trees.num_bytes >= self._max_functions_bytes

    def _entry(self, module_sha256: str) -> _OpenTree:
        entry = self._loaded.pop(module_sha256, None) or _OpenTree(self.path(module_sha256))
        self._loaded[module_sha256] = entry  # most recently used last
        self._drop_least_recent()
        return entry

    def _drop_least_recent(self) -> None:
        sizes = {name: one.trees.num_bytes if one.trees else 0 for name, one in self._loaded.items()}
        excess = sum(sizes.values()) - self._max_loaded_bytes
        for name in list(sizes)[:-1]:
            if excess <= 0:
                return
            excess -= sizes[name]
            del self._loaded[name]


def _parts(growth: list[Growth]) -> Iterator[list[Growth]]:
    """Cut growth into pieces of a size that is encoded at once."""
    part: list[Growth] = []
    num_bytes = 0
    for one in growth:
        part.append(one)
        num_bytes += one.branch.observations.nbytes
        if num_bytes >= _PART_BYTES:
            yield part
            part, num_bytes = [], 0
    if part:
        yield part


def stores(root: Path) -> list[ReplayStore]:
    """The stores of all keys under ``root`` whose files are of this version."""
    keys = map(_read_key, sorted(root.glob(f"*/{KEY_NAME}")))
    return [ReplayStore(root, key) for key in keys if _is_current(key)]


def _is_current(key: TreeKey) -> bool:
    return (key.records, key.measure) == (RECORDS_VERSION, SIZES_VERSION)


def _read_key(path: Path) -> TreeKey:
    refusal = f"{path} does not describe a key of this version; delete its folder"
    try:
        key = TreeKey(**{"records": _BEFORE_RECORDS, **read_json(path)})
        names = (key.compiler_sha256, key.target, key.task, key.optimization, key.flags)
        numbers = (key.size_stop_factor, key.records)
    except TypeError as error:
        raise ArtifactError(refusal) from error
    are_numbers = all(type(one) in (int, float) and math.isfinite(one) for one in numbers)
    if not are_numbers or not all(isinstance(name, str) for name in names):
        raise ArtifactError(refusal)
    return key


def outdated_folders(root: Path) -> list[Path]:
    """Folders under ``root`` whose trees no run of this version will read: of other files, or measured otherwise."""
    return outdated_keys(root, KEY_NAME, lambda path: _is_current(_read_key(path)))
