"""Numbers for DVC: nested metrics and the data of its plots."""

import csv
import io
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from mlgo.core.names import PolicyName
from mlgo.report.compare import Comparison, verdict
from mlgo.report.curves import Curve
from mlgo.report.functions import FunctionRow
from mlgo.report.linked import RankCorrelation, TotalGains
from mlgo.report.measured import contenders
from mlgo.report.tables import SPLITS, Row, ratios

_SCOPES = {"all": "", "c": "c", "c++": "c++"}
_DIGITS = 4
"""Decimals of percentages; what lies beyond is noise and may differ between machines."""


def headline_metrics(rows: Iterable[Row], policies: Sequence[str], measure: str) -> dict[str, dict[str, Any]]:
    """The few numbers to compare experiments by: gain of each learner, averaged over its seeds.

    Named by learner, not by seed, so that experiments with other seeds fall into the same columns.

    Args:
        rows: comparisons; only those of the policies on whole splits and single languages are taken.
        policies: contenders that are policies, ``<learner>-s<seed>``.
        measure: size that is compared.

    Returns:
        ``{"test": {"es": {"gain_percent": ..., "low_percent": ..., "high_percent": ..., "wins": ..., "losses": ...},
        "es c++": ...}}``; the ends are means of the seeds' interval ends.
    """
    by_learner: dict[tuple[str, str], list[Comparison]] = {}
    for row in rows:
        if row.contender in policies and row.scope in _SCOPES:
            name = f"{PolicyName.of(row.contender).learner} {_SCOPES[row.scope]}".strip()
            by_learner.setdefault((row.split, name), []).append(row.by(measure))
    found: dict[str, dict[str, Any]] = {}
    for (split, name), comparisons in by_learner.items():
        figures = {
            "gain_percent": _mean([c.geomean for c in comparisons], 100.0),
            "low_percent": _mean([c.geomean_low for c in comparisons], 100.0),
            "high_percent": _mean([c.geomean_high for c in comparisons], 100.0),
            "total_gain_percent": _mean([c.total for c in comparisons], 100.0),
            "wins": _mean([c.wins for c in comparisons]),
            "losses": _mean([c.losses for c in comparisons]),
        }
        found.setdefault(split, {})[name] = {key: value for key, value in figures.items() if value is not None}
    return found


def metrics(rows: Iterable[Row]) -> dict[str, dict[str, dict[str, float | str]]]:
    """Metrics by split and contender, for example ``{"test": {"es-s0": {"text_geomean_gain_percent": 1.5, ...}}}``.

    The modules of one language stand under the contender's name with the language, ``"es-s0 c++"``.

    Args:
        rows: comparisons; only those of whole splits are taken.

    Returns:
        Numbers and verdicts; a gain without modules or an interval with fewer than two is left out.
    """
    found: dict[str, dict[str, dict[str, float | str]]] = {}
    for row in rows:
        if row.scope in _SCOPES:
            numbers = {k: v for measure in row.comparisons for k, v in _numbers(row.by(measure), measure).items()}
            name = f"{row.contender} {_SCOPES[row.scope]}".strip()
            found.setdefault(row.split, {})[name] = {**numbers, "truncated": row.num_truncated}
    return found


def linked_metrics(totals: Iterable[TotalGains]) -> dict[str, dict[str, dict[str, float | int]]]:
    """Gains of whole projects by split and policy, to stand beside those of `metrics`.

    Args:
        totals: comparisons over projects.

    Returns:
        For example ``{"test": {"es-s0": {"linked_total_gain_percent": 1.1, "linked_total_low_percent": ...,
        "projects": 4, "projects_failed": 0}}}``.
    """
    found: dict[str, dict[str, dict[str, float | int]]] = {}
    for one in totals:
        numbers: dict[str, float | int] = {}
        for measure, comparison in one.by_measure.items():
            for name, attribute in (("gain", "total"), ("low", "total_low"), ("high", "total_high")):
                if (value := _percent(getattr(comparison, attribute))) is not None:
                    numbers[f"{measure}_total_{name}_percent"] = value
            numbers |= {"projects": comparison.num_modules, "projects_failed": comparison.num_failed}
        found.setdefault(one.split, {})[one.policy] = numbers
    return found


def headline_linked_metrics(totals: Iterable[TotalGains]) -> dict[str, dict[str, dict[str, float]]]:
    """Gain of each learner in the linked size of all projects of a split, averaged over its seeds.

    Returns:
        ``{"test": {"es": {"linked_gain_percent": ..., "linked_low_percent": ..., "linked_high_percent": ...}}}``; the
        ends are means of the seeds' interval ends.
    """
    by_learner: dict[tuple[str, str], list[Comparison]] = {}
    for one in totals:
        by_learner.setdefault((one.split, PolicyName.of(one.policy).learner), []).append(one.by_measure["linked"])
    found: dict[str, dict[str, dict[str, float]]] = {}
    for (split, learner), comparisons in by_learner.items():
        figures = {
            "linked_gain_percent": _mean([c.total for c in comparisons], 100.0),
            "linked_low_percent": _mean([c.total_low for c in comparisons], 100.0),
            "linked_high_percent": _mean([c.total_high for c in comparisons], 100.0),
        }
        found.setdefault(split, {})[learner] = {key: value for key, value in figures.items() if value is not None}
    return found


