"""Interactive figures. The same numbers give the same bytes: no random identifiers, no clock."""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import plotly.graph_objects as go
import pyarrow as pa
import pyarrow.compute as pc
from plotly.subplots import make_subplots

from mlgo.core.measures import get_measure
from mlgo.core.measures.spills import SPILL_COST
from mlgo.core.names import PolicyName
from mlgo.core.seeding import sample
from mlgo.policy.importance import Importance
from mlgo.report import cse
from mlgo.report.curves import Curve
from mlgo.report.functions import Functions
from mlgo.report.measured import MEASURE_TITLES, contenders, sizes
from mlgo.report.sweep import SPLITS, PointResult
from mlgo.report.tables import Row, ratios

# Okabe and Ito's palette: distinct for all common kinds of colour vision, readable on light and dark.
_POLICY_COLOURS = ("#E69F00", "#0072B2", "#009E73", "#CC79A7", "#56B4E9", "#D55E00")
_SPLIT_COLOURS = {"test": "#0072B2", "validation": "#E69F00", "train": "#8C8C8C"}
_DASHES = ("solid", "dash", "dot", "dashdot")
_SYMBOLS = ("circle", "diamond", "cross", "square")
_FONT = "system-ui, -apple-system, 'Segoe UI', Roboto, 'Helvetica Neue', Arial, sans-serif"
_GRID = "rgba(128, 128, 128, 0.25)"
_ZERO_LINE = {"color": "#808080", "width": 1.5}
_PANELS_PER_ROW = 3
_BAR_HEIGHT = 26  # pixels
_NUM_FEATURES = 10
_NUM_FUNCTIONS = 3000  # points that a page holds, of all policies together
_NUM_UNITS = 4000  # likewise
_MOST_VIABLE = 16  # candidates of a unit; units with more share a bar
_PANEL_GAP = 110
_TICKS = [digit * 10**power for power in range(8) for digit in (1, 2, 5)]
_AXIS = {
    "gridcolor": _GRID,
    "zeroline": False,
    "linecolor": _GRID,
    "ticks": "outside",
    "tickcolor": _GRID,
    "automargin": True,
}


def distribution(measured: pa.Table, measure: str) -> go.Figure:
    """Share of the test modules up to each change in score, one line per policy."""
    figure = _figure(430)
    changes = []
    for i, name in enumerate(contenders(measured, policies=True)):
        keys, values = ratios(measured, name, "test", measure)
        change = 100.0 * (values - 1.0)
        changes.append(change)
        figure.add_scatter(
            x=change[[0, *range(len(change))]].tolist() if len(change) else [],
            y=np.linspace(0.0, 100.0, len(change) + 1).tolist(),
            mode="lines",
            name=name,
            line={"shape": "hv", "width": 2.5, **_style(i)},
            text=[*keys[:1], *keys],
            hovertemplate="%{text}<br>%{x:+.2f} %<extra>" + name + "</extra>",
        )
    figure.add_vline(x=0, line=_ZERO_LINE)
    title = f"change in {MEASURE_TITLES[measure]} against the heuristic (%)"
    figure.update_xaxes(title=title, range=_central_range(changes))
    figure.update_yaxes(title="share of modules (%)", range=[0, 101])
    return figure


def score_scatter(measured: pa.Table, measure: str) -> go.Figure:
    """Change in score of each test module over its score under the heuristic."""
    what = _with_offset(f"{MEASURE_TITLES[measure]} under the heuristic", measure)
    figure = _figure(430)
    changes = []
    for i, name in enumerate(contenders(measured, policies=True)):
        rows = measured.filter((pc.field("contender") == name) & (pc.field("split") == "test"))
        policy, baseline = sizes(rows, measure)
        good = (policy > 0) & (baseline > 0)
        change = 100.0 * (policy[good] / baseline[good] - 1.0)
        changes.append(change)
        keys = [f"{p}/{m}" for p, m in zip(rows["project"].to_pylist(), rows["module"].to_pylist(), strict=True)]
        figure.add_scatter(
            x=baseline[good].tolist(),
            y=change.tolist(),
            mode="markers",
            name=name,
            marker={"size": 6, "opacity": 0.8, "color": _POLICY_COLOURS[i % len(_POLICY_COLOURS)]},
            text=[key for key, fine in zip(keys, good, strict=True) if fine],
            hovertemplate="%{text}<br>" + what + " %{x:,.1~f}, %{y:+.2f} %<extra>" + name + "</extra>",
        )
    figure.add_hline(y=0, line=_ZERO_LINE)
    figure.update_xaxes(
        title=what,
        type="log",
        tickvals=_TICKS,
        ticktext=[f"{n:,}" for n in _TICKS],
    )
    figure.update_yaxes(title=f"change in {MEASURE_TITLES[measure]} (%)", range=_central_range(changes))
    return figure


