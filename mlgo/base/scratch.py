"""Temporary folders that do not outlive their process, even one killed by SIGKILL.

Each process owns ``$TMPDIR/mlgo-<uid>/<pid>-<random>/`` and holds a lock on a file in it. A clean exit removes the
folder; folders of dead processes are recognised by their free lock and removed by the next process that starts.
"""

import atexit
import fcntl
import os
import shutil
import tempfile
import time
from collections.abc import Collection, Iterator
from contextlib import contextmanager
from pathlib import Path

_LOCK_NAME = "owner.lock"
_CHILD_EXECS_WITHIN_S = 1.0
"""A process killed while it starts another: the new one holds the lock until it has become its program."""
_owned: dict[int, tuple[Path, int]] = {}
_shared: dict[str, int] = {}


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
    with _setting_up():
        removed = _sweep()
    deadline = time.monotonic() + _CHILD_EXECS_WITHIN_S
    while any(list(_parent().glob(f"{pid}-*")) for pid in dead) and time.monotonic() < deadline:
        time.sleep(0.01)
        with _setting_up():
            removed += _sweep()
    return removed


def _sweep() -> int:
    removed = 0
    for folder in _parent().iterdir():
        if not folder.is_dir():
            continue
        try:
            lock = os.open(folder / _LOCK_NAME, os.O_RDWR | os.O_CLOEXEC)
        except FileNotFoundError:  # its owner died before locking or while removing it
            shutil.rmtree(folder, ignore_errors=True)
            removed += 1
            continue
        except OSError:
            continue  # being set up right now, or gone
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            shutil.rmtree(folder, ignore_errors=True)
            removed += 1
        except BlockingIOError:
            pass
        finally:
            os.close(lock)
    return removed


def remove_own_scratch() -> None:
    """Remove the calling process's folder now; `atexit` does it where it runs at all."""
    root, lock = _owned.pop(os.getpid(), (None, -1))
    if root is not None:
        shutil.rmtree(root, ignore_errors=True)
        os.close(lock)


def shared_scratch(name: str) -> Path:
    """A folder that several processes of this machine share; it goes with the last of them."""
    with _setting_up():
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
        parent = _parent()
        sweep_abandoned()
        with _setting_up():  # nobody sweeps between the making of the folder and its lock
            root = Path(tempfile.mkdtemp(prefix=f"{pid}-", dir=parent))
            lock = os.open(root / _LOCK_NAME, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
            fcntl.flock(lock, fcntl.LOCK_EX)
            _owned[pid] = (root, lock)
        atexit.register(remove_own_scratch)
    return _owned[pid][0]


@contextmanager
def _setting_up() -> Iterator[None]:
    """Hold the one lock under which folders are made and swept."""
    lock = os.open(_parent() / _LOCK_NAME, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    try:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield
    finally:
        os.close(lock)


def _parent() -> Path:
    parent = Path(tempfile.gettempdir()) / f"mlgo-{os.getuid()}"
    parent.mkdir(mode=0o700, exist_ok=True)
    return parent
