"""Interactive figures of four kinds: chart, panels of bars, gains over a setting, parallel coordinates.

The same numbers give the same bytes: no random identifiers, no clock.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import plotly.graph_objects as go
from markupsafe import Markup
from plotly.subplots import make_subplots

from mlgo.compare.inference import Gain

# Okabe and Ito's palette: distinct for all common kinds of colour vision, readable on light and dark.
COLOURS = ("#E69F00", "#0072B2", "#009E73", "#CC79A7", "#56B4E9", "#D55E00")
_SPLIT_COLOURS = {"test": "#0072B2", "validation": "#E69F00", "train": "#8C8C8C"}
_DASHES = ("solid", "dash", "dot", "dashdot")
_SYMBOLS = ("circle", "diamond", "cross", "square")
_FONT = "system-ui, -apple-system, 'Segoe UI', Roboto, 'Helvetica Neue', Arial, sans-serif"
_GRID = "rgba(128, 128, 128, 0.25)"
_ZERO_LINE = {"color": "#808080", "width": 1.5}
_PANELS_PER_ROW = 3
_BAR_HEIGHT = 26  # pixels
_PANEL_GAP = 110
_AXIS = {
    "gridcolor": _GRID,
    "zeroline": False,
    "linecolor": _GRID,
    "ticks": "outside",
    "tickcolor": _GRID,
    "automargin": True,
}

Settings = dict[str, Any]
"""What Plotly takes, by name."""
SettingsView = Mapping[str, Any]

LOG_TICKS = {"type": "log", "tickvals": (ticks := [d * 10**power for power in range(8) for d in (1, 2, 5)])} | {
    "ticktext": [f"{number:,}" for number in ticks]
}
"""A logarithmic axis whose ticks are written out."""


Values = Sequence[Any] | np.ndarray
Bar = tuple[str, Gain, str]
"""Name, gain and note."""


@dataclass(frozen=True)
class Series:
    """What one contender contributes to a chart."""

    name: str
    x: Values
    y: Values
    # What a mark shows besides when it is pointed at; `hover` is its format, after Plotly's templates.
    text: Sequence[str] = ()
    colour: int = 0  # number of its colour; colours come again with other dashes and symbols
    hover: str = ""
    style: SettingsView = field(default_factory=dict)  # of the trace, laid over what the chart gives
    intervals: Sequence[Gain] = ()


def style_of(index: int) -> dict[str, str]:
    """Colour and dash of a line by its number."""
    return {"color": COLOURS[index % len(COLOURS)], "dash": _DASHES[index // len(COLOURS) % len(_DASHES)]}


def chart(
    series: Sequence[Series],
    x: SettingsView,
    y: SettingsView,
    height: int = 430,
    marks: str = "lines",
    zero: Sequence[float | None] = (None, None),
) -> go.Figure:
    """Lines, marks or bars.

    Args:
        marks: ``lines``, ``markers``, ``lines+markers``, ``bars`` upright or ``rows`` of bars.
        zero: where a line stands across the x axis and across the y axis; None for none.
    """
    figure = go.Figure(layout=_layout(height))
    figure.update_xaxes(**_AXIS)
    figure.update_yaxes(**_AXIS)
    for one in series:
        colour = COLOURS[one.colour % len(COLOURS)]
        known: Settings = {"x": _plain(one.x), "y": _plain(one.y), "name": one.name}
        if len(one.text):
            known["text"] = list(one.text)
        if one.hover:
            known["hovertemplate"] = f"{one.hover}<extra>{one.name}</extra>"
        if one.intervals:
            known["error_y"] = _error_bars(one.intervals)
        if marks in ("bars", "rows"):
            turned = {"orientation": "h"} if marks == "rows" else {}
            plain = {**known, **turned, "marker": {"color": colour}, "textposition": "none"}
            figure.add_bar(**_laid_over(plain, one.style))
            continue
        line = {"line": {"width": 2.5, **style_of(one.colour)}} if "lines" in marks else {}
        symbol = _SYMBOLS[one.colour // len(COLOURS) % len(_SYMBOLS)]
        marker = {"marker": {"size": 6, "color": colour, "symbol": symbol}} if "markers" in marks else {}
        figure.add_scatter(**_laid_over({**known, "mode": marks, **line, **marker}, one.style))
    if zero[0] is not None:
        figure.add_vline(x=zero[0], line=_ZERO_LINE)
    if zero[1] is not None:
        figure.add_hline(y=zero[1], line=_ZERO_LINE)
    figure.update_xaxes(**x)
    figure.update_yaxes(**y)
    return figure


def central_range(values: Sequence[Values], centre: float = 0.0, least: float = 1.0) -> list[float]:
    """Range of an axis that holds 96 percent of the values of every series, [num_values], a margin, and the centre."""
    ends = [float(np.percentile(one, q)) for one in values if len(one) for q in (2, 98)]
    low, high = min([centre - least, *ends]), max([centre + least, *ends])
    margin = 0.05 * (high - low)
    return [low - margin, high + margin]


def panels(bars: Mapping[str, Mapping[str, Sequence[Bar]]]) -> go.Figure:
    """Gains with their intervals as bars, by panel and split in the order of the splits, coloured by split."""
    labels = list(
        dict.fromkeys((split, name) for by in bars.values() for split, some in by.items() for name, *_ in some)
    )
    num_columns = min(_PANELS_PER_ROW, len(bars))
    num_rows = -(-len(bars) // num_columns)
    area = num_rows * _BAR_HEIGHT * len(labels) + (num_rows - 1) * _PANEL_GAP
    titles, gap = list(bars), _PANEL_GAP / area if num_rows > 1 else 0
    figure = make_subplots(
        num_rows, num_columns, subplot_titles=titles, shared_yaxes=True, horizontal_spacing=0.03, vertical_spacing=gap
    )
    margin = {"l": 60, "r": 15, "t": 75, "b": 50}
    figure.update_layout(_layout(area + margin["t"] + margin["b"]))
    for i, panel in enumerate(bars.values()):
        place = {"row": i // num_columns + 1, "col": i % num_columns + 1}
        for split, some in panel.items():
            shown = [(name, gain, note) for name, gain, note in some if gain.value is not None]
            figure.add_bar(
                y=[name for name, _, _ in shown],
                x=[100.0 * (gain.value or 0.0) for _, gain, _ in shown],
                orientation="h",
                name=split,
                legendgroup=split,
                showlegend=i == 0,
                marker={"color": _SPLIT_COLOURS[split]},
                error_x=_error_bars([gain for _, gain, _ in shown], color="#808080", thickness=1.5, width=3),
                text=[note for _, _, note in shown],
                textposition="none",
                hovertemplate="%{y}: %{x:+.2f} %<br>%{text}<extra>" + split + "</extra>",
                **place,
            )
        figure.add_vline(x=0, line=_ZERO_LINE, **place)
    order = [name for _, name in reversed(labels)]
    plain = {key: value for key, value in _AXIS.items() if key != "gridcolor"}
    figure.update_yaxes(categoryorder="array", categoryarray=order, showgrid=False, **plain)
    figure.update_xaxes(title="gain (%)", matches="x", nticks=9, **_AXIS)
    figure.update_layout(bargap=0.35, margin=margin, legend={"y": 1 + 30 / area})
    return figure


def parallel(columns: Mapping[str, Sequence[Any]], coloured: str) -> go.Figure:
    """Parallel coordinates: a line for each point through its values, which are given by title.

    Words become places of an axis; those that are the same for all points are left out.
    """
    figure, axes = go.Figure(layout=_layout(460)), []
    for name, values in columns.items():
        if all(isinstance(value, float) for value in values):
            axes.append({"label": name, "values": list(values)})
            continue
        known = list(dict.fromkeys(map(str, values)))
        if len(known) > 1:
            places = [known.index(str(value)) for value in values]
            axes.append({"label": name, "values": places, "tickvals": list(range(len(known))), "ticktext": known})
    line = {"color": list(columns[coloured]), "colorscale": "Viridis", "showscale": True}
    font = {"color": "#808080"}
    figure.add_parcoords(dimensions=axes, line=line, labelfont=font, tickfont=font, rangefont=font)
    figure.update_layout(margin={"l": 90, "r": 40, "t": 70, "b": 40})
    return figure


def to_html(figures: Mapping[str, go.Figure | None]) -> dict[str, Markup]:
    """Figures as elements without plotly.js by name, which becomes their identifier; None is left out."""
    settings = {"displayModeBar": False, "responsive": True}
    return {
        name: Markup(figure.to_html(full_html=False, include_plotlyjs=False, div_id=f"figure-{name}", config=settings))
        for name, figure in figures.items()
        if figure is not None
    }


def _plain(values: Values) -> list[Any]:
    return values.tolist() if isinstance(values, np.ndarray) else list(values)


def _laid_over(base: SettingsView, style: SettingsView) -> Settings:
    """Settings of a trace with others laid over them, as deep as those of lines and markers."""
    both = {key: {**base[key], **value} for key, value in style.items() if isinstance(value, Mapping) and key in base}
    return {**base, **style, **both}


def _error_bars(gains: Sequence[Gain], **style: Any) -> Settings:
    """From the ends of intervals, in percent."""
    value, low, high = 100.0 * np.array(gains, np.float64).reshape(-1, 3).T  # None becomes NaN
    return {
        "type": "data",
        "symmetric": False,
        "array": np.nan_to_num(high - value).tolist(),
        "arrayminus": np.nan_to_num(value - low).tolist(),
        **({"thickness": 1, "width": 4} | style),
    }


def _layout(height: int) -> Settings:
    return {
        "template": None,
        "height": height,
        "autosize": True,
        "font": {"family": _FONT, "size": 13},
        "paper_bgcolor": "rgba(0,0,0,0)",
        "plot_bgcolor": "rgba(0,0,0,0)",
        "margin": {"l": 60, "r": 15, "t": 50, "b": 50},
        "legend": {"orientation": "h", "x": 0, "xanchor": "left", "y": 1.02, "yanchor": "bottom"},
        "hoverlabel": {"font": {"family": _FONT}},
    }
