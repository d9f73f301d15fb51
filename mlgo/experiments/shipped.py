"""What ships: linked files under policies beside the heuristic, one by one and in total."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import pyarrow as pa

from mlgo.compiler.linked import SHIPPED
from mlgo.experiments.inference import POINTS_ONLY, Bootstrap
from mlgo.experiments.measured import Contender, Measured, Place, Row, compare_all, gather
from mlgo.problems.llvm.task import HEURISTIC

FIGURES = (*SHIPPED, "folded")
"""What is compared: sizes of a linked file, and the total once functions with identical code are folded into one."""

PROGRAMS = "programs"
"""Scope of all programs of a split."""

_ATTRIBUTES = ("project", "program", "split", "kind", "num_modules", "num_foreign")


def measured_programs(shipped: pa.Table, policies: Sequence[Contender]) -> Measured:
    """Bring each policy's sizes and the heuristic's together, in the order of the table.

    Args:
        shipped: ``artifacts.SHIPPED_SIZES``.
        policies: whose sizes are wanted.
    """
    sizes: dict[tuple[str, tuple[str, str]], dict[str, Any]] = {}
    for row in shipped.to_pylist():
        one = sizes.setdefault((row["contender"], (row["project"], row["program"])), dict(row))
        one |= {"folded": row["total"]} if row["folded"] else {name: row[name] for name in SHIPPED}
    plain = {
        program: {f"baseline_{name}": one[name] for name in FIGURES}
        for (contender, program), one in sizes.items()
        if contender == HEURISTIC
    }
    rows = [
        {**one, **plain[program], "contender": policy}
        for policy in policies
        for (contender, program), one in sizes.items()
        if contender == policy.name and program in plain
    ]
    return gather(rows, ("project", "program"), dict.fromkeys(FIGURES, 0.0), _ATTRIBUTES)


def program_rows(measured: Measured) -> list[Row]:
    """Compare each policy on each program; counts tell project, program, kind and modules."""
    places = measured.places(lambda split: _one_by_one(measured, split))
    return compare_all(measured, places, POINTS_ONLY, count=_attributes, together=False)


def shipped_totals(measured: Measured, bootstrap: Bootstrap) -> list[Row]:
    """Compare policies, and learners over their seeds, over the programs of each split whose sizes are all known."""
    known = np.all([np.isfinite(scores) for scores in measured.scores.values()], axis=0)
    whole = {name: np.where(known, scores, np.nan) for name, scores in measured.scores.items()}
    places = [Place(split, PROGRAMS, measured.where(split=split)) for split in measured.splits]
    return compare_all(replace(measured, scores=whole), places, bootstrap)


def ship_failures(shipped: pa.Table) -> list[dict[str, Any]]:
    """Rows of ``artifacts.SHIPPED_SIZES`` without sizes; of a program that fails both ways, the first."""
    failed = [row for row in shipped.to_pylist() if row["failure"]]
    return list({(row["contender"], row["project"], row["program"]): row for row in reversed(failed)}.values())[::-1]


def _one_by_one(measured: Measured, split: str) -> Iterator[tuple[str, np.ndarray]]:
    for number in np.flatnonzero(measured.where(split=split)).tolist():
        yield measured.keys[number], np.arange(len(measured.keys)) == number


def _attributes(measured: Measured, members: Sequence[int], items: np.ndarray) -> Mapping[str, Any]:
    (number,) = np.flatnonzero(items)
    return {name: measured.items[name][number] for name in _ATTRIBUTES}
