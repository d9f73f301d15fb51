"""A child process that is written to and read from line by line, and always ends."""

import contextlib
import os
import re
import select
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from numbers import Integral
from pathlib import Path

from mlgo.errors import MetricsError, SuperPmiError, ToolchainError
from mlgo.host.process import Child

METRICS, HOOK = "JitMetrics", "JitRLHook"
DECISIONS, FEATURE_NAMES = "JitRLHookCSEDecisions", "JitRLHookEmitFeatureNames"
RESERVED = frozenset({METRICS, HOOK, DECISIONS, FEATURE_NAMES})
"""Options that requests set themselves (src/coreclr/jit/jitconfigvalues.h)."""

LIMITS = {"request_timeout_s", "startup_timeout_s", "max_restarts"}
"""Attributes of a `SuperPmi` that have the same names in the configuration."""

_MAX_INDEX = (1 << 31) - 1
_MAX_REQUEST_BYTES = 2046
"""With its line feed and the final zero it fits SuperPMI's buffer of 2,048 bytes."""
_KEY = re.compile(r"[A-Za-z0-9_]{1,1023}")
_VALUE = re.compile(r"[ -~]*")


def check_option(key: str, value: str) -> None:
    """Refuse an option of the JIT that cannot be written on the command line or in a request."""
    if not _KEY.fullmatch(key):
        raise SuperPmiError(f"JIT option {key[:80]!r}: a name has 1 to 1023 letters, digits or underscores")
    if not _VALUE.fullmatch(value) or "!" in value or "#" in value:
        raise SuperPmiError(f"JIT option {key}={value[:80]!r}: a value is printable ASCII without '!' and '#'")


def request(index: int, decisions: Sequence[int] | None, *, feature_names: bool = False) -> str:
    """The line, without its end, that asks for a compile of a method, with no options of earlier requests.

    Args:
        index: number of the method in the collection, from 1.
        decisions: positions of candidates, from 0, in the order in which they shall be performed; empty for none, None
            for the JIT's own heuristic, which tells no features.
        feature_names: whether the reply shall name the features.
    """
    if not _is_number(index) or not 1 <= index <= _MAX_INDEX:
        raise SuperPmiError(f"method index {index!r}: the first method of a collection is 1")
    options = [f"{METRICS}=1"]
    if decisions is not None:
        for decision in decisions:
            if not _is_number(decision) or decision < 0:
                raise SuperPmiError(f"decision {decision!r} for method {index}: candidates are numbered from 0")
        options += [f"{HOOK}=1"] + [f"{FEATURE_NAMES}=1"] * feature_names
        options += [f"{DECISIONS}={','.join(map(str, decisions))}"] * (len(decisions) > 0)
    line = "!".join([str(index), *options])
    if len(line) > _MAX_REQUEST_BYTES:
        raise SuperPmiError(
            f"a request of {len(line)} bytes for method {index}; SuperPMI takes {_MAX_REQUEST_BYTES}: give fewer "
            "decisions"
        )
    return line


def _is_number(value: object) -> bool:
    return isinstance(value, Integral) and not isinstance(value, bool)


JIT_SUFFIXES = (".so", ".dll", ".dylib")
COLLECTION_SUFFIXES = (".mc", ".mch", ".mct")
_MAX_LINE_BYTES = 1 << 20
_GRACE_S = 2.0
_LONGEST_POLL_S = 1000.0
_OPTION_PREFIXES = ("DOTNET_", "COMPlus_")


@dataclass(frozen=True)
class SuperPmi:
    """A SuperPMI with the JIT and the collection that it works on, and what is done when it does not answer."""

    command: Sequence[str]  # program, with whatever must stand before its own arguments
    jit: Path  # a Checked build of the JIT
    collection: Path  # recorded methods, `.mch`; with its table of contents (`.mct`) beside it, access is fast
    # Further options of the JIT, names without prefix; integers are read to base 16.
    jit_options: Mapping[str, str] = field(default_factory=dict)
    request_timeout_s: float = 60.0  # deadline of a reply
    startup_timeout_s: float = 300.0  # of the first reply of a process, which must load the JIT and open the collection
    max_restarts: int = 3  # how often a request is sent again after its process had to be replaced

    def __post_init__(self) -> None:
        files = ((self.jit, "JIT", JIT_SUFFIXES), (self.collection, "collection", COLLECTION_SUFFIXES))
        for path, what, suffixes in files:
            if path.suffix not in suffixes:
                raise SuperPmiError(f"{what} {path}: SuperPMI takes a file with suffix {', '.join(suffixes)}")
            if not path.is_file():
                raise SuperPmiError(f"{what} {path} is missing")
        for key, value in self.jit_options.items():
            check_option(key, value)
            if key in RESERVED:
                raise SuperPmiError(f"JIT option {key} is set by each request; leave it out of jit_options")

    def start(self, *arguments: str, options: Sequence[str] = ()) -> "LineProcess":
        """Start a process."""
        command = [*self.command, str(self.jit), str(self.collection), "-v", "q"]  # metrics alone are printed
        for option in (*(f"{key}={value}" for key, value in self.jit_options.items()), *options):
            command += ["-jitoption", "force", option]
        return LineProcess([*command, *arguments])


