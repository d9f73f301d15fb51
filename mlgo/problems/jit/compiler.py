"""Methods of a SuperPMI collection as units, a Checked .NET JIT as the compiler."""

import hashlib
import logging
import shutil
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
from tqdm import tqdm

from mlgo.core.config import SuperPmiConfig
from mlgo.core.errors import ConfigError, SuperPmiError
from mlgo.core.files import file_sha256
from mlgo.core.seeding import sample
from mlgo.problems.jit.batch import BatchRun
from mlgo.problems.jit.client import SuperPmiClient
from mlgo.problems.jit.core_root import check_jit, find_collection, find_core_root
from mlgo.problems.jit.features import VIABLE
from mlgo.problems.jit.metrics import MethodMetrics
from mlgo.problems.jit.outcome import Ok
from mlgo.problems.subset.compiler import Candidates, Compiled, Decisions, Failed, Outcome, Place, Request, Unit
from mlgo.problems.subset.enumeration import Found, Sides
from mlgo.problems.subset.pool import CsePool
from mlgo.problems.subset.selection import stratified_split

_log = logging.getLogger(__name__)


@dataclass(frozen=True)
class SuperPmiSpec:
    """How to start SuperPMI.

    Attributes:
        command: program and what must stand before its own arguments.
        jit: the JIT to load.
        collection: recorded methods.
        settings: deadlines and restarts.
    """

    command: tuple[str, ...]
    jit: Path
    collection: Path
    settings: SuperPmiConfig

    @staticmethod
    def of(settings: SuperPmiConfig) -> "SuperPmiSpec":
        """Find everything that the configuration names.

        Raises:
            ConfigError: it does not name a collection, or neither ``core_root`` nor command and JIT.
            SuperPmiError: a file is missing.
        """
        if settings.collection is None:
            raise ConfigError("cse.superpmi.collection: name a file of recorded methods (.mch); see docs/jit-cse.md")
        collection = find_collection(Path(settings.collection))
        if settings.core_root is not None:
            core_root = find_core_root(Path(settings.core_root))
            command = tuple(settings.command) or (str(core_root.superpmi),)
            return SuperPmiSpec(command, Path(settings.jit or core_root.jit), collection, settings)
        if not settings.command or settings.jit is None:
            raise ConfigError("cse.superpmi: name core_root, a folder with superpmi and the JIT, or command and jit")
        return SuperPmiSpec(tuple(settings.command), Path(settings.jit), collection, settings)

    def open(self) -> "JitCompiler":
        """See `CompilerSpec.open`."""
        return JitCompiler(self)

    def check(self) -> None:
        """Ask for a method with candidates, so that mistakes show before any work is done.

        Raises:
            SuperPmiError: the JIT is a Release build or of another interface version, or the collection is cut short.
        """
        with self.open().client as client:
            check_jit(client)

    def described(self) -> dict[str, Any]:
        """JIT and collection for provenance: hashes, no paths."""
        return {"name": "superpmi", **self._hashes}

    @cached_property
    def _hashes(self) -> dict[str, str]:
        """Of the files, which may be large."""
        names = {"jit": self.jit, "collection": self.collection}
        return {f"{name}_sha256": file_sha256(path) for name, path in names.items()}

    def key(self) -> dict[str, Any]:
        """See `CompilerSpec.key`: JIT and collection, and the program that replays the one in the other."""
        found = (shutil.which(word) or word for word in self.command)
        programs = [file_sha256(Path(path)) for path in found if Path(path).is_file()]
        return {**self.described(), "superpmi_sha256": programs}

    def place(self, unit: str) -> Place:
        """See `CompilerSpec.place`: the collection is part of the key."""
        return Place(f"method-{int(unit)}", unit)

    def find_units(self, open_pool: Callable[[], CsePool]) -> list[Found]:
        """Methods of the collection, in two runs over all of it; no pool is needed.

        Raises:
            SuperPmiError: SuperPMI cannot be used, or fails as a whole.
        """
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

    def split(self, found: Sequence[Found], splits: Mapping[str, Sequence[str]], seed: int) -> Sides:
        """Methods belong to no project: some are drawn, and each side gets its share of every number of candidates."""
        settings = self.settings
        taken = sample(found, settings.max_methods, seed, "cse", "methods")
        viable = {one.unit.name: one.num_viable or 0 for one in taken}
        left_out = {one.unit.name: "sampled: cse.superpmi.max_methods" for one in found if one.unit.name not in viable}
        shares = {"test": settings.test_share, "validation": settings.validation_share}
        return Sides(stratified_split(viable, shares, "train", seed) if viable else {}, left_out)

    def baseline(self, *, no_cse: bool) -> Iterator[tuple[MethodMetrics, Compiled]]:
        """All methods of the collection in one run, without elimination or under the JIT's own heuristic.

        A warning tells of lines that could not be read; their methods are missing.

        Raises:
            SuperPmiError: SuperPMI fails as a whole, or none of its lines can be read.
        """
        with BatchRun(
            self.command,
            self.jit,
            self.collection,
            no_cse=no_cse,
            silence_timeout_s=self.settings.startup_timeout_s,
        ) as run:
            for metrics in run:
                yield metrics, _compiled(metrics, () if no_cse else None)
            if run.returncode not in (0, 1, 3):  # 1 and 3: some methods failed
                raise SuperPmiError(f"superpmi ended with exit status {run.returncode} while reading {self.collection}")
            if run.num_unreadable:
                lines = f"{run.num_unreadable} of {run.num_unreadable + run.num_read} lines of metrics cannot be read"
                message = f"{self.collection}: {lines}; the first: {run.unreadable}"
                if not run.num_read:
                    raise SuperPmiError(f"{message}; is {self.jit} of a version that prints them otherwise?")
                _log.warning(message)


