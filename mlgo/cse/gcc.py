"""Translation units as units, a stock GCC's partial redundancy elimination as what is chosen."""

import hashlib
from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from mlgo.artifacts import CSE_SOURCES, read_table
from mlgo.compiler.frontend import LANGUAGES
from mlgo.compiler.gcc.compile import GccSettings, compile_unit
from mlgo.compiler.gcc.find import Gcc, find_gcc
from mlgo.compiler.gcc.preprocess import preprocess
from mlgo.compiler.gcc.rtl import FEATURES
from mlgo.config import GccConfig
from mlgo.cse.problem import Candidates, Compiled, Decisions, Failed, Outcome, Unit
from mlgo.errors import CompileError, ConfigError
from mlgo.scratch import scratch_directory


@dataclass(frozen=True)
class TranslationUnit:
    """A preprocessed source.

    Attributes:
        name: ``project/source``.
        project: whose it is.
        language: c or c++.
        arguments: options of the front end.
        text: preprocessed.
    """

    name: str
    project: str
    language: str
    arguments: tuple[str, ...]
    text: bytes


@dataclass(frozen=True)
class GccSpec:
    """How to open a GCC on a table of translation units.

    Attributes:
        settings: which GCC, level, counter, score and deadline.
        sources: ``artifacts.CSE_SOURCES``.
    """

    settings: GccConfig
    sources: Path

    def open(self) -> "GccCompiler":
        """See `CompilerSpec.open`; raises also where the table is missing or damaged."""
        rows = read_table(self.sources, CSE_SOURCES).to_pylist()
        units = [
            TranslationUnit(row["unit"], row["project"], row["language"], tuple(row["arguments"]), row["source"])
            for row in rows
            if row["source"] is not None
        ]
        return GccCompiler(self.settings, units)

    def described(self) -> dict[str, Any]:
        """Compiler and settings for provenance: plain JSON values, no paths."""
        gcc = find_gcc(self.settings.command, counter=self.settings.counter)
        return {"name": gcc.name, "sha256": gcc.sha256, **self.settings.model_dump(exclude={"command"})}


class GccCompiler:
    """See `CseCompiler`. What the pass does in one place changes nothing of what it asks elsewhere.

    The heuristic is what GCC does by itself: it performs everything.

    Attributes:
        ordered: the counter has its own order.
        static: candidates stay as they are.

    Args:
        settings: which GCC, level, counter, score and deadline.
        units: what is compiled.

    Raises:
        ToolchainError: no GCC, or one without debug counters.
    """

    ordered, static = False, True

    def __init__(self, settings: GccConfig, units: Sequence[TranslationUnit]) -> None:
        self._gcc: Gcc = find_gcc(settings.command, counter=settings.counter)
        self._score = settings.score
        self._settings = GccSettings(settings.optimization, settings.counter, settings.timeout_s)
        self._units: Mapping[str, TranslationUnit] = {unit.name: unit for unit in units}
        self._candidates: dict[str, Candidates] = {}
        self._scratch = ExitStack()
        self._folder = self._scratch.enter_context(scratch_directory())

    @staticmethod
    def of_files(settings: GccConfig, sources: Sequence[str]) -> "GccCompiler":
        """Compile single files, each in its own folder.

        Raises:
            ConfigError: none is given, or one is no C or C++ file.
            CompileError: one does not compile.
            ToolchainError: no GCC, or one without debug counters.
        """
        paths = [Path(source) for source in sources]
        if not paths:
            raise ConfigError("give either sources=[files] or table=, a sources.parquet that the pipeline made")
        for path in paths:
            if path.suffix not in LANGUAGES or not path.is_file():
                raise ConfigError(f"{path} is no C or C++ file; known suffixes: {', '.join(LANGUAGES)}")
        gcc = find_gcc(settings.command, counter=settings.counter)
        return GccCompiler(settings, [_preprocessed(gcc, path) for path in paths])

    def units(self) -> Sequence[Unit]:
        """All translation units, in their order."""
        return [
            Unit(unit.name, unit.project, hashlib.sha256(unit.text).hexdigest(), unit.language)
            for unit in self._units.values()
        ]

    def compile(self, unit: str, decisions: Decisions | None) -> Outcome:
        """See `CseCompiler.compile`. Positions that the unit does not have are refused by GCC's side, as a failure.

        Raises:
            ConfigError: an unknown unit.
        """
        if unit not in self._units:
            raise ConfigError(f"{unit} is not among the {len(self._units)} translation units")
        try:
            candidates = self._candidates_of(unit)
            performed = None if decisions is None else [one for one in decisions if one < len(candidates)]
            found = self._compile(unit, performed)
        except CompileError as error:
            return Failed(error.kind, str(error))
        everything = tuple(range(len(candidates)))
        requested = everything if decisions is None else decisions
        return Compiled(
            float(getattr(found, self._score)), found.text_bytes, requested, found.num_performed, candidates
        )

    def close(self) -> None:
        """Remove scratch files."""
        self._scratch.close()

    def _candidates_of(self, unit: str) -> Candidates:
        """From the dump of a compile in which all are performed; once for each unit."""
        if unit not in self._candidates:
            found = self._compile(unit, None, want_candidates=True).candidates
            assert found is not None
            self._candidates[unit] = Candidates(FEATURES, found.features, np.ones(len(found.features), bool))
        return self._candidates[unit]

    def _compile(self, unit: str, performed: Sequence[int] | None, *, want_candidates: bool = False) -> Any:
        source = self._units[unit]
        path = self._folder / hashlib.sha256(unit.encode()).hexdigest()[:16]
        if not path.exists():
            path.write_bytes(source.text)
        return compile_unit(
            self._gcc,
            path,
            source.language,
            performed,
            self._settings,
            arguments=source.arguments,
            want_candidates=want_candidates,
        )


def _preprocessed(gcc: Gcc, path: Path) -> TranslationUnit:
    language = LANGUAGES[path.suffix]
    text = preprocess(gcc, path.parent, language, [], path.name)
    return TranslationUnit(str(path), "", language, (), text)
