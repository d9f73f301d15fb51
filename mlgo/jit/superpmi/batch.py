"""All methods of a collection in one run of SuperPMI, under one way to decide."""

import time
from collections.abc import Iterator, Sequence
from numbers import Integral

from mlgo.base.closing import Closing
from mlgo.errors import MetricsError, SuperPmiError
from mlgo.jit.superpmi.metrics import MARKER, MethodMetrics, parse_metrics
from mlgo.jit.superpmi.process import LineProcess, SuperPmi
from mlgo.jit.superpmi.request import DECISIONS, FEATURE_NAMES, HOOK, METRICS

_NO_CSE = (f"{HOOK}=1", f"{FEATURE_NAMES}=1", f"{DECISIONS}=")


class BatchRun(Closing):
    """Metrics of methods in the order of their collection; methods that fail are left out by SuperPMI.

    A context manager and an iterator: one may stop early, and has what came before a failure. The process starts
    with the first method that is asked for.

    Args:
        superpmi: on which JIT and collection.
        no_cse: eliminate nothing, by the hook, and tell all candidates with their features; else the JIT's own
            heuristic decides, and no features are told.
        indices: numbers of methods, from 1; None for all.
        silence_timeout_s: how long nothing may come.

    Attributes:
        num_read: methods so far.
        num_unreadable: lines that should have been metrics and were not; they are passed over.
        unreadable: what is wrong with the first of these; empty without any.

    Raises:
        SuperPmiError: there are no such numbers.
    """

    def __init__(
        self,
        superpmi: SuperPmi,
        *,
        no_cse: bool,
        indices: Sequence[int] | None = None,
        silence_timeout_s: float = 300.0,
    ) -> None:
        self.num_read = self.num_unreadable = 0
        self.unreadable = ""
        self._superpmi, self._silence_timeout_s = superpmi, silence_timeout_s
        self._options = (f"{METRICS}=1", *(_NO_CSE if no_cse else ()))
        self._arguments: tuple[str, ...] = ()
        if indices is not None:
            if not indices or any(not isinstance(index, Integral) or index < 1 for index in indices):
                raise SuperPmiError("a batch needs numbers of methods, from 1")
            self._arguments = ("-compile", ",".join(map(str, indices)))
        self._process: LineProcess | None = None

    @property
    def returncode(self) -> int | None:
        """Exit status once the last method has come, negative for a signal; None before, and -9 when stopped early."""
        return self._process.returncode if self._process else None

    def __iter__(self) -> Iterator[MethodMetrics]:
        return self

    def __next__(self) -> MethodMetrics:
        """Return the next method.

        Raises:
            SuperPmiError: nothing came for ``silence_timeout_s``, or SuperPMI cannot be started.
        """
        if self._process is None:
            self._process = self._superpmi.start(*self._arguments, options=self._options)
        process = self._process
        while process.returncode is None:
            try:
                line = process.read_line(time.monotonic() + self._silence_timeout_s)
                if line is None:
                    process.end()
                    break
                if line.startswith(MARKER):
                    metrics = parse_metrics(line)
                    self.num_read += 1
                    return metrics
            except TimeoutError:
                process.kill()
                raise SuperPmiError(f"SuperPMI has printed nothing for {self._silence_timeout_s:g} s") from None
            except MetricsError as error:
                self.num_unreadable += 1
                self.unreadable = self.unreadable or str(error)
        raise StopIteration

    def close(self) -> None:
        """End the process, if it still runs. Safe to call again."""
        if self._process is not None:
            self._process.kill()
