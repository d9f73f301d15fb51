"""The report as one self-contained page: the same inputs give the same bytes."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from operator import methodcaller

import numpy as np
import plotly.graph_objects as go

from mlgo.base.artifacts import RowView
from mlgo.base.seeding import sample
from mlgo.compare.executed import Programs
from mlgo.compare.headline import Headline
from mlgo.compare.inference import Bootstrap, Comparison
from mlgo.compare.modules import SCOPES, Standout, failures, ratios, standouts
from mlgo.compare.scores import ALL, ComparisonRow, ScoreMatrix, claims
from mlgo.compare.trainings import Curve
from mlgo.host.process import without_folders
from mlgo.host.tasks.task import get_task
from mlgo.objects.measures import Measure, get_measure
from mlgo.policy.importance import Importance
from mlgo.report.corpus import Corpus, SelfTest
from mlgo.report.executed_page import cost_ranks, program_table
from mlgo.report.figures import LOG_TICKS, Series, central_range, chart, panels, to_html
from mlgo.report.headline_page import headline_table
from mlgo.report.origin import Facts
from mlgo.report.pages import (
    HTML,
    TONES,
    Column,
    Of,
    Table,
    count_column,
    gain_column,
    gain_columns,
    render,
    tally_columns,
    text_column,
    verdict_columns,
    worst_columns,
)
from mlgo.report.seen_code import Seen
from mlgo.report.ships import Ships
from mlgo.report.training import budgets, losses, rewards

_NUM_STANDOUTS = 10
_NUM_FEATURES = 10
_NUM_FUNCTIONS = 3000  # points that a figure holds, of all policies together


@dataclass(frozen=True)
class Report:
    """Everything the page shows.

    Attributes:
        truth: headline results; None where what ships is no size that policies are made for.
        functions: costs of the judged functions; None for measures that are no sums over functions.
        function_rows: comparisons by function, with those by module; empty likewise.
        programs: what running programs showed; None where they did not run under these policies.
        self_test: does echoing the heuristic change nothing; None where the compiler does not tell its decisions.
    """

    task: str
    measure: str
    modules: ScoreMatrix
    rows: Sequence[ComparisonRow]
    project_rows: Sequence[ComparisonRow]
    ships: Ships
    seen: Seen
    truth: Headline | None
    functions: ScoreMatrix | None
    function_rows: Sequence[tuple[ComparisonRow, ComparisonRow]]
    programs: Programs | None
    bootstrap: Bootstrap
    corpus: Corpus
    self_test: SelfTest | None
    curves: Sequence[Curve]
    training_failures: Sequence[RowView]
    importances: Mapping[str, Sequence[Importance]]
    measurement: Facts
    policies: Mapping[str, Facts]
    hashes: Facts


def card(row: ComparisonRow, measure: Measure) -> tuple[str, str, Comparison]:
    """The verdict on a policy: how it looks, and in words; a direction is named only as `Comparison.verdict` allows."""
    one = row.by(measure.name)
    sentences = {
        "no verdict": f"{row.name}: {one.finding}",
        "no difference shown": f"{row.name}: {one.verdict} against the built-in heuristic",
        "smaller": f"{row.name} makes {measure.words.smaller} than the built-in heuristic does",
        "larger": f"{row.name} makes {measure.words.larger} than the built-in heuristic does",
    }
    return TONES[one.verdict], sentences[one.verdict], one


def render_page(report: Report) -> str:
    """Return the page as HTML."""
    modules, task = report.modules, get_task(report.task)
    main = get_measure(report.measure)
    measures = [main, *(get_measure(name) for name in modules.measures if name != main.name)]
    policies = [row for row in report.rows if row.contender.is_policy]
    references = [row for row in report.rows if not row.contender.is_policy and row.scope == ALL]
    cards = [row for row in claims(policies) if (row.split, row.scope) == (modules.judged, ALL)]
    inlining, level = task.actions.yes_or_no, report.measurement.get("compile.optimization", "")
    split, policy = text_column("split", lambda row: row.split), text_column("policy", lambda row: row.name)
    scope = text_column("modules", lambda row: f"{row.split}, {SCOPES[row.scope]}")
    whole = [row for row in policies if row.scope == ALL]
    return render(
        "page.html.jinja",
        report=report,
        measure=main,
        measures=measures,
        task=get_task(report.task),
        words=main.words,
        inlining=inlining,
        coverage=f"{100.0 * report.bootstrap.confidence:g}\N{NO-BREAK SPACE}%",
        cards=[card(row, main) for row in cards],
        judged=modules.judged,
        judged_projects=[project for project, _ in modules.by_project(modules.judged)],
        imitated="the heuristic" if task.references.is_heuristic else task.references.traced,
        whole=comparison_table([policy, split], whole, measures),
        parts=comparison_table([policy, scope], [row for row in policies if row.scope != ALL], measures),
        references=comparison_table([text_column("advisor", lambda row: row.name), split], references, measures),
        by_project=project_table([split, policy], report.project_rows, measures),
        truncated=[row for row in (*whole, *references) if row.counts["truncated"]],
        functions=_function_table(report.function_rows),
        programs=_program_tables(report.programs),
        ships=report.ships,
        headline=report.truth and headline_table(report.truth, level, HTML),
        standouts=standout_tables(modules, main, inlining, modules.judged),
        failures=failures_without_folders(modules),
        figures=to_html(
            {
                "distribution": distribution(modules, main, modules.judged),
                "scores": _score_scatter(modules, main),
                "functions": _function_scatter(report.functions, modules.policies, report.bootstrap.seed),
                "projects": project_bars(report.project_rows, main, modules.policies),
                "features": _feature_bars(report.importances),
                "budgets": budgets(report.curves),
                "rewards": rewards(report.curves),
                "losses": losses(report.curves),
            }
        ),
    )


def comparison_table(leading: Sequence[Column], rows: Sequence[ComparisonRow], measures: Sequence[Measure]) -> Table:
    """Contenders on modules of several projects: gains by all measures, counts and tests by the first."""
    main: Of = methodcaller("by", measures[0].name)
    return Table(
        [
            *leading,
            count_column("projects", lambda row: main(row).num_projects),
            count_column("modules", lambda row: main(row).num_compared),
            *gain_columns(main, measures[0].words.title, median=True),
            *tally_columns(main, measures[0].words.unit),
            *verdict_columns(main),
            *worst_columns(main),
            count_column("failed", lambda row: main(row).num_failed),
            *(column for one in measures[1:] for column in gain_columns(methodcaller("by", one.name), one.words.title)),
        ],
        rows,
    )


def project_table(leading: Sequence[Column], rows: Sequence[ComparisonRow], measures: Sequence[Measure]) -> Table:
    """Contenders on the modules of single projects; the scope of a row is its project."""

    def total(row: ComparisonRow, measure: str) -> float | None:
        return row.by(measure).total.value

    main: Of = methodcaller("by", measures[0].name)
    _, modules = tally_columns(main, measures[0].words.unit)
    return Table(
        [
            text_column("project", lambda row: row.scope),
            *leading,
            *(gain_column(f"gain in total, {one.words.title}", partial(total, measure=one.name)) for one in measures),
            modules,
            worst_columns(main)[0],
            Column("worst module", lambda row, style: style.change(main(row).worst_item), left=True, wrap=True),
            count_column("failed", lambda row: main(row).num_failed),
        ],
        rows,
    )


def _function_table(rows: Sequence[tuple[ComparisonRow, ComparisonRow]]) -> Table:
    def whole(row: tuple[ComparisonRow, ComparisonRow]) -> Comparison:
        return row[1].only

    _, functions = tally_columns(lambda row: row[0].only, "cost", "functions")
    return Table(
        [
            text_column("policy or advisor", lambda row: row[0].name),
            count_column("functions", lambda row: row[0].only.num_compared),
            functions,
            *gain_columns(whole),
            gain_column("share of the best, per project", lambda row: whole(row).geomean_share),
            gain_column("share of the best, in total", lambda row: whole(row).total_share),
        ],
        rows,
    )


def _program_tables(programs: Programs | None) -> dict[str, Table] | None:
    if programs is None:
        return None
    together, single = (program_table(programs.changes(together=together)) for together in (True, False))
    return {"together": together, "single": single, "ranks": cost_ranks(programs)}


def standout_tables(modules: ScoreMatrix, measure: Measure, inlining: bool, split: str) -> dict[str, list[Table]]:
    """By policy, the modules of a split that grew most and those that shrank most."""
    return {
        name: [
            _standout_table(some, measure, inlining)
            for some in standouts(modules, name, split, measure.name, _NUM_STANDOUTS)
        ]
        for name in modules.policies
    }


def failures_without_folders(modules: ScoreMatrix) -> list[dict[str, str]]:
    """Compiles that failed, with messages that tell nothing of this machine."""
    return [{**row, "message": without_folders(row["message"])} for row in failures(modules)]


def _standout_table(modules: Sequence[Standout], measure: Measure, inlining: bool) -> Table:
    unit = measure.words.unit
    return Table(
        [
            text_column("module", lambda one: one.module, wrap=True),
            text_column("project", lambda one: one.project),
            count_column(f"heuristic ({unit})", lambda one: one.baseline),
            count_column(f"policy ({unit})", lambda one: one.score),
            Column("ratio", lambda one, style: style.ratio(one.ratio)),
            count_column("questions", lambda one: one.num_questions),
            *([count_column("inlined", lambda one: one.num_inlined)] if inlining else []),
        ],
        modules,
    )


def distribution(modules: ScoreMatrix, measure: Measure, split: str) -> go.Figure:
    """Share of the modules of a split up to each change in score, one line per policy."""
    series, changes = [], []
    for i, name in enumerate(modules.policies):
        found = ratios(modules, name, split, measure.name)
        change = 100.0 * (np.array([ratio for _, ratio in found]) - 1.0)
        keys = [modules.keys[item] for item, _ in found]
        changes.append(change)
        x = change[[0, *range(len(change))]].tolist() if len(change) else []
        y = np.linspace(0.0, 100.0, len(change) + 1).tolist()
        step = {"line": {"shape": "hv"}}
        series.append(Series(name, x, y, [*keys[:1], *keys], i, "%{text}<br>%{x:+.2f} %", step))
    title = f"change in {measure.words.title} against the heuristic (%)"
    x_axis = {"title": title, "range": central_range(changes)}
    return chart(series, x_axis, {"title": "share of modules (%)", "range": [0, 101]}, zero=(0, None))


def _score_scatter(modules: ScoreMatrix, measure: Measure) -> go.Figure:
    """Change in score of each judged module over its score under the heuristic."""
    what = _with_offset(f"{measure.words.title} under the heuristic", measure)
    series, changes = [], []
    for i, name in enumerate(modules.policies):
        score, baseline = modules.scores[measure.name][modules.index(name)], modules.baseline[measure.name]
        shown = np.flatnonzero(modules.where(split=modules.judged) & (score > 0) & (baseline > 0))
        change = 100.0 * (score[shown] / baseline[shown] - 1.0)
        changes.append(change)
        keys = [modules.keys[item] for item in shown.tolist()]
        hover = "%{text}<br>" + what + " %{x:,.1~f}, %{y:+.2f} %"
        style = {"marker": {"opacity": 0.8}}
        series.append(Series(name, baseline[shown].tolist(), change.tolist(), keys, i, hover, style))
    y_axis = {"title": f"change in {measure.words.title} (%)", "range": central_range(changes)}
    return chart(series, {"title": what, **LOG_TICKS}, y_axis, marks="markers", zero=(None, 0))


def _function_scatter(functions: ScoreMatrix | None, policies: Sequence[str], seed: int) -> go.Figure | None:
    """Cost of test functions under each policy over that under the heuristic, of those where they differ."""
    if functions is None:
        return None
    ((name, scores),) = functions.scores.items()
    measure, baseline = get_measure(name), functions.baseline[name]
    series, most = [], 1.0
    for i, policy in enumerate(policies):
        costs = scores[functions.index(policy)]
        differing = np.flatnonzero(np.isfinite(costs) & (costs != baseline)).tolist()
        shown = sample(differing, _NUM_FUNCTIONS // len(policies), seed, "report", "functions", policy)
        x, y, keys = baseline[shown].tolist(), costs[shown].tolist(), [functions.keys[item] for item in shown]
        most = max(most, *x, *y)
        hover, style = "%{text}<br>%{x:,.2~f} to %{y:,.2~f}", {"marker": {"size": 5, "opacity": 0.7}}
        series.append(Series(policy, x, y, keys, i, hover, style))
    x_axis, y_axis = (
        {"title": _with_offset(f"{measure.words.title} under {whose}", measure), "type": "log", "dtick": 1}
        | {"tickformat": ","}
        for whose in ("the heuristic", "the policy")
    )
    figure = chart(series, x_axis, y_axis, 520, "markers")
    line = {"color": "#808080", "width": 1.5}
    return figure.add_shape(type="line", x0=1, y0=1, x1=most, y1=most, line=line, layer="below")


def project_bars(rows: Sequence[ComparisonRow], measure: Measure, policies: Sequence[str]) -> go.Figure:
    """Gain of each project in total, one panel per policy, colour by split."""
    splits = dict.fromkeys(row.split for row in rows)
    return panels(
        {
            policy: {
                split: [
                    (row.scope, row.by(measure.name).total, f"{row.by(measure.name).num_compared} modules")
                    for row in rows
                    if (row.name, row.split) == (policy, split)
                ]
                for split in splits
            }
            for policy in policies
        }
    )


def _feature_bars(importances: Mapping[str, Sequence[Importance]]) -> go.Figure | None:
    """Share of answers that change when a feature is permuted, for the features that matter most to any policy."""
    shares = {name: {one.feature: 100.0 * one.changed_share for one in ranked} for name, ranked in importances.items()}
    largest: dict[str, float] = {}
    for by_feature in shares.values():
        for feature, share in by_feature.items():
            largest[feature] = max(share, largest.get(feature, 0.0))
    top = sorted(largest, key=lambda feature: -largest[feature])[:_NUM_FEATURES]
    if not top:
        return None
    series = [
        Series(name, [by_feature.get(feature) for feature in top], top, colour=i, hover="%{y}: %{x:.2f} %")
        for i, (name, by_feature) in enumerate(shares.items())
    ]
    x_axis = {"title": "answers that change (%)", "rangemode": "tozero"}
    height = 100 + max(26, 10 * len(shares)) * len(top)
    return chart(series, x_axis, {"autorange": "reversed", "showgrid": False}, height, "rows")


def _with_offset(title: str, measure: Measure) -> str:
    return f"{title} plus {measure.offset:g}" if measure.offset else f"{title} ({measure.words.unit})"
