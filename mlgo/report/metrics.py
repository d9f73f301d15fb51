"""Numbers for DVC: nested metrics and the data of its plots."""

import csv
import io
from collections.abc import Iterable, Sequence
from typing import Any

from mlgo.base.artifacts import Row, RowView
from mlgo.base.names import LANGUAGES
from mlgo.compare.headline import Headline, HeadlineRow
from mlgo.compare.inference import Comparison, Gain, tally_keys
from mlgo.compare.modules import ratios
from mlgo.compare.scores import ALL, ComparisonRow, ScoreMatrix, claims
from mlgo.compare.trainings import Curve
from mlgo.report.pages import percent

_DIGITS = 4
"""Decimals of percentages; what lies beyond is noise and may differ between machines."""

PARTS: dict[str, str] = {ALL: "", **{name: f" {name}" for name in LANGUAGES}}
"""Parts of a split, with what ``comparisons.json`` adds to the name of a policy."""

_SHIPPED = ("text", "read_only", "unwind", "folded", "compressed")
"""Sizes of linked files that stand beside their total."""

_ENDS = {"gain": "value", "low": "low", "high": "high"}

_PROJECTS = {"projects": "num_projects", **tally_keys("projects_", "projects")}

_OF_HEADLINE = {
    "projects": "num_projects",
    "projects_smaller": "projects.smaller",
    "projects_larger": "projects.larger",
}

_OF_PROGRAMS = {
    "programs": "num_compared",
    "programs_failed": "num_failed",
    **_PROJECTS,
    **tally_keys("programs_", "items"),
    "programs_much_larger": "much_larger",
}

_OF_FUNCTIONS = {
    "functions": "num_compared",
    "functions_failed": "num_failed",
    **tally_keys("functions_", "items"),
}

_OF_MODULES = {
    "modules": "num_compared",
    "failed": "num_failed",
    **tally_keys("modules_", "items"),
    "much_larger": "much_larger",
    **_PROJECTS,
}

_OF_TEST = {"num_tests": "num_tests", "verdict": "verdict", "finding": "finding"}


def headline_metrics(
    rows: Iterable[ComparisonRow], measure: str, shipped: Iterable[ComparisonRow] = ()
) -> dict[str, dict[str, Row]]:
    """The few numbers to compare experiments by: of each learner, over all its seeds.

    Named by learner, not by seed, so that experiments with other seeds fall into the same columns.

    Args:
        rows: comparisons of modules; only those of whole splits and single languages are taken.

    Returns:
        ``{"test": {"es": {"shipped_gain_percent": ..., "shipped_low_percent": ..., "shipped_high_percent": ...,
        "shipped_folded_gain_percent": ..., "programs": ..., "programs_much_larger": ..., "gain_percent": ...,
        "total_gain_percent": ..., "projects": ..., "projects_smaller": ...}, "es c++": ...}}``;
        what ships comes first, objects follow; intervals are over projects and seeds.
    """
    found: dict[str, dict[str, Row]] = {}
    for row in claims(shipped):
        one = row.by("total")
        told = percents("shipped_", one.total) | {
            f"shipped_{figure}_gain_percent": percent(row.by(figure).total.value, _DIGITS) for figure in _SHIPPED
        }
        counts = one.figures({"programs": "num_compared", "programs_much_larger": "much_larger"})
        found.setdefault(row.split, {})[row.contender.learner] = _known(told) | counts
    for row in claims(rows):
        if row.scope in PARTS:
            one = row.by(measure)
            figures = {**percents("", one.geomean), **percents("total_", one.total), **one.figures(_OF_HEADLINE)}
            name = f"{row.contender.learner}{PARTS[row.scope]}"
            found.setdefault(row.split, {}).setdefault(name, {}).update(_known(figures))
    return found


def metrics(rows: Iterable[ComparisonRow]) -> dict[str, dict[str, dict[str, float | str]]]:
    """Metrics by split and contender, for example ``{"test": {"es-s0": {"text_geomean_gain_percent": 1.5, ...}}}``.

    The modules of one language stand under the contender's name with the language, ``"es-s0 c++"``.

    Args:
        rows: comparisons of modules; only those of whole splits and single languages are taken.

    Returns:
        Numbers and verdicts; a gain without modules or an interval with fewer than two projects is left out.
    """
    found: dict[str, dict[str, dict[str, float | str]]] = {}
    for row in rows:
        if row.scope in PARTS:
            numbers = {k: v for measure in row.comparisons for k, v in _numbers(row.by(measure), measure).items()}
            found.setdefault(row.split, {})[f"{row.name}{PARTS[row.scope]}"] = {**numbers, **row.counts}
    return found


