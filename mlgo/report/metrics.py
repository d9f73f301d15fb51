"""Numbers for DVC: nested metrics and the data of its plots."""

from collections import defaultdict
from collections.abc import Iterable

from mlgo.base.artifacts import Row
from mlgo.base.names import LANGUAGES
from mlgo.compare.headline import Headline, HeadlineRow
from mlgo.compare.inference import Comparison, Figures, gain_keys, percent, tally_keys
from mlgo.compare.modules import ratios
from mlgo.compare.scores import ALL, ComparisonRow, ScoreMatrix, claims
from mlgo.compare.trainings import Curve
from mlgo.learn.progress import csv_text

PARTS: dict[str, str] = {ALL: "", **{name: f" {name}" for name in LANGUAGES}}
"""Parts of a split, with what ``comparisons.json`` adds to the name of a policy."""

Metrics = dict[str, dict[str, Figures]]
"""Figures by split, then by contender."""

_PROJECTS = {"projects": "num_projects", **tally_keys("projects_", "projects")}

_OF_HEADLINE = {
    **gain_keys("", "geomean"),
    **gain_keys("total_", "total"),
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

_OF_FUNCTIONS = {"functions": "num_compared", "functions_failed": "num_failed", **tally_keys("functions_", "items")}

_OF_BEST = {"best_geomean_share_percent": "geomean_share%", "best_total_share_percent": "total_share%"}

_OF_MODULES = {
    **gain_keys("geomean_", "geomean"),
    **gain_keys("total_", "total"),
    **gain_keys("median_", "median"),
    "much_larger_share_percent": "much_larger_share%",
    "worst_project_percent": "worst_project.share%",
    "sign_p": "sign_p~",
    "p": "p~",
    "corrected_p": "corrected_p~",
    "modules": "num_compared",
    "failed": "num_failed",
    **tally_keys("modules_", "items"),
    "much_larger": "much_larger",
    **_PROJECTS,
    "worst_project": "worst_project.name",
    "num_tests": "num_tests",
    "verdict": "verdict",
    "finding": "finding",
}

_OF_ANSWER = {"projects": "num_projects", **tally_keys("", "items")}


def headline_metrics(rows: Iterable[ComparisonRow], measure: str, shipped: Iterable[ComparisonRow] = ()) -> Metrics:
    """The few numbers to compare experiments by, by split and learner: over all its seeds, which may differ.

    What ships comes first; of ``rows``, comparisons of modules, only whole splits and single languages are taken.
    """
    found = defaultdict[str, dict[str, Figures]](dict)
    for row in claims(shipped):
        figures = row.by("total").figures(gain_keys("shipped_", "total"))
        for name in ("text", "read_only", "unwind", "folded", "compressed"):
            figures |= row.by(name).figures({f"shipped_{name}_gain_percent": "total.value%"})
        figures |= row.by("total").figures({"programs": "num_compared", "programs_much_larger": "much_larger"})
        found[row.split][row.contender.learner] = figures
    for row in claims(rows):
        if row.scope in PARTS:
            known = found[row.split].setdefault(f"{row.contender.learner}{PARTS[row.scope]}", {})
            known.update(row.by(measure).figures(_OF_HEADLINE))
    return found


def metrics(rows: Iterable[ComparisonRow]) -> Metrics:
    """Metrics by split and contender, for example ``{"test": {"es-s0": {"text_geomean_gain_percent": 1.5, ...}}}``.

    The modules of one language stand under the contender's name with the language, ``"es-s0 c++"``; other parts of a
    split are left out, and so is a gain without modules or an interval with fewer than two projects.
    """
    found = defaultdict[str, dict[str, Figures]](dict)
    for row in rows:
        if row.scope in PARTS:
            figures = found[row.split][f"{row.name}{PARTS[row.scope]}"] = {}
            for measure, one in row.comparisons.items():
                figures |= _of_modules(one, measure)
            figures |= row.counts
    return found


def shipped_metrics(totals: Iterable[ComparisonRow]) -> Metrics:
    """Numbers of linked files in total, by split and contender: ``programs``, ``total_bytes``, and so on."""
    found: Metrics = {}
    for row in totals:
        numbers = row.by("total").figures(_OF_PROGRAMS)
        for figure, sizes in row.comparisons.items():
            summed = {f"{figure}_bytes": sizes.policy_sum, f"{figure}_baseline_bytes": sizes.baseline_sum}
            numbers |= {name: round(value) for name, value in summed.items()}
            numbers |= sizes.figures(gain_keys(f"{figure}_", "total"))
        found.setdefault(row.split, {})[row.name] = numbers
    return found


def headline_metrics_of(truth: Headline) -> Row:
    """Headline results with gains in percent: answers by question, and other levels by name."""

    def figures(one: HeadlineRow) -> Figures:
        finding = {"finding": "finding"} if one.claimed else {}
        return one.comparison.figures({**gain_keys("", one.kind), **_OF_ANSWER, **finding})

    return {
        "contender": truth.contender.name,
        "seeds": {str(seed): percent(gain) for seed, gain in truth.by_seed.items()},
        "headline": {"asked": truth.answers[0].asked, **figures(truth.answers[0])},
        "answers": {one.asked: figures(one) for one in truth.answers},
        "instead": {one.asked: figures(one) for one in truth.references},
    }


def function_metrics(rows: Iterable[tuple[ComparisonRow, ComparisonRow]]) -> dict[str, Figures]:
    """Numbers function by function, by contender, with the shares of what the best of all gains."""
    found = {}
    for by_function, by_module in rows:
        ((measure, whole),) = by_module.comparisons.items()
        functions = by_function.by(measure).figures(_OF_FUNCTIONS)
        found[by_function.name] = functions | _of_modules(whole, "module") | whole.figures(_OF_BEST)
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
    return csv_text(["policy", "split", "project", "gain_percent", "smaller", "equal", "larger"], records)


def learning_csv(curves: Iterable[Curve]) -> str:
    """Reward on the validation projects over the generations of ES and the iterations of PPO, as CSV."""
    records = [
        [curve.policy, int(step), round(reward, 6)]
        for curve in curves
        for step, reward in zip(*curve.points(curve.step, "validation_reward"), strict=True)
    ]
    return csv_text(["policy", "generation", "validation_reward"], records)


def ratios_csv(measured: ScoreMatrix, measure: str) -> str:
    """Score under the policy over score under the heuristic, module by module, as CSV; by policy, split and ratio."""
    records = [
        [name, split, measured.keys[item], round(ratio, 6)]
        for name in measured.policies
        for split in measured.splits
        for item, ratio in ratios(measured, name, split, measure)
    ]
    return csv_text(["policy", "split", "module", "ratio"], records)


def _of_modules(one: Comparison, measure: str) -> Figures:
    found = one.figures(_OF_MODULES)
    found["worst_project"] = found["worst_project"] or ""
    return {f"{prefix_of(measure)}{name}": value for name, value in found.items()}
