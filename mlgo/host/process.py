"""A child process that cannot hang, flood or outlive its parent."""

import contextlib
import ctypes
import errno
import functools
import os
import re
import resource
import secrets
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
from mlgo.errors import CompilerExit, CompilerMemory, ToolchainError

_PR_SET_PDEATHSIG = 1
_ABSOLUTE = re.compile(r"(?<![\w.~/])/(?:[^\s/:;,'\"]+/)+([^\s/:;,'\"]*)")
_NO_MEMORY = ("LLVM ERROR: out of memory", "bad_alloc", "Cannot allocate memory")
_LOCATED = re.compile(r".*:\d+:\d+: ")  # what a compiler says about a source may have such names in it
_READS_AT_ONCE = 16
_TRIAL_TIMEOUT_S = 10.0
_libc = ctypes.CDLL(None, use_errno=True)
_running: set["Child"] = set()
_changing = threading.Lock()

MAX_MEMORY_BYTES = 8 * 10**9
"""What a program may map, and each that it starts, where whoever starts it does not say otherwise."""

_MARK = "MLGO_HOST"
# In /proc: waits for the end of its input, which comes with its host's, and kills all that have a mark of the host.
_WATCH = """trap "" HUP INT TERM; read -r nothing
for pause in 0 0 0.01 0.1 1; do
    sleep "$pause"; found=$(grep -lsF "$1" [0-9]*/environ) || [ "$found" ] || break
    for one in $found; do kill -KILL "${one%/*}"; done
done"""


def die_with_parent(signal_number: int = signal.SIGKILL, *, parent: int | None = None) -> None:
    """Ask the kernel to send the calling process a signal when the thread that started it ends.

    The kernel only knows of later deaths: where ``parent`` is the parent no longer, the signal comes at once.
    """
    _libc.prctl(_PR_SET_PDEATHSIG, signal_number, 0, 0, 0)
    if parent is not None and os.getppid() != parent:
        os.kill(os.getpid(), signal_number)


def run_for_user(command: Sequence[str], environment: Mapping[str, str]) -> int:
    """Run a command that a user has given, with the terminal; return its exit status as a shell has it.

    Ctrl-C reaches it, too; its end is waited for, as what it has done until then is kept. SIGTERM is passed on.
    """
    process = subprocess.Popen(
        command, env=environment, preexec_fn=functools.partial(die_with_parent, signal.SIGTERM, parent=os.getpid())
    )
    while True:
        try:
            status = process.wait()
            return status if status >= 0 else 128 - status
        except KeyboardInterrupt:
            process.send_signal(signal.SIGINT)
        except SystemExit:
            process.terminate()
            process.wait()
            raise


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


class _Watch:
    """A process that outlives this one, however this one ends, to kill what its children have started.

    The kernel's signal at the death of a parent reaches its children alone, and compilers start others. All of them
    inherit a mark in their environment, so nobody has to take notes when a compile starts or ends.
    """

    def __init__(self) -> None:
        self.mark = f"{os.getpid()}-{secrets.token_hex(8)}"
        self._process: subprocess.Popen[bytes] | None = None

    def ensure_running(self) -> None:
        """Start it, unless it runs."""
        if self._process is None or self._process.poll() is not None:
            self._process = subprocess.Popen(
                ["/bin/sh", "-c", _WATCH, "sh", f"{_MARK}={self.mark}"],
                cwd="/proc",
                env={"PATH": os.defpath},
                stdin=subprocess.PIPE,
                stdout=subprocess.DEVNULL,
                stderr=subprocess.DEVNULL,
                start_new_session=True,  # a signal to all of the host's group must not reach it
            )

    def forget(self) -> None:
        """In a forked process, which the watch must not wait for: have another one for its own children."""
        if self._process is not None and self._process.stdin is not None:
            self._process.stdin.close()
            self._process.returncode = 0
        self.__init__()  # type: ignore[misc]


watch = _Watch()
os.register_at_fork(after_in_child=watch.forget)


