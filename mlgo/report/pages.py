"""What pages are made of: formats of numbers, tables with one definition for HTML, terminal and Markdown, templates."""

import re
from base64 import b64encode
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from hashlib import sha256
from operator import itemgetter
from pathlib import Path
from typing import Any, NamedTuple

from jinja2 import Environment, FileSystemLoader, StrictUndefined
from markupsafe import Markup

from mlgo.base.files import shown
from mlgo.compare.inference import Bootstrap, Change, Comparison, Gain, Tally, Verdict, percent
from mlgo.compare.scores import ComparisonRow
from mlgo.learn.progress import csv_text
from mlgo.report.figures import Figure, to_html

_FOLDER = Path(__file__).parent
_Number = Callable[[float | None], float | None]
_MINUS = "\N{MINUS SIGN}"
_BETWEEN = "\N{INFORMATION SEPARATOR ONE}"
_FORMULA = re.compile(r"\A(?![-+]?\d+(\.\d+)?(e[-+]?\d+)?\Z)(?=[=+\-@\t\r])")
"""Where a spreadsheet would begin to read a formula: before such a sign that begins no number."""
_PARTS = {1: [""], 2: ["", ", %"], 3: ["", ", low", ", high"]}
"""What the titles of a column's values end with in CSV, by their number; a tally has its own words."""


@dataclass(frozen=True)
class Style:
    """How numbers are written: in HTML with typographic signs and intervals below their gains, in ASCII, or for CSV."""

    html: bool
    values: bool = False  # as ``--json`` has them, see `_cell`

    @property
    def none(self) -> str:
        """What stands for a number that is not known."""
        return "\N{EN DASH}" if self.html else "" if self.values else "-"

    def count(self, number: float | None) -> str:
        """A whole number with its thousands set apart, for example ``1,234``; a dash for None."""
        if number is None:
            return self.none
        text = f"{number:,.0f}"
        return self._cell(text.replace(",", "\N{NARROW NO-BREAK SPACE}") if self.html else text, number)

    def share(self, share: float | None, digits: int = 1) -> str:
        """A share as an unsigned percentage with so many decimals; a dash for None."""
        return self.none if share is None else self._cell(self._percent(f"{100.0 * share:.{digits}f}"), percent(share))

    def gain(self, gain: Gain | float | None) -> str:
        """A share as a signed percentage with its interval, if there is one; a dash for None."""
        return self._with_interval(gain, self._signed, self._percent, percent)

    def ends(self, gain: Gain) -> str:
        """The interval alone, for example ``-0.50 to +1.25 %``; a dash where there is none."""
        _, low, high = gain
        if low is None or high is None:
            return self.none
        return self._cell(f"{self._signed(low)} to {self._percent(self._signed(high))}", *map(percent, gain))

    def ratio(self, ratio: Gain | float | None) -> str:
        """A ratio with four decimals and its interval, if there is one; a dash for None."""
        return self._with_interval(ratio, "{:.4f}".format, str, lambda one: one)

    def counts(self, *numbers: float) -> str:
        """Several numbers of one cell, for example ``6 / 2 / 1``."""
        return self._cell(" / ".join(map(self.count, numbers)), *numbers)

    def rank(self, coefficient: float | None) -> str:
        """A correlation with two decimals; a dash for None."""
        return self.none if coefficient is None else self._cell(self._minus(f"{coefficient:.2f}"), coefficient)

    def probability(self, probability: float | None) -> str:
        """A p-value with two significant digits, for example ``0.031``; a dash for None, no less than ``<0.0001``."""
        if probability is None:
            return self.none
        return self._cell("<0.0001" if probability < 1e-4 else f"{probability:.2g}", probability)

    def tally(self, tally: Tally) -> str:
        """How many are smaller, larger and equal, for example ``6 / 2 / 1``."""
        return self.counts(tally.smaller, tally.larger, tally.equal)

    def much_larger(self, one: Comparison) -> str:
        """How many items grow by more than half a percent, and their share."""
        share = "" if one.much_larger_share is None else self.share(one.much_larger_share)
        text = self._with_ends(self.count(one.much_larger), share)
        return self._cell(text, one.much_larger, percent(one.much_larger_share))

    def change(self, change: Change | None) -> str:
        """Who changed, and by how much, for example ``zopfli (+0.50 %)``; positive is more; a dash for None."""
        if change is None:
            return self.none
        return self._cell(
            f"{change.name} ({self._percent(self._signed(change.share))})", change.name, percent(change.share)
        )

    def _cell(self, text: str, *values: str | float | None) -> str:
        """The text, or the values behind it: numbers with six decimals, as what lies beyond may differ by machine."""
        plain = (
            one if isinstance(one, str) else "" if one is None else f"{round(one, 6) + 0.0:.15g}" for one in values
        )
        return _BETWEEN.join(plain) if self.values else text

    def _with_interval(
        self, gain: Gain | float | None, text: Callable[[float], str], unit: Callable[[str], str], plain: _Number
    ) -> str:
        given = gain if isinstance(gain, Gain) else (gain,)
        value, low, high = Gain(*given)
        if value is None:
            return self.none
        ends = "" if low is None or high is None else f"{text(low)} to {text(high)}"
        return self._cell(self._with_ends(unit(text(value)), ends, always=len(given) > 1), *map(plain, given))

    def _with_ends(self, text: str, ends: str, always: bool = False) -> str:
        if not self.html:
            return f"{text} ({ends})" if ends else text
        below = Markup("<small>{}</small>").format(ends or self.none) if ends or always else ""
        return Markup("{}{}").format(text, below)

    def _percent(self, text: str) -> str:
        return f"{text}\N{NO-BREAK SPACE}%" if self.html else f"{text} %"

    def _signed(self, share: float) -> str:
        text = f"{100.0 * share:+.2f}"
        return "0.00" if text in ("-0.00", "+0.00") else self._minus(text)

    def _minus(self, text: str) -> str:
        return text.replace("-", _MINUS) if self.html else text


