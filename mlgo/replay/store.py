"""Decision trees on disk, shared by processes and runs.

One file per module and key, only ever appended to. A writer holds a lock on the file, first reads what others have
appended, then adds its own branch; so node numbers mean the same to everybody. A writer killed in the middle leaves a
record cut short, which the next one removes.
"""

import contextlib
import errno
import fcntl
import os
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from pathlib import Path

import numpy as np

from mlgo.compiler.measure import MEASURE_VERSION
from mlgo.compiler.session import CompileResult
from mlgo.errors import ArtifactError, ReplayMismatch
from mlgo.files import content_hash, read_json, write_json
from mlgo.replay.record import FRAME_BYTES, decode_branch, encode_branch, frame, is_cut_short, read_records
from mlgo.replay.tree import Branch, DecisionTree, Leaf
from mlgo.wire.log import Header, parse_header, write_header

_NONCE_BYTES = 16

KEY_NAME = "key.json"
"""File in each key's folder that says what its trees were made with."""


@dataclass(frozen=True)
class TreeKey:
    """Everything but the module that decides a compile.

    Attributes:
        compiler_sha256: hash of the compiler's executable.
        target: target triple.
        task: decision problem.
        optimization: level.
        size_stop_factor: growth at which the compiler stops asking.
        flags: hash of all other options of a compile.
        measure: version of the way in which objects are measured.
    """

    compiler_sha256: str
    target: str
    task: str
    optimization: str
    size_stop_factor: float
    flags: str = ""
    measure: int = MEASURE_VERSION

    @property
    def folder(self) -> str:
        """Name of the folder that holds this key's trees."""
        return content_hash(asdict(self))


@dataclass
class _OpenTree:
    path: Path
    header: Header | None = None
    tree: DecisionTree | None = None
    offset: int = 0
    identity: bytes = b""

    def forget(self) -> None:
        """Start anew: the file is not the one that was read."""
        self.header, self.tree, self.offset = None, None, 0


def leaf_of(result: CompileResult) -> Leaf:
    """What a tree keeps of a finished compile."""
    return Leaf(result.exec_bytes, result.text_bytes, result.dedup_bytes, result.object_sha256, result.truncated)


