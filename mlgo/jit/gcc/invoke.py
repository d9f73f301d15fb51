"""One run of a GCC driver: bounded, in an environment of its own, its failures told apart."""

import errno
import os
from collections.abc import Sequence
from pathlib import Path

from mlgo.errors import CompilerExit, CompilerMemory, CompileTimeout, ToolchainError
from mlgo.host.process import run_bounded, without_folders

# The driver starts the compiler proper at once, which may be before a limit set from outside is in force.
_LIMITED = 'ulimit -v "$1" && shift && exec "$@"'
_NOT_STARTED = (126, 127)
_KEPT = ("PATH", "LD_LIBRARY_PATH", "HOME")
_NO_MEMORY = ("virtual memory exhausted", "out of memory", "Cannot allocate memory", "bad_alloc")


def run_gcc(
    command: Sequence[str],
    directory: Path,
    timeout_s: float,
    *,
    cwd: Path | None = None,
    max_memory_bytes: int | None = None,
    stdout: Path | None = None,
) -> str:
    """Run a driver to its end.

    Args:
        command: the driver and its arguments.
        directory: scratch folder for its temporary files, which a killed driver would leave behind.
        timeout_s: deadline.
        cwd: folder to run in; ``directory`` by default.
        max_memory_bytes: limit of the address space of each process.
        stdout: file for what it prints.

    Returns:
        Last few kilobytes of stderr.

    Raises:
        CompilerExit: it ended with a non-zero status or by a signal; the message holds its first errors.
        CompilerMemory: it needed more memory.
        CompileTimeout: it did not end in time.
        ToolchainError: it cannot be started.
    """
    limited = [] if max_memory_bytes is None else ["/bin/sh", "-c", _LIMITED, "sh", str(max_memory_bytes // 1024)]
    env = _environment(directory)
    run = run_bounded([*limited, *command], timeout_s, cwd=cwd or directory, env=env, stdout=stdout)
    if run.returncode is None:
        raise CompileTimeout(f"no end within {timeout_s:g} s")
    if run.returncode == 0:
        return run.stderr
    if limited and run.returncode in _NOT_STARTED:
        raise ToolchainError(f"cannot start {command[0]}; was it removed?")
    if "No space left on device" in run.stderr:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
    if any(sign in run.stderr for sign in _NO_MEMORY):
        limit = "" if max_memory_bytes is None else f" than {max_memory_bytes} bytes"
        raise CompilerMemory(f"the compiler needs more memory{limit}")
    how = f"signal {-run.returncode}" if run.returncode < 0 else f"status {run.returncode}"
    lines = [line for line in run.stderr.splitlines() if not line.startswith("***dbgcnt")]
    errors = [line for line in lines if "error:" in line] or lines[-3:]
    raise CompilerExit(without_folders(f"the compiler ended with {how}: {' | '.join(errors[:3])[:500]}"))


def _environment(directory: Path) -> dict[str, str]:
    """Nothing that changes what GCC compiles (CPATH, GCC_EXEC_PREFIX, the user's language), a fixed date."""
    kept = {name: os.environ[name] for name in _KEPT if name in os.environ}
    return {**kept, "LC_ALL": "C", "SOURCE_DATE_EPOCH": "0", "TMPDIR": str(directory)}
