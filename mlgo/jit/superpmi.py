"""Methods of a SuperPMI collection as units, a Checked .NET JIT as the compiler."""

import contextlib
import hashlib
import logging
import shutil
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from numbers import Integral
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
from tqdm import tqdm

from mlgo.base.config import SuperPmiConfig
from mlgo.base.files import file_sha256
from mlgo.base.scratch import Closing
from mlgo.base.seeding import sample
from mlgo.errors import ConfigError, MetricsError, SuperPmiError
from mlgo.jit.client import SuperPmiClient, check_jit, find_collection, find_core_root
from mlgo.jit.columns import VIABLE
from mlgo.jit.compiler import (
    Candidates,
    ChoiceCompiler,
    CompiledUnit,
    CompilerSpec,
    Decisions,
    Failed,
    Found,
    Outcome,
    Place,
    Request,
    Unit,
)
from mlgo.jit.enumeration import stratified_split
from mlgo.jit.metrics import MARKER, MethodMetrics, parse_metrics
from mlgo.jit.process import DECISIONS, FEATURE_NAMES, HOOK, METRICS, LineProcess, SuperPmi

_log = logging.getLogger(__name__)


@dataclass(frozen=True)
class SuperPmiSpec(CompilerSpec):
    """How to start SuperPMI. A decision can change features and even the number of candidates.

    Attributes:
        ordered: yes; order may matter to a JIT.
        static: no; candidates change.
        superpmi: on which JIT and collection.
        settings: deadlines and restarts.
    """

    ordered: ClassVar[bool] = True
    static: ClassVar[bool] = False
    superpmi: SuperPmi
    settings: SuperPmiConfig

    @staticmethod
    def of(settings: SuperPmiConfig) -> "SuperPmiSpec":
        """Find everything that the configuration names."""
        if settings.collection is None:
            raise ConfigError("cse.superpmi.collection: name a file of recorded methods (.mch); see docs/jit-cse.md")
        collection = find_collection(Path(settings.collection))
        if settings.core_root is not None:
            superpmi, jit = find_core_root(Path(settings.core_root))
            command = tuple(settings.command) or (str(superpmi),)
            return SuperPmiSpec(SuperPmi(command, Path(settings.jit or jit), collection), settings)
        if not settings.command or settings.jit is None:
            raise ConfigError("cse.superpmi: name core_root, a folder with superpmi and the JIT, or command and jit")
        return SuperPmiSpec(SuperPmi(tuple(settings.command), Path(settings.jit), collection), settings)

    def open(self) -> "JitCompiler":
        return JitCompiler(self)

    def check(self) -> None:
        """Ask for a method with candidates, so that mistakes show before any work is done."""
        with contextlib.closing(self.open()) as compiler:
            check_jit(compiler.client)

    def described(self) -> dict[str, Any]:
        """JIT and collection for provenance: hashes, no paths."""
        return {"name": "superpmi", **self._hashes}

    @cached_property
    def _hashes(self) -> dict[str, str]:
        """Of the files, which may be large."""
        names = {"jit": self.superpmi.jit, "collection": self.superpmi.collection}
        return {f"{name}_sha256": file_sha256(path) for name, path in names.items()}

    def key(self) -> dict[str, Any]:
        found = (shutil.which(word) or word for word in self.superpmi.command)
        programs = [file_sha256(Path(path)) for path in found if Path(path).is_file()]
        return {**self.described(), "superpmi_sha256": programs}

    def place(self, unit: str) -> Place:
        return Place(f"method-{int(unit)}", unit)

    def base(self, content: str) -> str:
        return content.removeprefix("method-")

    def find_units(self) -> list[Found]:
        """Methods of the collection, in two runs over all of it."""
        self.check()
        none, heuristic = (
            {
                str(metrics.index): compiled
                for metrics, compiled in tqdm(self.baseline(no_cse=no_cse), title, unit="method", disable=None)
            }
            for no_cse, title in ((True, "no elimination"), (False, "heuristic"))
        )
        missing = Failed("no_metrics", "the heuristic's run gives no metrics for it")
        return [
            Found(Unit(name, "", body_hash(compiled.candidates)), compiled, heuristic.get(name, missing))
            for name, compiled in none.items()
        ]

    def split(
        self, found: Sequence[Found], splits: Mapping[str, Sequence[str]], seed: int
    ) -> tuple[dict[str, str], dict[str, str]]:
        """Methods belong to no project: some are drawn, and each side gets its share of every number of candidates."""
        settings = self.settings
        taken = sample(found, settings.max_methods, seed, "cse", "methods")
        viable = {one.unit.name: one.num_viable or 0 for one in taken}
        left_out = {one.unit.name: "sampled: cse.superpmi.max_methods" for one in found if one.unit.name not in viable}
        shares = {"test": settings.test_share, "validation": settings.validation_share}
        return stratified_split(viable, shares, "train", seed) if viable else {}, left_out

    def baseline(self, *, no_cse: bool) -> Iterator[tuple[MethodMetrics, CompiledUnit]]:
        """All methods of the collection in one run, without elimination or under the JIT's own heuristic.

        A warning tells of lines that could not be read; their methods are missing.
        """
        collection, silence_s = self.superpmi.collection, self.settings.startup_timeout_s
        with BatchRun(self.superpmi, no_cse=no_cse, silence_timeout_s=silence_s) as run:
            for metrics in run:
                yield metrics, _compiled(metrics, () if no_cse else None)
            if run.returncode not in (0, 1, 3):  # 1 and 3: some methods failed
                raise SuperPmiError(f"superpmi ended with exit status {run.returncode} while reading {collection}")
            if run.num_unreadable:
                lines = f"{run.num_unreadable} of {run.num_unreadable + run.num_read} lines of metrics cannot be read"
                message = f"{collection}: {lines}; the first: {run.unreadable}"
                if not run.num_read:
                    raise SuperPmiError(f"{message}; is {self.superpmi.jit} of a version that prints them otherwise?")
                _log.warning(message)


