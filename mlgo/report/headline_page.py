"""The pages shown first: what ships, of how many projects, against what, at what cost in time; and the overview."""

import argparse
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

import pyarrow as pa

from mlgo.base.artifacts import RESULTS, SHIPPED_SIZES, Row, RowView, read_provenance, read_table
from mlgo.base.config import default_config, judged_split, read_settings
from mlgo.base.files import read_record
from mlgo.base.names import LANGUAGE_TITLES, PolicyName
from mlgo.compare.headline import SHIP_COLUMNS, Headline, HeadlineRow, headline
from mlgo.compare.inference import Bootstrap, Tally, Verdict
from mlgo.compare.programs import find_programs, read_programs
from mlgo.objects import measures
from mlgo.report.metrics import PARTS, prefix_of
from mlgo.report.pages import PLAIN, Column, RenderedPage, Style, Table, gain_column, text_column

_DEFAULT_LEVEL = "-Oz"
_EXECUTED = "executed"
_PARTS = {"all": "{split} projects", **{name: f"their {title} modules" for name, title in LANGUAGE_TITLES.items()}}
_PAGES = {"report": "report/report.html", "compile times": "work/report/compile_time.html"}


class HeadlineTable(NamedTuple):
    """What a page says first; ``figure`` is the gain that the first sentence is about."""

    verdict: Verdict
    figure: str
    sentences: Sequence[str]
    answers: Table
    brief: Table
    notes: Sequence[str]

    def page(self, answers: Table) -> str:
        """As Markdown, with all answers or with the brief ones."""
        notes = "\n".join(f"- {note}" for note in self.notes)
        return f"{' '.join(self.sentences)}\n\n{answers.markdown()}\n\n{notes}\n"


def read_evaluation(data: Path) -> tuple[pa.Table, pa.Table]:
    """Tables of an evaluation: `SHIP_COLUMNS` of ``artifacts.SHIPPED_SIZES``, and ``artifacts.RESULTS``."""
    shipped = read_table(data / "evaluation" / "shipped.parquet", SHIPPED_SIZES, list(SHIP_COLUMNS))
    return shipped, read_table(data / "evaluation" / "results.parquet", RESULTS)


def show(args: argparse.Namespace) -> RenderedPage:
    """Verdict, table and notes; the same as Markdown."""
    (shipped, results), ran = read_evaluation(args.data), find_programs(args.data)
    programs = read_programs(ran) if ran.exists() else None
    truth = headline(shipped, results, programs, bootstrap_of(args.preset), args.learner or "")
    table = headline_table(truth, level_of(args.data))
    text = "\n".join([*table.sentences, "", table.answers.aligned(), "", *table.notes])
    return RenderedPage(text, record_of(truth), table.page(table.answers), block=table.page(table.brief))


def show_overview(args: argparse.Namespace) -> RenderedPage:
    """What ships, if that was measured and is what policies are made for; a line for each learner; the pages."""
    found = read_record(args.data / "report" / "comparisons.json")
    scores = args.data / "baseline" / "scores.parquet"
    objective = read_provenance(scores)["compile"]["objective"] if scores.exists() else measures.DEFAULT.name
    measure, split = measures.get_measure(args.measure or objective), judged_split(found)
    judged = found[split]
    ships = found.get("truth") and (args.data / "evaluation" / "shipped.parquet").exists()
    lines = [show(args).text, ""] if ships else []
    # Over the seeds, where there are several.
    means = {name: f"{PolicyName.of(name).learner}-mean" for name in filter(PolicyName.find, judged)}
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
    row = {name: figures.get(f"{prefix}{name}") for name in ("finding", *(f"projects_{way}" for way in Tally._fields))}
    gains = [
        f"{text} {how}"
        for kind, how in (("geomean", "per project"), ("total", "in total"))
        if (text := _gain(figures, f"{prefix}{kind}"))
    ]
    counts = f"{row['projects_smaller']} smaller, {row['projects_larger']} larger, {row['projects_equal']} equal"
    return f"{row['finding']}; {measure.words.title}: {'; '.join([*gains, f'projects: {counts}'])}"


def _gain(figures: Mapping[str, float | None], name: str) -> str:
    value, low, high = (figures.get(f"{name}_{end}_percent") for end in ("gain", "low", "high"))
    if value is None:
        return ""
    return f"{value:+.2f} %" if low is None or high is None else f"{value:+.2f} % ({low:+.2f} to {high:+.2f} %)"


def headline_table(truth: Headline, level: str, style: Style = PLAIN) -> HeadlineTable:
    """Put answers into words and tables; arguments are those of `sentences`."""
    rows, totals = [*truth.answers, *truth.references], sorted(truth.by_seed.values())
    several = len(totals) > 1
    notes = [
        f"Positive is smaller or fewer. Intervals resample projects{' and seeds' if several else ''}. How often these "
        "and BCa's hold the truth: docs/statistics.md.",
        "Verdicts are about the geometric mean of projects, corrected for all that stand here (Holm).",
        f"Seeds: {len(totals)} from {PLAIN.gain(totals[0])} to {PLAIN.gain(totals[-1])}."
        if several
        else "Seeds: 1. One seed says nothing about another training.",
    ]
    answers, brief = Table(_COLUMNS, rows), Table(_COLUMNS, [row for row in rows if row.brief or row.claimed])
    one = truth.headline
    return HeadlineTable(
        one.verdict, style.gain(one.total.value), sentences(truth, level, style), answers, brief, notes
    )


