"""A Checked .NET JIT as a compiler of the methods of a SuperPMI collection."""

import hashlib
import logging
import shutil
import time
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Protocol

import numpy as np
from tqdm import tqdm

from mlgo.base.config import SuperPmiConfig
from mlgo.base.files import file_sha256
from mlgo.base.scratch import Closing
from mlgo.errors import ConfigError, MetricsError, SuperPmiError
from mlgo.jit.client import SuperPmiClient, check_jit, find_collection, find_core_root
from mlgo.jit.outcome import (
    BASELINES,
    MARKER,
    Candidates,
    CompiledUnit,
    Decisions,
    Failed,
    MethodMetrics,
    Outcome,
    parse_metrics,
)
from mlgo.jit.process import DECISIONS, FEATURE_NAMES, HOOK, METRICS, LineProcess, SuperPmi
from mlgo.jit.state import VIABLE

_log = logging.getLogger(__name__)


class ChoiceCompiler(Protocol):
    """What compiles methods under choices: the JIT, the same with a cache, or a pool of such."""

    def compile(self, unit: str, decisions: Decisions | None) -> Outcome:
        """Compile a method with these eliminations and no others; None leaves the choice to the heuristic."""
        ...

    def close(self) -> object:
        """End what runs. May be called again."""
        ...


def compile_each(
    compiler: ChoiceCompiler, unit: str, choices: tuple[Decisions | None, ...] = BASELINES
) -> list[Outcome]:
    """Outcomes of a method under some choices, in their order."""
    return [compiler.compile(unit, choice) for choice in choices]


@dataclass(frozen=True)
class FoundUnit:
    """A method by its number in the collection, without elimination and under the built-in heuristic."""

    name: str
    none: CompiledUnit
    heuristic: Outcome

    @property
    def num_viable(self) -> int:
        """Candidates that can be applied."""
        return int(self.none.candidates.viable.sum())

    @property
    def body_sha256(self) -> str:
        """Methods with the same candidates, feature for feature, are taken for the same code."""
        candidates = self.none.candidates
        return hashlib.sha256(repr(candidates.names).encode() + candidates.values.tobytes()).hexdigest()


@dataclass(frozen=True)
class SuperPmiSpec:
    """How to start SuperPMI; can be sent to another process."""

    superpmi: SuperPmi
    settings: SuperPmiConfig

    @staticmethod
    def of(settings: SuperPmiConfig) -> "SuperPmiSpec":
        """Find everything that the configuration names."""
        if settings.collection is None:
            raise ConfigError("cse.superpmi.collection: name a file of recorded methods (.mch); see docs/jit-cse.md")
        collection = find_collection(Path(settings.collection))
        command, jit = tuple(settings.command), settings.jit
        if settings.core_root is not None:
            superpmi, default = find_core_root(Path(settings.core_root))
            command, jit = command or (str(superpmi),), jit or str(default)
        if not command or jit is None:
            raise ConfigError("cse.superpmi: name core_root, a folder with superpmi and the JIT, or command and jit")
        return SuperPmiSpec(SuperPmi(command, Path(jit), collection), settings)

    def open(self) -> "JitCompiler":
        """Start SuperPMI at the first compile."""
        return JitCompiler(self)

    def check(self) -> None:
        """Ask for a method with candidates, so that mistakes show before any work is done."""
        with self.open() as compiler:
            check_jit(compiler.client)

    def described(self) -> dict[str, str]:
        """JIT and collection for provenance: hashes, no paths."""
        return {"name": "superpmi", **self._hashes}

    @cached_property
    def _hashes(self) -> dict[str, str]:
        """Of the files, which may be large."""
        names = {"jit": self.superpmi.jit, "collection": self.superpmi.collection}
        return {f"{name}_sha256": file_sha256(path) for name, path in names.items()}

    def key(self) -> dict[str, str | list[str]]:
        """What decides outcomes: plain JSON values, no paths."""
        found = (shutil.which(word) or word for word in self.superpmi.command)
        programs = [file_sha256(Path(path)) for path in found if Path(path).is_file()]
        return {**self.described(), "superpmi_sha256": programs}

    def find_units(self) -> list[FoundUnit]:
        """Methods of the collection, in two runs over all of it."""
        self.check()
        none, heuristic = (
            dict(tqdm(self.baseline(no_cse=no_cse), title, unit="method", disable=None))
            for no_cse, title in ((True, "no elimination"), (False, "heuristic"))
        )
        missing = Failed("no_metrics", "the heuristic's run gives no metrics for it")
        return [FoundUnit(name, compiled, heuristic.get(name, missing)) for name, compiled in none.items()]

    def baseline(self, *, no_cse: bool) -> Iterator[tuple[str, CompiledUnit]]:
        """All methods of the collection in one run, without elimination or under the JIT's own heuristic.

        A warning tells of lines that could not be read; their methods are missing.
        """
        collection, silence_s = self.superpmi.collection, self.settings.startup_timeout_s
        with BatchRun(self.superpmi, no_cse=no_cse, silence_timeout_s=silence_s) as run:
            for metrics in run:
                yield str(metrics.index), compiled_unit(metrics, () if no_cse else None)
            if run.returncode not in (0, 1, 3):  # 1 and 3: some methods failed
                raise SuperPmiError(f"superpmi ended with exit status {run.returncode} while reading {collection}")
            if run.num_unreadable:
                lines = f"{run.num_unreadable} of {run.num_unreadable + run.num_read} lines of metrics cannot be read"
                message = f"{collection}: {lines}; the first: {run.unreadable}"
                if not run.num_read:
                    raise SuperPmiError(f"{message}; is {self.superpmi.jit} of a version that prints them otherwise?")
                _log.warning(message)


