"""The report as one self-contained page: the same inputs give the same bytes."""

from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from operator import methodcaller
from typing import Any

import numpy as np

from mlgo.base.artifacts import RowView
from mlgo.base.names import LANGUAGE_TITLES
from mlgo.base.seeding import sample
from mlgo.compare.headline import Headline
from mlgo.compare.inference import Bootstrap, Comparison, Gain, Verdict
from mlgo.compare.modules import SCOPES, failures, ratios, standouts
from mlgo.compare.programs import Programs
from mlgo.compare.scores import ALL, ComparisonRow, ScoreMatrix, claims
from mlgo.compare.trainings import Curve
from mlgo.host.process import without_folders
from mlgo.host.tasks.task import get_task
from mlgo.objects.measures import Measure, get_measure
from mlgo.policy.importance import Importance
from mlgo.report.executed_page import executed_tables
from mlgo.report.figures import LOG_TICKS, Bar, Figure, Series, central_range, chart, panels
from mlgo.report.headline_page import headline_table
from mlgo.report.inputs import Facts
from mlgo.report.pages import (
    HTML,
    PLAIN,
    Column,
    Of,
    Table,
    card,
    count_column,
    coverage,
    gain_column,
    gain_columns,
    render,
    tally_columns,
    text_column,
    verdict_columns,
    worst_columns,
)
from mlgo.report.seen_code import Seen
from mlgo.report.ships import ShippedFiles
from mlgo.report.training import budgets, losses, rewards

_NUM_STANDOUTS = 10
_NUM_FEATURES = 10
_NUM_FUNCTIONS = 3000  # points that a figure holds, of all policies together


@dataclass(frozen=True)
class ComparedPolicies:
    """What pages about policies on modules show."""

    task: str
    measure: str  # what policies are made to minimise
    modules: ScoreMatrix
    ships: ShippedFiles
    seen: Seen
    # Headline results; None where what ships is no size that policies are made for, or nothing is linked.
    truth: Headline | None
    bootstrap: Bootstrap
    measurement: Facts  # provenance of the scores

    @property
    def measures(self) -> list[Measure]:
        """All that are known of modules, the one that counts first."""
        return [get_measure(name) for name in dict.fromkeys([self.measure, *self.modules.scores])]

    def render(self, template: str, split: str, figures: Mapping[str, Figure | None], **values: Any) -> str:
        """Fill the template of a page, which judges by a split."""
        task, main, shown = get_task(self.task), get_measure(self.measure), {}
        level, inlining = self.measurement.get("compile.optimization", ""), task.actions.yes_or_no
        saved = program_scatter(self.ships, self.truth.contender.learner, split) if self.truth else None
        for name in self.modules.policies:
            both = standouts(self.modules, name, split, main.name, _NUM_STANDOUTS)
            shown[name] = [_standout_table(self.modules, name, main, some, inlining) for some in both]
        return render(
            template,
            report=self,
            task=task,
            measure=main,
            words=main.words,
            coverage=coverage(self.bootstrap),
            headline=self.truth and headline_table(self.truth, level, HTML),
            figures={"programs": saved, **figures},
            standouts=shown,
            failures=[{**row, "message": without_folders(row["message"])} for row in failures(self.modules)],
            **values,
        )


@dataclass(frozen=True)
class Report(ComparedPolicies):
    """Everything the page of a run shows."""

    rows: Sequence[ComparisonRow]
    project_rows: Sequence[ComparisonRow]
    functions: ScoreMatrix | None  # costs of the judged functions; None for measures that are no sums over functions
    # Comparisons by function, with those by module; empty likewise.
    function_rows: Sequence[tuple[ComparisonRow, ComparisonRow]]
    programs: Programs | None  # what running programs showed; None where they did not run under these policies
    corpus: RowView  # see `describe_corpus`
    self_test: RowView | None  # see `read_self_test`; None where the compiler does not tell its decisions
    curves: Sequence[Curve]
    training_failures: Sequence[RowView]
    importances: Mapping[str, Sequence[Importance]]
    policies: Mapping[str, Facts]
    hashes: Facts


