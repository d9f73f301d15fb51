"""One method at a time under any decisions, by a SuperPMI that is kept running."""

import itertools
import os
import signal
import struct
import time
from collections.abc import Sequence
from pathlib import Path

from mlgo.base.scratch import Closing
from mlgo.errors import MetricsError, SuperPmiError
from mlgo.jit.outcome import MARKER, Decisions, Failed, MethodMetrics, Outcome, parse_metrics
from mlgo.jit.process import COLLECTION_SUFFIXES, LineProcess, SuperPmi, request

EXIT_CODES = {
    0: "no failure",
    1: "some methods failed to compile",
    2: "code differs",
    3: "some methods need data that was not recorded",
    254: "the JIT failed to start: it cannot be loaded, or has another JIT-EE interface version than the collection",
    255: "general failure: a file or a method of it cannot be read",
}
"""Meaning of SuperPMI's exit codes (src/coreclr/tools/superpmi/superpmi/superpmi.cpp); negative ones end as 256 - n."""

JIT_FAILED_TO_START, GENERAL_FAILURE = 254, 255


def describe_exit(returncode: int) -> str:
    """Say what an exit code means."""
    if returncode < 0:
        return f"signal {-returncode}"
    return f"exit {returncode}, {EXIT_CODES.get(returncode, 'of no known meaning')}"


Reply = MethodMetrics | Failed

ENDING = frozenset({"protocol_error", "crashed", "timeout", "unknown_method"})
"""Kinds of failures after which a process is of no further use; the request may be sent to a new one."""

_DONE = "[streaming] Done."
_FAILURES = {
    "1": Failed("jit_error", "the JIT failed on this method"),
    "2": Failed("missing_data", "data that was not recorded is needed"),
}
_OLD_FORM_S = 0.5
"""How long a SuperPMI of the first form gets to end after a failure, which is all it tells of one."""


