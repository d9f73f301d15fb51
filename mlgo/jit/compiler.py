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

from tqdm import tqdm

from mlgo.base.config import SuperPmiConfig
from mlgo.base.files import file_sha256
from mlgo.errors import ConfigError, MetricsError, SuperPmiError
from mlgo.jit import outcome
from mlgo.jit.client import SuperPmiClient, check_jit, find_collection, find_core_root
from mlgo.jit.process import DECISIONS, FEATURE_NAMES, HOOK, LIMITS, METRICS, SuperPmi

_log = logging.getLogger(__name__)


class ChoiceCompiler(Protocol):
    """What compiles methods under choices: the JIT, the same with a cache, or a pool of such."""

    def outcome(self, unit: str, decisions: outcome.Decisions | None) -> outcome.Outcome:
        """Compile a method with these eliminations and no others; None leaves the choice to the heuristic."""
        ...

    def close(self) -> object:
        """End what runs. May be called again."""
        ...


def compile_each(
    compiler: ChoiceCompiler, unit: str, choices: tuple[outcome.Decisions | None, ...] = outcome.BASELINES
) -> list[outcome.Outcome]:
    """Outcomes of a method under some choices, in their order."""
    return [compiler.outcome(unit, choice) for choice in choices]


@dataclass(frozen=True)
class FoundUnit:
    """A method by its number in the collection, without elimination and under the built-in heuristic."""

    name: str
    none: outcome.CompiledUnit
    heuristic: outcome.Outcome

    @property
    def body_sha256(self) -> str:
        """Methods with the same candidates, feature for feature, are taken for the same code."""
        candidates = self.none.candidates
        return hashlib.sha256(repr(candidates.names).encode() + candidates.values.tobytes()).hexdigest()


class SuperPmiSpec(SuperPmi):
    """A SuperPMI as the configuration names it; can be sent to another process."""

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
        return SuperPmiSpec(command, Path(jit), collection, **settings.model_dump(include=LIMITS))

    def open(self) -> SuperPmiClient:
        """Start SuperPMI at the first compile."""
        return SuperPmiClient(self)

    def check(self) -> None:
        """Ask for a method with candidates, so that mistakes show before any work is done."""
        with self.open() as client:
            check_jit(client)

    @cached_property
    def described(self) -> dict[str, str]:
        """JIT and collection for provenance: hashes of the files, which may be large; no paths."""
        files = {"jit": self.jit, "collection": self.collection}
        return {"name": "superpmi", **{f"{name}_sha256": file_sha256(path) for name, path in files.items()}}

    def key(self) -> dict[str, str | list[str]]:
        """What decides outcomes: plain JSON values, no paths."""
        found = (shutil.which(word) or word for word in self.command)
        programs = [file_sha256(Path(path)) for path in found if Path(path).is_file()]
        return {**self.described, "superpmi_sha256": programs}

    def find_units(self) -> list[FoundUnit]:
        """Methods of the collection, in two runs over all of it."""
        self.check()
        none, heuristic = (
            dict(tqdm(self.baseline(no_cse=no_cse), title, unit="method", disable=None))
            for no_cse, title in ((True, "no elimination"), (False, "heuristic"))
        )
        missing = outcome.Failed("no_metrics", "the heuristic's run gives no metrics for it")
        return [FoundUnit(name, compiled, heuristic.get(name, missing)) for name, compiled in none.items()]

    def baseline(self, *, no_cse: bool) -> Iterator[tuple[str, outcome.CompiledUnit]]:
        """All methods of the collection, without elimination or under the JIT's own heuristic; see `replay_all`."""
        for metrics in replay_all(self, no_cse=no_cse):
            yield str(metrics.index), metrics.compiled(() if no_cse else None)


_NO_CSE = (f"{HOOK}=1", f"{FEATURE_NAMES}=1", f"{DECISIONS}=")


def replay_all(superpmi: SuperPmi, *, no_cse: bool) -> Iterator[outcome.MethodMetrics]:
    """Metrics of the methods of a collection in one run, in its order; SuperPMI leaves out methods that fail.

    The process starts with the first method that is asked for. It ends with the last, or when the iterator is closed.
    A warning tells of lines that cannot be read, which are passed over.

    Args:
        no_cse: eliminate nothing, by the hook, and tell all candidates with their features; else the JIT's own
            heuristic decides, and no features are told.

    Raises:
        SuperPmiError: SuperPMI cannot start, is silent for longer than ``startup_timeout_s``, ends otherwise than after
            the last method, or prints no line that can be read.
    """
    collection, silence_s = superpmi.collection, superpmi.startup_timeout_s
    num_read, num_unreadable, first = 0, 0, ""
    process = superpmi.start(options=(f"{METRICS}=1", *(_NO_CSE if no_cse else ())))
    try:
        while (line := process.read_line(time.monotonic() + silence_s)) is not None:
            if line.startswith(outcome.MARKER):
                try:
                    metrics = outcome.parse_metrics(line)
                except MetricsError as error:
                    num_unreadable, first = num_unreadable + 1, first or str(error)
                else:
                    num_read += 1
                    yield metrics
        returncode = process.end()
    except TimeoutError:
        raise SuperPmiError(f"SuperPMI has printed nothing for {silence_s:g} s") from None
    finally:
        process.kill()
    if returncode not in (0, 1, 3):  # 1 and 3: some methods failed
        raise SuperPmiError(f"superpmi ended with exit status {returncode} while reading {collection}")
    if num_unreadable:
        lines = f"{num_unreadable} of {num_unreadable + num_read} lines of metrics cannot be read"
        message = f"{collection}: {lines}; the first: {first}"
        if not num_read:
            raise SuperPmiError(f"{message}; is {superpmi.jit} of a version that prints them otherwise?")
        _log.warning(message)