def module_card(row: ComparisonRow, measure: Measure) -> tuple[str, str, Comparison]:
    """The `card` of a policy, and its comparison on modules."""
    directions: dict[Verdict, str] = {
        "smaller": f" makes {measure.words.smaller} than the built-in heuristic does",
        "larger": f" makes {measure.words.larger} than the built-in heuristic does",
    }
    return *card(row, measure.name, directions), row.by(measure.name)


def render_page(report: Report) -> str:
    """Return the page as HTML."""
    modules, task, main = report.modules, get_task(report.task), get_measure(report.measure)
    policies = [row for row in report.rows if row.contender.is_policy]
    references = [row for row in report.rows if not row.contender.is_policy and row.scope == ALL]
    whole = [row for row in policies if row.scope == ALL]
    split, policy = text_column("split", lambda row: row.split), text_column("policy", lambda row: row.name)
    scope = text_column("modules", lambda row: f"{row.split}, {SCOPES[row.scope]}")

    def compared(leading: Sequence[Column], rows: Sequence[ComparisonRow]) -> Table:
        return comparison_table(leading, rows, report.measures)

    return report.render(
        "page.html.jinja",
        modules.judged,
        inlining=task.actions.yes_or_no,
        cards=[module_card(row, main) for row in claims(whole) if row.split == modules.judged],
        judged=modules.judged,
        judged_projects=[project for project, _ in modules.by_project(modules.judged)],
        imitated="the heuristic" if task.references.is_heuristic else task.references.traced,
        whole=compared([policy, split], whole),
        parts=compared([policy, scope], [row for row in policies if row.scope != ALL]),
        references=compared([text_column("advisor", lambda row: row.name), split], references),
        by_project=project_table([split, policy], report.project_rows, report.measures),
        truncated=[row for row in (*whole, *references) if row.counts["truncated"]],
        functions=_function_table(report.function_rows),
        programs=report.programs and executed_tables(report.programs),
        figures={
            "distribution": distribution(modules, main, modules.judged),
            "scores": _score_scatter(modules, main),
            "functions": _function_scatter(report.functions, modules.policies, report.bootstrap.seed),
            "projects": project_bars(report.project_rows, main, modules.policies),
            "features": _feature_bars(report.importances),
            "budgets": budgets(report.curves),
            "rewards": rewards(report.curves),
            "losses": losses(report.curves),
        },
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


def _standout_table(
    measured: ScoreMatrix, name: str, measure: Measure, modules: Sequence[tuple[int, float]], inlining: bool
) -> Table:
    """Some modules, each by its number and ratio."""
    unit, i = measure.words.unit, measured.index(name)
    score = measured.scores[measure.name][i] - measure.offset
    baseline = measured.baseline[measure.name] - measure.offset
    questions, inlined = (measured.details[detail][i] for detail in ("num_questions", "num_inlined"))
    return Table(
        [
            text_column("module", lambda one: measured.items["module"][one[0]], wrap=True),
            text_column("project", lambda one: measured.items["project"][one[0]]),
            count_column(f"heuristic ({unit})", lambda one: baseline[one[0]]),
            count_column(f"policy ({unit})", lambda one: score[one[0]]),
            Column("ratio", lambda one, style: style.ratio(one[1])),
            count_column("questions", lambda one: questions[one[0]] or 0),
            *([count_column("inlined", lambda one: inlined[one[0]] or 0)] if inlining else []),
        ],
        modules,
    )


def distribution(modules: ScoreMatrix, measure: Measure, split: str) -> Figure:
    """Share of the modules of a split up to each change in score, one line per policy."""
    series = []
    for i, name in enumerate(modules.policies):
        found = ratios(modules, name, split, measure.name)
        steps = found[:1] + found  # a line begins where its first step is
        x = 100.0 * (np.array([ratio for _, ratio in steps]) - 1.0)
        y, keys = np.linspace(0.0, 100.0, len(found) + 1), [modules.keys[item] for item, _ in steps]
        series.append(Series(name, x, y, keys, i, "%{text}<br>%{x:+.2f} %", {"line": {"shape": "hv"}}))
    title = f"change in {measure.words.title} against the heuristic (%)"
    x_axis = {"title": title, "range": central_range([one.x[1:] for one in series])}
    return chart(series, x_axis, {"title": "share of modules (%)", "range": [0, 101]}, zero=(0, None))


def _score_scatter(modules: ScoreMatrix, measure: Measure) -> Figure:
    """Change in score of each judged module over its score under the heuristic."""
    what = _with_offset(f"{measure.words.title} under the heuristic", measure)
    hover, style = "%{text}<br>" + what + " %{x:,.1~f}, %{y:+.2f} %", {"marker": {"opacity": 0.8}}
    series, baseline = [], modules.baseline[measure.name]
    for i, name in enumerate(modules.policies):
        score = modules.scores[measure.name][modules.index(name)]
        shown = np.flatnonzero(modules.where(split=modules.judged) & (score > 0) & (baseline > 0))
        change, keys = 100.0 * (score[shown] / baseline[shown] - 1.0), [modules.keys[item] for item in shown.tolist()]
        series.append(Series(name, baseline[shown], change, keys, i, hover, style))
    y_axis = {"title": f"change in {measure.words.title} (%)", "range": central_range([one.y for one in series])}
    return chart(series, {"title": what, **LOG_TICKS}, y_axis, marks="markers", zero=(None, 0))


def _function_scatter(functions: ScoreMatrix | None, policies: Sequence[str], seed: int) -> Figure | None:
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
        x, y, keys = baseline[shown], costs[shown], [functions.keys[item] for item in shown]
        most = float(max(most, *x, *y))
        hover, style = "%{text}<br>%{x:,.2~f} to %{y:,.2~f}", {"marker": {"size": 5, "opacity": 0.7}}
        series.append(Series(policy, x, y, keys, i, hover, style))
    x_axis, y_axis = (
        {"title": _with_offset(f"{measure.words.title} under {whose}", measure), "type": "log", "dtick": 1}
        | {"tickformat": ","}
        for whose in ("the heuristic", "the policy")
    )
    figure = chart(series, x_axis, y_axis, 520, "markers")
    figure.add_line((1, most), (1, most))
    return figure


def program_scatter(ships: ShippedFiles, learner: str, split: str) -> Figure:
    """Share that each linked file saves over its size, by language; bars reach from the worst to the best seed."""
    shares = defaultdict[tuple[object, str, float], list[float]](list)
    for row in ships.rows:
        if row.contender.learner == learner and row.split == split and "program" in row.counts:
            one, name = row.by("total"), f"{row.counts['project']}/{row.counts['program']}"
            shares[row.counts["language"], name, one.baseline_sum].append(one.total.value or 0.0)
    series = []
    for i, (language, title) in enumerate(LANGUAGE_TITLES.items()):
        shown = [(name, size, one) for (of, name, size), one in shares.items() if of == language]
        gains = [Gain(float(np.mean(one)), min(one), max(one)) for *_, one in shown]
        sizes, y = [size for _, size, _ in shown], [100.0 * float(np.mean(one)) for *_, one in shown]
        saved = [PLAIN.count(float(np.mean(one)) * size) for _, size, one in shown]
        text = [f"{name}: {count} bytes" for (name, *_), count in zip(shown, saved, strict=True)]
        series.append(
            Series(title, sizes, y, text, i, "%{text} of %{x:,}<br>%{y:+.2f} %", {"marker": {"size": 9}}, gains)
        )
    x_axis = {"title": "linked size under the heuristic (bytes)", **LOG_TICKS}
    return chart(series, x_axis, {"title": "saved (%)"}, 380, "markers", (None, 0))


def project_bars(rows: Sequence[ComparisonRow], measure: Measure, policies: Sequence[str]) -> Figure:
    """Gain of each project in total, one panel per policy, colour by split."""
    splits = dict.fromkeys(row.split for row in rows)
    bars: dict[str, dict[str, list[Bar]]] = {policy: {split: [] for split in splits} for policy in policies}
    for row in rows:
        one = row.by(measure.name)
        bars[row.name][row.split].append((row.scope, one.total, f"{one.num_compared} modules"))
    return panels(bars)


def _feature_bars(importances: Mapping[str, Sequence[Importance]]) -> Figure | None:
    """Share of answers that change when a feature is permuted, for the features that matter most to any policy."""
    shares = {name: {one.feature: 100.0 * one.changed_share for one in ranked} for name, ranked in importances.items()}
    known = dict.fromkeys(feature for by_feature in shares.values() for feature in by_feature)
    largest = {feature: max(by.get(feature, 0.0) for by in shares.values()) for feature in known}
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
