"""The page shown first: what the last run found, and where its pages are."""

import argparse
from collections.abc import Mapping
from typing import Any

from mlgo.core import measures
from mlgo.core.artifacts import read_provenance
from mlgo.core.files import read_json
from mlgo.core.names import PolicyName
from mlgo.report.metrics import PARTS, prefix_of
from mlgo.report.pages import Shown

_PARTS = {"all": "test projects", "c++": "their C++ modules", "c": "their C modules"}
_PAGES = {"report": "report/report.html", "compile times": "work/report/compile_time.html"}


def show(args: argparse.Namespace) -> Shown:
    """A line for each policy, and the pages."""
    found = read_json(args.data / "report" / "comparisons.json")
    scores = args.data / "baseline" / "scores.parquet"
    objective = read_provenance(scores)["compile"]["objective"] if scores.exists() else measures.DEFAULT.name
    measure, test = measures.get_measure(args.measure or objective), found["test"]
    lines = []
    for name in filter(PolicyName.find, test):
        lines += [f"{name}, {title}: {text}" for title, text in whole_projects(test[name], measure).items()]
        lines += [
            f"{name}, {title}: {summarise(test[f'{name}{PARTS[part]}'], measure)}"
            for part, title in _PARTS.items()
            if f"{name}{PARTS[part]}" in test
        ]
    pages = {what: args.data / path for what, path in _PAGES.items()}
    lines += [f"{what}: {path}" for what, path in pages.items() if path.exists()]
    return Shown("\n".join(lines), found)


def whole_projects(figures: Mapping[str, Any], measure: measures.Measure) -> dict[str, str]:
    """What ships comes first: linked projects, then modules with an interval over projects; a line each, by title."""
    number, prefix = figures.get("projects"), prefix_of(measure.name)
    shown = {
        "linked projects": ("linked_total", "linked_total", "in total"),
        f"{measure.words.title} by project": (f"{prefix}geomean", f"{prefix}geomean_by_project", "geometric mean"),
    }
    lines = {}
    for title, (gain, ends, how) in shown.items():
        value, low, high = (figures.get(f"{name}_percent") for name in (f"{gain}_gain", f"{ends}_low", f"{ends}_high"))
        if value is not None and low is not None and high is not None:
            lines[title] = f"gain {value:+.2f} % {how} ({low:+.2f} to {high:+.2f} % over {number} projects)"
    return lines


def summarise(figures: Mapping[str, Any], measure: measures.Measure) -> str:
    """One line about one policy; it names a direction only when the interval excludes zero."""
    prefix = prefix_of(measure.name)
    gain, low, high = (figures.get(f"{prefix}geomean_{end}_percent") for end in ("gain", "low", "high"))
    wins, losses, ties, verdict = (figures.get(f"{prefix}{name}") for name in ("wins", "losses", "ties", "verdict"))
    counts = f"{wins} smaller, {losses} larger, {ties} equal"
    if gain is None or low is None or high is None:
        return f"no interval can be given ({counts})"
    name = measure.words.title
    interval = f"interval of the gain {low:+.2f} to {high:+.2f} %"
    if verdict == "no difference shown":
        return f"no difference shown in {name} (geometric mean {gain:+.2f} %, {interval}; modules: {counts})"
    return f"{name} {abs(gain):.2f} % {verdict} than the heuristic's (geometric mean; {interval}; modules: {counts})"