def function_scatter(functions: Functions, policies: Sequence[str], seed: int) -> go.Figure:
    """Spill cost of test functions under each policy over that under the heuristic, of those where they differ.

    Args:
        functions: of the test modules.
        policies: contenders that are shown.
        seed: root seed of the sample that is shown where there are many.
    """
    figure, most = _figure(520), 1.0
    for i, name in enumerate(policies):
        costs = functions.costs[functions.contenders.index(name)]
        differing = np.flatnonzero(np.isfinite(costs) & (costs != functions.baseline)).tolist()
        shown = sample(differing, _NUM_FUNCTIONS // len(policies), seed, "report", "functions", name)
        before, after = (values[shown] + SPILL_COST.offset for values in (functions.baseline, costs))
        most = max(most, *before, *after)
        figure.add_scatter(
            x=before.tolist(),
            y=after.tolist(),
            mode="markers",
            name=name,
            marker={"size": 5, "opacity": 0.7, "color": _POLICY_COLOURS[i % len(_POLICY_COLOURS)]},
            text=[functions.names[number] for number in shown],
            hovertemplate="%{text}<br>%{x:,.2~f} to %{y:,.2~f}<extra>" + name + "</extra>",
        )
    figure.add_shape(type="line", x0=1, y0=1, x1=most, y1=most, line=_ZERO_LINE, layer="below")
    for update, whose in ((figure.update_xaxes, "the heuristic"), (figure.update_yaxes, "the policy")):
        title = _with_offset(f"{SPILL_COST.words.title} under {whose}", SPILL_COST.name)
        update(title=title, type="log", dtick=1, tickformat=",")
    return figure


def project_bars(rows: Sequence[Row], measure: str, policies: Sequence[str]) -> go.Figure:
    """Gain of each project with its interval, one panel per policy, colour by split."""
    labels = list(dict.fromkeys((row.split, row.scope) for row in rows))
    num_columns = min(_PANELS_PER_ROW, len(policies))
    num_rows = -(-len(policies) // num_columns)
    area = num_rows * _BAR_HEIGHT * len(labels) + (num_rows - 1) * _PANEL_GAP
    figure = make_subplots(
        num_rows,
        num_columns,
        subplot_titles=list(policies),
        shared_yaxes=True,
        horizontal_spacing=0.03,
        vertical_spacing=_PANEL_GAP / area if num_rows > 1 else 0,
    )
    margin = {"l": 60, "r": 15, "t": 75, "b": 50}
    height = area + margin["t"] + margin["b"]
    figure.update_layout(_layout(height))
    for i, policy in enumerate(policies):
        place = {"row": i // num_columns + 1, "col": i % num_columns + 1}
        for split in dict.fromkeys(split for split, _ in labels):
            chosen = [row for row in rows if row.contender == policy and row.split == split]
            figure.add_trace(_bars(chosen, measure, split, show_legend=i == 0), **place)
        figure.add_vline(x=0, line=_ZERO_LINE, **place)
    order = [project for _, project in reversed(labels)]
    figure.update_yaxes(categoryorder="array", categoryarray=order, showgrid=False, **_without(_AXIS, "gridcolor"))
    figure.update_xaxes(title="gain (%)", matches="x", nticks=9, **_AXIS)
    figure.update_layout(bargap=0.35, margin=margin, legend={"y": 1 + 30 / area})
    return figure


def feature_bars(importances: Mapping[str, Sequence[Importance]]) -> go.Figure | None:
    """Share of answers that change when a feature is permuted, for the features that matter most to any policy.

    Args:
        importances: of all features, by policy.

    Returns:
        One bar for each feature and policy, the largest share on top; None without recorded questions.
    """
    shares = {name: {one.feature: one.changed_share for one in ranked} for name, ranked in importances.items()}
    largest: dict[str, float] = {}
    for by_feature in shares.values():
        for feature, share in by_feature.items():
            largest[feature] = max(share, largest.get(feature, 0.0))
    top = sorted(largest, key=lambda feature: -largest[feature])[:_NUM_FEATURES]
    if not top:
        return None
    bars_of_a_feature = max(_BAR_HEIGHT, 10 * len(shares))
    figure = _figure(100 + bars_of_a_feature * len(top))
    for i, (name, by_feature) in enumerate(shares.items()):
        figure.add_bar(
            y=top,
            x=[100.0 * by_feature[feature] if feature in by_feature else None for feature in top],
            orientation="h",
            name=name,
            marker={"color": _POLICY_COLOURS[i % len(_POLICY_COLOURS)]},
            hovertemplate="%{y}: %{x:.2f} %<extra>" + name + "</extra>",
        )
    figure.update_yaxes(autorange="reversed", showgrid=False)
    figure.update_xaxes(title="answers that change (%)", rangemode="tozero")
    return figure


def rewards(curves: Sequence[Curve]) -> go.Figure | None:
    """Mean reward of what each update saw and reward on the validation modules; None without such runs."""
    chosen = [(i, curve) for i, curve in enumerate(curves) if curve.points(curve.step, "mean_reward")[0]]
    if not chosen:
        return None
    figure = _figure(400)
    for i, curve in chosen:
        colour = _POLICY_COLOURS[i % len(_POLICY_COLOURS)]
        for column, label, style in [
            ("mean_reward", "compiles, training", {"mode": "lines", "line": {"color": colour, "width": 1.5}}),
            (
                "validation_reward",
                "policy, validation",
                {
                    "mode": "lines+markers",
                    "line": {"color": colour, "width": 2.5, "dash": "dot"},
                    "marker": {"size": 8, "color": colour},
                },
            ),
        ]:
            x, y = curve.points(curve.step, column, 100.0)
            figure.add_scatter(x=x, y=y, name=f"{curve.policy}: {label}", **style)
    figure.add_hline(y=0, line=_ZERO_LINE)
    steps = " or ".join(dict.fromkeys(curve.step for _, curve in chosen))
    figure.update_xaxes(title=steps, dtick=_step_distance(chosen))
    figure.update_yaxes(title="mean reward (%)")
    return figure


def losses(curves: Sequence[Curve]) -> go.Figure | None:
    """Loss of cloning over the epochs, training and validation; None without such runs."""
    chosen = [(i, curve) for i, curve in enumerate(curves) if curve.points("epoch", "loss")[0]]
    if not chosen:
        return None
    figure = _figure(400)
    for i, curve in chosen:
        colour = _POLICY_COLOURS[i % len(_POLICY_COLOURS)]
        for column, label, dash in [("loss", "training", "solid"), ("validation_loss", "validation", "dot")]:
            x, y = curve.points("epoch", column)
            line = {"color": colour, "width": 2.5, "dash": dash}
            figure.add_scatter(x=x, y=y, mode="lines", name=f"{curve.policy}: {label}", line=line)
    figure.update_xaxes(title="epoch", dtick=_step_distance(chosen))
    figure.update_yaxes(title="cross-entropy (nats per question)", rangemode="tozero")
    return figure


def sorted_ratios(measured: cse.MeasuredUnits, split: str) -> go.Figure:
    """Score over the heuristic's, units from best to worst, one line per contender."""
    figure = _figure(430)
    changes = []
    for i, name in enumerate(_beside_the_heuristic(measured, split)):
        ratio, _, units = cse.ratios(measured, name, measured.members(split))
        changes += [100.0 * (ratio - 1.0)] if name != cse.NONE else []
        figure.add_scatter(
            x=(100.0 * (np.arange(len(ratio)) + 0.5) / max(1, len(ratio))).round(4).tolist(),
            y=ratio.round(6).tolist(),
            mode="lines",
            name=name,
            line={"shape": "hvh", "width": 2.5, **_style(i)},
            text=units,
            hovertemplate="%{text}: %{y:.4f}<extra>" + name + "</extra>",
        )
    figure.add_hline(y=1, line=_ZERO_LINE)
    figure.update_xaxes(title=f"{split} units, best first (%)", range=[0, 100])
    figure.update_yaxes(title="score / heuristic's", range=_ratio_range(changes))
    return figure


def ratio_scatter(measured: cse.MeasuredUnits, split: str, seed: int) -> go.Figure:
    """Code size over score, each over the heuristic's, of a sample of the units where they are many.

    Args:
        measured: what is shown.
        split: whose units.
        seed: root seed of the sample.
    """
    figure, names = _figure(480), _beside_the_heuristic(measured, split)
    changes: list[list[np.ndarray]] = [[], []]
    for i, name in enumerate(names):
        found = list(zip(*cse.ratios(measured, name, measured.members(split)), strict=True))
        shown = sample(found, _NUM_UNITS // len(names), seed, "report", "cse", name)
        score, size = (np.array([one[which] for one in shown]) for which in (0, 1))
        for known, ratio in zip(changes, (score, size), strict=True):
            known += [100.0 * (ratio - 1.0)] if name != cse.NONE else []
        figure.add_scatter(
            x=score.round(6).tolist(),
            y=size.round(6).tolist(),
            mode="markers",
            name=name,
            marker={"size": 6, "opacity": 0.6, "color": _style(i)["color"], "symbol": _symbol(i)},
            text=[one[2] for one in shown],
            hovertemplate="%{text}<br>score %{x:.4f}, size %{y:.4f}<extra>" + name + "</extra>",
        )
    figure.add_hline(y=1, line=_ZERO_LINE)
    figure.add_vline(x=1, line=_ZERO_LINE)
    figure.update_xaxes(title="score / heuristic's", range=_ratio_range(changes[0]))
    figure.update_yaxes(title="code size / heuristic's", range=_ratio_range(changes[1]))
    return figure


def headroom_bars(measured: cse.MeasuredUnits) -> go.Figure:
    """How much lower the best known scores are, geometric mean over the units of all splits, by viable candidates."""
    figure = _figure(380)
    viable = np.minimum([unit.num_viable for unit in measured.units], _MOST_VIABLE + 1)
    ratio = measured.by(cse.BEST).score / measured.by(cse.HEURISTIC).score
    numbers = [number for number in np.unique(viable).tolist() if measured.labelled[viable == number].any()]
    groups = [measured.labelled & (viable == number) for number in numbers]
    notes = [
        f"{int(group.sum())} units, {int(measured.exhaustive[group].sum())} searched exhaustively" for group in groups
    ]
    figure.add_bar(
        x=[str(number) if number <= _MOST_VIABLE else f"> {_MOST_VIABLE}" for number in numbers],
        y=[round(100.0 * (1.0 - float(np.exp(np.log(ratio[group]).mean()))), 6) for group in groups],
        marker={"color": _POLICY_COLOURS[1]},
        text=notes,
        textposition="none",
        hovertemplate="%{x} viable: %{y:.2f} %<br>%{text}<extra></extra>",
    )
    figure.update_xaxes(title="viable candidates of the unit", type="category")
    figure.update_yaxes(title="headroom (%)", rangemode="tozero")
    return figure


def sweep_gains(points: Sequence[PointResult], keys: Sequence[str]) -> go.Figure | None:
    """Gain over the one swept setting, or parallel coordinates where several were swept; None if all points failed.

    Args:
        points: of the sweep.
        keys: swept settings.
    """
    shown = [point for point in points if point.by_split]
    if not shown:
        return None
    if len(keys) > 1:
        return _parallel(shown, keys)
    key = keys[0] if keys else ""
    figure = _figure(430)
    numbers = [value for point in shown for value in point.settings.values()]
    plain = bool(numbers) and all(isinstance(value, int | float) and not isinstance(value, bool) for value in numbers)
    series: dict[str, list[PointResult]] = {}
    for point in shown:
        series.setdefault(", ".join(filter(None, [point.task, point.learner])), []).append(point)
    for i, (name, members) in enumerate(series.items()):
        colour = _POLICY_COLOURS[i % len(_POLICY_COLOURS)]
        for split, dash in zip(SPLITS, ("dot", "solid"), strict=True):
            label = f"{name}, {split}"
            if key and key not in members[0].settings:  # the same whatever was swept
                gain = 100.0 * (members[0].by_split[split].comparison.geomean or 0.0)
                figure.add_hline(y=gain, line={"color": colour, "dash": dash, "width": 2}, annotation_text=label)
                continue
            places = [point.settings[key] if plain else _place(point, key) for point in members]
            figure.add_trace(_with_intervals(members, places, split, label, colour, dash))
            seeds = [
                (place, 100.0 * gain)
                for place, point in zip(places, members, strict=True)
                if len(point.by_split[split].by_seed) > 1
                for gain in point.by_split[split].by_seed.values()
                if gain is not None
            ]
            if seeds:
                figure.add_scatter(
                    x=[place for place, _ in seeds],
                    y=[gain for _, gain in seeds],
                    mode="markers",
                    name=f"{label}, seeds",
                    showlegend=False,
                    marker={"size": 6, "color": colour, "symbol": "x" if dash == "dot" else "circle-open"},
                )
    figure.add_hline(y=0, line=_ZERO_LINE)
    wide = plain and min(numbers) > 0 and max(numbers) >= 10 * min(numbers)
    ticks = {"tickvals": sorted(set(numbers)), "ticktext": [f"{value:g}" for value in sorted(set(numbers))]}
    figure.update_xaxes(
        title=key, type="log" if wide else "linear" if plain else "category", **(ticks if plain else {})
    )
    figure.update_yaxes(title="gain (%)")
    return figure


def sweep_curves(points: Sequence[PointResult], curves: Mapping[str, Curve]) -> go.Figure | None:
    """Reward on the validation modules over the compiles asked for, all trainings; None if none was validated.

    Args:
        points: of the sweep; each has a colour, its seeds differ in nothing but the name.
        curves: by policy.
    """
    figure = _figure(460)
    for i, point in enumerate(points):
        for policy, curve in curves.items():
            if PolicyName.of(policy).learner != point.name:
                continue
            x, y = curve.points("evaluations", "validation_reward", 100.0)
            if x and x[-1]:
                name = f"{point.label}, seed {PolicyName.of(policy).seed}"
                figure.add_scatter(x=x, y=y, mode="lines+markers", name=name, line={"width": 2, **_style(i)})
    if not figure.data:
        return None
    figure.add_hline(y=0, line=_ZERO_LINE)
    figure.update_xaxes(title="compiles asked for", rangemode="tozero")
    figure.update_yaxes(title="validation reward (%)")
    return figure


def to_html(figure: go.Figure, name: str) -> str:
    """The figure as an element without plotly.js; ``name`` becomes its identifier."""
    html: str = figure.to_html(
        full_html=False,
        include_plotlyjs=False,
        div_id=f"figure-{name}",
        config={"displayModeBar": False, "responsive": True},
    )
    return html


def _figure(height: int) -> go.Figure:
    figure = go.Figure(layout=_layout(height))
    figure.update_xaxes(**_AXIS)
    figure.update_yaxes(**_AXIS)
    return figure


def _layout(height: int) -> dict[str, Any]:
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


def _with_offset(title: str, measure: str) -> str:
    offset = get_measure(measure).offset
    return f"{title} plus {offset:g}" if offset else f"{title} (bytes)"


def _bars(rows: Sequence[Row], measure: str, split: str, show_legend: bool) -> go.Bar:
    shown = [(row.scope, row.by(measure)) for row in rows if row.by(measure).geomean is not None]
    gain, low, high = (
        np.array([getattr(comparison, name) for _, comparison in shown], np.float64) * 100.0
        for name in ("geomean", "geomean_low", "geomean_high")
    )
    return go.Bar(
        y=[project for project, _ in shown],
        x=gain.tolist(),
        orientation="h",
        name=split,
        legendgroup=split,
        showlegend=show_legend,
        marker={"color": _SPLIT_COLOURS[split]},
        error_x={
            "type": "data",
            "symmetric": False,
            "array": np.nan_to_num(high - gain).tolist(),
            "arrayminus": np.nan_to_num(gain - low).tolist(),
            "color": "#808080",
            "thickness": 1.5,
            "width": 3,
        },
        text=[f"{comparison.num_modules} modules" for _, comparison in shown],
        textposition="none",
        hovertemplate="%{y}: %{x:+.2f} %<br>%{text}<extra>" + split + "</extra>",
    )


def _with_intervals(
    points: Sequence[PointResult], places: Sequence[Any], split: str, name: str, colour: str, dash: str
) -> go.Scatter:
    """Gains of points with their intervals, as a line."""
    compared = [point.by_split[split].comparison for point in points]
    gain, low, high = (
        np.array([getattr(one, field) for one in compared], np.float64) * 100.0
        for field in ("geomean", "geomean_low", "geomean_high")
    )
    return go.Scatter(
        x=list(places),
        y=gain.tolist(),
        mode="lines+markers",
        name=name,
        line={"color": colour, "width": 2.5, "dash": dash},
        marker={"size": 9, "color": colour},
        error_y={
            "type": "data",
            "symmetric": False,
            "array": np.nan_to_num(high - gain).tolist(),
            "arrayminus": np.nan_to_num(gain - low).tolist(),
            "thickness": 1,
            "width": 4,
        },
        text=[f"{one.num_modules} modules" for one in compared],
        hovertemplate="%{x}: %{y:+.2f} %<br>%{text}<extra>" + name + "</extra>",
    )


def _parallel(points: Sequence[PointResult], keys: Sequence[str]) -> go.Figure:
    """Parallel coordinates: a line for each point through its settings and gains, coloured by the validation gain."""
    figure = _figure(460)
    columns: dict[str, list[Any]] = {
        "task": [point.task for point in points],
        "learner": [point.learner for point in points],
        **{key: [_place(point, key) for point in points] for key in keys},
    }
    axes = []
    for name, values in columns.items():
        known = list(dict.fromkeys(values))
        if len(known) > 1:
            places = [known.index(value) for value in values]
            axes.append({"label": name, "values": places, "tickvals": list(range(len(known))), "ticktext": known})
    gains = {split: [100.0 * (point.by_split[split].comparison.geomean or 0.0) for point in points] for split in SPLITS}
    axes += [{"label": f"gain, {split} (%)", "values": values} for split, values in gains.items()]
    line = {"color": gains["validation"], "colorscale": "Viridis", "showscale": True}
    font = {"color": "#808080"}
    figure.add_parcoords(dimensions=axes, line=line, labelfont=font, tickfont=font, rangefont=font)
    figure.update_layout(margin={"l": 90, "r": 40, "t": 70, "b": 40})
    return figure


def _place(point: PointResult, key: str) -> str:
    """Where a point stands on the axis of a setting."""
    return str(point.settings[key]) if key in point.settings else point.learner


def _style(index: int) -> dict[str, str]:
    dash = _DASHES[index // len(_POLICY_COLOURS) % len(_DASHES)]
    return {"color": _POLICY_COLOURS[index % len(_POLICY_COLOURS)], "dash": dash}


def _symbol(index: int) -> str:
    """Tells markers of one colour apart, as dashes do lines."""
    return _SYMBOLS[index // len(_POLICY_COLOURS) % len(_SYMBOLS)]


def _step_distance(curves: Sequence[tuple[int, Curve]]) -> int:
    """Whole distance of the ticks of an axis of steps."""
    longest = max((x[-1] for _, curve in curves if (x := curve.points(curve.step, curve.step)[0])), default=1.0)
    return max(1, round(longest / 12))


def _central_range(changes: Sequence[np.ndarray]) -> list[float]:
    """Range that holds 96 percent of the changes of every policy and 0, with a margin."""
    ends = [float(np.percentile(change, q)) for change in changes if len(change) for q in (2, 98)]
    low, high = min([-1.0, *ends]), max([1.0, *ends])
    margin = 0.05 * (high - low)
    return [low - margin, high + margin]


def _beside_the_heuristic(measured: cse.MeasuredUnits, split: str) -> list[str]:
    """Contenders that some unit of a split was compiled under, but for the heuristic itself: policies first."""
    units = measured.members(split)
    names = [*measured.policies, cse.BEST, cse.NONE]
    return [name for name in names if np.isfinite(measured.by(name).score[units]).any()]


def _ratio_range(changes: Sequence[np.ndarray]) -> list[float]:
    """`_central_range` for ratios of such changes."""
    return [1.0 + end / 100.0 for end in _central_range(changes)]


def _without(values: Mapping[str, Any], name: str) -> dict[str, Any]:
    return {key: value for key, value in values.items() if key != name}
