"""The page shown first: what the last run found, and where its pages are."""

import argparse
from collections.abc import Mapping

from mlgo.base.artifacts import RowView, read_provenance
from mlgo.base.config import judged_split
from mlgo.base.files import read_json
from mlgo.base.names import LANGUAGE_TITLES, PolicyName
from mlgo.compare.inference import Tally
from mlgo.objects import measures
from mlgo.report import headline_page
from mlgo.report.metrics import PARTS, prefix_of
from mlgo.report.pages import RenderedPage

_PARTS = {"all": "{split} projects", **{name: f"their {title} modules" for name, title in LANGUAGE_TITLES.items()}}
_PAGES = {"report": "report/report.html", "compile times": "work/report/compile_time.html"}


def show(args: argparse.Namespace) -> RenderedPage:
    """What ships, if that was measured and is what policies are made for; a line for each learner; the pages."""
    found = read_json(args.data / "report" / "comparisons.json")
    scores = args.data / "baseline" / "scores.parquet"
    objective = read_provenance(scores)["compile"]["objective"] if scores.exists() else measures.DEFAULT.name
    measure, split = measures.get_measure(args.measure or objective), judged_split(found)
    judged = found[split]
    ships = found.get("truth") and (args.data / "evaluation" / "shipped.parquet").exists()
    lines = [headline_page.show(args).text, ""] if ships else []
    policies = {name: PolicyName.of(name).learner for name in filter(PolicyName.find, judged)}
    means = {name: f"{learner}-mean" for name, learner in policies.items()}  # over the seeds, where there are several
    for name in dict.fromkeys(mean if mean in judged else name for name, mean in means.items()):
        lines += [
            f"{name}, {title.format(split=split)}: {summarise(judged[f'{name}{PARTS[part]}'], measure)}"
            for part, title in ({"all": "objects of {split} projects"} if ships else _PARTS).items()
            if f"{name}{PARTS[part]}" in judged
        ]
    pages = {what: args.data / path for what, path in _PAGES.items()}
    lines += [f"{what}: {path}" for what, path in pages.items() if path.exists()]
    return RenderedPage("\n".join(lines), found)


def summarise(figures: RowView, measure: measures.Measure) -> str:
    """One line about one policy: the verdict, gains with their intervals, and how many projects went which way."""
    prefix = prefix_of(measure.name)
    told = {name: figures.get(f"{prefix}{name}") for name in ("finding", *(f"projects_{way}" for way in Tally._fields))}
    gains = [
        f"{text} {how}"
        for kind, how in (("geomean", "per project"), ("total", "in total"))
        if (text := _gain(figures, f"{prefix}{kind}"))
    ]
    counts = f"{told['projects_smaller']} smaller, {told['projects_larger']} larger, {told['projects_equal']} equal"
    return f"{told['finding']}; {measure.words.title}: {'; '.join([*gains, f'projects: {counts}'])}"


def _gain(figures: Mapping[str, float | None], name: str) -> str:
    value, low, high = (figures.get(f"{name}_{end}_percent") for end in ("gain", "low", "high"))
    if value is None:
        return ""
    return f"{value:+.2f} %" if low is None or high is None else f"{value:+.2f} % ({low:+.2f} to {high:+.2f} %)"
