"""Interactive figures for ``figures.js``, in Plotly's words: chart, panels of bars, parallel coordinates.

The same numbers give the same bytes: no random identifiers, no clock.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from markupsafe import Markup

from mlgo.base.files import canonical_json
from mlgo.compare.inference import Gain

# Okabe and Ito's palette: distinct for all common kinds of colour vision, readable on light and dark.
COLOURS = ("#E69F00", "#0072B2", "#009E73", "#CC79A7", "#56B4E9", "#D55E00")
_SPLIT_COLOURS = {"test": "#0072B2", "validation": "#E69F00", "train": "#8C8C8C"}
_DASHES = ("solid", "dash", "dot", "dashdot")
_SYMBOLS = ("circle", "diamond", "cross", "square")
_ZERO_LINE = {"color": "#808080", "width": 1.5}
_WHOLE = (0, 1)
_PANELS_PER_ROW = 3
_BAR_HEIGHT = 26  # pixels
_PANEL_GAP = 80

Settings = dict[str, Any]
"""What Plotly takes, by name."""
SettingsView = Mapping[str, Any]

LOG_TICKS = {"type": "log", "tickvals": [d * 10**power for power in range(9) for d in (1, 2, 5)], "tickformat": "~s"}
"""A logarithmic axis with short ticks: 500, 1k, 2k."""


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


@dataclass(frozen=True)
class Figure:
    """What ``figures.js`` draws."""

    layout: Settings
    data: list[Settings] = field(default_factory=list)

    def add_line(self, x: Sequence[float], y: Sequence[float], line: SettingsView = _ZERO_LINE, **other: Any) -> None:
        """A line from end to end, below all else; ``other`` says in which units."""
        ends = {"x0": x[0], "x1": x[1], "y0": y[0], "y1": y[1]}
        self.layout["shapes"].append({**ends, "line": line, **other})


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
) -> Figure:
    """Lines, marks or bars.

    Args:
        marks: ``lines``, ``markers``, ``lines+markers`` or ``rows`` of bars.
        zero: where a line stands across the x axis and across the y axis; None for none.
    """
    axes = {name: {**axis, "title": {"text": axis.get("title", "")}} for name, axis in (("xaxis", x), ("yaxis", y))}
    figure = Figure({"height": height, "shapes": [], **axes})
    for one in series:
        colour = COLOURS[one.colour % len(COLOURS)]
        known: Settings = {"x": _plain(one.x), "y": _plain(one.y), "name": one.name}
        if len(one.text):
            known["text"] = list(one.text)
        if one.hover:
            known["hovertemplate"] = one.hover
        if one.intervals:
            known["error_x" if marks == "rows" else "error_y"] = _error_bars(one.intervals)
        if marks == "rows":
            figure.data.append(_laid_over({"type": "bar", **known, "marker": {"color": colour}}, one.style))
            continue
        line = {"line": {"width": 2.5, **style_of(one.colour)}} if "lines" in marks else {}
        symbol = _SYMBOLS[one.colour // len(COLOURS) % len(_SYMBOLS)]
        marker = {"marker": {"size": 6, "color": colour, "symbol": symbol}} if "markers" in marks else {}
        figure.data.append(_laid_over({"type": "scatter", **known, "mode": marks, **line, **marker}, one.style))
    if zero[0] is not None:
        figure.add_line((zero[0], zero[0]), _WHOLE, yref="y domain")
    if zero[1] is not None:
        figure.add_line(_WHOLE, (zero[1], zero[1]), xref="x domain")
    return figure


def central_range(values: Sequence[Values], centre: float = 0.0, least: float = 1.0) -> list[float]:
    """Range of an axis that holds 96 percent of the values of every series, [num_values], a margin, and the centre."""
    ends = [float(np.percentile(one, q)) for one in values if len(one) for q in (2, 98)]
    low, high = min([centre - least, *ends]), max([centre + least, *ends])
    margin = 0.05 * (high - low)
    return [low - margin, high + margin]


def panels(bars: Mapping[str, Mapping[str, Sequence[Bar]]]) -> Figure:
    """Gains with their intervals as bars, by panel and split in the order of the splits, coloured by split."""
    labels = list(
        dict.fromkeys((split, name) for by in bars.values() for split, some in by.items() for name, *_ in some)
    )
    num_columns = min(_PANELS_PER_ROW, len(bars))
    num_rows = -(-len(bars) // num_columns)
    area = num_rows * _BAR_HEIGHT * len(labels) + (num_rows - 1) * _PANEL_GAP
    series, axes = list[Series](), dict[str, Settings]()
    order = {"categoryorder": "array", "categoryarray": _plain([name for _, name in reversed(labels)])}
    for i, (title, panel) in enumerate(bars.items()):
        number = str(i + 1) if i else ""
        place = {"xaxis": f"x{number}", "yaxis": f"y{number}", "showlegend": i == 0}
        for split, some in panel.items():
            names, gains, notes = zip(*(one for one in some if one[1].value is not None), strict=True)
            style = {**place, "legendgroup": split, "marker": {"color": _SPLIT_COLOURS[split]}}
            x, hover = [100.0 * gain.value for gain in gains], "%{y}: %{x:+.2f} %<br>%{text}"
            series.append(Series(split, x, names, notes, hover=hover, style=style, intervals=gains))
        axes[f"xaxis{number}"] = {"title": {"text": f"{title}: gain (%)"}, "side": "top", "nticks": 9}
        axes[f"yaxis{number}"] = {**order, "showgrid": False, "showticklabels": i % num_columns == 0}
    figure = chart(series, {}, {}, area + 125, "rows")
    grid = {"rows": num_rows, "columns": num_columns, "ygap": min(0.9, num_rows * _PANEL_GAP / area)}
    figure.layout.update(axes, grid=grid)
    return figure


def parallel(columns: Mapping[str, Sequence[Any]], coloured: str) -> Figure:
    """Parallel coordinates: a line for each point through its values, which are given by title.

    Words become places of an axis; those that are the same for all points are left out.
    """
    axes = list[Settings]()
    for name, values in columns.items():
        if all(isinstance(value, float) for value in values):
            axes.append({"label": name, "values": list(values)})
            continue
        known = list(dict.fromkeys(map(str, values)))
        if len(known) > 1:
            places = [known.index(str(value)) for value in values]
            axes.append({"label": name, "values": places, "tickvals": list(range(len(known))), "ticktext": known})
    return Figure(
        {"height": 460}, [{"type": "parcoords", "dimensions": axes, "line": {"color": list(columns[coloured])}}]
    )


def to_html(figures: Mapping[str, Figure | None]) -> dict[str, Markup]:
    """Figures as elements by name, which becomes their identifier, for the page's script; None is left out."""
    element = Markup('<div id="figure-{}" role="img" aria-label="{}"></div><script type="application/json">{}</script>')
    return {
        name: element.format(name, name, Markup(canonical_json(vars(figure)).replace("<", r"\u003c")))
        for name, figure in figures.items()
        if figure is not None
    }


def _plain(values: Values) -> list[Any]:
    """For JSON: numbers with six decimals, and None for those that are not known."""
    listed = values.tolist() if isinstance(values, np.ndarray) else values
    return [one if isinstance(one, str) else None if one is None or one != one else round(one, 6) for one in listed]


def _laid_over(base: SettingsView, style: SettingsView) -> Settings:
    """Settings of a trace with others laid over them, as deep as those of lines and markers."""
    both = {key: {**base[key], **value} for key, value in style.items() if isinstance(value, Mapping) and key in base}
    return {**base, **style, **both}


def _error_bars(gains: Sequence[Gain]) -> Settings:
    """From the ends of intervals, in percent."""
    value, low, high = 100.0 * np.array(gains, np.float64).reshape(-1, 3).T  # None becomes NaN
    return {"array": _plain(np.nan_to_num(high - value)), "arrayminus": _plain(np.nan_to_num(value - low))}