class SuperPmiClient(Closing):
    """A SuperPMI in streaming mode; started at the first request, replaced when it crashes, hangs or talks nonsense.

    Not for several threads. A context manager: leaving it ends the process, and so does the end of the thread that
    made the request that started it.
    """

    def __init__(self, superpmi: SuperPmi) -> None:
        self.superpmi = superpmi
        self._process: LineProcess | None = None
        self._names: tuple[str, ...] = ()
        self._given_up: dict[int, Failed] = {}
        self.num_starts = 0

    def compile(self, index: int, decisions: Sequence[int] | None) -> Reply:
        """Metrics of a method, or what went wrong with it, see `process.request`.

        A request that ends its process is sent again to a new one, up to ``max_restarts`` times, one for an unknown
        method once. If that does not help, the method is not sent again in the life of this client.
        """
        request(index, decisions, feature_names=True)  # refused, whatever is known of the method
        if index in self._given_up:
            return self._given_up[index]
        for attempt in itertools.count():
            if self._process is not None and self._process.has_ended:
                self._discard()
            line = request(index, decisions, feature_names=not self._names)
            outcome = self._ask(line, index, decisions)
            if isinstance(outcome, MethodMetrics) or outcome.kind not in ENDING:
                break
            self._discard()
            if attempt == self.superpmi.max_restarts or (outcome.kind == "unknown_method" and attempt > 0):
                message = f"method {index} has ended too many processes; the last time: {outcome.message}"
                unknown = outcome.kind == "unknown_method"
                self._given_up[index] = outcome if unknown else Failed("quarantined", message)
                break
        return outcome

    def outcome(self, unit: str, decisions: Decisions | None) -> Outcome:
        """See `ChoiceCompiler`. A score of 0 is a failure: nothing can be compared with it."""
        reply = self.compile(int(unit), decisions)
        if isinstance(reply, Failed):
            return reply
        if reply.perf_score <= 0.0:
            return Failed("no_score", "the JIT gives this method no PerfScore")
        return reply.compiled(decisions)

    def close(self) -> int | None:
        """End the process; the next request would start another. Safe to call again.

        Gives its exit status, negative for a signal; None when there was none.
        """
        process, self._process, self._names = self._process, None, ()
        return process.stop() if process else None

    def forget(self) -> None:
        """Try methods again that were given up, so that what they do now does not depend on what was asked before."""
        self._given_up.clear()

    def _discard(self) -> None:
        """Kill the process; with it go its names."""
        process, self._process, self._names = self._process, None, ()
        if process:
            process.kill()

    def _ask(self, line: str, index: int, decisions: Sequence[int] | None) -> Reply:
        """Send a request and read its reply; whatever is raised, no process is left in the middle of one."""
        timeout_s = self.superpmi.request_timeout_s
        if self._process is None:
            self._process = self.superpmi.start("-streaming", "stdin")
            self.num_starts += 1
            timeout_s = self.superpmi.startup_timeout_s
        try:
            self._process.send(line)
            return self._receive(self._process, time.monotonic() + timeout_s, index, decisions)
        except TimeoutError:
            return Failed("timeout", f"no whole reply within {timeout_s:g} s")
        except MetricsError as error:
            return Failed("protocol_error", str(error))
        except BaseException:
            self._discard()
            raise

    def _receive(self, process: LineProcess, deadline: float, index: int, decisions: Sequence[int] | None) -> Reply:
        metrics: MethodMetrics | None = None
        while (line := process.read_line(deadline)) is not None:
            if line.startswith(MARKER):
                if metrics is not None:
                    raise MetricsError("two lines of metrics in one reply")
                metrics = parse_metrics(line, self._names if decisions is not None else ())
                self._check_reply(metrics, index, decisions)
            elif line.startswith(_DONE):
                return self._conclude(process, line, metrics)
        returncode = process.end()
        message = f"the process ended without a whole reply ({describe_exit(returncode)})"
        kind = "unknown_method" if returncode == GENERAL_FAILURE else "crashed"
        if returncode == -signal.SIGSEGV and index > (count := count_methods(self.superpmi.collection) or index):
            # Without a table of contents (.mct), SuperPMI takes the end of the file for a method.
            kind, message = "unknown_method", f"the collection has {count} methods"
        return Failed(kind, message, returncode, process.stderr_tail)

    def _conclude(self, process: LineProcess, done: str, metrics: MethodMetrics | None) -> Reply:
        """Read the last line of a reply: ``[streaming] Done. Status=0``, without status in the first form."""
        _, has_status, status = done.partition("Status=")
        if has_status and status not in ("0", "1", "2"):
            raise MetricsError(f"status of a reply is {status[:80]!r}")
        if status in _FAILURES:
            return _FAILURES[status]
        if metrics is not None:
            if metrics.feature_names:
                self._names = metrics.feature_names
            return metrics
        if not has_status and _ends_soon(process):
            return _FAILURES["1"]
        return Failed(
            "no_metrics", "success without metrics: a recorded exception, or a JIT that is not a Checked build"
        )

    def _check_reply(self, metrics: MethodMetrics, index: int, decisions: Sequence[int] | None) -> None:
        if metrics.index != index:
            raise MetricsError(f"a reply for method {metrics.index} where {index} was asked for")
        if decisions is None:
            return
        if metrics.heuristic is not None or len(metrics.candidates) != metrics.num_candidates:
            raise SuperPmiError(
                f"{self.superpmi.jit} ignores decisions (JitRLHook): take a Checked build of 2024-05 or later, and "
                "set no other heuristic in jit_options"
            )
        # Without candidates there may have been no phase that could repeat what was asked for.
        if metrics.candidates and metrics.requested != tuple(decisions):
            raise MetricsError(f"the JIT understood {metrics.requested} where {tuple(decisions)} was asked for")


def _ends_soon(process: LineProcess) -> bool:
    deadline = time.monotonic() + _OLD_FORM_S
    try:
        while process.read_line(deadline) is not None:
            pass
    except TimeoutError:
        return False
    return process.end() != 0


_PROGRAMS = ("superpmi", "superpmi.exe")
_JITS = ("libclrjit.so", "libclrjit.dylib", "clrjit.dll")
_HOW_TO_BUILD = "build one with `./build.sh -subset clr -c Checked` in dotnet/runtime"
_NUM_TRIED = 64


