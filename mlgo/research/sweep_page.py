"""The pages of a sweep: its points side by side, and what they cost, which differs from run to run."""

import argparse
import itertools
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import asdict
from functools import partial
from pathlib import Path
from typing import Any

from mlgo.base.artifacts import Row, RowView
from mlgo.base.config import Settings, SweepConfig
from mlgo.base.files import read_record
from mlgo.base.names import PolicyName
from mlgo.compare.inference import Bootstrap, Gain, percent
from mlgo.compare.trainings import Curve
from mlgo.errors import ArtifactError
from mlgo.report.figures import Figure, Series, chart, parallel, style_of
from mlgo.report.pages import Column, RenderedPage, Style, Table, count_column, gain_column, render, text_column
from mlgo.research.matrix import Sweep
from mlgo.research.points import SPLITS, Cost, Point, cost_of_seeds, experiment_costs
from mlgo.research.study import importances, trials_from_points

_OF_TEST = {
    "projects_smaller": "projects.smaller",
    "projects_larger": "projects.larger",
    "p": "corrected_p",
    "verdict": "verdict",
    "finding": "finding",
}

_MARKS = {"validation": ("dot", "x"), "test": ("solid", "circle-open")}
"""Dash of a split's line, and symbol of its seeds."""


def render_sweep(
    points: Sequence[Point],
    sweep: Sweep,
    curves: Mapping[PolicyName, Curve],
    bootstrap: Bootstrap,
    study: RowView | None = None,
) -> str:
    """The comparison page of a grid, or of a study by its record: the same inputs give the same bytes."""
    records = point_records(points, digits=12)
    failed = [(point, seed, message) for point in points for seed, message in point.failures.items()]
    return render(
        "sweep.html.jinja",
        points=Table(_columns(records, sweep.seeds), records),
        names=Table(
            [text_column("point", lambda one: one.label), text_column("name", lambda one: one.training.name)], points
        ),
        failures=Table(
            [
                text_column("point", lambda row: row[0].label),
                count_column("seed", lambda row: row[1]),
                text_column("why", lambda row: row[2], wrap=True),
            ],
            failed,
        ),
        seeds=sweep.seeds,
        study=study,
        trials=Table(_trial_columns(study), study["trials"]) if study else None,
        importances=_importances(study) if study else None,
        measures=", ".join(dict.fromkeys(point.title for point in points)),
        bootstrap=bootstrap,
        figures={
            "trials": _progress(study) if study else None,
            "gains": _gains(points, _keys(records), in_ranges=study is not None),
            "curves": _curves(points, curves),
        },
    )


def show(args: argparse.Namespace) -> RenderedPage:
    """All points with costs as means over the seeds, or what DVC's experiments cost."""
    if args.experiments:
        spent = experiment_costs(args.data / "work")
        return RenderedPage(cost_table(spent, "experiment").aligned(), [asdict(one) for one in spent])
    path = args.data / "sweep" / "sweep.json"
    if not path.exists():
        raise ArtifactError(f"{path} is missing; make it with: make sweep")
    known = read_record(path)
    records, seeds = known["points"], known["seeds"]
    costs = {one["name"]: cost_of_seeds(args.data / "work", one["name"], seeds, one["kind"]) for one in records}
    columns = [*_columns(records, seeds), *_cost_columns(lambda one: costs[one["name"]], mean=True)]
    lines = [Table(columns, records).aligned()]
    if "study" in known:
        lines += ["", Table(_trial_columns(known["study"]), known["study"]["trials"]).aligned(), ""]
        lines += [line for line in [_importances(known["study"])] if line]
    for one in [] if "study" in known else records:
        lines += [f"{PolicyName(one['name'], int(seed))} failed: {why}" for seed, why in one["failures"].items()]
    with_costs = [{**one, "cost": asdict(cost) if (cost := costs[one["name"]]) else None} for one in records]
    return RenderedPage("\n".join(lines), {**known, "points": with_costs})


def render_costs(costs: Sequence[Cost]) -> str:
    """The page of what every point cost on this machine, which differs from run to run."""
    return render("sweep_cost.html.jinja", costs=cost_table(costs, "point"))