def shipped_metrics(totals: Iterable[ComparisonRow]) -> dict[str, dict[str, dict[str, float | int]]]:
    """Numbers of linked files in total, by split and contender.

    Returns:
        For example ``{"test": {"es-s0": {"programs": 4, "programs_failed": 0, "projects": 3, "total_bytes": 990,
        "total_baseline_bytes": 1000, "total_gain_percent": 1.0, "total_low_percent": ..., ...}}}``.
    """
    found: dict[str, dict[str, dict[str, float | int]]] = {}
    for row in totals:
        numbers = row.by("total").figures(_OF_PROGRAMS)
        for figure, sizes in row.comparisons.items():
            summed = {f"{figure}_bytes": sizes.policy_sum, f"{figure}_baseline_bytes": sizes.baseline_sum}
            numbers |= {name: round(value) for name, value in summed.items()}
            numbers |= _known(percents(f"{figure}_", sizes.total))
        found.setdefault(row.split, {})[row.name] = numbers
    return found


def headline_metrics_of(truth: Headline) -> Row:
    """What a strict reader asks, with gains in percent: answers by question, and other levels by name."""

    def told(one: HeadlineRow) -> Row:
        keys = {
            "projects": "num_projects",
            **tally_keys("", "items"),
            **({"finding": "finding"} if one.claimed else {}),
        }
        return {**_known(percents("", one.gain)), **one.comparison.figures(keys)}

    return {
        "contender": truth.contender.name,
        "seeds": {str(seed): percent(gain) for seed, gain in truth.by_seed.items()},
        "answers": {one.asked: told(one) for one in truth.answers},
        "instead": {one.asked: told(one) for one in truth.references},
    }


def function_metrics(rows: Iterable[tuple[ComparisonRow, ComparisonRow]]) -> dict[str, dict[str, float | str]]:
    """Numbers function by function, by contender, with the shares of what the best of all gains.

    Returns:
        For example ``{"es-s0": {"functions_smaller": 12, "module_geomean_gain_percent": 1.5, ...,
        "best_geomean_share_percent": 15.4, "best_total_share_percent": 91.7}}``.
    """
    found = {}
    for by_function, by_module in rows:
        ((measure, whole),) = by_module.comparisons.items()
        functions = by_function.by(measure).figures(_OF_FUNCTIONS)
        shares = {
            "best_geomean_share_percent": percent(whole.geomean_share),
            "best_total_share_percent": percent(whole.total_share),
        }
        found[by_function.name] = functions | _numbers(whole, "module") | _known(shares)
    return found


def prefix_of(measure: str) -> str:
    """What names of figures in ``comparisons.json`` begin with."""
    return f"{measure.removesuffix('_bytes')}_"


def projects_csv(rows: Iterable[ComparisonRow], measure: str) -> str:
    """Gain in total and modules that changed by policy and project, as CSV; one project has no interval."""
    records = [
        [row.name, row.split, row.scope, percent(one.total.value), *one.items]
        for row in rows
        if (one := row.by(measure))
    ]
    return write_csv(["policy", "split", "project", "gain_percent", "smaller", "equal", "larger"], records)


def learning_csv(curves: Iterable[Curve]) -> str:
    """Reward on the validation projects over the generations of ES and the iterations of PPO, as CSV."""
    records = [
        [curve.policy, int(step), round(reward, 6)]
        for curve in curves
        for step, reward in zip(*curve.points(curve.step, "validation_reward"), strict=True)
    ]
    return write_csv(["policy", "generation", "validation_reward"], records)


def ratios_csv(measured: ScoreMatrix, measure: str) -> str:
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


def _numbers(one: Comparison, measure: str) -> dict[str, float | str]:
    kinds = ("geomean", "total", "median")
    percentages = {key: value for kind in kinds for key, value in percents(f"{kind}_", getattr(one, kind)).items()}
    shares = {
        "much_larger_share_percent": percent(one.much_larger_share),
        "worst_project_percent": one.worst_project and percent(one.worst_project.share),
        "sign_p": _significant(one.sign_p),
        "p": _significant(one.p),
        "corrected_p": _significant(one.corrected_p),
    }
    worst = {"worst_project": one.worst_project.name if one.worst_project else ""}
    counts = {**one.figures(_OF_MODULES), **worst, **one.figures(_OF_TEST)}
    prefix = prefix_of(measure)
    return {f"{prefix}{name}": value for name, value in {**_known(percentages | shares), **counts}.items()}


def _known(figures: RowView) -> Row:
    return {name: value for name, value in figures.items() if value is not None}


def _significant(probability: float | None) -> float | None:
    return None if probability is None else float(f"{probability:.{_DIGITS}g}")
