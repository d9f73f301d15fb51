"""The page of `mlgo tune`: how a program became smaller, and which of its calls are decided otherwise."""

from collections.abc import Mapping, Sequence
from operator import itemgetter
from typing import Any

from mlgo.base.artifacts import Row
from mlgo.report.figures import LOG_TICKS, Series, chart
from mlgo.report.pages import Table, count_column, render, text_column


def render_tuned(project: str, tuned: Mapping[str, Any], rows: Sequence[Row]) -> str:
    """The page as HTML.

    Args:
        tuned: ``total``, ``base`` and ``heuristic``, in bytes, ``num_compiles``, and ``course``: pairs of compiles and
            total, each smaller than the last.
        rows: of `changed_calls`.
    """
    compiles, totals = zip(*tuned["course"], (tuned["num_compiles"], tuned["course"][-1][1]), strict=True)
    gains = [100.0 * (1.0 - total / tuned["heuristic"]) for total in totals]
    steps = {"line": {"shape": "hv"}}
    series = [Series("tuned", compiles, gains, hover="%{x} compiles: %{y:.2f} %", style=steps)]
    axes = {"title": "compiles", **LOG_TICKS}, {"title": "gain of linked files over the heuristic (%)"}
    names = ("caller", "callee", "decision", "module")
    sizes = ("caller_before", "caller_after", "callee_before", "callee_after")
    columns = [
        *(text_column(name, itemgetter(name), wrap=name.startswith("call")) for name in names),
        *(count_column(name.replace("_", ", "), itemgetter(name)) for name in sizes),
    ]
    figures = {"course": chart(series, *axes, 360, zero=(None, 0.0))}
    return render("tuned.html.jinja", figures, project=project, tuned=tuned, calls=Table(columns, rows))