class Child(Closing):
    """A process in a group of its own, killed with its parent, its memory limited, stderr drained without blocking.

    What it starts has the same limits and dies with it. ``max_memory_bytes`` bounds what each of these processes may
    map; None is no limit. No file that they write may grow beyond ``max_file_bytes`` (SIGXFSZ). A lower limit of this
    process stays. ``stdout`` is a file for what it writes there, which is lost otherwise; of stderr the last
    ``tail_bytes`` are kept. With ``piped``, its stdin and stdout are pipes for the caller to use.

    Attributes:
        pidfd: descriptor that becomes readable when the process ends.
        stderr_fd: non-blocking read end of its stderr.
        stdin: write end of its stdin, unbuffered; None unless piped.
        stdout: read end of its stdout, unbuffered; None unless piped.
        num_matches: how often ``watch_for`` was seen on stderr.
        tail: end of its stderr so far.
        max_memory_bytes: as given, or the lower limit of this process.
    """

    def __init__(
        self,
        command: Sequence[str],
        *,
        cwd: Path | None = None,
        env: Mapping[str, str] | None = None,
        watch_for: bytes = b"",
        max_memory_bytes: int | None = MAX_MEMORY_BYTES,
        stdout: Path | None = None,
        max_file_bytes: int | None = None,
        piped: bool = False,
        tail_bytes: int = 1 << 14,
    ) -> None:
        env = os.environ if env is None else env
        marked = {**env, _MARK: watch.mark} if "PATH" in env else env  # a counted program has an empty environment
        launcher: list[str] = []
        if setpriv := _setpriv():  # does in the child what `die_with_parent` does
            own_parent = ["/bin/sh", "-c", '[ "$PPID" = "$0" ] && exec "$@"', str(os.getpid())]
            launcher = [setpriv, "--pdeathsig", "KILL", *own_parent]
            # It would start whatever the command is, and end with a message of its own.
            program = str(Path(cwd or "", command[0])) if "/" in command[0] else command[0]
            if shutil.which(program, path=env.get("PATH")) is None:
                status = errno.EACCES if Path(program).exists() else errno.ENOENT
                raise ToolchainError(f"cannot start {command[0]}: {os.strerror(status)}")
        with Path(os.devnull if stdout is None else stdout).open("wb") as output:
            try:
                with _changing:
                    watch.ensure_running()
                self._process = subprocess.Popen(
                    [*launcher, *command],
                    cwd=cwd,
                    env=marked,
                    bufsize=0,
                    stdin=subprocess.PIPE if piped else subprocess.DEVNULL,
                    stdout=subprocess.PIPE if piped else output,
                    stderr=subprocess.PIPE,
                    process_group=0,
                    preexec_fn=None if launcher else functools.partial(die_with_parent, parent=os.getpid()),
                )
            except (OSError, ValueError) as error:  # a word that no program can get, such as one with a NUL in it
                reason = getattr(error, "strerror", None) or error
                # Too many words are those of one command; others may go on.
                kind = CompilerExit if getattr(error, "errno", None) == errno.E2BIG else ToolchainError
                raise kind(f"cannot start {command[0]}: {reason}") from error
        assert self._process.stderr is not None
        self.stdin, self.stdout = self._process.stdin, self._process.stdout
        self.stderr_fd = self._process.stderr.fileno()
        try:
            os.set_blocking(self.stderr_fd, False)
            self.max_memory_bytes = self._limit(resource.RLIMIT_AS, max_memory_bytes)
            self._limit(resource.RLIMIT_FSIZE, max_file_bytes)
            self.pidfd = os.pidfd_open(self._process.pid)
        except BaseException:  # out of descriptors
            self._end()
            raise
        self._watch_for = watch_for
        self.tail, self._tail_bytes = b"", tail_bytes
        self.num_matches = 0
        with _changing:
            _running.add(self)

    def _limit(self, kind: int, limit: int | None) -> int | None:
        """Set a limit, or the lower one that this process has, which its children cannot raise; return it."""
        if limit is not None:
            limit = min(one for one in (limit, *resource.getrlimit(kind)) if one != resource.RLIM_INFINITY)
            with contextlib.suppress(ProcessLookupError):  # it has ended already
                resource.prlimit(self._process.pid, kind, (limit, limit))
        return limit

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
                seen = self.tail[max(0, len(self.tail) - len(self._watch_for) + 1) :] + data
                self.num_matches += seen.count(self._watch_for)
            self.tail = (self.tail + data)[-self._tail_bytes :]
        return True

    @property
    def stderr_tail(self) -> str:
        """The tail as text."""
        return self.tail.decode(errors="replace")

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


def check_memory(lines: Sequence[str], limit: int | None) -> None:
    """Raise CompilerMemory where a compiler says on stderr that its memory, limited in bytes, was too little."""
    if limit is not None and any(sign in line for line in lines for sign in _NO_MEMORY if not _LOCATED.match(line)):
        hard = " by ulimit -v" if limit in resource.getrlimit(resource.RLIMIT_AS) else ""
        raise CompilerMemory(f"the compiler needs more than compile.max_memory_gb ({limit / 1e9:g}{hard})")


def without_folders(text: str) -> str:
    """Cut absolute paths in a message down to their last part: folders are those of one machine."""
    return _ABSOLUTE.sub(r"\1", text)
