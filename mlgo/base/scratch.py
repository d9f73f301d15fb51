"""Temporary folders, and the folder that working copies share.

Temporary folders do not outlive their process, even one killed by SIGKILL. Each process owns
``$TMPDIR/mlgo-<uid>/<pid>-<random>/`` and holds a lock on a file in it. A clean exit removes the folder; the next
process that starts recognises folders of dead processes by their free lock and removes them.

``mlgo-<uid>`` must be this user's alone, or a fresh folder takes its place: whoever else may write to TMPDIR could have
made it, or a link to a folder of documents. ``XDG_RUNTIME_DIR`` is for lock files: it is small, in memory, and goes
when the user logs out.

Working copies may share response trees, downloads, bitcode, caches and checkpoints. All of it is named by content and
safe for processes that write at the same time. Logs, times and TensorBoard's files are named by policy; they stay with
their working copy.
"""

import atexit
import fcntl
import logging
import os
import re
import shutil
import stat
import tempfile
import time
from abc import ABC, abstractmethod
from collections.abc import Collection, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any, Self

from mlgo.base.files import locked
from mlgo.errors import ConfigError

_LOCK_NAME = "owner.lock"
_NAME = re.compile(r"\d+-\w{8}|ray-[0-9a-f]{12}")
"""Of a process's folder, and of one that workers on Ray share."""
_CHILD_EXECS_WITHIN_S = 1.0
"""A process killed while it starts another: the new one holds the lock until it has become its program."""
_owned: dict[int, tuple[Path, int]] = {}
_shared: dict[str, int] = {}
_instead: dict[Path, Path] = {}
_log = logging.getLogger(__name__)


@contextmanager
def scratch_directory() -> Iterator[Path]:
    """Yield a fresh empty directory and remove it with all content afterwards."""
    directory = Path(tempfile.mkdtemp(dir=_process_root()))
    try:
        yield directory
    finally:
        shutil.rmtree(directory, ignore_errors=True)


def sweep_abandoned(dead: Collection[int] = ()) -> int:
    """Remove folders whose owners are dead; return how many.

    Args:
        dead: process ids that are known to be dead; their folders are waited for, a second at most.
    """
    parent, removed, deadline = _parent(), 0, 0.0
    opened = os.open(parent, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC)
    try:  # what is removed is beneath this folder, whatever bears its name meanwhile
        while _is_private(os.fstat(opened)):
            with locked(parent / _LOCK_NAME):
                with os.scandir(opened) as entries:
                    ours = [
                        one.name for one in entries if _NAME.fullmatch(one.name) and one.is_dir(follow_symlinks=False)
                    ]
                abandoned = [name for name in ours if _is_abandoned(name, opened)]
                for name in abandoned:
                    shutil.rmtree(name, ignore_errors=True, dir_fd=opened)
            removed += len(abandoned)
            deadline = deadline or time.monotonic() + _CHILD_EXECS_WITHIN_S
            if time.monotonic() > deadline or not any(list(parent.glob(f"{pid}-*")) for pid in dead):
                break
            time.sleep(0.01)
        return removed
    finally:
        os.close(opened)


def _is_abandoned(name: str, parent: int) -> bool:
    """Whether no process holds a folder's lock; none takes it meanwhile, as that needs the lock of the parent."""
    try:
        lock = os.open(f"{name}/{_LOCK_NAME}", os.O_RDWR | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC, dir_fd=parent)
    except FileNotFoundError:  # its owner died before locking or while removing it
        return True
    except OSError:  # gone, or not to be had
        return False
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    finally:
        os.close(lock)
    return True


def remove_own_scratch() -> None:
    """Remove the calling process's folder now; `atexit` does it where it runs at all."""
    root, lock = _owned.pop(os.getpid(), (None, -1))
    if root is not None:
        shutil.rmtree(root, ignore_errors=True)
        os.close(lock)
        if root.parent.name.startswith(f"mlgo-{os.getpid()}-"):  # one that took the place of the common folder
            shutil.rmtree(root.parent, ignore_errors=True)
            _instead.clear()