class JitCompiler:
    """See `ChoiceCompiler`. A decision can change features and even the number of candidates.

    Attributes:
        ordered: order may matter to a JIT.
        static: candidates change.
        num_compiles: compiles done so far.
    """

    ordered, static = True, False

    def __init__(self, spec: SuperPmiSpec) -> None:
        self._spec, settings, self.num_compiles = spec, spec.settings, 0
        self._client = SuperPmiClient(
            spec.command,
            spec.jit,
            spec.collection,
            request_timeout_s=settings.request_timeout_s,
            startup_timeout_s=settings.startup_timeout_s,
            max_restarts=settings.max_restarts,
        )

    @property
    def client(self) -> SuperPmiClient:
        """What talks to SuperPMI."""
        return self._client

    def units(self, batch: str = "") -> Sequence[Unit]:
        """All methods that compile without elimination, by their number in the collection; methods share nothing."""
        found = self._spec.baseline(no_cse=True)
        return [Unit(str(metrics.index), "", body_hash(compiled.candidates)) for metrics, compiled in found]

    def compile(self, unit: str, decisions: Decisions | None) -> Outcome:
        """See `ChoiceCompiler.compile`. A score of 0 is a failure: nothing can be compared with it."""
        self.num_compiles += 1
        outcome = self._client.compile(int(unit), decisions)
        if not isinstance(outcome, Ok):
            return Failed(outcome.kind, outcome.message)
        if outcome.metrics.perf_score <= 0.0:
            return Failed("no_score", "the JIT gives this method no PerfScore")
        return _compiled(outcome.metrics, decisions)

    def compile_many(self, requests: Sequence[Request]) -> list[Outcome]:
        """One after another: methods share nothing."""
        return [self.compile(unit, decisions) for unit, decisions in requests]

    def notes(self, unit: str) -> None:
        """None: outcomes are all there is."""

    def take_notes(self, unit: str, notes: Any) -> None:
        """There are none."""

    def forget(self) -> None:
        """Try methods again that were given up."""
        self._client.forgive()

    def close(self) -> None:
        """End SuperPMI."""
        self._client.close()


def body_hash(candidates: Candidates) -> str:
    """Methods with the same candidates, feature for feature, are taken for the same code."""
    return hashlib.sha256(repr(candidates.names).encode() + candidates.values.tobytes()).hexdigest()


def _compiled(metrics: MethodMetrics, decisions: Decisions | None) -> Compiled:
    values = np.array([candidate.features for candidate in metrics.candidates], np.int64)
    values = values.reshape(len(metrics.candidates), len(metrics.feature_names))
    if VIABLE in metrics.feature_names:
        viable = values[:, metrics.feature_names.index(VIABLE)] != 0
    else:
        viable = np.zeros(len(values), bool)
    return Compiled(
        metrics.perf_score,
        metrics.code_bytes,
        metrics.requested if decisions is None else decisions,
        metrics.performed_count,
        Candidates(metrics.feature_names, values, viable),
    )
