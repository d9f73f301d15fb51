"""The page about choices among candidates, its numbers for DVC, and its table in a terminal."""

import argparse
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from mlgo.base.config import judged_split
from mlgo.base.files import read_record
from mlgo.base.seeding import sample
from mlgo.compare.inference import Bootstrap, Gain, Verdict
from mlgo.compare.scores import ComparisonRow, ScoreMatrix, claims
from mlgo.compare.trainings import Curve
from mlgo.compare.units import BEST, HEURISTIC, NONE, OK, num_failed, sorted_ratios, unit_counts, unit_record
from mlgo.errors import ArtifactError
from mlgo.jit import JIT_CSE, MEASURE
from mlgo.learn.progress import csv_text
from mlgo.report import pages
from mlgo.report.figures import Figure, Series, Values, central_range, chart, style_of
from mlgo.report.inputs import Facts
from mlgo.report.training import losses, rewards

_DIGITS = 6
"""Decimals of all figures; what lies beyond may differ between machines."""

_METRICS = ("geomean", "low", "high", "total", "better", "worse", "projects_better", "projects_worse")
_NUM_UNITS = 4000  # points that a figure holds, of all contenders together
_MOST_VIABLE = 16  # candidates of a unit; units with more share a bar

_DIRECTIONS: Mapping[Verdict, str] = {
    "smaller": ": scores lower, so better, than the built-in heuristic",
    "larger": ": scores higher, so worse, than the built-in heuristic",
}


def choice_comparisons(measured: ScoreMatrix, rows: Sequence[ComparisonRow]) -> dict[str, Any]:
    """All comparisons, nested; splits without units are left out.

    Returns:
        ``{"task": ..., "measure": ..., "splits": {"test": {"units": ..., "labels": ..., "exhaustive_labels": ...,
        "contenders": {"es-s0": {...}}}}}``; a record is that of `unit_record`.
    """
    splits = {}
    for split in measured.splits:
        contenders = {row.name: _rounded(unit_record(row)) for row in rows if row.split == split}
        splits[split] = {**unit_counts(measured, split), "contenders": contenders}
    return {"task": JIT_CSE.name, "measure": MEASURE, "splits": splits}


def choice_metrics(rows: Sequence[ComparisonRow]) -> dict[str, dict[str, dict[str, float]]]:
    """The few numbers to compare experiments by, by split and learner, over all its seeds. Below 1 is better.

    Returns:
        ``{"test": {"es": {"geomean": ..., "low": ..., "high": ..., "size_geomean": ..., "better": ..., "worse": ...,
        "failed": ..., "headroom_share": ...}}}``; what is not known is left out.
    """
    found: dict[str, dict[str, dict[str, float]]] = {}
    for row in claims(rows):
        record = unit_record(row)
        figures = {
            **{name: record["heuristic"][name] for name in _METRICS},
            "size_geomean": record["size"]["geomean"],
            "failed": num_failed(record),
            "headroom_share": record["headroom_share"],
        }
        known = _rounded({name: value for name, value in figures.items() if value is not None})
        found.setdefault(row.split, {})[row.contender.learner] = known
    return found


def choice_ratios_csv(measured: ScoreMatrix) -> str:
    """Score and code size over those under the heuristic, unit by unit, as CSV; by contender, split and ratio."""
    records = [
        [one.name, split, unit, round(float(score), _DIGITS), round(float(size), _DIGITS)]
        for one in measured.contenders
        if one.name != HEURISTIC
        for split in measured.splits
        for score, size, unit in zip(*sorted_ratios(measured, one.name, split), strict=True)
    ]
    return csv_text(["contender", "split", "unit", "score_ratio", "size_ratio"], records)