class JitCompiler(ChoiceCompiler):
    """See `ChoiceCompiler`. A score of 0 is a failure: nothing can be compared with it.

    Attributes:
        ordered: see `SuperPmiSpec`.
        static: see `SuperPmiSpec`.
        num_compiles: compiles done so far.
        client: talks to SuperPMI.
    """

    ordered, static = SuperPmiSpec.ordered, SuperPmiSpec.static

    def __init__(self, spec: SuperPmiSpec) -> None:
        self._spec, settings, self.num_compiles = spec, spec.settings, 0
        self.client = SuperPmiClient(
            spec.superpmi,
            request_timeout_s=settings.request_timeout_s,
            startup_timeout_s=settings.startup_timeout_s,
            max_restarts=settings.max_restarts,
        )

    def units(self) -> Sequence[Unit]:
        """All methods that compile without elimination, by their number in the collection; methods share nothing."""
        found = self._spec.baseline(no_cse=True)
        return [Unit(str(metrics.index), "", body_hash(compiled.candidates)) for metrics, compiled in found]

    def compile_many(self, requests: Sequence[Request]) -> list[Outcome]:
        """One after another: methods share nothing."""
        return [self._compiled(unit, decisions) for unit, decisions in requests]

    def _compiled(self, unit: str, decisions: Decisions | None) -> Outcome:
        self.num_compiles += 1
        outcome = self.client.compile(int(unit), decisions)
        if not isinstance(outcome, MethodMetrics):
            return Failed(outcome.kind, outcome.message)
        if outcome.perf_score <= 0.0:
            return Failed("no_score", "the JIT gives this method no PerfScore")
        return _compiled(outcome, decisions)

    def forget(self) -> None:
        """Try methods again that were given up."""
        self.client.forgive()

    def close(self) -> None:
        """End SuperPMI."""
        self.client.close()


def body_hash(candidates: Candidates) -> str:
    """Methods with the same candidates, feature for feature, are taken for the same code."""
    return hashlib.sha256(repr(candidates.names).encode() + candidates.values.tobytes()).hexdigest()


def _compiled(metrics: MethodMetrics, decisions: Decisions | None) -> CompiledUnit:
    values = np.array([candidate.features for candidate in metrics.candidates], np.int64)
    values = values.reshape(len(metrics.candidates), len(metrics.feature_names))
    if VIABLE in metrics.feature_names:
        viable = values[:, metrics.feature_names.index(VIABLE)] != 0
    else:
        viable = np.zeros(len(values), bool)
    return CompiledUnit(
        metrics.perf_score,
        metrics.code_bytes,
        metrics.requested if decisions is None else decisions,
        metrics.num_cse,
        Candidates(metrics.feature_names, values, viable),
    )


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
        """Return the next method."""
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
