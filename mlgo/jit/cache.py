"""What is known of units, so that no compile is done twice: in a compiler, and on disk."""

import json
import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from mlgo.base.files import content_hash, read_json, write_json
from mlgo.errors import ArtifactError, ReplayMismatch
from mlgo.jit.compiler import (
    Candidates,
    ChoiceCompiler,
    CompiledUnit,
    Decisions,
    Failed,
    Outcome,
    Request,
    Unit,
)
from mlgo.pool.records import RecordFile, packed, unpacked

Outcomes = dict[Decisions | None, Outcome]
"""What is known of a unit, by its decisions."""

CACHE_SUFFIX = ".choices"
KEY_NAME = "choices.json"
"""File in each key's folder that says which compiler and settings its files are of."""

_VERSION = 1
_MAGIC = b"MLC%d" % _VERSION
_PASSING = ("timeout", "memory", "crashed", "quarantined")
"""Failures that another try may not have. A deadline depends on the machine's load, and what is quarantined was not
tried: other decisions ended processes of this worker."""


class CachedCompiler(ChoiceCompiler):
    """Another compiler, with its outcomes kept: a compile is a pure function of unit and decisions.

    Where the order of decisions does not matter, they are sorted first, so that all orders are one.

    Attributes:
        ordered: as the other's.
        static: as the other's.
        num_asked: compiles asked for.
        num_compiles: compiles that were done for that.

    Args:
        compiler: does what is not known.
    """

    def __init__(self, compiler: ChoiceCompiler) -> None:
        self._compiler = compiler
        self._known: dict[str, Outcomes] = {}
        self._learned: dict[str, Outcomes] = {}
        self.ordered, self.static = compiler.ordered, compiler.static
        self.num_asked = 0

    @property
    def num_compiles(self) -> int:  # type: ignore[override]
        return self._compiler.num_compiles

    def units(self) -> Sequence[Unit]:
        return self._compiler.units()

    def compile_many(self, requests: Sequence[Request]) -> list[Outcome]:
        keys = [(unit, self._key(decisions)) for unit, decisions in requests]
        self.num_asked += len(keys)
        unknown = [one for one in dict.fromkeys(keys) if one[1] not in self._known.setdefault(one[0], {})]
        for (unit, key), outcome in zip(unknown, self._compiler.compile_many(unknown), strict=True):
            self._known[unit][key] = outcome
            self._learned.setdefault(unit, {})[key] = outcome
        return [self._known[unit][key] for unit, key in keys]

    def begin(self, known: Mapping[str, Outcomes]) -> None:
        """Forget everything but this, by unit."""
        self._known, self._learned = {unit: dict(outcomes) for unit, outcomes in known.items()}, {}
        self._compiler.forget()

    def learned(self) -> dict[str, Outcomes]:
        """What was compiled since `begin` and would come out the same again, by unit."""
        return {
            unit: {key: one for key, one in outcomes.items() if not (isinstance(one, Failed) and one.kind in _PASSING)}
            for unit, outcomes in self._learned.items()
        }

    def forget(self) -> None:
        """Drop everything."""
        self.begin({})

    def _key(self, decisions: Decisions | None) -> Decisions | None:
        return decisions if decisions is None or self.ordered else tuple(sorted(decisions))

    def close(self) -> None:
        """End the other."""
        self._compiler.close()


@dataclass
class Findings:
    """What is known of units that are compiled together.

    Attributes:
        outcomes: by part: what the name of a unit has after that of its batch.
    """

    outcomes: dict[str, Outcomes] = field(default_factory=dict)

    @property
    def num_outcomes(self) -> int:
        """Of all parts."""
        return sum(map(len, self.outcomes.values()))

    def clear(self) -> None:
        """Drop everything."""
        self.outcomes.clear()

    def add(self, other: "Findings") -> "Findings":
        """Take over what is new, and return that."""
        new = Findings()
        for part, outcomes in other.outcomes.items():
            mine = self.outcomes.setdefault(part, {})
            for decisions, outcome in outcomes.items():
                if decisions not in mine:
                    mine[decisions] = outcome
                    new.outcomes.setdefault(part, {})[decisions] = outcome
                elif figures(mine[decisions]) != figures(outcome):
                    raise ReplayMismatch(
                        f"{part or 'the unit'} under {decisions}: the compiler gives {figures(outcome)}, "
                        f"before it gave {figures(mine[decisions])}"
                    )
        return new

    def __bool__(self) -> bool:
        return bool(self.outcomes)