def cost_table(costs: Sequence[Cost], what: str) -> Table:
    """Costs of points or experiments, all trainings together."""
    columns = [text_column(what, lambda one: one.name), count_column("trainings", lambda one: one.trainings)]
    return Table([*columns, *_cost_columns(lambda one: one, mean=False)], costs)


def _cost_columns(cost_of: Callable[[Any], Cost | None], mean: bool) -> list[Column]:
    """Evaluations, compiles, share of the trees and minutes; means over the trainings, or sums."""

    def column(title: str, value: Callable[[Cost], float], digits: int = 0, counted: bool = False) -> Column:
        def cell(row: Any, style: Style) -> str:
            one = cost_of(row)
            if one is None:
                return style.none
            least = "" if one.complete or counted else "≥ "
            return f"{least}{value(one) / (one.trainings if mean else 1):,.{digits}f}"

        return Column(title, cell)

    return [
        *([] if mean else [column("evaluations", lambda one: one.evaluations, counted=True)]),
        column("compiles", lambda one: one.compiles),
        Column("by trees", lambda row, style: style.share(one.saved if (one := cost_of(row)) else None)),
        column("minutes", lambda one: one.seconds / 60, 1),
    ]


def point_records(points: Sequence[Point], digits: int = 4) -> list[Row]:
    """The points as plain values, gains in percent with so many decimals."""
    return [
        {
            "name": one.training.name,
            "task": one.training.task,
            "kind": one.training.kind,
            "learner": one.training.learner,
            "settings": dict(one.training.settings),
            "measure": one.measure,
            "state": one.state,
            "best_on_validation": one.best,
            "evaluations": one.evaluations,
            "failures": {str(seed): message for seed, message in one.failures.items()},
            **{split: _figures(one, split, digits) for split in one.rows},
        }
        for one in points
    ]


def study_record(
    settings: Settings, folder: Path, asked: Sequence[RowView], sweep: Sweep, points: Sequence[Point]
) -> Row:
    """What a study has come to, as plain values: its trials in order, and what each setting's share in it is."""
    config, told = settings.section("sweep", SweepConfig), trials_from_points(folder, asked, sweep, points)
    by_name = {one.training.name: one for one in points}
    return {
        "sampler": config.sampler,
        "parallel": config.parallel,
        "trials": [
            {
                "trial": number,
                "point": name,
                "settings": dict(one.settings),
                "state": one.state,
                "validation_gain_percent": percent(one.gain),
                "why": "; ".join(dict.fromkeys(by_name[name].failures.values())),
                "best_on_validation": by_name[name].best,
            }
            for number, (one, name) in enumerate(zip(told, sweep.trials, strict=True))
        ],
        "importance": importances(config.ranges, told, settings.value("seed")),
    }


def _figures(point: Point, split: str, digits: int) -> Row:
    one = point.rows[split].by(point.measure)
    return {
        **one.figures({"modules": "num_compared", "failed": "num_failed", "projects": "num_projects"}),
        **{
            f"{prefix}{end}_percent": percent(share, digits)
            for prefix, gain in (("", one.geomean), ("total_", one.total))
            for end, share in zip(("gain", "low", "high"), gain, strict=True)
        },
        "gain_percent_by_seed": {
            str(row.contender.seeds[0]): percent(row.by(point.measure).geomean.value, digits)
            for row in point.by_seed[split]
        },
        **one.figures(_OF_TEST),
    }


def _trial_columns(study: RowView) -> list[Column]:
    """Columns for the trials of a study."""
    return [
        _star_column(),
        count_column("trial", lambda one: one["trial"]),
        *_setting_columns(study["trials"][0]["settings"]),
        text_column("outcome", lambda one: one["state"]),
        gain_column("gain, validation", lambda one: _share(one["validation_gain_percent"])),
        text_column("why", lambda one: one["why"], wrap=True),
    ]


def _share(percent: float | None) -> float | None:
    return None if percent is None else percent / 100.0


def _setting_columns(keys: Iterable[str]) -> list[Column]:
    def setting(one: RowView, style: Style, key: str) -> str:
        return str(one["settings"].get(key, style.none))

    return [Column(key, partial(setting, key=key)) for key in keys]


