"""What is known of units, so that no compile is done twice: in a process, and on disk."""

import contextlib
import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
from pydantic import BaseModel, ConfigDict, FiniteFloat, NonNegativeInt

from mlgo.base.artifacts import CSE_COMPILES
from mlgo.base.files import content_hash
from mlgo.base.scratch import Closing
from mlgo.errors import ReplayMismatch
from mlgo.jit.compiler import ChoiceCompiler
from mlgo.jit.outcome import Candidates, CompiledUnit, Decisions, Failed, Outcome, Outcomes
from mlgo.pool.records import RecordFile, current_keys, outdated_keys, packed, unpacked

_SUFFIX = ".choices"
_COMPILER, _VERSION = "superpmi", 2
_MAGIC = b"MLC%d" % _VERSION
_PREFIX = "method-"
_PASSING = ("timeout", "memory", "crashed", "quarantined")
"""Failures that another try may not have. A deadline depends on the machine's load, and what is quarantined was not
tried: other decisions ended processes of this worker."""

Key = dict[str, Any]
"""What decides outcomes besides the method, as plain JSON values: `SuperPmiSpec.key` and the version of the records."""


class CachedCompiler(Closing):
    """A compiler whose outcomes are held: a compile is a pure function of unit and decisions.

    Attributes:
        num_asked: compiles asked for.
        num_compiled: compiles that were done for that.
        learned: what was compiled, by unit, and would come out the same again.
    """

    def __init__(self, compiler: ChoiceCompiler, known: Mapping[str, Outcomes] | None = None) -> None:
        self._compiler = compiler
        self._known = {unit: dict(outcomes) for unit, outcomes in (known or {}).items()}
        self.learned: dict[str, Outcomes] = {}
        self.num_asked = self.num_compiled = 0

    def outcome(self, unit: str, decisions: Decisions | None) -> Outcome:
        self.num_asked += 1
        known = self._known.setdefault(unit, {})
        if decisions not in known:
            self.num_compiled += 1
            known[decisions] = outcome = self._compiler.outcome(unit, decisions)
            if not isinstance(outcome, Failed) or outcome.kind not in _PASSING:
                self.learned.setdefault(unit, {})[decisions] = outcome
        return known[decisions]

    def close(self) -> None:
        """End the other."""
        self._compiler.close()


class _StoredUnit(RecordFile):
    """Outcomes of a unit, as far as its file was read."""

    magic = _MAGIC

    def __init__(self, path: Path, key: Key) -> None:
        super().__init__(path, key)
        self.outcomes: Outcomes = {}

    def forget(self) -> None:
        super().forget()
        self.outcomes.clear()

    def take(self, payload: bytes) -> None:
        merge(self.outcomes, decode_outcomes(payload))


class CompileCache:
    """Outcomes of one compiler under one set of settings, by unit; kept on disk where a folder is given.

    Args:
        root: folder of all keys; None keeps them in memory alone.
    """

    name = f"{_COMPILER} under choices"
    """For messages."""

    def __init__(self, root: Path | None, key: Key) -> None:
        self.key = {**key, "records": _VERSION}
        self.folder = root / content_hash(self.key) if root is not None else None
        self._known: dict[str, Outcomes] = {}
        self._files: dict[str, _StoredUnit] = {}

    def outcomes(self, unit: str) -> Outcomes:
        """What is known; it grows with `add`, by this process or by others."""
        if unit not in self._known:
            if self.folder is None:
                return self._known.setdefault(unit, {})
            file = _StoredUnit(self.folder / f"{_PREFIX}{unit}{_SUFFIX}", self.key)
            with contextlib.suppress(PermissionError):
                file.read()
            self._files[unit], self._known[unit] = file, file.outcomes  # not what was read of a damaged file
        return self._known[unit]

    def units(self) -> list[str]:
        """Names of the units that are known on disk."""
        return sorted(path.stem.removeprefix(_PREFIX) for path in self._paths())

    def num_bytes(self) -> int:
        """Size on disk."""
        return sum(path.stat().st_size for path in self._paths())

    def _paths(self) -> list[Path]:
        return list(self.folder.glob(f"{_PREFIX}*{_SUFFIX}")) if self.folder else []

    def add(self, unit: str, outcomes: Outcomes) -> int:
        """Store what compiles have shown; returns how many outcomes were not known."""
        known = self.outcomes(unit)
        if self.folder is None:
            return len(merge(known, outcomes))
        try:
            with self._files[unit].writing() as append:
                new = merge(known, outcomes)
                if new:
                    append([encode_outcomes(new)])
                return len(new)
        except ReplayMismatch as error:
            raise ReplayMismatch(f"{error}; delete {self._files[unit].path}") from error


def merge(known: Outcomes, others: Outcomes) -> Outcomes:
    """Take over what is new, and return that."""
    for decisions in known.keys() & others.keys():
        if figures(known[decisions]) != figures(others[decisions]):
            raise ReplayMismatch(
                f"the unit under {decisions}: the compiler gives {figures(others[decisions])}, "
                f"before it gave {figures(known[decisions])}"
            )
    new = {decisions: one for decisions, one in others.items() if decisions not in known}
    known |= new
    return new