def bootstrap_of(presets: Sequence[Path] | None) -> Bootstrap:
    """How intervals are made: as the configuration says."""
    return Bootstrap.of(read_settings(default_config(), *(presets or ())))


def level_of(data: Path) -> str:
    """Optimization level of an evaluation."""
    contenders = read_provenance(data / "evaluation" / "shipped.parquet").get("contenders", {})
    found: RowView = next(iter(contenders.values())) if contenders else {}
    return str(found.get("compile", {}).get("optimization", _DEFAULT_LEVEL))


def sentences(truth: Headline, level: str, style: Style = PLAIN) -> list[str]:
    """The verdict in plain English: what ships, in total, how sure, how many are larger, which is the worst."""
    one, who, counts = truth.headline, truth.contender, truth.headline.items
    seeds = f"{who.learner} ({len(who.seeds)} seeds)" if len(who.seeds) > 1 else who.name
    projects, interval = _number(one.num_projects, "project", style), "no interval"
    if one.total.low is not None:
        interval = f"{100.0 * (1.0 - one.level):g} % interval {style.ends(one.total)}"
    mean = f"{style.gain(one.geomean.value)} ({style.ends(one.geomean)})" if style.html else style.gain(one.geomean)
    verdict = f"Geometric mean of projects: {mean}; {one.finding}"
    worst = ""
    if one.worst_item is not None:
        what = "the worst is" if one.worst_item.share > 0 else "the one that gains least is"
        worst = f"; {what} {style.change(one.worst_item)}"
    return [
        f"What ships is {_amount(one.total.value, style)} in total under {seeds} than under {level} "
        f"({interval} over {projects}). {verdict}.",
        f"Of {_number(one.num_compared, 'program', style)}, {style.count(counts.smaller)} "
        f"{'is' if counts.smaller == 1 else 'are'} smaller and {style.count(counts.larger)} larger, "
        f"{style.count(one.much_larger)} by more than 0.5 %{worst}.",
        *([f"{_number(one.num_failed, 'program', style)} could not be measured."] if one.num_failed else []),
        *([text] if (text := _executed(truth, style)) else []),
    ]


def record_of(truth: Headline) -> Row:
    """All of it as plain values, for JSON."""

    def plain(one: HeadlineRow) -> Row:
        line = {"asked": one.asked, "contender": one.contender.name, "gain": one.kind, "claimed": one.claimed}
        return {**line, **one.comparison.record()}

    return {
        "contender": truth.contender.name,
        "seeds": list(truth.contender.seeds),
        "by_seed": {str(seed): gain for seed, gain in truth.by_seed.items()},
        "headline": plain(truth.answers[0]),
        "answers": [plain(one) for one in truth.answers],
        "references": [plain(one) for one in truth.references],
        "not_run": truth.not_run,
        "wrong": truth.wrong,
    }


def _of(row: HeadlineRow, style: Style) -> str:
    one = row.comparison
    projects = "" if row.asked.startswith(_EXECUTED) else f" of {_number(one.num_projects, 'project', style)}"
    return f"{_number(one.num_compared, row.items.removesuffix('s'), style)}{projects}"


_COLUMNS = [
    text_column("asked", lambda row: row.asked if row.contender.is_policy else f"instead: {row.asked}", wrap=True),
    gain_column("gain", lambda row: row.gain),
    Column("by BCa", lambda row, style: style.ends(row.comparison.total_bca) if row.kind == "total" else ""),
    Column("of", _of, left=True),
    Column("less / more / equal", lambda row, style: style.tally(row.comparison.items)),
    Column("geometric mean of projects", lambda row, style: style.gain(row.comparison.geomean) if row.claimed else ""),
    text_column("its verdict", lambda row: row.comparison.finding if row.claimed else ""),
]


def _amount(share: float | None, style: Style) -> str:
    if share is None:
        return "not known to be smaller"
    if round(share, 4) == 0.0:
        return "no smaller"
    return f"{style.share(abs(share), 2)} {'smaller' if share >= 0 else 'larger'}"


def _executed(truth: Headline, style: Style) -> str:
    ran = [one for one in truth.answers if one.asked.startswith(_EXECUTED)]
    if truth.not_run:
        return f"What programs execute was not counted: {truth.not_run}."
    if not ran or (share := ran[0].gain.value) is None:
        return ""
    (one,) = ran
    wrong = f"; {_number(truth.wrong, 'run', style)} went wrong" if truth.wrong else ""
    programs = _number(one.comparison.num_compared, "program", style)
    amount = f"{style.share(abs(share), 2)} {'fewer' if share >= 0 else 'more'}"
    return f"Executed instructions of {programs}: {amount} (geometric mean{wrong})."


def _number(number: int, what: str, style: Style) -> str:
    return f"{style.count(number)} {what}{'' if number == 1 else 's'}"
