"""A child process that cannot hang, flood or outlive its parent."""

import contextlib
import ctypes
import errno
import functools
import os
import re
import resource
import select
import shutil
import signal
import subprocess
import threading
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

from mlgo.base.scratch import Closing
from mlgo.errors import ToolchainError

_PR_SET_PDEATHSIG = 1
_ABSOLUTE = re.compile(r"(?<![\w.~/])/(?:[^\s/:;,'\"]+/)+([^\s/:;,'\"]*)")
_TAIL_BYTES = 1 << 14
_READS_AT_ONCE = 16
_TRIAL_TIMEOUT_S = 10.0
_libc = ctypes.CDLL(None, use_errno=True)
_running: set["Child"] = set()
_changing = threading.Lock()


def die_with_parent(signal_number: int = signal.SIGKILL, *, parent: int | None = None) -> None:
    """Ask the kernel to send the calling process a signal when the thread that started it ends.

    The kernel only knows of later deaths: where ``parent`` is the parent no longer, the signal comes at once.
    """
    _libc.prctl(_PR_SET_PDEATHSIG, signal_number, 0, 0, 0)
    if parent is not None and os.getppid() != parent:
        os.kill(os.getpid(), signal_number)


@functools.cache
def _setpriv() -> str | None:
    """Program of util-linux that asks the kernel for a signal; None where it is missing, or from before 2018."""
    command = shutil.which("setpriv")
    if command is not None:
        trial = [command, "--pdeathsig", "KILL", "/bin/sh", "-c", ":"]
        with contextlib.suppress(OSError, subprocess.SubprocessError):
            subprocess.run(trial, capture_output=True, check=True, timeout=_TRIAL_TIMEOUT_S)
            return command
    return None


class Completed(NamedTuple):
    """End of a bounded run: exit status, negative for a signal, None at the deadline; last few kilobytes of stderr."""

    returncode: int | None
    stderr: str


