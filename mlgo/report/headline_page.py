"""The page that a strict reader asks for: what ships, of how many projects, against what, at what cost in time."""

import argparse
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

from mlgo.base.artifacts import RESULTS, SHIPPED_SIZES, Row, RowView, read_provenance, read_table
from mlgo.base.config import read_settings
from mlgo.compare.headline import SHIP_COLUMNS, Headline, HeadlineRow, headline
from mlgo.compare.inference import DEFAULT, Bootstrap, Comparison
from mlgo.compare.programs import find_programs, read_programs
from mlgo.report.pages import PLAIN, Column, RenderedPage, Style, Table, gain_column, text_column

_DEFAULT_LEVEL = "-Oz"
_EXECUTED = "executed"
_CONFIG = Path("config/config.yaml")


class HeadlineTable(NamedTuple):
    """What a page says first."""

    sentences: Sequence[str]
    answers: Table
    brief: Table
    notes: Sequence[str]

    @property
    def text(self) -> str:
        """For a terminal."""
        return "\n".join([*self.sentences, "", self.answers.aligned(), "", *self.notes])

    @property
    def markdown(self) -> str:
        """For Markdown."""
        return self._page(self.answers)

    @property
    def block(self) -> str:
        """Short, for a place in another page."""
        return self._page(self.brief)

    def _page(self, answers: Table) -> str:
        notes = "\n".join(f"- {note}" for note in self.notes)
        return f"{' '.join(self.sentences)}\n\n{answers.markdown()}\n\n{notes}\n"


def show(args: argparse.Namespace) -> RenderedPage:
    """Verdict, table and notes; the same as Markdown."""
    shipped = read_table(args.data / "evaluation" / "shipped.parquet", SHIPPED_SIZES, list(SHIP_COLUMNS))
    results, ran = read_table(args.data / "evaluation" / "results.parquet", RESULTS), find_programs(args.data)
    programs = read_programs(ran) if ran.exists() else None
    truth = headline(shipped, results, programs, bootstrap_of(args.preset), args.learner or "")
    table = headline_table(truth, level_of(args.data))
    return RenderedPage(table.text, record_of(truth), table.markdown, block=table.block)


def headline_table(truth: Headline, level: str, style: Style = PLAIN) -> HeadlineTable:
    """Put answers into words and tables; arguments are those of `sentences`."""
    rows = [*truth.answers, *truth.references]
    brief = [row for row in rows if row.brief or row.claimed]
    return HeadlineTable(sentences(truth, level, style), answer_table(rows), answer_table(brief), notes_of(truth))


def bootstrap_of(preset: Path | None) -> Bootstrap:
    """How intervals are made: as the configuration says, if there is one here."""
    if not _CONFIG.exists():
        return DEFAULT
    return Bootstrap.of(read_settings(_CONFIG, *filter(None, [preset])))


def level_of(data: Path) -> str:
    """Optimization level of an evaluation."""
    contenders = read_provenance(data / "evaluation" / "shipped.parquet").get("contenders", {})
    found: RowView = next(iter(contenders.values())) if contenders else {}
    return str(found.get("compile", {}).get("optimization", _DEFAULT_LEVEL))


def sentences(truth: Headline, level: str, style: Style = PLAIN) -> list[str]:
    """The verdict in plain English: what ships, in total, how sure, how many are larger, which is the worst."""
    one, who, counts = truth.headline, truth.contender, truth.headline.items
    seeds = f"{who.learner} ({len(who.seeds)} seeds)" if len(who.seeds) > 1 else who.name
    return [
        f"What ships is {_amount(one.total.value, style)} in total under {seeds} than under {level} "
        f"({_interval(one, style)}). {_verdict(one)}.",
        f"Of {_number(one.num_compared, 'program', style)}, {style.count(counts.smaller)} "
        f"{'is' if counts.smaller == 1 else 'are'} smaller and {style.count(counts.larger)} larger, "
        f"{style.count(one.much_larger)} by more than 0.5 %{_worst(one, style)}.",
        *([f"{_number(one.num_failed, 'program', style)} could not be measured."] if one.num_failed else []),
        *([text] if (text := _executed(truth, style)) else []),
    ]


def answer_table(rows: Sequence[HeadlineRow]) -> Table:
    """What is asked, line by line."""
    return Table(
        [
            text_column("asked", lambda row: row.asked if row.contender.is_policy else f"instead: {row.asked}"),
            gain_column("gain", lambda row: row.gain),
            Column("of", _of, left=True),
            Column("less / more / equal", lambda row, style: style.tally(row.comparison.items)),
            text_column("verdict", lambda row: row.comparison.finding if row.claimed else ""),
        ],
        rows,
    )


def notes_of(truth: Headline) -> list[str]:
    """What to know about the table."""
    totals = sorted(truth.by_seed.values())
    several = len(totals) > 1
    return [
        f"Positive is smaller or fewer. Intervals resample projects{' and seeds' if several else ''}.",
        "Verdicts are about the geometric mean of projects, corrected for all that stand here (Holm).",
        f"Seeds: {len(totals)} from {PLAIN.gain(totals[0])} to {PLAIN.gain(totals[-1])}."
        if several
        else "Seeds: 1. One seed says nothing about another training.",
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
        "answers": [plain(one) for one in truth.answers],
        "references": [plain(one) for one in truth.references],
        "not_run": truth.not_run,
        "wrong": truth.wrong,
    }


def _of(row: HeadlineRow, style: Style) -> str:
    one = row.comparison
    projects = "" if row.asked.startswith(_EXECUTED) else f" of {_number(one.num_projects, 'project', style)}"
    return f"{_number(one.num_compared, row.items.removesuffix('s'), style)}{projects}"


def _amount(share: float | None, style: Style) -> str:
    if share is None:
        return "not known to be smaller"
    if round(share, 4) == 0.0:
        return "no smaller"
    return f"{style.share(abs(share), 2)} {'smaller' if share >= 0 else 'larger'}"


def _interval(one: Comparison, style: Style) -> str:
    projects = _number(one.num_projects, "project", style)
    if one.total.low is None:
        return f"no interval over {projects}"
    confidence = f"{100.0 * (1.0 - one.level):g} % interval"
    return f"{confidence} {style.ends(one.total)} over {projects}"


def _verdict(one: Comparison) -> str:
    if one.verdict == "no verdict":
        return one.finding[0].upper() + one.finding[1:]
    return f"Verdict by project: {one.verdict}"


def _worst(one: Comparison, style: Style) -> str:
    if one.worst_item is None:
        return ""
    what = "the worst is" if one.worst_item.share > 0 else "the one that gains least is"
    return f"; {what} {style.change(one.worst_item)}"


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
