"""Numbers about choices of eliminations, for the terminal, for DVC and for its plots."""

import csv
import io
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from typing import Any

from mlgo.report.cse import ALL, HEURISTIC, CseRow, MeasuredUnits, ratios

_DIGITS = 6
"""Decimals of all figures; what lies beyond may differ between machines."""


def cse_comparisons(measured: MeasuredUnits, rows: Sequence[CseRow]) -> dict[str, Any]:
    """All comparisons, nested.

    Returns:
        ``{"task": ..., "measure": ..., "splits": {"test": {"units": ..., "labels": ..., "exhaustive_labels": ...,
        "contenders": {"es-s0": {...}}, "projects": {"<project>": {"es-s0": {...}}}}}}``; a record holds what `CseRow`
        does. Splits without units are left out.
    """
    splits: dict[str, Any] = {}
    for split in measured.splits:
        units = measured.members(split)
        splits[split] = {
            "units": int(units.sum()),
            "labels": int(measured.labelled[units].sum()),
            "exhaustive_labels": int(measured.exhaustive[units].sum()),
            "contenders": _records(rows, split, ALL),
            "projects": {project: _records(rows, split, project) for project in measured.projects(split)},
        }
    return {"task": measured.task, "measure": measured.measure, "splits": splits}


def cse_metrics(rows: Sequence[CseRow]) -> dict[str, dict[str, dict[str, float]]]:
    """The few numbers to compare experiments by: means of the figures of each learner's policies, over their seeds.

    Returns:
        ``{"test": {"es": {"geomean": ..., "low": ..., "high": ..., "size_geomean": ..., "better": ..., "worse": ...,
        "failed": ..., "headroom_share": ...}}}``; a figure that a seed lacks is left out. Below 1 is better.
    """
    by_learner: dict[tuple[str, str], list[CseRow]] = {}
    for row in rows:
        if row.is_policy and row.num_seeds == 1 and row.scope == ALL:
            by_learner.setdefault((row.split, row.learner), []).append(row)
    found: dict[str, dict[str, dict[str, float]]] = {}
    for (split, learner), of_seeds in by_learner.items():
        figures: dict[str, Sequence[float | None]] = {
            "geomean": [row.heuristic.geomean for row in of_seeds],
            "low": [row.heuristic.low for row in of_seeds],
            "high": [row.heuristic.high for row in of_seeds],
            "size_geomean": [row.size.geomean for row in of_seeds],
            "better": [row.heuristic.better for row in of_seeds],
            "worse": [row.heuristic.worse for row in of_seeds],
            "failed": [row.num_failed for row in of_seeds],
            "headroom_share": [row.headroom_share for row in of_seeds],
        }
        means = {name: _mean(values) for name, values in figures.items()}
        found.setdefault(split, {})[learner] = {name: mean for name, mean in means.items() if mean is not None}
    return found


def cse_ratios_csv(measured: MeasuredUnits) -> str:
    """Score and code size over those under the heuristic, unit by unit, as CSV; by contender, split and ratio."""
    buffer = io.StringIO()
    writer = csv.writer(buffer, lineterminator="\n")
    writer.writerow(["contender", "split", "unit", "score_ratio", "size_ratio"])
    for name in (one.name for one in measured.contenders if one.name != HEURISTIC):
        for split in measured.splits:
            for score, size, unit in zip(*ratios(measured, name, measured.members(split)), strict=True):
                writer.writerow([name, split, unit, round(float(score), _DIGITS), round(float(size), _DIGITS)])
    return buffer.getvalue()


def _records(rows: Sequence[CseRow], split: str, scope: str) -> dict[str, Any]:
    return {row.contender: _record(row) for row in rows if (row.split, row.scope) == (split, scope)}


def _record(row: CseRow) -> dict[str, Any]:
    known = asdict(row)
    return {name: _rounded(value) for name, value in known.items() if name not in ("contender", "split", "scope")}


def _mean(values: Sequence[float | None]) -> float | None:
    known = [value for value in values if value is not None]
    return round(sum(known) / len(known), _DIGITS) + 0.0 if len(known) == len(values) else None


def _rounded(value: Any) -> Any:
    if isinstance(value, Mapping):
        return {name: _rounded(one) for name, one in value.items()}
    return round(value, _DIGITS) + 0.0 if isinstance(value, float) else value  # + 0.0 turns a negative zero into 0