HTML, PLAIN, VALUES = Style(html=True), Style(html=False), Style(html=False, values=True)


class RenderedPage(NamedTuple):
    """What a page shows in a terminal; as Markdown and as a block for another file where there are such."""

    text: str
    record: Any
    markdown: str = ""
    is_good: bool = True  # whether all that was looked at did what it should
    block: str = ""


class Column(NamedTuple):
    """A column of a table; text stands to the left, and in HTML it may break lines if ``wrap`` is true as well."""

    title: str
    cell: Callable[[Any, Style], str]
    left: bool = False
    wrap: bool = False


@dataclass(frozen=True)
class Table:
    """Rows under columns."""

    columns: Sequence[Column]
    rows: Sequence[Any]

    def cells(self, style: Style) -> list[list[str]]:
        """Text of all cells, row by row, without the head."""
        return [[column.cell(row, style) for column in self.columns] for row in self.rows]

    @property
    def html(self) -> list[list[tuple[Column, str]]]:
        """Columns with their text, row by row, for the template."""
        return [list(zip(self.columns, row, strict=True)) for row in self.cells(HTML)]

    def aligned(self) -> str:
        """For a terminal: columns aligned."""
        rows = [self._titles, *([shown(cell) for cell in row] for row in self.cells(PLAIN))]
        widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
        padded = ([cell.ljust(width) for cell, width in zip(row, widths, strict=True)] for row in rows)
        return "\n".join("  ".join(row).rstrip() for row in padded)

    def markdown(self) -> str:
        """For Markdown."""
        rows = [self._titles, ["---"] * len(self.columns), *self.cells(PLAIN)]
        return "\n".join(f"| {' | '.join(row)} |" for row in rows)

    def csv(self) -> str:
        """As CSV, with the values of ``--json``: each end of an interval and each number of a tally has a column."""
        rows = [[cell.split(_BETWEEN) for cell in row] for row in self.cells(VALUES)]
        widths = [max((len(row[i]) for row in rows), default=1) for i in range(len(self.columns))]
        heads = [head for column, width in zip(self.columns, widths, strict=True) for head in _heads(column, width)]
        padded = ([cell + [""] * (width - len(cell)) for cell, width in zip(row, widths, strict=True)] for row in rows)
        return csv_text(heads, [[_FORMULA.sub("'", part) for cell in row for part in cell] for row in padded])

    @property
    def _titles(self) -> list[str]:
        return [column.title for column in self.columns]


def table_page(table: Table, note: str, record: Any, head: str = "") -> RenderedPage:
    """A page of one table, with a note beneath it; the same as Markdown."""
    text, page = ("\n\n".join(filter(None, [head, one, note])) for one in (table.aligned(), table.markdown()))
    return RenderedPage(text, record, f"{page}\n")