def shared_scratch(name: str) -> Path:
    """A folder that several processes of this machine share; it goes with the last of them."""
    with locked(_parent() / _LOCK_NAME):
        folder = _parent() / name
        folder.mkdir(exist_ok=True)
        if name not in _shared:
            lock = os.open(folder / _LOCK_NAME, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
            fcntl.flock(lock, fcntl.LOCK_SH)
            _shared[name] = lock
            atexit.register(leave_shared_scratch, name)
    return folder


def leave_shared_scratch(name: str) -> None:
    """Give up a shared folder, and remove it when nobody else has it."""
    if name in _shared:
        os.close(_shared.pop(name))
        sweep_abandoned()


def _process_root() -> Path:
    pid = os.getpid()
    if pid not in _owned:
        sweep_abandoned()
        with locked(_parent() / _LOCK_NAME):  # nobody sweeps between the making of the folder and its lock
            if pid not in _owned:  # another thread may have made it meanwhile
                root = Path(tempfile.mkdtemp(prefix=f"{pid}-", dir=_parent()))
                lock = os.open(root / _LOCK_NAME, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
                fcntl.flock(lock, fcntl.LOCK_EX)
                _owned[pid] = (root, lock)
        atexit.register(remove_own_scratch)
    return _owned[pid][0]


def _parent() -> Path:
    parent = Path(tempfile.gettempdir()) / f"mlgo-{os.getuid()}"
    if "\n" in str(parent):  # compilers list files one a line
        raise ConfigError(f"{parent.parent} has a line end in its name; set TMPDIR to another folder")
    if parent not in _instead and not make_private(parent):
        _instead[parent] = Path(tempfile.mkdtemp(prefix=f"mlgo-{os.getpid()}-"))
        _log.warning("%s is a link, of another user or open to others; using %s instead", parent, _instead[parent])
    return _instead.get(parent, parent)


def make_private(folder: Path) -> bool:
    """Make a folder if there is none; whether it is this user's, closed to all others, and no link."""
    with suppress(FileExistsError):
        folder.mkdir(mode=0o700)
    return _is_private(folder.lstat())


def _is_private(status: os.stat_result) -> bool:
    return stat.S_ISDIR(status.st_mode) and status.st_uid == os.geteuid() and not status.st_mode & 0o077


def lock_folder(name: str) -> Path | None:
    """A folder for lock files of this user's processes on this machine; None where no private one can be had."""
    for where in filter(None, (os.environ.get("XDG_RUNTIME_DIR"), tempfile.gettempdir())):
        folder = Path(where, f"{name}-{os.getuid()}")
        with suppress(OSError):
            if make_private(folder):
                return folder
    return None


SHARED = "MLGO_SHARED"
"""Environment variable that names the folder."""

_EXPERIMENTS = (".dvc", "tmp", "exps")
_WORK = Path("data", "work")
_IN_WORKING_COPIES = ("config/corpora", "mlgo.yaml")


def shared_folder(work: Path = _WORK) -> Path:
    """Folder of what working copies share.

    That is the one `SHARED` names; in a copy that DVC has made for an experiment, and deletes after it, ``data/work``
    of the working copy that it was made from; in a folder that is no working copy, one of the user's; else ``work``.

    Args:
        work: the working copy's own folder for what is neither in Git nor in DVC.
    """
    named = os.environ.get(SHARED)
    if named:
        return Path(named)
    if origin := experiment_origin(Path.cwd()):
        return origin / _WORK
    if work != _WORK or any(Path(one).exists() for one in (work, *_IN_WORKING_COPIES)):
        return work
    return Path(os.environ.get("XDG_CACHE_HOME") or os.path.expanduser("~/.cache"), "mlgo/work")  # noqa: PTH111


def experiment_origin(folder: Path) -> Path | None:
    """The working copy that DVC made an experiment's copy from; None for a folder that is no such copy."""
    parts = folder.resolve().parts
    for end in range(len(parts) - 1, len(_EXPERIMENTS), -1):  # the innermost
        if parts[end - len(_EXPERIMENTS) : end] == _EXPERIMENTS:
            return Path(*parts[: end - len(_EXPERIMENTS)])
    return None


class Closing(ABC):
    """A context manager: leaving it closes it."""

    @abstractmethod
    def close(self) -> Any:
        """Let go of everything. Safe to call again."""

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *error: object) -> None:
        self.close()
