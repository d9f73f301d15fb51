"""The comparison page of a sweep: the same inputs give the same bytes."""

from collections.abc import Mapping, Sequence

from markupsafe import Markup
from plotly.offline import get_plotlyjs

from mlgo.report import figures
from mlgo.report.compare import Bootstrap
from mlgo.report.curves import Curve
from mlgo.report.measured import MEASURE_TITLES
from mlgo.report.pages import render
from mlgo.report.sweep import SPLITS, PointResult
from mlgo.sweep import Sweep


def render_sweep(points: Sequence[PointResult], sweep: Sweep, curves: Mapping[str, Curve], bootstrap: Bootstrap) -> str:
    """The comparison page.

    Args:
        points: what each has come to.
        sweep: what was trained.
        curves: learning curve by policy, of the trainings that did not fail.
        bootstrap: how the intervals were made.
    """
    keys = list(dict.fromkeys(key for point in points for key in point.settings))
    made = {
        "gains": figures.sweep_gains(points, keys),
        "curves": figures.sweep_curves(points, curves),
    }
    return render(
        "sweep.html.jinja",
        points=points,
        keys=keys,
        several_tasks=any(point.task for point in points),
        splits=SPLITS,
        seeds=sweep.seeds,
        measures=", ".join(dict.fromkeys(MEASURE_TITLES[point.measure] for point in points)),
        failures=[(point, seed, message) for point in points for seed, message in point.failures.items()],
        bootstrap=bootstrap,
        figures={name: Markup(figures.to_html(figure, name)) for name, figure in made.items() if figure is not None},
        plotly=Markup(get_plotlyjs()),
    )