def _star_column() -> Column:
    return Column("", lambda one, style: ("★" if style.html else "*") if one["best_on_validation"] else "")


def _importances(study: RowView) -> str:
    """Shares of the settings in words; empty where nothing is known."""
    shares = [f"{key} {100.0 * share:.0f} %" for key, share in study["importance"].items()]
    return f"share in the variance of the gain (fANOVA): {', '.join(shares)}" if shares else ""


def _progress(study: RowView) -> Figure:
    """Gain of each trial in order, and of the best so far; pruned and failed trials are marks beneath."""
    done = [one for one in study["trials"] if one["validation_gain_percent"] is not None]
    gains, numbers = ([one[name] for one in done] for name in ("validation_gain_percent", "trial"))
    hover = [", ".join(f"{key} {value}" for key, value in one["settings"].items()) for one in done]
    best, shape = list(itertools.accumulate(gains, max)), {"line": {"shape": "hv"}, "mode": "lines"}
    series = [
        Series("trial", numbers, gains, hover, 0, "%{x}: %{y:+.2f} %<br>%{text}"),
        Series("best so far", numbers, best, colour=1, style=shape),
    ]
    for colour, state in ((2, "pruned"), (3, "failed")):
        if places := [one["trial"] for one in study["trials"] if one["state"] == state]:
            y, mark = [min(gains, default=0.0)] * len(places), {"marker": {"symbol": "x", "size": 9}}
            series.append(Series(state, places, y, colour=colour, style=mark))
    x_axis = {"title": "trial", "rangemode": "tozero"}
    return chart(series, x_axis, {"title": "gain, validation (%)"}, marks="markers", zero=(None, 0))


def _keys(records: Sequence[RowView]) -> list[str]:
    return list(dict.fromkeys(key for one in records for key in one["settings"]))


def _columns(records: Sequence[RowView], seeds: Sequence[int]) -> list[Column]:
    """Columns for records of points: what tells them apart, then what they gain."""

    def num_seeds(one: RowView) -> str:
        num_failed = len(one["failures"])
        return f"{len(seeds) - num_failed} of {len(seeds)}" if num_failed else str(len(seeds))

    def gain(one: RowView, style: Style, split: str, kind: str) -> str:
        if split not in one:
            return str(one["state"])
        return style.gain(Gain(*(_share(one[split][f"{kind}{end}_percent"]) for end in ("gain", "low", "high"))))

    splits = [split for split in SPLITS if any(split in one for one in records)] or list(SPLITS)
    last = splits[-1]

    def tally(one: RowView, style: Style) -> str:
        judged = one.get(last)
        return style.counts(judged["projects_smaller"], judged["projects_larger"]) if judged else str(one["state"])

    several = any(one["task"] for one in records)
    return [
        _star_column(),
        *([text_column("task", lambda one: one["task"])] if several else []),
        text_column("learner", lambda one: one["learner"]),
        *_setting_columns(_keys(records)),
        Column("seeds", lambda one, style: num_seeds(one)),
        *(
            Column(f"{title}, {split}", partial(gain, split=split, kind=kind))
            for split in splits
            for title, kind in (("gain per project", ""), ("in total", "total_"))
        ),
        Column(f"{last} projects with less / more", tally),
        text_column(f"verdict, {last}", lambda one: one[last]["finding"] if last in one else one["state"]),
        count_column("compiles asked for", lambda one: one["evaluations"]),
    ]


def _gains(points: Sequence[Point], keys: Sequence[str], in_ranges: bool) -> Figure | None:
    """Gain over the one swept setting, or parallel coordinates where several were swept; None if all points failed."""
    shown = [point for point in points if point.rows]
    if not shown:
        return None
    if len(keys) < 2:
        return _gains_over(keys[0] if keys else "", shown, in_ranges)
    columns: dict[str, Sequence[Any]] = {
        "task": [point.training.task for point in shown],
        "learner": [point.training.learner for point in shown],
    }
    for key in keys:  # at words, or at numbers where these are drawn from a range
        values = [point.training.settings.get(key) for point in shown]
        numeric = in_ranges and all(map(_is_number, values))
        columns[key] = [float(value) for value in values if value is not None] if numeric else _places(shown, key)
    splits = [split for split in SPLITS if any(split in point.rows for point in shown)]
    gains = {f"gain, {split} (%)": [100.0 * (point.gain(split) or 0.0) for point in shown] for split in splits}
    return parallel({**columns, **gains}, "gain, validation (%)")


