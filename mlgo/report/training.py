"""Figures of training histories."""

from collections.abc import Mapping, Sequence

import numpy as np

from mlgo.compare.trainings import Curve, budget_curves
from mlgo.report.figures import Figure, Series, chart, style_of


def rewards(curves: Sequence[Curve]) -> Figure | None:
    """Mean reward of what each update saw and reward on the validation items; None without such runs."""
    shown = [(i, one) for i, one in enumerate(curves) if one.points(one.step, "mean_reward")[0]]
    series = []
    for i, curve in shown:
        colour = style_of(i)["color"]
        validated = {"line": {"color": colour, "width": 2.5, "dash": "dot"}, "marker": {"size": 8, "color": colour}}
        for column, label, style in (
            ("mean_reward", "compiles, training", {"mode": "lines", "line": {"color": colour, "width": 1.5}}),
            ("validation_reward", "policy, validation", {"mode": "lines+markers", **validated}),
        ):
            x, y = curve.points(curve.step, column, 100.0)
            series.append(Series(f"{curve.policy}: {label}", x, y, style=style))
    steps = " or ".join(dict.fromkeys(curve.step for _, curve in shown))
    return _over_steps(series, steps, {"title": "mean reward (%)"}, zero=(None, 0))


_SPENT = {"evaluations": "compiles asked for, validations included", "minutes": "minutes of one core"}


def budgets(curves: Sequence[Curve], spent: str = "evaluations") -> Figure | None:
    """What each learner has found for how much, median and range of its seeds; None without trainings."""
    found = budget_curves(curves, spent)
    if not found:
        return None
    series: list[Series] = []
    for i, one in enumerate(found):
        x, gains = one.spent.tolist(), 100.0 * one.gains
        edge = {"line": {"width": 0, "shape": "hv"}, "showlegend": False, "hoverinfo": "skip"}
        band = edge | {"fill": "tonexty", "fillcolor": f"{style_of(i)['color']}26"}
        title = f"{one.learner}, {len(one.seeds)} seed{'s' * (len(one.seeds) > 1)}"
        series += [
            Series(title, x, np.min(gains, axis=0).tolist(), colour=i, style={"mode": "lines", **edge}),
            Series(title, x, np.max(gains, axis=0).tolist(), colour=i, style={"mode": "lines", **band}),
            Series(title, x, np.median(gains, axis=0).tolist(), colour=i, style={"line": {"shape": "hv"}}),
        ]
    axis = {"title": _SPENT[spent], "type": "log"}
    return chart(series, axis, {"title": "validation reward of the best policy so far (%)"}, 460, "lines+markers")


def losses(curves: Sequence[Curve]) -> Figure | None:
    """Loss of cloning over the epochs, training and validation; None without such runs."""
    series = []
    for i, curve in enumerate(curves):
        if not curve.points("epoch", "loss")[0]:
            continue
        for column, label, dash in (("loss", "training", "solid"), ("validation_loss", "validation", "dot")):
            line = {"color": style_of(i)["color"], "width": 2.5, "dash": dash}
            series.append(Series(f"{curve.policy}: {label}", *curve.points("epoch", column), style={"line": line}))
    return _over_steps(series, "epoch", {"title": "cross-entropy (nats per question)", "rangemode": "tozero"})


def _over_steps(
    series: Sequence[Series], step: str, y: Mapping[str, str], zero: tuple[None, float | None] = (None, None)
) -> Figure | None:
    """Lines over the updates of a training; None without any."""
    if not series:
        return None
    distance = max(1, round(max((one.x[-1] for one in series if one.x), default=1.0) / 12))
    return chart(series, {"title": step, "dtick": distance}, y, 400, zero=zero)