def find_core_root(folder: Path) -> tuple[Path, Path]:
    """Find SuperPMI, and the JIT that it shall load."""
    if not folder.is_dir():
        raise SuperPmiError(f"{folder} is no folder; give a core_root of dotnet/runtime")
    superpmi = next((folder / name for name in _PROGRAMS if os.access(folder / name, os.X_OK)), None)
    if superpmi is None or not superpmi.is_file():
        raise SuperPmiError(f"{folder} has no program superpmi; {_HOW_TO_BUILD}")
    jit = next((folder / name for name in _JITS if (folder / name).is_file()), None)
    if jit is None:
        raise SuperPmiError(f"{folder} has no JIT ({', '.join(_JITS)}); {_HOW_TO_BUILD}")
    return superpmi, jit


def find_collection(path: Path) -> Path:
    """Check that a path can be a collection of recorded methods."""
    if not path.is_file():
        raise SuperPmiError(f"no collection {path}; `superpmi.py download` in dotnet/runtime fetches some")
    if path.suffix not in COLLECTION_SUFFIXES:
        raise SuperPmiError(f"{path} is no collection: its suffix must be one of {', '.join(COLLECTION_SUFFIXES)}")
    if path.stat().st_size == 0:
        raise SuperPmiError(f"collection {path} is empty; fetch it again")
    return path


_CONTEXT = struct.Struct("<2sI")
_CANARY_BYTES = 2


def count_methods(collection: Path) -> int | None:
    """How many methods are recorded; None where the file is no ``.mch`` (superpmi-shared/methodcontextreader.cpp)."""
    count, size = 0, collection.stat().st_size
    with collection.open("rb") as file:
        while file.tell() < size:
            header = file.read(_CONTEXT.size)
            if len(header) < _CONTEXT.size or not header.startswith(b"mc"):
                return None
            file.seek(_CONTEXT.unpack(header)[1] + _CANARY_BYTES, os.SEEK_CUR)
            count += 1
    return count


def check_jit(client: SuperPmiClient) -> tuple[str, ...]:
    """Check that the JIT takes decisions and reports features, by the first methods until one has a candidate.

    Gives the names of the features, in order.
    """
    jit, collection = client.superpmi.jit, client.superpmi.collection
    kinds: set[str] = set()
    for index in range(1, _NUM_TRIED + 1):
        outcome = client.compile(index, ())
        if isinstance(outcome, MethodMetrics) and outcome.candidates:
            if not outcome.feature_names:
                raise SuperPmiError(f"{jit} tells features without their names; take a newer Checked build")
            return outcome.feature_names
        kind = outcome.kind if isinstance(outcome, Failed) else "ok"
        if kind == "unknown_method" and kinds:
            break  # the collection has no more
        if isinstance(outcome, Failed):
            _check_start(client, outcome, first=not kinds)
        kinds.add(kind)
    if "no_metrics" in kinds and "ok" not in kinds:
        raise SuperPmiError(f"{jit} prints no metrics: it is a Release build; {_HOW_TO_BUILD}")
    raise SuperPmiError(f"no method tried of {collection} has a candidate; name others")


def _check_start(client: SuperPmiClient, failure: Failed, *, first: bool) -> None:
    """Refuse a JIT or a collection that SuperPMI cannot use at all."""
    jit, collection = client.superpmi.jit, client.superpmi.collection
    line = failure.stderr.split("\n")[0]
    reason = f" ({line})" if line else ""
    if failure.returncode == JIT_FAILED_TO_START:
        raise SuperPmiError(
            f"{jit} does not start under SuperPMI: it cannot be loaded, or its JIT-EE interface version is "
            f"not that of {collection}; take a collection and a JIT of one version{reason}"
        )
    if first and failure.kind == "unknown_method":
        raise SuperPmiError(
            f"collection {collection} cannot be read: it is cut short or no collection; fetch it again{reason}"
        )
    if first and failure.kind in ENDING:
        raise SuperPmiError(f"SuperPMI with {jit} and {collection}: {failure.message}")