class ReplayStore:
    """Trees of one key.

    Args:
        root: folder of all keys.
        key: what decides compiles besides the module.
        max_loaded_bytes: memory for loaded trees; the least recently used are dropped beyond it.
    """

    def __init__(self, root: Path, key: TreeKey, max_loaded_bytes: int = 1 << 30) -> None:
        self.key = key
        self._folder = root / key.folder
        self._key_path = self._folder / KEY_NAME
        self._max_loaded_bytes = max_loaded_bytes
        self._loaded: dict[str, _OpenTree] = {}

    def modules(self) -> list[str]:
        """Hashes of the modules with a tree."""
        return sorted(path.stem for path in self._folder.glob("*.tree"))

    def file_bytes(self, module_sha256: str) -> int:
        """Size of a module's tree on disk."""
        return (self._folder / f"{module_sha256}.tree").stat().st_size

    def load(self, module_sha256: str) -> tuple[Header, DecisionTree] | None:
        """The tree of a module with all that is on disk; None when nothing is known.

        Raises:
            ArtifactError: the file is damaged.
        """
        entry = self._entry(module_sha256)
        try:
            with entry.path.open("rb") as file:
                if self._catch_up(entry, file.fileno()):
                    os.utime(entry.path)  # recently used
        except FileNotFoundError:
            return None
        if entry.header is None or entry.tree is None:
            return None
        return entry.header, entry.tree

    def insert(self, module_sha256: str, result: CompileResult, num_known: int = 0) -> None:
        """Add a finished compile, recorded with its observations.

        Args:
            module_sha256: hash of the module's bitcode.
            result: a recorded compile.
            num_known: first questions that were answered in advance; their observations are not in the result.

        Raises:
            ReplayMismatch: it contradicts an earlier compile.
            ArtifactError: the file is damaged or cannot be written.
        """
        header = result.header
        assert header is not None
        assert header.advice is not None
        answers = np.frombuffer(result.answers, header.advice.dtype).astype(np.int64)
        observations = np.frombuffer(result.observations, np.uint8).reshape(-1, header.payload_bytes)
        leaf = leaf_of(result)
        entry = self._entry(module_sha256)
        if not self._key_path.exists():
            write_json(self._key_path, asdict(self.key))
        try:
            with _locked(entry.path) as descriptor:
                self._catch_up(entry, descriptor)
                self._append(entry, descriptor, header, observations, answers, leaf, num_known)
        except ReplayMismatch as error:
            raise ReplayMismatch(f"module {module_sha256[:16]}: {error}") from error
        except OSError as error:
            raise ArtifactError(f"cannot write {entry.path}: {error.strerror or error}") from error

    def _append(
        self,
        entry: _OpenTree,
        descriptor: int,
        header: Header,
        observations: np.ndarray,
        answers: np.ndarray,
        leaf: Leaf,
        num_known: int,
    ) -> None:
        tree = entry.tree or DecisionTree(header.payload_bytes)
        if entry.header not in (None, header):
            raise ReplayMismatch("the compiler offers other features than before")
        branch: Branch | None = tree.branch_of(observations, answers, leaf, num_known)
        if branch is None:
            return
        data = frame(encode_branch(branch))
        if entry.tree is None:
            # A tree that is pruned and made anew must not be taken for the old one, whatever inode it gets.
            data = frame(os.urandom(_NONCE_BYTES) + write_header(header)) + data
        os.ftruncate(descriptor, entry.offset)  # what a killed writer left unfinished
        if os.pwrite(descriptor, data, entry.offset) != len(data):
            os.ftruncate(descriptor, entry.offset)
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        entry.header, entry.tree = header, tree
        entry.identity = os.pread(descriptor, FRAME_BYTES + _NONCE_BYTES, 0)
        entry.offset += len(data)
        tree.add(branch)

    def _catch_up(self, entry: _OpenTree, descriptor: int) -> bool:
        """Read what has been appended since the last look; tell whether there was anything."""
        status = os.fstat(descriptor)
        identity = os.pread(descriptor, FRAME_BYTES + _NONCE_BYTES, 0)
        if entry.identity != identity or status.st_size < entry.offset:  # new, or pruned in the meantime
            entry.forget()
        entry.identity = identity
        data = os.pread(descriptor, status.st_size - entry.offset, entry.offset)
        read = 0
        for record in read_records(data):
            if entry.tree is None:
                entry.header = parse_header(record.payload[_NONCE_BYTES:])
                entry.tree = DecisionTree(entry.header.payload_bytes)
            else:
                entry.tree.add(decode_branch(record.payload, entry.tree.payload_bytes))
            read = record.end
        entry.offset += read
        if read < len(data) and not is_cut_short(data, read):
            raise ArtifactError(f"{entry.path} is damaged at byte {entry.offset}; delete it, it will be made anew")
        return read > 0

    def _entry(self, module_sha256: str) -> _OpenTree:
        entry = self._loaded.pop(module_sha256, None) or _OpenTree(self._folder / f"{module_sha256}.tree")
        self._loaded[module_sha256] = entry  # most recently used last
        self._drop_least_recent()
        return entry

    def _drop_least_recent(self) -> None:
        sizes = {name: one.tree.num_bytes if one.tree else 0 for name, one in self._loaded.items()}
        excess = sum(sizes.values()) - self._max_loaded_bytes
        for name in list(sizes)[:-1]:
            if excess <= 0:
                return
            excess -= sizes[name]
            del self._loaded[name]


@contextmanager
def _locked(path: Path) -> Iterator[int]:
    path.parent.mkdir(parents=True, exist_ok=True)
    while True:
        descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o644)
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX)
            if _is_still(path, descriptor):
                yield descriptor
                return
        finally:
            os.close(descriptor)


def _is_still(path: Path, descriptor: int) -> bool:
    """Whether the open file still bears this name; it may have been pruned while we waited for its lock."""
    try:
        return path.stat().st_ino == os.fstat(descriptor).st_ino
    except FileNotFoundError:
        return False


def stores(root: Path) -> list[ReplayStore]:
    """The stores of all keys under ``root``.

    Raises:
        ArtifactError: a folder's key file is damaged.
    """
    found = []
    for path in sorted(root.glob(f"*/{KEY_NAME}")):
        try:
            found.append(ReplayStore(root, TreeKey(**read_json(path))))
        except TypeError as error:
            raise ArtifactError(f"{path} does not describe a key of this version; delete its folder") from error
    return found


def tree_files(root: Path) -> list[Path]:
    """All trees of all keys, least recently used first."""
    found = []
    for path in root.glob("*/*.tree"):
        with contextlib.suppress(FileNotFoundError):  # pruned by another process
            found.append((path.stat().st_mtime_ns, path.name, path))
    return [path for _, _, path in sorted(found)]


def prune(root: Path, max_bytes: int) -> list[Path]:
    """Delete the least recently used trees until the rest is at most ``max_bytes``; return what was deleted."""
    sizes = {path: path.stat().st_size for path in tree_files(root) if path.exists()}
    excess = sum(sizes.values()) - max_bytes
    deleted = []
    for path, size in sizes.items():
        if excess <= 0:
            break
        with _locked(path):  # no writer is in the middle of it
            path.unlink(missing_ok=True)
        excess -= size
        deleted.append(path)
    return deleted