def correlation_metrics(correlations: Iterable[RankCorrelation]) -> dict[str, dict[str, float | int]]:
    """Rank correlations by scope: ``{"es-s0, test projects": {"gains": 4, "object_linked": 1.0, ...}}``."""
    return {
        one.scope: {
            "gains": one.num_gains,
            **{f"{a}_{b}": round(value, _DIGITS) for (a, b), value in one.by_pair.items() if value is not None},
        }
        for one in correlations
    }


def merged(first: Mapping[str, Any], second: Mapping[str, Any]) -> dict[str, Any]:
    """Two nested mappings as one; of plain values with equal keys the second's."""
    found = dict(first)
    for key, value in second.items():
        both = key in found and isinstance(found[key], Mapping) and isinstance(value, Mapping)
        found[key] = merged(found[key], value) if both else value
    return found


def projects_csv(rows: Iterable[Row], measure: str) -> str:
    """Gain of the geometric mean by policy and project, in percent, as CSV."""
    records = [
        [row.contender, row.split, row.scope, *map(_percent, (c.geomean, c.geomean_low, c.geomean_high))]
        for row in rows
        for c in [row.by(measure)]
    ]
    return _csv(["policy", "split", "project", "gain_percent", "low", "high"], records)


def learning_csv(curves: Iterable[Curve]) -> str:
    """Reward on the validation projects over the generations of ES and the iterations of PPO, as CSV."""
    records = [
        [curve.policy, int(step), round(reward, 6)]
        for curve in curves
        for step, reward in zip(*curve.points(curve.step, "validation_reward"), strict=True)
    ]
    return _csv(["policy", "generation", "validation_reward"], records)


def function_metrics(rows: Iterable[FunctionRow]) -> dict[str, dict[str, float | str]]:
    """Numbers function by function, by contender, with the shares of what the best of all gains.

    Returns:
        For example ``{"es-s0": {"function_geomean_gain_percent": 1.2, "module_geomean_gain_percent": 1.5, ...,
        "best_geomean_share_percent": 15.4, "best_total_share_percent": 91.7}}``; without the total over functions and
        without verdicts.
    """
    found = {}
    for row in rows:
        numbers = {**_numbers(row.by_function, "function"), **_numbers(row.by_module, "module")}
        for kind in ("geomean", "total"):
            share = _percent(getattr(row, f"{kind}_share"))
            numbers |= {} if share is None else {f"best_{kind}_share_percent": share}
        found[row.contender] = {
            name: value
            for name, value in numbers.items()
            if not name.startswith("function_total") and "verdict" not in name
        }
    return found


def ratios_csv(measured: pa.Table, measure: str) -> str:
    """Size under the policy over size under the heuristic, module by module, as CSV; by policy, split and ratio."""
    present = set(pc.unique(measured["split"]).to_pylist())
    records = [
        [name, split, key, round(float(ratio), 6)]
        for name in contenders(measured, policies=True)
        for split in SPLITS
        if split in present
        for key, ratio in zip(*ratios(measured, name, split, measure), strict=True)
    ]
    return _csv(["policy", "split", "module", "ratio"], records)


def _numbers(comparison: Comparison, measure: str) -> dict[str, float | str]:
    prefix = measure.removesuffix("_bytes")
    percentages = {
        f"{kind}_{name}_percent": _percent(getattr(comparison, kind if name == "gain" else f"{kind}_{name}"))
        for kind in ("geomean", "total")
        for name in ("gain", "low", "high")
    }
    shares = {"worse_share_percent": _percent(comparison.worse_share), "sign_p": _significant(comparison.sign_p)}
    counts = ("num_modules", "num_failed", "wins", "losses", "ties", "worse_than_2_percent")
    return {
        **{f"{prefix}_{name}": value for name, value in (percentages | shares).items() if value is not None},
        **{f"{prefix}_{name.removeprefix('num_')}": getattr(comparison, name) for name in counts},
        f"{prefix}_verdict": verdict(comparison),
    }


def _mean(values: Sequence[float | None], factor: float = 1.0) -> float | None:
    known = [value for value in values if value is not None]
    return round(factor * sum(known) / len(known), _DIGITS) + 0.0 if len(known) == len(values) else None


def _percent(gain: float | None) -> float | None:
    return None if gain is None else round(100.0 * gain, _DIGITS) + 0.0  # + 0.0 turns a negative zero into 0


def _significant(probability: float | None) -> float | None:
    return None if probability is None else float(f"{probability:.{_DIGITS}g}")


def _csv(header: Sequence[str], records: Iterable[Sequence[Any]]) -> str:
    buffer = io.StringIO()
    writer = csv.writer(buffer, lineterminator="\n")
    writer.writerow(header)
    writer.writerows(records)  # None becomes an empty field
    return buffer.getvalue()