class JitCompiler(Closing):
    """Compiles methods one after another; see `ChoiceCompiler`."""

    def __init__(self, spec: SuperPmiSpec) -> None:
        settings = spec.settings
        self.client = SuperPmiClient(
            spec.superpmi,
            request_timeout_s=settings.request_timeout_s,
            startup_timeout_s=settings.startup_timeout_s,
            max_restarts=settings.max_restarts,
        )

    def compile(self, unit: str, decisions: Decisions | None) -> Outcome:
        """See `ChoiceCompiler`. A score of 0 is a failure: nothing can be compared with it."""
        outcome = self.client.compile(int(unit), decisions)
        if isinstance(outcome, Failed):
            return outcome
        if outcome.perf_score <= 0.0:
            return Failed("no_score", "the JIT gives this method no PerfScore")
        return compiled_unit(outcome, decisions)

    def forget(self) -> None:
        """Try methods again that were given up."""
        self.client.forgive()

    def close(self) -> None:
        """End SuperPMI."""
        self.client.close()


def compiled_unit(metrics: MethodMetrics, decisions: Decisions | None) -> CompiledUnit:
    """A reply to these decisions as an outcome."""
    names, shape = metrics.feature_names, (len(metrics.candidates), len(metrics.feature_names))
    values = np.array(metrics.candidates, np.int64).reshape(shape)
    viable = values[:, names.index(VIABLE)] != 0 if VIABLE in names else np.zeros(len(values), bool)
    requested = metrics.requested if decisions is None else decisions
    return CompiledUnit(
        metrics.perf_score, metrics.code_bytes, requested, metrics.num_cse, Candidates(names, values, viable)
    )


_NO_CSE = (f"{HOOK}=1", f"{FEATURE_NAMES}=1", f"{DECISIONS}=")


class BatchRun(Closing):
    """Metrics of methods in the order of their collection; methods that fail are left out by SuperPMI.

    A context manager and an iterator: one may stop early, and has what came before a failure. The process starts
    with the first method that is asked for.

    Args:
        no_cse: eliminate nothing, by the hook, and tell all candidates with their features; else the JIT's own
            heuristic decides, and no features are told.
        silence_timeout_s: how long nothing may come.

    Attributes:
        num_read: methods so far.
        num_unreadable: lines that should have been metrics and were not; they are passed over.
        unreadable: what is wrong with the first of these; empty without any.
    """

    def __init__(self, superpmi: SuperPmi, *, no_cse: bool, silence_timeout_s: float = 300.0) -> None:
        self.num_read = self.num_unreadable = 0
        self.unreadable = ""
        self._superpmi, self._silence_timeout_s = superpmi, silence_timeout_s
        self._options = (f"{METRICS}=1", *(_NO_CSE if no_cse else ()))
        self._process: LineProcess | None = None

    @property
    def returncode(self) -> int | None:
        """Exit status once the last method has come, negative for a signal; None before, and -9 when stopped early."""
        return self._process.returncode if self._process else None

    def __iter__(self) -> Iterator[MethodMetrics]:
        return self

    def __next__(self) -> MethodMetrics:
        """Return the next method."""
        if self._process is None:
            self._process = self._superpmi.start(options=self._options)
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
