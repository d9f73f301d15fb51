"""Numbers for DVC: nested metrics and the data of its plots."""

import csv
import io
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from mlgo.experiments.compare import Comparison, Gain
from mlgo.experiments.curves import Curve
from mlgo.experiments.evaluation import ratios
from mlgo.experiments.measured import ALL, Measured, Row
from mlgo.experiments.projects import RankCorrelation
from mlgo.experiments.shipped import PROGRAMS
from mlgo.report.pages import mean, percent

_DIGITS = 4
"""Decimals of percentages; what lies beyond is noise and may differ between machines."""

PARTS = {ALL: "", "c++": " c++", "c": " c"}
"""Parts of a split, with what ``comparisons.json`` adds to the name of a policy."""

_ENDS = {"gain": "value", "low": "low", "high": "high"}


def headline_metrics(
    rows: Iterable[Row], measure: str, totals: Iterable[Row], shipped: Iterable[Row] = ()
) -> dict[str, dict[str, dict[str, Any]]]:
    """The few numbers to compare experiments by: gain of each learner, averaged over its seeds.

    Named by learner, not by seed, so that experiments with other seeds fall into the same columns.

    Args:
        rows: comparisons of modules; only those of single policies on whole splits and single languages are taken.
        measure: what is compared.
        totals: comparisons of whole projects.
        shipped: comparisons of programs in total.

    Returns:
        ``{"test": {"es": {"gain_percent": ..., "low_percent": ..., "high_percent": ..., "wins": ..., "losses": ...,
        "linked_gain_percent": ..., "shipped_gain_percent": ...}, "es c++": ...}}``; the ends are means of the seeds'
        interval ends.
    """
    found: dict[str, dict[str, dict[str, Any]]] = {}
    for (split, name), of_seeds in _by_learner(rows, measure).items():
        figures = {
            **_mean_ends("", [c.geomean for c in of_seeds]),
            "total_gain_percent": mean([c.total.value for c in of_seeds], _DIGITS, 100.0),
            "wins": mean([c.wins for c in of_seeds], _DIGITS),
            "losses": mean([c.losses for c in of_seeds], _DIGITS),
        }
        found.setdefault(split, {})[name] = _known(figures)
    for prefix, whole, figure in (("linked_", totals, "linked"), ("shipped_", shipped, "total")):
        for (split, name), of_seeds in _by_learner(whole, figure).items():
            ends = _mean_ends(prefix, [c.total for c in of_seeds])
            found.setdefault(split, {}).setdefault(name, {}).update(_known(ends))
    return found


def metrics(
    rows: Iterable[Row], totals: Iterable[Row], by_project: Iterable[Row] = ()
) -> dict[str, dict[str, dict[str, float | str]]]:
    """Metrics by split and contender, for example ``{"test": {"es-s0": {"text_geomean_gain_percent": 1.5, ...}}}``.

    The modules of one language stand under the contender's name with the language, ``"es-s0 c++"``.

    Args:
        rows: comparisons of modules; only those of whole splits and single languages are taken.
        totals: comparisons of whole projects, which stand beside those of all modules.
        by_project: comparisons of modules with intervals over projects, whose ends are named after them.

    Returns:
        Numbers and verdicts; a gain without modules or an interval with fewer than two is left out.
    """
    found: dict[str, dict[str, dict[str, float | str]]] = {}
    for row in rows:
        if row.scope in PARTS:
            numbers = {k: v for measure in row.comparisons for k, v in _numbers(row.by(measure), measure).items()}
            found.setdefault(row.split, {})[f"{row.name}{PARTS[row.scope]}"] = {**numbers, **row.counts}
    for row in totals:
        numbers = {}
        for measure, one in row.comparisons.items():
            numbers |= _known(percents(f"{measure}_total_", one.total)) | {
                "projects": one.num_compared,
                "projects_failed": one.num_failed,
            }
        found.setdefault(row.split, {}).setdefault(row.name, {}).update(numbers)
    for row in by_project:
        ends = {
            f"{prefix_of(measure)}{kind}_by_project_{end}_percent": percent(getattr(getattr(one, kind), end))
            for measure, one in row.comparisons.items()
            for kind in ("geomean", "total")
            for end in ("low", "high")
        }
        found[row.split][f"{row.name}{PARTS[row.scope]}"].update(_known(ends))
    return found


def shipped_metrics(totals: Iterable[Row]) -> dict[str, dict[str, dict[str, float | int]]]:
    """Numbers of linked files in total, by split and contender.

    Args:
        totals: as of `shipped.shipped_totals`.

    Returns:
        For example ``{"test": {"es-s0": {"programs": 4, "programs_failed": 0, "projects": 3, "total_bytes": 990,
        "total_baseline_bytes": 1000, "total_gain_percent": 1.0, "total_low_percent": ..., ...}}}``.
    """
    found: dict[str, dict[str, dict[str, float | int]]] = {}
    for row in totals:
        one = row.by("total")
        numbers: dict[str, float | int] = {
            "programs": one.num_compared,
            "programs_failed": one.num_failed,
            "projects": one.num_resampled,
        }
        for figure, sizes in row.comparisons.items():
            summed = {f"{figure}_bytes": sizes.policy_sum, f"{figure}_baseline_bytes": sizes.baseline_sum}
            numbers |= {name: round(value) for name, value in summed.items()}
            numbers |= _known(percents(f"{figure}_", sizes.total))
        found.setdefault(row.split, {})[row.name] = numbers
    return found


