"""The page of `mlgo evaluate`: a finished policy on projects that need no run of their own."""

from collections import defaultdict
from collections.abc import Mapping

import numpy as np
import pyarrow as pa

from mlgo.base.config import Settings
from mlgo.compare.headline import headline
from mlgo.compare.inference import POINTS_ONLY, Bootstrap
from mlgo.compare.modules import SCOPES, policy_scores
from mlgo.compare.programs import measured_programs
from mlgo.compare.scores import ALL, Contender, ScoreMatrix, by_language, compare
from mlgo.objects.measures import DEFAULT, get_measure
from mlgo.report import render
from mlgo.report.figures import Figure, Series, chart
from mlgo.report.inputs import Facts
from mlgo.report.pages import text_column
from mlgo.report.seen_code import compare_seen
from mlgo.report.ships import compare_shipped


def known_gains(course: pa.Table, shipped: pa.Table, policy: str) -> tuple[np.ndarray, np.ndarray]:
    """What is known to be possible after so many compiles of each module; empty where nothing was searched or measured.

    Numbers of compiles, int64 [num_steps], from 0, which is the policy; gains over the heuristic in total, float64
    [num_steps].
    """
    measured = measured_programs(shipped, [Contender.named(policy)])
    totals, baseline = measured.scores["total"], measured.baseline["total"]
    both = np.all(np.isfinite(totals) & np.isfinite(baseline), axis=0)
    if not course.num_rows or not both.any():
        return np.empty(0, np.int64), np.empty(0)
    steps = defaultdict[int, int](int)
    before: dict[str, int] = {}
    for row in course.to_pylist():
        key = row["project"]
        steps[row["num_compiles"]] += before.get(key, row["total"]) - row["total"]
        before[key] = row["total"]
    counts = np.array(sorted(steps), np.int64)
    saved = np.cumsum([steps[count] for count in counts.tolist()])
    return counts, 1.0 - (totals[:, both].sum() - saved) / baseline[both].sum()


def compare_policy(
    task: str, values: Settings, results: pa.Table, shipped: pa.Table, measurement: Facts
) -> render.ComparedPolicies:
    """Compare a policy with the heuristic, by ``artifacts.RESULTS`` and ``artifacts.SHIPPED_SIZES``."""
    modules, bootstrap = policy_scores(results), Bootstrap.of(values)
    ships = compare_shipped(shipped, modules.contenders, bootstrap)
    split, objective = modules.splits[0], values.value("compile.objective")
    linked = any(row.split == split and row.by("total").num_compared for row in ships.totals if row.contender.is_policy)
    return render.ComparedPolicies(
        task=task,
        measure=objective if objective in modules.scores else DEFAULT.name,  # some need a baseline of the project
        modules=modules,
        ships=ships,
        seen=compare_seen(shipped, modules.contenders, bootstrap),
        truth=headline(shipped, results, None, bootstrap, split=split) if linked else None,
        bootstrap=bootstrap,
        measurement=measurement,
    )


def render_policy_page(
    page: render.ComparedPolicies, policy: str, known: tuple[np.ndarray, np.ndarray], facts: Mapping[str, Facts]
) -> str:
    """The page as HTML, self-contained, with what `known_gains` gives: the same inputs give the same bytes."""
    modules, main = page.modules, get_measure(page.measure)
    split = modules.splits[0]
    rows = compare(modules, by_language, page.bootstrap)
    by_project = compare(modules, ScoreMatrix.by_project, POINTS_ONLY)
    scope = text_column("modules of", lambda row: f"{row.split}, {SCOPES[row.scope]}")
    (whole,) = (row for row in rows if (row.split, row.scope) == (split, ALL))
    return page.render(
        "policy_page.html.jinja",
        split,
        policy=policy,
        projects=list(dict.fromkeys(modules.items["project"].tolist())),
        cards=[render.module_card(whole, main)],
        parts=render.comparison_table([scope], rows, page.measures),
        by_project=render.project_table([], by_project, page.measures),
        facts=facts,
        figures={
            "search": _known(*known),
            "distribution": render.distribution(modules, main, split),
            "projects": render.project_bars(by_project, main, modules.policies) if len(by_project) > 1 else None,
        },
    )


def _known(num_compiles: np.ndarray, gains: np.ndarray) -> Figure | None:
    """Gain of linked files that a search knows of, by compiles of each module; None where nothing was searched."""
    if not len(num_compiles):
        return None
    steps = {"line": {"shape": "hv"}}
    series = [Series("search", num_compiles, 100.0 * gains, hover="%{x} compiles: %{y:.2f} %", style=steps)]
    return chart(series, {"title": "compiles of each module"}, {"title": "known gain of linked files (%)"}, 360)
