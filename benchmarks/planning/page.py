"""The page about trainings on clusters: what was simulated, with what, and how far that can be trusted."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import plotly.graph_objects as go

from benchmarks.planning.picture import COLOURS, PARTS, panels
from mlgo.report.figures import to_html
from mlgo.report.pages import render

Record = Mapping[str, Any]
"""Record of a `planning.scenarios.Result`."""


def render_planning(kinds: Mapping[str, Sequence[Record]], measured: Mapping[str, Any], simulated: str) -> str:
    """Return the page as HTML.

    Args:
        kinds: results: ``placings``, ``nested`` and ``relieved``.
        measured: what it rests on, see `benchmarks.planning.measure.measure`.
        simulated: kind of worker whose driver was simulated.
    """
    modules = measured["workload"]["modules"]
    return render(
        "page.html.jinja",
        folder=Path(__file__).parent,
        kinds=kinds,
        figures=to_html(
            {f"planning-{i}": _bars(title, rows) for i, (title, rows) in enumerate(panels(kinds["placings"]).items())}
        ).values(),
        costs=measured["costs"],
        drivers=measured["drivers"],
        simulated=simulated,
        validation=measured["validation"],
        machine=measured["machine"],
        num_modules=len(modules),
        limits=last_limits(kinds["placings"]),
    )


def last_limits(rows: Sequence[Record]) -> list[Record]:
    """For each size of generations, the result that knows best what limits: all of scheduling, most cores."""
    found = {}
    for row in sorted(rows, key=lambda one: one["cores"]):
        if row["placing"].count("+") == 2:
            found[row["candidates"], row["modules"]] = row
    return list(found.values())


def _bars(title: str, rows: Sequence[Record]) -> go.Figure:
    """Shares of the time in which parts were busy."""
    figure = go.Figure()
    for part, colour in zip(PARTS, COLOURS, strict=True):
        figure.add_bar(
            y=[row["placing"] for row in rows],
            x=[100.0 * row[part] for row in rows],
            orientation="h",
            name={"utilisation": "workers"}.get(part, part),
            marker={"color": colour},
            hovertemplate="%{y}: %{x:.1f} %<extra>" + part + "</extra>",
        )
    figure.update_layout(
        title={"text": title, "font": {"size": 14}},
        barmode="group",
        height=60 + 62 * max(1, len(rows)) + 60,
        paper_bgcolor="rgba(0,0,0,0)",
        plot_bgcolor="rgba(0,0,0,0)",
        margin={"l": 60, "r": 15, "t": 60, "b": 45},
        legend={"orientation": "h", "x": 0, "y": 1.0, "yanchor": "bottom"},
    )
    figure.update_xaxes(title="busy (% of the time)", range=[0, 100], gridcolor="rgba(128, 128, 128, 0.25)")
    figure.update_yaxes(autorange="reversed", automargin=True)
    return figure
