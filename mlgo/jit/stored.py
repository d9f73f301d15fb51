"""Units with their baselines and labels, as earlier stages left them."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pyarrow as pa

from mlgo.base.artifacts import CSE_COMPILES, CSE_LABELS, CSE_UNITS, read_table
from mlgo.errors import CorpusError
from mlgo.jit.cache import CompileCache
from mlgo.jit.columns import FeatureColumn, columns_for
from mlgo.jit.compiler import CompiledUnit, Decisions, Failed, Outcome
from mlgo.jit.state import Observer


@dataclass(frozen=True)
class EligibleUnit:
    """A unit that takes part, with its baselines.

    Attributes:
        name: of the unit.
        project: whose code it is.
        split: train, validation or test.
        num_viable: candidates that can be applied.
        none: score without elimination.
        heuristic: score under the built-in heuristic.
        heuristic_choice: what that chose, as far as the compiler tells.
    """

    name: str
    project: str
    split: str
    num_viable: int
    none: float
    heuristic: float
    heuristic_choice: Decisions


def eligible_units(baseline: Path, *splits: str) -> list[EligibleUnit]:
    """Eligible units of some splits.

    Args:
        baseline: folder with ``units.parquet`` and ``compiles.parquet``.
        splits: which; all without any.
    """
    rows = read_table(baseline / "units.parquet", CSE_UNITS).to_pylist()
    compiles = read_table(baseline / "compiles.parquet", CSE_COMPILES).to_pylist()
    scores = {(row["unit"], row["way"]): row for row in compiles}
    units = [
        EligibleUnit(
            row["unit"],
            row["project"],
            row["split"],
            row["num_viable"],
            scores[row["unit"], "none"]["score"],
            scores[row["unit"], "heuristic"]["score"],
            tuple(scores[row["unit"], "heuristic"]["requested"]),
        )
        for row in rows
        if not row["skip_reason"] and (not splits or row["split"] in splits)
    ]
    if not units:
        raise CorpusError(f"no eligible unit in {', '.join(splits) or 'any split'}; lower cse.min_viable")
    return units


def observer_for(baseline: Path, known: Mapping[str, FeatureColumn], max_candidates: int) -> Observer:
    """What a policy for this baseline's compiler sees."""
    columns = read_table(baseline / "candidates.parquet").column_names
    return Observer(columns_for([name[2:] for name in columns if name.startswith("f_")], known), max_candidates)


def in_batches(units: Iterable[EligibleUnit]) -> list[tuple[str, ...]]:
    """Names of units as `ChoicePool.map` takes them, each alone."""
    return [(unit.name,) for unit in units]


def stored_labels(path: Path) -> dict[str, Decisions]:
    """The best choice known for each unit."""
    return {row["unit"]: tuple(row["requested"]) for row in read_table(path, CSE_LABELS).to_pylist()}


def choice_row(outcome: Outcome) -> dict[str, Any]:
    """Columns that all tables of compiles share; see `artifacts.CSE_COMPILES`."""
    if isinstance(outcome, Failed):
        empty: dict[str, Any] = {"score": None, "code_bytes": None, "requested": [], "num_performed": None}
        return empty | {"failure": outcome.kind, "message": outcome.message}
    assert isinstance(outcome, CompiledUnit)
    return {
        "score": outcome.score,
        "code_bytes": outcome.code_bytes,
        "requested": list(outcome.requested or ()),
        "num_performed": outcome.num_performed,
        "failure": "",
        "message": "",
    }


def outcomes_table(cache: CompileCache) -> tuple[pa.Table, pa.Schema]:
    """All outcomes that a cache knows, a row each, and the schema.

    ``decisions`` is null where the heuristic chose. Features of the candidates, ``f_<name>``, have a value for each
    candidate, as ``viable`` has; of an outcome that does not tell them they are null.
    """
    rows: list[dict[str, Any]] = []
    features: dict[str, None] = {}
    for content in cache.contents():
        for part, outcomes in cache.findings(content).outcomes.items():
            for decisions, outcome in outcomes.items():
                row = {"content": content, "part": part, "decisions": decisions, **choice_row(outcome)}
                if isinstance(outcome, CompiledUnit):
                    names = [f"f_{name}" for name in outcome.candidates.names]
                    features |= dict.fromkeys(names)
                    row |= zip(names, outcome.candidates.values.T.tolist(), strict=True)
                    row["viable"] = outcome.candidates.viable.tolist()
                rows.append(row)
    integers = pa.list_(pa.int64())
    keys = [("content", pa.string()), ("part", pa.string()), ("decisions", integers)]
    told = [("viable", pa.list_(pa.bool_())), *((name, integers) for name in features)]
    schema = pa.schema([*keys, *list(CSE_COMPILES)[2:], *told])
    return pa.Table.from_pylist(rows, schema), schema