def render_choices(
    measured: ScoreMatrix,
    rows: Sequence[ComparisonRow],
    bootstrap: Bootstrap,
    curves: Mapping[str, Sequence[Curve]],
    facts: Mapping[str, Facts],
    hashes: Facts,
) -> str:
    """The page as HTML, self-contained: the same inputs give the same bytes."""
    split = measured.splits[0]
    counts = {name: unit_counts(measured, name) for name in measured.splits}
    figures = {
        "ratios": _sorted_ratios(measured, split),
        "sizes": _ratio_scatter(measured, split, bootstrap.seed),
        "headroom": _headroom_bars(measured),
        # Learner by learner: the legend of all of them would fill a phone.
        **{f"rewards-{learner}": rewards(of_seeds) for learner, of_seeds in curves.items()},
        **{f"losses-{learner}": losses(of_seeds) for learner, of_seeds in curves.items()},
    }
    headroom = [
        pages.text_column("split", lambda row: row.split),
        pages.count_column("units", lambda row: counts[row.split]["units"]),
        pages.count_column("with a label", lambda row: counts[row.split]["labels"]),
        pages.count_column("all subsets tried", lambda row: counts[row.split]["exhaustive_labels"]),
        pages.count_column("better than the heuristic", lambda row: row.by("score").items.smaller),
        pages.Column("G of the best known", lambda row, style: style.ratio(_interval(unit_record(row)["heuristic"]))),
    ]
    failed = [
        pages.text_column("who chose", lambda row: row[0].name),
        pages.text_column("split", lambda row: row[0].split),
        pages.text_column("kind", lambda row: row[1]),
        pages.count_column("compiles", lambda row: row[2]),
    ]
    return pages.render(
        "choices.html.jinja",
        task=JIT_CSE,
        split=split,
        cards=[
            (*pages.card(row, "score", _DIRECTIONS), unit_record(row)) for row in claims(rows) if row.split == split
        ],
        counts=counts,
        tables={
            name: _choice_table({row.name: unit_record(row) for row in rows if row.split == name})
            for name in measured.splits
        },
        headroom=pages.Table(headroom, [row for row in rows if row.name == BEST]),
        failed=pages.Table(
            failed,
            [
                (row, kind, number)
                for row in rows
                if len(row.contender.seeds) < 2 and num_failed(row.counts)
                for kind, number in row.counts["failures"].items()
            ],
        ),
        bootstrap=bootstrap,
        coverage=pages.coverage(bootstrap),
        facts=facts,
        hashes=hashes,
        figures=figures,
    )


def show(args: argparse.Namespace) -> pages.RenderedPage:
    """The table of a split."""
    path = args.data / "cse" / "report" / "comparisons.json"
    if not path.exists():
        raise ArtifactError(f"{path} is missing; name a task that chooses among candidates and run the pipeline: make")
    found = read_record(path)
    splits = found["splits"]
    split = args.split or judged_split(splits)
    if split not in splits:
        raise ArtifactError(f"{path} holds no {split} unit; it has {', '.join(splits)}")
    part = splits[split]
    text = (
        f"Task {found['task']}, {split} units. Score: {found['measure']}, lower is better.\n"
        "G: geometric mean by project of score / score under the heuristic, below 1 is better.\n"
        f"Of {part['units']} {split} units {part['labels']} have a best known choice, "
        f"{part['exhaustive_labels']} of them by trying all.\n\n"
    )
    return pages.RenderedPage(text + _choice_table(part["contenders"]).aligned(), part)


def _interval(beside: Mapping[str, Any]) -> Gain:
    return Gain(beside["geomean"], beside["low"], beside["high"])


def _choice_table(records: Mapping[str, Mapping[str, Any]]) -> pages.Table:
    """Contenders with what `unit_record` says of them."""

    def failed(record: Mapping[str, Any], style: pages.Style) -> str:
        kinds = ", ".join(f"{kind} {number}" for kind, number in record["failures"].items() if kind != OK)
        return f"{num_failed(record)}{f' ({kinds})' if kinds and not style.html else ''}"

    def per_unit(record: Mapping[str, Any], style: pages.Style) -> str:
        number = record["heuristic"]["num_units"]
        return f"{record['eliminations'] / number:.2f}" if number else style.none

    def counts(title: str, beside: str, *names: str) -> pages.Column:
        return pages.Column(title, lambda row, style: style.counts(*(row[beside][name] for name in names)))

    def ratio(title: str, beside: str, name: str) -> pages.Column:
        return pages.Column(title, lambda row, style: style.ratio(row[beside][name]))

    def geomean(title: str, beside: str) -> pages.Column:
        return pages.Column(title, lambda row, style: style.ratio(_interval(row[beside])))

    units, projects = ("better", "worse", "same"), ("projects_better", "projects_worse")
    return pages.Table(
        [
            pages.text_column("who chose", lambda row: row["name"]),
            pages.count_column("units", lambda row: row["heuristic"]["num_units"]),
            pages.Column("failed", failed),
            geomean("G of scores", "heuristic"),
            ratio("median project", "heuristic", "median"),
            ratio("in total", "heuristic", "total"),
            pages.text_column("verdict", lambda row: row["finding"] if row["is_policy"] else "", wrap=True),
            pages.Column("corrected p", lambda row, style: style.probability(row["p"])),
            counts("projects better / worse", "heuristic", *projects),
            counts("units better / worse / same", "heuristic", *units),
            pages.gain_column("mean change", lambda row: row["heuristic"]["mean_change"]),
            geomean("G of code sizes", "size"),
            pages.gain_column("share of the headroom", lambda row: row["headroom_share"]),
            pages.Column("eliminations per unit", per_unit),
            pages.count_column("sum of scores", lambda row: row["score_sum"]),
            ratio("G beside none", "none", "geomean"),
            counts("units better / worse / same", "none", *units),
        ],
        [{"name": name, **record} for name, record in records.items()],
    )


