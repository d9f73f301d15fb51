"""The page about choices of eliminations, self-contained: the same inputs give the same bytes."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from markupsafe import Markup
from plotly.offline import get_plotlyjs

from mlgo.core.names import PolicyName
from mlgo.report import figures
from mlgo.report.compare import Bootstrap, Verdict
from mlgo.report.cse import ALL, BEST, CseRow, MeasuredUnits
from mlgo.report.curves import Curve
from mlgo.report.origin import Facts
from mlgo.report.pages import render

_TONES: dict[Verdict, str] = {"smaller": "good", "larger": "bad", "no difference shown": "plain"}
_SENTENCES: dict[Verdict, str] = {
    "smaller": "scores lower, so better, than the built-in heuristic",
    "larger": "scores higher, so worse, than the built-in heuristic",
    "no difference shown": "no difference shown against the built-in heuristic",
}

_VERDICTS: dict[Verdict, str] = {"smaller": "better", "larger": "worse", "no difference shown": "none shown"}


@dataclass(frozen=True)
class CseReport:
    """Everything the page shows.

    Attributes:
        measured: scores and sizes, unit by unit.
        rows: comparisons, see `cse_rows`.
        bootstrap: how the intervals were made.
        curves: training histories.
        facts: pairs of name and value by title: baseline, labels, then each policy.
        hashes: SHA-256 of the inputs by name.
    """

    measured: MeasuredUnits
    rows: Sequence[CseRow]
    bootstrap: Bootstrap
    curves: Sequence[Curve]
    facts: Mapping[str, Facts]
    hashes: Facts


def render_cse_page(report: CseReport) -> str:
    """Return the page as HTML."""
    measured, split = report.measured, report.measured.splits[0]
    whole = [row for row in report.rows if row.scope == ALL]
    shown = [row for row in whole if row.split == split and row.is_policy]
    several = {row.learner for row in shown if row.num_seeds > 1}
    counts = {
        name: {
            "units": int(units.sum()),
            "labels": int(measured.labelled[units].sum()),
            "exhaustive": int(measured.exhaustive[units].sum()),
        }
        for name in measured.splits
        for units in [measured.members(name)]
    }
    return render(
        "cse.html.jinja",
        report=report,
        split=split,
        is_jit=measured.task == "jit-cse",
        cards=[row for row in shown if row.num_seeds > 1 or row.learner not in several],
        tones=_TONES,
        sentences=_SENTENCES,
        verdicts=_VERDICTS,
        rows={name: [row for row in whole if row.split == name] for name in measured.splits},
        failed=[row for row in whole if row.num_failed and row.num_seeds == 1],
        headroom=[row for row in whole if row.contender == BEST],
        project_rows=[row for row in report.rows if row.scope != ALL],
        counts=counts,
        coverage=f"{100.0 * report.bootstrap.confidence:g}\N{NO-BREAK SPACE}%",
        figures=_figures(report, split),
        plotly=Markup(get_plotlyjs()),
    )


def _figures(report: CseReport, split: str) -> dict[str, Markup]:
    """Figures as HTML by name; those without data are missing.

    Learning curves are learner by learner: the legend of all of them would fill a phone.
    """
    curves: dict[str, list[Curve]] = {}
    for curve in report.curves:
        curves.setdefault(PolicyName.of(curve.policy).learner, []).append(curve)
    made = {
        "ratios": figures.sorted_ratios(report.measured, split),
        "sizes": figures.ratio_scatter(report.measured, split, report.bootstrap.seed),
        "headroom": figures.headroom_bars(report.measured),
        **{f"rewards-{learner}": figures.rewards(of_seeds) for learner, of_seeds in curves.items()},
        **{f"losses-{learner}": figures.losses(of_seeds) for learner, of_seeds in curves.items()},
    }
    return {name: Markup(figures.to_html(figure, name)) for name, figure in made.items() if figure is not None}