class CompileCache:
    """Findings of one compiler under one set of settings, by what is compiled; kept on disk where a folder is given.

    Attributes:
        key: what decides compiles besides what is compiled.
        folder: where its files are; None without.

    Args:
        root: folder of all keys; None keeps them in memory alone.
        key: what decides compiles besides what is compiled: plain JSON values.
    """

    def __init__(self, root: Path | None, key: Mapping[str, Any]) -> None:
        self.key = {**key, "records": _VERSION}
        self.folder = root / content_hash(self.key) if root is not None else None
        self._open: dict[str, Findings] = {}
        self._files: dict[str, RecordFile] = {}

    @property
    def name(self) -> str:
        """Of the compiler, for messages."""
        return f"{self.key.get('name', '')} under choices"

    def findings(self, content: str) -> Findings:
        """What is known; it grows with `add`, by this process or by others."""
        if content not in self._open:
            found = self._open[content] = Findings()
            if self.folder is not None:
                path = self.folder / f"{content}{CACHE_SUFFIX}"
                self._files[content] = RecordFile(
                    path, _MAGIC, found.clear, lambda payload: found.add(decode_findings(payload))
                )
                try:
                    self._files[content].read()
                    os.utime(path)  # recently used
                except FileNotFoundError:
                    pass
                except PermissionError:  # it may be read, not touched
                    pass
        return self._open[content]

    def contents(self) -> list[str]:
        """Hashes of what is known on disk."""
        return sorted(path.stem for path in self.folder.glob(f"*{CACHE_SUFFIX}")) if self.folder else []

    def num_bytes(self) -> int:
        """Size on disk."""
        return sum(path.stat().st_size for path in self.folder.glob(f"*{CACHE_SUFFIX}")) if self.folder else 0

    def add(self, content: str, learned: Findings) -> int:
        """Keep what compiles have shown; returns how many outcomes were not known."""
        findings = self.findings(content)
        if self.folder is None:
            return findings.add(learned).num_outcomes
        file, key_path = self._files[content], self.folder / KEY_NAME
        try:
            if not key_path.exists():
                write_json(key_path, self.key)
            with file.writing() as append:
                new = findings.add(learned)
                if new:
                    append([encode_findings(new)])
                return new.num_outcomes
        except ReplayMismatch as error:
            raise ReplayMismatch(f"{error}; delete {file.path}") from error
        except OSError as error:
            raise ArtifactError(f"cannot write {file.path}: {error.strerror or error}") from error


def encode_findings(findings: Findings) -> bytes:
    """As a payload; candidates that several outcomes share are written once."""
    tables: dict[tuple[tuple[str, ...], bytes, bytes], int] = {}
    rows: list[list[Any]] = []
    shown: list[list[Any]] = []
    for part, outcomes in findings.outcomes.items():
        for decisions, outcome in outcomes.items():
            if isinstance(outcome, Failed):
                rows.append([part, decisions, outcome.kind, outcome.message])
                continue
            one = outcome.candidates
            key = (one.names, one.values.tobytes(), one.viable.tobytes())
            if key not in tables:
                tables[key] = len(tables)
                shown.append([one.names, one.values.tolist(), one.viable.astype(int).tolist()])
            rows.append([part, decisions, *figures(outcome), tables[key]])
    record = {"notes": None, "candidates": shown, "outcomes": rows}
    return packed(json.dumps(record, separators=(",", ":")).encode())


def decode_findings(payload: bytes) -> Findings:
    """Read it back; raises one of `records.MALFORMED`."""
    record = json.loads(unpacked(payload))
    tables = [_candidates(*row) for row in record["candidates"]]
    found = Findings()
    for part, decisions, *rest in record["outcomes"]:
        if not isinstance(part, str):
            raise ValueError(f"a part that is no name: {part}")
        outcome = Failed(str(rest[0]), str(rest[1])) if len(rest) == 2 else _compiled(tables, *rest)
        found.outcomes.setdefault(part, {})[_decisions(decisions)] = outcome
    return found


def _candidates(names: Any, values: Any, viable: Any) -> Candidates:
    if not all(isinstance(name, str) for name in names):
        raise ValueError("names of features that are none")
    table = np.array(values, np.int64).reshape(len(viable), len(names))
    return Candidates(tuple(names), table, np.array(viable, bool).reshape(-1))


def _compiled(
    tables: Sequence[Candidates], score: Any, code_bytes: Any, requested: Any, num_performed: Any, table: Any
) -> CompiledUnit:
    if not (np.isfinite(score) and type(code_bytes) is int and type(num_performed) is int and type(table) is int):
        raise ValueError("an outcome with other values than a compile has")
    if not 0 <= table < len(tables):
        raise ValueError(f"candidates number {table} of {len(tables)}")
    return CompiledUnit(float(score), code_bytes, _decisions(requested), num_performed, tables[table])


def _decisions(positions: Any) -> Decisions | None:
    if positions is None:
        return None
    if not all(type(one) is int for one in positions):
        raise ValueError(f"decisions that are no positions: {positions}")
    return tuple(positions)


def figures(outcome: Outcome) -> tuple[Any, ...]:
    """What must be the same when it is compiled again."""
    if isinstance(outcome, Failed):
        return (outcome.kind,)
    return outcome.score, outcome.code_bytes, outcome.requested, outcome.num_performed


def caches(root: Path) -> list[CompileCache]:
    """Those of all keys under ``root`` whose files are of this version."""
    keys = map(_read_key, sorted(root.glob(f"*/{KEY_NAME}")))
    return [CompileCache(root, key) for key in keys if key.pop("records") == _VERSION]


def outdated_caches(root: Path) -> list[Path]:
    """Folders under ``root`` whose files no run of this version will read."""
    found = []
    for path in sorted(root.glob(f"*/{KEY_NAME}")):
        try:
            current = _read_key(path)["records"] == _VERSION
        except ArtifactError:
            current = False
        if not current:
            found.append(path.parent)
    return found


def _read_key(path: Path) -> dict[str, Any]:
    key = read_json(path)
    if not isinstance(key, dict) or "records" not in key:
        raise ArtifactError(f"{path} does not describe a key of this version; delete its folder")
    return key