def figures(outcome: Outcome) -> tuple[Any, ...]:
    """What must be the same when it is compiled again."""
    if isinstance(outcome, Failed):
        return (outcome.kind,)
    return outcome.score, outcome.code_bytes, outcome.requested, outcome.num_performed


def encode_outcomes(outcomes: Outcomes) -> bytes:
    """As a payload; candidates that several outcomes share are written once."""
    compiled = [one.candidates for one in outcomes.values() if isinstance(one, CompiledUnit)]
    distinct = {_identity(one): one for one in compiled}
    place = {identity: number for number, identity in enumerate(distinct)}
    rows = [
        [decisions, one.kind, one.message]
        if isinstance(one, Failed)
        else [decisions, *figures(one), place[_identity(one.candidates)]]
        for decisions, one in outcomes.items()
    ]
    tables = [[one.names, one.values.tolist(), one.viable.astype(int).tolist()] for one in distinct.values()]
    record = {"candidates": tables, "outcomes": rows}
    return packed(json.dumps(record, separators=(",", ":")).encode())


def _identity(candidates: Candidates) -> tuple[tuple[str, ...], bytes, bytes]:
    return candidates.names, candidates.values.tobytes(), candidates.viable.tobytes()


_FailedRow = tuple[Decisions | None, str, str]
_CompiledRow = tuple[Decisions | None, FiniteFloat, int, Decisions, int, NonNegativeInt]


class _Record(BaseModel):
    """What `encode_outcomes` writes: tables of candidates, and outcomes, which name their table by its place."""

    model_config = ConfigDict(strict=True)
    candidates: list[tuple[tuple[str, ...], list[list[int]], list[int]]]
    outcomes: list[_FailedRow | _CompiledRow]


def decode_outcomes(payload: bytes) -> Outcomes:
    """Read it back; raises one of `records.MALFORMED`."""
    record = _Record.model_validate_json(unpacked(payload))
    tables = [
        Candidates(names, np.array(values, np.int64).reshape(len(viable), len(names)), np.array(viable, bool))
        for names, values, viable in record.candidates
    ]
    found: Outcomes = {}
    for row in record.outcomes:
        match row:
            case (decisions, kind, message):
                found[decisions] = Failed(kind, message)
            case (decisions, score, code_bytes, requested, num_performed, table):
                found[decisions] = CompiledUnit(score, code_bytes, requested, num_performed, tables[table])
    return found


def caches(root: Path) -> list[CompileCache]:
    """Those under ``root`` whose files this version reads."""
    return [CompileCache(root, key) for key in current_keys(root, _SUFFIX, _decode_key)]


def outdated_caches(root: Path) -> list[Path]:
    """Folders under ``root`` whose files no run of this version will read."""
    return outdated_keys(root, _SUFFIX, _decode_key)


def _decode_key(key: Any) -> Key | None:
    return key if (key["name"], key["records"]) == (_COMPILER, _VERSION) else None


def choice_row(outcome: Outcome) -> dict[str, Any]:
    """Columns that all tables of compiles share; see `artifacts.CSE_COMPILES`."""
    values: tuple[Any, ...] = (None, None, [], None) if isinstance(outcome, Failed) else figures(outcome)
    failure = (outcome.kind, outcome.message) if isinstance(outcome, Failed) else ("", "")
    return dict(zip(CSE_COMPILES.names[2:], (*values, *failure), strict=True))


def outcomes_table(cache: CompileCache) -> tuple[pa.Table, pa.Schema]:
    """All outcomes that a cache knows, a row each, and the schema.

    ``decisions`` is null where the heuristic chose. Features of the candidates, ``f_<name>``, have a value for each
    candidate, as ``viable`` has; of an outcome that does not tell them they are null.
    """
    rows = [
        {"content": f"{_PREFIX}{unit}", "decisions": decisions, **choice_row(outcome), **_seen(outcome)}
        for unit in cache.units()
        for decisions, outcome in cache.outcomes(unit).items()
    ]
    integers = pa.list_(pa.int64())
    features = dict.fromkeys(name for row in rows for name in row if name.startswith("f_"))
    keys = [("content", pa.string()), ("decisions", integers)]
    seen = [("viable", pa.list_(pa.bool_())), *((name, integers) for name in features)]
    schema = pa.schema([*keys, *list(CSE_COMPILES)[2:], *seen])
    return pa.Table.from_pylist(rows, schema), schema


def _seen(outcome: Outcome) -> dict[str, list[Any]]:
    if isinstance(outcome, Failed):
        return {}
    one = outcome.candidates
    features = dict(zip((f"f_{name}" for name in one.names), one.values.T.tolist(), strict=True))
    return {"viable": one.viable.tolist(), **features}
