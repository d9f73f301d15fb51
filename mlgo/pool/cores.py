"""One core for each worker and its compiler.

Host and compiler alternate, they never run at once, so a pair is fastest on one core (no wake-up across cores).
Workers of all runs on a machine share its cores through lock files: a core belongs to whoever holds its lock, and
the kernel releases a dead worker's.
"""

import fcntl
import functools
import logging
import os

from mlgo.base.scratch import lock_folder

_held: list[int] = []
_log = logging.getLogger(__name__)


def usable_cores() -> int:
    """Cores that this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


@functools.cache
def warn_without_affinity() -> None:
    """Say, once per process, that workers cannot be bound to cores here."""
    if not _can_bind():
        _log.warning("this system does not let processes choose their core; compiles under advice take longer")


def claim_core() -> int | None:
    """Bind the calling process to a core that no other worker has claimed; None where that is not possible."""
    core = reserve_core()
    if core is not None:
        os.sched_setaffinity(0, {core})
    return core


def reserve_core() -> int | None:
    """Claim a core, for a process that this one starts; None when all are taken or the system does not allow it."""
    folder = lock_folder("mlgo-cores") if _can_bind() else None
    if folder is None:
        return None
    for core in sorted(os.sched_getaffinity(0)):
        lock = os.open(folder / str(core), os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600)
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:  # taken
            os.close(lock)
            continue
        _held.append(lock)
        return core
    return None


def _can_bind() -> bool:
    try:
        os.sched_setaffinity(0, os.sched_getaffinity(0))
    except (AttributeError, OSError):
        return False
    return True