def _heads(column: Column, width: int) -> list[str]:
    """Titles of the values of a column, for CSV."""
    ways = re.findall(r"\w+(?= / )|(?<= / )\w+", column.title)
    if len(ways) == width:
        return [column.title.replace(" / ".join(ways), way) for way in ways]
    return [f"{column.title}{part}" for part in _PARTS.get(width) or [f" {i + 1}" for i in range(width)]]


Of = Callable[[Any], Comparison]
"""Takes the comparison from a row."""


def text_column(title: str, read: Callable[[Any], Any], wrap: bool = False) -> Column:
    """A column of words."""
    return Column(title, lambda row, style: str(read(row)), left=True, wrap=wrap)


def count_column(title: str, read: Callable[[Any], float | None]) -> Column:
    """A column of whole numbers."""
    return Column(title, lambda row, style: style.count(read(row)))


def gain_column(title: str, read: Callable[[Any], Gain | float | None]) -> Column:
    """A column of gains, with intervals if `Gain` is what ``read`` returns."""
    return Column(title, lambda row, style: style.gain(read(row)))


def gain_columns(of: Of, what: str = "", median: bool = False) -> list[Column]:
    """The gains of a comparison, with intervals: in total, per project, and that of the median project."""
    ending = f", {what}" if what else ""
    return [
        gain_column(f"gain in total{ending}", lambda row: of(row).total),
        gain_column(f"gain per project{ending}", lambda row: of(row).geomean),
        *([gain_column(f"median project{ending}", lambda row: of(row).median)] if median else []),
    ]


def tally_columns(of: Of, unit: str, item: str = "modules") -> list[Column]:
    """How many projects, and how many items, take less, more and equally much."""
    ending = f"less / more / equal {unit}".rstrip()
    return [
        Column(f"projects, {ending}", lambda row, style: style.tally(of(row).projects)),
        Column(f"{item}, {ending}", lambda row, style: style.tally(of(row).items)),
    ]


def verdict_columns(of: Of) -> list[Column]:
    """The sign test, the sign-flip test by Holm's correction, and what may be said."""
    return [
        Column("sign test p", lambda row, style: style.probability(of(row).sign_p)),
        Column("corrected p", lambda row, style: style.probability(of(row).corrected_p)),
        text_column("verdict", lambda row: of(row).finding, wrap=True),
    ]


def worst_columns(of: Of) -> list[Column]:
    """Items that grow by more than half a percent, and the project that fares worst."""
    return [
        Column("over 0.5 % more", lambda row, style: style.much_larger(of(row))),
        Column("worst project", lambda row, style: style.change(of(row).worst_project), left=True),
    ]


def words_table(titles: Mapping[str, Any], rows: Sequence[Any]) -> Table:
    """Plain values of records: what ``titles`` name, by title."""
    return Table([text_column(title, itemgetter(name), wrap=True) for title, name in titles.items()], rows)


def card(row: ComparisonRow, measure: str, directions: Mapping[Verdict, str]) -> tuple[str, str]:
    """The verdict on a policy, and the same in words; `Comparison.verdict` says when a direction is named.

    Args:
        directions: what follows the policy's name if it is ``"smaller"``, and if it is ``"larger"``.
    """
    one = row.by(measure)
    same = ": no difference shown against the built-in heuristic"
    words = {"no verdict": f": {one.finding}", "no difference shown": same, **directions}
    return one.verdict, f"{row.name}{words[one.verdict]}"


def coverage(bootstrap: Bootstrap) -> str:
    """What share of its intervals hold the truth, for HTML."""
    return f"{100.0 * bootstrap.confidence:g}\N{NO-BREAK SPACE}%"


def render(template: str, figures: Mapping[str, Figure | None] | None = None, **values: Any) -> str:
    """Fill a template; in HTML text is escaped, and every name the template uses must be given."""
    drawn = to_html(figures or {})
    environment = Environment(
        loader=FileSystemLoader(_FOLDER),
        autoescape=lambda name: str(name).endswith(".html.jinja"),
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        keep_trailing_newline=True,
    )
    environment.filters.update({name: getattr(HTML, name) for name in ("count", "share", "gain", "ends", "ratio")})
    style, *scripts = (Markup((_FOLDER / name).read_text()) for name in ("page.css", "figures.js", "page.js"))
    # The policy of the page names its scripts by their hashes, so no other one runs, whatever it quotes.
    hashes = [b64encode(sha256(script.encode()).digest()).decode() for script in scripts]
    environment.globals.update(style=style, scripts=scripts, script_hashes=hashes, words_table=words_table)
    return environment.get_template(template).render(figures=drawn, **values)