class LineProcess:
    """A child of this process, in a group of its own; killed when the thread that started it ends.

    One thread may use it. Between calls nothing is read: a child that writes much then waits, and loses nothing.

    Attributes:
        returncode: exit status, negative for a signal; None until the process was stopped or found at its end.
    """

    def __init__(self, command: Sequence[str]) -> None:
        self.returncode: int | None = None
        # The JIT takes no options from the environment, so that results do not depend on it.
        environment = {key: value for key, value in os.environ.items() if not key.startswith(_OPTION_PREFIXES)}
        try:
            self._child = Child(command, env=environment, piped=True)
        except ToolchainError as error:
            raise SuperPmiError(f"{error}; is it the superpmi of a core_root folder?") from error
        assert self._child.stdin is not None
        assert self._child.stdout is not None
        self._stdin, self._stdout_fd = self._child.stdin, self._child.stdout.fileno()
        os.set_blocking(self._stdout_fd, False)
        os.set_blocking(self._stdin.fileno(), False)
        self._owner = os.getpid()
        self._buffer, self._searched, self._at_end = bytearray(), 0, False
        self._poller = select.poll()
        for descriptor in (self._stdout_fd, self._child.stderr_fd, self._child.pidfd):
            self._poller.register(descriptor, select.POLLIN)

    @property
    def has_ended(self) -> bool:
        """Whether it runs no longer; no waiting."""
        return self.returncode is not None or self._child.pidfd in dict(self._poller.poll(0))

    @property
    def stderr_tail(self) -> str:
        """Last few kilobytes of stderr."""
        return self._child.stderr_tail

    def send(self, line: str) -> None:
        """Write a line of ASCII, shorter than what a pipe holds; if the process has ended, the next reader sees it."""
        with contextlib.suppress(BrokenPipeError, BlockingIOError, ValueError):
            self._stdin.write(line.encode("ascii") + b"\n")

    def read_line(self, deadline: float) -> str | None:
        """A whole line without its end (LF or CRLF), stderr drained meanwhile; None when no further one will come."""
        while (end := self._buffer.find(b"\n", self._searched)) < 0:
            self._searched = len(self._buffer)
            if self._at_end or self.returncode is not None:
                return None
            if self._searched > _MAX_LINE_BYTES:
                raise MetricsError(f"a line of more than {_MAX_LINE_BYTES} bytes")
            left = deadline - time.monotonic()
            if left <= 0:
                raise TimeoutError
            ready = dict(self._poller.poll(min(left, _LONGEST_POLL_S) * 1000))
            if self._child.stderr_fd in ready and not self._child.drain_stderr():
                self._poller.unregister(self._child.stderr_fd)
            if self._stdout_fd in ready:
                data = os.read(self._stdout_fd, 1 << 16)
                self._buffer += data
                self._at_end = not data
            elif self._child.pidfd in ready:  # a grandchild may keep the pipe open, but this was the last of its own
                self._at_end = True
        line = bytes(self._buffer[:end])
        del self._buffer[: end + 1]
        self._searched = 0
        return line.removesuffix(b"\r").decode(errors="replace")

    def end(self) -> int:
        """Collect the exit status of a process whose output has ended; one that stays nevertheless is killed."""
        if self.returncode is None:
            self._finish(self._child.wait(time.monotonic() + _GRACE_S))
        return self.kill()

    def stop(self) -> int:
        """End the process: ask it to quit, then terminate it, then kill it. Further calls do nothing.

        Gives its exit status, negative for a signal.
        """
        if self.returncode is None:
            self.send("quit")
            self._stdin.close()
            returncode = self._child.wait(time.monotonic() + _GRACE_S)
            if returncode is None:
                self._child.terminate()
                returncode = self._child.wait(time.monotonic() + _GRACE_S)
            self._finish(returncode)
        return self.kill()

    def kill(self) -> int:
        """Kill the process with its group, if it still runs, and give its exit status. Further calls do nothing."""
        if self.returncode is None:
            self._finish(self._child.reap())
        assert self.returncode is not None
        return self.returncode

    def _finish(self, returncode: int | None) -> None:
        if returncode is not None:
            self.returncode = returncode
            self._child.close()

    def __del__(self) -> None:
        # Not in a fork of the process that started it, which has copies of everything.
        if getattr(self, "_owner", None) == os.getpid():
            with contextlib.suppress(OSError):
                self.kill()