class Child(Closing):
    """A process in a group of its own, killed with its parent, its memory limited, stderr drained without blocking.

    ``stdout`` is a file for what it writes there, which is lost otherwise; no file that it writes may grow beyond
    ``max_file_bytes`` (SIGXFSZ). With ``piped``, its stdin and stdout are pipes for the caller to use.

    Attributes:
        pidfd: descriptor that becomes readable when the process ends.
        stderr_fd: non-blocking read end of its stderr.
        stdin: write end of its stdin, unbuffered; None unless piped.
        stdout: read end of its stdout, unbuffered; None unless piped.
        num_matches: how often ``watch_for`` was seen on stderr.
    """

    def __init__(
        self,
        command: Sequence[str],
        *,
        cwd: Path | None = None,
        env: Mapping[str, str] | None = None,
        watch_for: bytes = b"",
        max_memory_bytes: int | None = None,
        stdout: Path | None = None,
        max_file_bytes: int | None = None,
        piped: bool = False,
    ) -> None:
        launcher: list[str] = []
        if setpriv := _setpriv():  # does in the child what `die_with_parent` does
            own_parent = ["/bin/sh", "-c", '[ "$PPID" = "$0" ] && exec "$@"', str(os.getpid())]
            launcher = [setpriv, "--pdeathsig", "KILL", *own_parent]
            # It would start whatever the command is, and end with a message of its own.
            program = str(Path(cwd or "", command[0])) if "/" in command[0] else command[0]
            if shutil.which(program, path=(env or os.environ).get("PATH")) is None:
                reason = errno.EACCES if Path(program).exists() else errno.ENOENT
                raise ToolchainError(f"cannot start {command[0]}: {os.strerror(reason)}")
        with Path(os.devnull if stdout is None else stdout).open("wb") as output:
            try:
                self._process = subprocess.Popen(
                    [*launcher, *command],
                    cwd=cwd,
                    env=env,
                    bufsize=0,
                    stdin=subprocess.PIPE if piped else subprocess.DEVNULL,
                    stdout=subprocess.PIPE if piped else output,
                    stderr=subprocess.PIPE,
                    process_group=0,
                    preexec_fn=None if launcher else functools.partial(die_with_parent, parent=os.getpid()),
                )
            except OSError as error:
                raise ToolchainError(f"cannot start {command[0]}: {error.strerror}") from error
        assert self._process.stderr is not None
        self.stdin, self.stdout = self._process.stdin, self._process.stdout
        self.stderr_fd = self._process.stderr.fileno()
        try:
            os.set_blocking(self.stderr_fd, False)
            for kind, limit in ((resource.RLIMIT_AS, max_memory_bytes), (resource.RLIMIT_FSIZE, max_file_bytes)):
                if limit is not None:
                    with contextlib.suppress(ProcessLookupError):  # it has ended already
                        resource.prlimit(self._process.pid, kind, (limit, limit))
            self.pidfd = os.pidfd_open(self._process.pid)
        except BaseException:  # out of descriptors
            self._end()
            raise
        self._watch_for = watch_for
        self._tail = b""
        self.num_matches = 0
        with _changing:
            _running.add(self)

    def drain_stderr(self) -> bool:
        """Read a bounded part of what is on stderr now, keep its tail; return False once it is at its end."""
        for _ in range(_READS_AT_ONCE):
            try:
                data = os.read(self.stderr_fd, 1 << 16)
            except BlockingIOError:
                return True
            if not data:
                return False
            if self._watch_for:
                # The last bytes seen before may hold the first half of a match, never a whole one.
                seen = self._tail[max(0, len(self._tail) - len(self._watch_for) + 1) :] + data
                self.num_matches += seen.count(self._watch_for)
            self._tail = (self._tail + data)[-_TAIL_BYTES:]
        return True

    @property
    def stderr_tail(self) -> str:
        """Last few kilobytes of stderr."""
        return self._tail.decode(errors="replace")

    def wait(self, deadline: float) -> int | None:
        """Wait until the process ends or ``time.monotonic()`` passes the deadline.

        Returns:
            Its return code (negative: the signal that ended it), or None when time ran out.
        """
        poller = select.poll()
        poller.register(self.stderr_fd, select.POLLIN)
        poller.register(self.pidfd, select.POLLIN)
        while (left := deadline - time.monotonic()) > 0:
            ready = dict(poller.poll(left * 1000))
            if self.stderr_fd in ready and not self.drain_stderr():
                poller.unregister(self.stderr_fd)
            if self.pidfd in ready:
                return self.reap()
        return None

    def finish(self, timeout_s: float) -> Completed:
        """Wait until the process ends, for so many seconds at most, and leave nothing of it running."""
        with self:
            returncode = self.wait(time.monotonic() + timeout_s)
        return Completed(returncode, self.stderr_tail)

    def reap(self) -> int:
        """Collect the return code of a process that has ended, and kill what it left running."""
        self.drain_stderr()
        self._signal_group(signal.SIGKILL)  # before the wait: until then the number of the group cannot be another's
        return self._process.wait()

    def terminate(self) -> None:
        """Ask the whole group to end (SIGTERM)."""
        self._signal_group(signal.SIGTERM)

    def close(self) -> None:
        """Kill the whole group if anything of it is left, and release all descriptors."""
        self._end()
        with _changing:
            _running.discard(self)
            os.close(self.pidfd)

    def _end(self) -> None:
        if self._process.returncode is None:
            self._signal_group(signal.SIGKILL)
            self._process.wait()
        for pipe in (self._process.stdin, self._process.stdout, self._process.stderr):
            if pipe is not None:
                pipe.close()

    def _signal_group(self, number: int) -> None:
        with contextlib.suppress(ProcessLookupError):
            os.killpg(self._process.pid, number)


def kill_children() -> None:
    """Kill every `Child` of this process that runs; whoever waits for it sees its end. May be called on any thread."""
    with _changing:
        for child in _running:
            with contextlib.suppress(ProcessLookupError):
                signal.pidfd_send_signal(child.pidfd, signal.SIGKILL)


def without_folders(text: str) -> str:
    """Cut absolute paths in a message down to their last part: folders are those of one machine."""
    return _ABSOLUTE.sub(r"\1", text)