def _beside_the_heuristic(measured: ScoreMatrix, split: str) -> list[str]:
    """Contenders that some unit of a split was compiled under, but for the heuristic itself: policies first."""
    units = measured.where(split=split)
    names = [*measured.policies, BEST, NONE]
    return [name for name in names if np.isfinite(measured.scores["score"][measured.index(name)][units]).any()]


def _axis(title: str, changes: Sequence[Values]) -> dict[str, Any]:
    return {"title": title, "range": central_range(changes, centre=1.0, least=0.01)}


def _sorted_ratios(measured: ScoreMatrix, split: str) -> Figure:
    """Score over the heuristic's, units from best to worst, one line per contender."""
    series, shown = [], []
    for i, name in enumerate(_beside_the_heuristic(measured, split)):
        ratio, _, units = sorted_ratios(measured, name, split)
        x = (100.0 * (np.arange(len(ratio)) + 0.5) / max(1, len(ratio))).round(4)
        line = {"line": {"shape": "hvh", "width": 2.5, **style_of(i)}}
        series.append(Series(name, x, ratio.round(6), units, i, "%{text}: %{y:.4f}", line))
        shown += [ratio] if name != NONE else []
    x_axis = {"title": f"{split} units, best first (%)", "range": [0, 100]}
    return chart(series, x_axis, _axis("score / heuristic's", shown), zero=(None, 1))


def _ratio_scatter(measured: ScoreMatrix, split: str, seed: int) -> Figure:
    """Code size over score, each over the heuristic's, of a sample of the units where they are many."""
    series, shown, names = [], [], _beside_the_heuristic(measured, split)
    for i, name in enumerate(names):
        found = list(zip(*sorted_ratios(measured, name, split), strict=True))
        score, size, units = zip(*sample(found, _NUM_UNITS // len(names), seed, "report", "cse", name), strict=True)
        style, hover = {"marker": {"opacity": 0.6}}, "%{text}<br>score %{x:.4f}, size %{y:.4f}"
        series.append(Series(name, np.round(score, 6), np.round(size, 6), units, i, hover, style))
        shown += [(score, size)] if name != NONE else []
    x_axis = _axis("score / heuristic's", [score for score, _ in shown])
    y_axis = _axis("code size / heuristic's", [size for _, size in shown])
    return chart(series, x_axis, y_axis, 480, "markers", zero=(1, 1))


def _headroom_bars(measured: ScoreMatrix) -> Figure:
    """How much lower the best known scores are, geometric mean over the units of all splits, by viable candidates."""
    viable = np.minimum(measured.items["num_viable"].astype(int), _MOST_VIABLE + 1)
    labelled, exhaustive = (measured.items[name].astype(bool) for name in ("labelled", "exhaustive"))
    ratio = measured.best["score"] / measured.baseline["score"]
    groups = {number: labelled & (viable == number) for number in np.unique(viable[labelled]).tolist()}
    bars = Series(
        "",
        [100.0 * (1.0 - float(np.exp(np.log(ratio[group]).mean()))) for group in groups.values()],
        [str(number) if number <= _MOST_VIABLE else f"> {_MOST_VIABLE}" for number in groups],
        [f"{group.sum()} units, {exhaustive[group].sum()} searched exhaustively" for group in groups.values()],
        1,
        "%{y} viable: %{x:.2f} %<br>%{text}",
    )
    y_axis = {"title": "viable candidates", "autorange": "reversed", "showgrid": False}
    return chart([bars], {"title": "headroom (%)"}, y_axis, 160 + 26 * len(groups), "rows")


def _rounded(value: Any) -> Any:
    if isinstance(value, Mapping):
        return {name: _rounded(one) for name, one in value.items()}
    return round(value, _DIGITS) + 0.0 if isinstance(value, float) else value  # + 0.0 turns a negative zero into 0