def function_metrics(rows: Iterable[tuple[Row, Row]]) -> dict[str, dict[str, float | str]]:
    """Numbers function by function, by contender, with the shares of what the best of all gains.

    Args:
        rows: by function, and by module, see `functions.function_rows`.

    Returns:
        For example ``{"es-s0": {"function_geomean_gain_percent": 1.2, "module_geomean_gain_percent": 1.5, ...,
        "best_geomean_share_percent": 15.4, "best_total_share_percent": 91.7}}``; without the total over functions and
        without verdicts.
    """
    found = {}
    for by_function, by_module in rows:
        ((measure, whole),) = by_module.comparisons.items()
        numbers = {**_numbers(by_function.by(measure), "function"), **_numbers(whole, "module")}
        shares = {
            "best_geomean_share_percent": percent(whole.geomean_share),
            "best_total_share_percent": percent(whole.total_share),
        }
        found[by_function.name] = {
            name: value
            for name, value in (numbers | _known(shares)).items()
            if not name.startswith("function_total") and "verdict" not in name
        }
    return found


def correlation_metrics(correlations: Iterable[RankCorrelation]) -> dict[str, dict[str, float | int]]:
    """Rank correlations by scope: ``{"es-s0, test projects": {"gains": 4, "object_linked": 1.0, ...}}``."""
    return {
        one.scope: {
            "gains": one.number,
            **{f"{a}_{b}": round(value, _DIGITS) for (a, b), value in one.by_pair.items() if value is not None},
        }
        for one in correlations
    }


def prefix_of(measure: str) -> str:
    """What names of figures in ``comparisons.json`` begin with."""
    return f"{measure.removesuffix('_bytes')}_"


def projects_csv(rows: Iterable[Row], measure: str) -> str:
    """Gain of the geometric mean by policy and project, in percent, as CSV."""
    records = [[row.name, row.split, row.scope, *map(percent, row.by(measure).geomean)] for row in rows]
    return write_csv(["policy", "split", "project", "gain_percent", "low", "high"], records)


def learning_csv(curves: Iterable[Curve]) -> str:
    """Reward on the validation projects over the generations of ES and the iterations of PPO, as CSV."""
    records = [
        [curve.policy, int(step), round(reward, 6)]
        for curve in curves
        for step, reward in zip(*curve.points(curve.step, "validation_reward"), strict=True)
    ]
    return write_csv(["policy", "generation", "validation_reward"], records)


def ratios_csv(measured: Measured, measure: str) -> str:
    """Score under the policy over score under the heuristic, module by module, as CSV; by policy, split and ratio."""
    records = [
        [name, split, measured.keys[item], round(ratio, 6)]
        for name in measured.policies
        for split in measured.splits
        for item, ratio in ratios(measured, name, split, measure)
    ]
    return write_csv(["policy", "split", "module", "ratio"], records)


def percents(prefix: str, gain: Gain, digits: int = _DIGITS) -> dict[str, float | None]:
    """A gain and the ends of its interval in percent, for example ``total_gain_percent``, ``total_low_percent``."""
    return {f"{prefix}{end}_percent": percent(getattr(gain, name), digits) for end, name in _ENDS.items()}


def write_csv(header: Sequence[str], records: Iterable[Sequence[Any]]) -> str:
    """Rows as CSV; None becomes an empty field."""
    buffer = io.StringIO()
    writer = csv.writer(buffer, lineterminator="\n")
    writer.writerow(header)
    writer.writerows(records)
    return buffer.getvalue()


def _by_learner(rows: Iterable[Row], measure: str) -> dict[tuple[str, str], list[Comparison]]:
    """Comparisons of single policies, by split and learner with the part of the split."""
    found: dict[tuple[str, str], list[Comparison]] = {}
    for row in rows:
        if len(row.contender.seeds) == 1 and row.scope in (*PARTS, "projects", PROGRAMS):
            name = f"{row.contender.learner}{PARTS.get(row.scope, '')}"
            found.setdefault((row.split, name), []).append(row.by(measure))
    return found


def _mean_ends(prefix: str, gains: Sequence[Gain]) -> dict[str, float | None]:
    """Means of gains and of the ends of their intervals, in percent."""
    means = [mean(values, _DIGITS, 100.0) for values in zip(*gains, strict=True)]
    return {f"{prefix}{end}_percent": value for end, value in zip(_ENDS, means, strict=True)}


def _numbers(one: Comparison, measure: str) -> dict[str, float | str]:
    prefix = prefix_of(measure)
    percentages = percents("geomean_", one.geomean) | percents("total_", one.total)
    shares = {"worse_share_percent": percent(one.worse_share), "sign_p": _significant(one.sign_p)}
    counts = {
        "modules": one.num_compared,
        "failed": one.num_failed,
        "wins": one.wins,
        "losses": one.losses,
        "ties": one.ties,
        "worse_than_2_percent": one.worse_than_2_percent,
        "verdict": one.verdict,
    }
    return {f"{prefix}{name}": value for name, value in {**_known(percentages | shares), **counts}.items()}


def _known(figures: Mapping[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in figures.items() if value is not None}


def _significant(probability: float | None) -> float | None:
    return None if probability is None else float(f"{probability:.{_DIGITS}g}")