def _gains_over(key: str, shown: list[Point], in_ranges: bool) -> Figure:
    """Gain over one setting, a line for each task, learner and split; small marks are single seeds."""
    numbers = [value for point in shown for value in point.training.settings.values()]
    plain = bool(numbers) and all(map(_is_number, numbers))
    if in_ranges and plain:
        shown.sort(key=lambda point: point.training.settings[key])
    groups: dict[str, list[Point]] = {}
    for point in shown:
        groups.setdefault(", ".join(filter(None, [point.training.task, point.training.learner])), []).append(point)
    series, everywhere = [], []
    for (i, (name, members)), (split, (dash, symbol)) in itertools.product(enumerate(groups.items()), _MARKS.items()):
        if all(split not in point.rows for point in members):
            continue
        line = {"color": style_of(i)["color"], "dash": dash}
        if key and key not in members[0].training.settings:  # the same whatever was swept
            everywhere.append((f"{name}, {split}", 100.0 * (members[0].gain(split) or 0.0), line))
            continue
        places = [point.training.settings[key] for point in members] if plain else _places(members, key)
        compared = [one for point in members if (one := point.on(split))]
        gains = [one.geomean for one in compared]
        means = [None if gain.value is None else 100.0 * gain.value for gain in gains]
        marks = {"line": {**line, "width": 2.5}, "marker": {"size": 9, "color": line["color"]}}
        notes, hover = [f"{one.num_compared} compared" for one in compared], "%{x}: %{y:+.2f} %<br>%{text}"
        series.append(Series(f"{name}, {split}", places, means, notes, i, hover, marks, gains))
        seeds = [
            (place, 100.0 * gain)
            for place, point in zip(places, members, strict=True)
            for row in point.by_seed[split]
            if len(point.by_seed[split]) > 1 and (gain := row.by(point.measure).geomean.value) is not None
        ]
        if seeds:
            mark = {"size": 6, "color": line["color"], "symbol": symbol}
            style = {"mode": "markers", "showlegend": False, "marker": mark, "line": None}
            x, y = zip(*seeds, strict=True)
            series.append(Series(f"{name}, {split}, seeds", x, y, style=style))
    axis: Row = {"title": key, "type": "category"}
    if plain:
        ticks, wide = sorted(set(numbers)), min(numbers) > 0 and max(numbers) >= 10 * min(numbers)
        axis |= {"type": "log" if wide else "linear", "tickvals": ticks, "ticktext": [f"{one:g}" for one in ticks]}
    figure = chart(series, axis, {"title": "gain (%)"}, marks="lines+markers", zero=(None, 0))
    for label, gain, line in everywhere:
        figure.add_line((0, 1), (gain, gain), {**line, "width": 2}, xref="x domain", label={"text": label})
    return figure


def _is_number(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)


def _places(points: Sequence[Point], key: str) -> list[str]:
    """Where points stand on the axis of a setting."""
    return [str(point.training.settings.get(key, point.training.learner)) for point in points]


def _curves(points: Sequence[Point], curves: Mapping[PolicyName, Curve]) -> Figure | None:
    """Reward on the validation modules over the compiles asked for, all trainings; None if none was validated."""
    series = []
    for i, point in enumerate(points):  # each has a colour, its seeds differ in nothing but the name
        for policy, curve in curves.items():
            x, y = curve.points("evaluations", "validation_reward", 100.0)
            if policy.learner == point.training.name and x and x[-1]:
                series.append(Series(f"{point.label}, seed {policy.seed}", x, y, colour=i))
    x_axis, y_axis = {"title": "compiles asked for", "rangemode": "tozero"}, {"title": "validation reward (%)"}
    return chart(series, x_axis, y_axis, 460, "lines+markers", zero=(None, 0)) if series else None
