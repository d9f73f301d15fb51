"""What pages are made of: formats of numbers, tables with one definition for HTML, terminal and Markdown, templates."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

from jinja2 import Environment, FileSystemLoader, StrictUndefined
from markupsafe import Markup

from mlgo.base.files import shown
from mlgo.compare.inference import Bootstrap, Change, Comparison, Gain, Tally, Verdict
from mlgo.compare.scores import ComparisonRow

_FOLDER = Path(__file__).parent
_MINUS = "\N{MINUS SIGN}"


@dataclass(frozen=True)
class Style:
    """How numbers are written: in HTML with typographic signs and intervals below their gains, or in ASCII."""

    html: bool

    @property
    def none(self) -> str:
        """What stands for a number that is not known."""
        return "\N{EN DASH}" if self.html else "-"

    def count(self, number: float | None) -> str:
        """A whole number with its thousands set apart, for example ``1,234``; a dash for None."""
        if number is None:
            return self.none
        text = f"{number:,.0f}"
        return text.replace(",", "\N{NARROW NO-BREAK SPACE}") if self.html else text

    def share(self, share: float | None, digits: int = 1) -> str:
        """A share as an unsigned percentage with so many decimals; a dash for None."""
        return self.none if share is None else self._percent(f"{100.0 * share:.{digits}f}")

    def gain(self, gain: Gain | float | None) -> str:
        """A share as a signed percentage with its interval, if there is one; a dash for None."""
        return self._with_interval(gain, self._signed, self._percent)

    def ends(self, gain: Gain) -> str:
        """The interval alone, for example ``-0.50 to +1.25 %``; a dash where there is none."""
        _, low, high = gain
        if low is None or high is None:
            return self.none
        return f"{self._signed(low)} to {self._percent(self._signed(high))}"

    def ratio(self, ratio: Gain | float | None) -> str:
        """A ratio with four decimals and its interval, if there is one; a dash for None."""
        return self._with_interval(ratio, "{:.4f}".format, str)

    def counts(self, *numbers: float) -> str:
        """Several numbers of one cell, for example ``6 / 2 / 1``."""
        return " / ".join(map(self.count, numbers))

    def rank(self, coefficient: float | None) -> str:
        """A correlation with two decimals; a dash for None."""
        return self.none if coefficient is None else self._minus(f"{coefficient:.2f}")

    def probability(self, probability: float | None) -> str:
        """A p-value with two significant digits, for example ``0.031``; a dash for None, no less than ``<0.0001``."""
        if probability is None:
            return self.none
        return "<0.0001" if probability < 1e-4 else f"{probability:.2g}"

    def tally(self, tally: Tally) -> str:
        """How many are smaller, larger and equal, for example ``6 / 2 / 1``."""
        return self.counts(tally.smaller, tally.larger, tally.equal)

    def much_larger(self, one: Comparison) -> str:
        """How many items grow by more than half a percent, and their share."""
        share = "" if one.much_larger_share is None else self.share(one.much_larger_share)
        return self._with_ends(self.count(one.much_larger), share)

    def change(self, change: Change | None) -> str:
        """Who changed, and by how much, for example ``zopfli (+0.50 %)``; positive is more; a dash for None."""
        return self.none if change is None else f"{change.name} ({self._percent(self._signed(change.share))})"

    def _with_interval(
        self, gain: Gain | float | None, text: Callable[[float], str], unit: Callable[[str], str]
    ) -> str:
        value, low, high = gain if isinstance(gain, Gain) else Gain(gain)
        if value is None:
            return self.none
        ends = "" if low is None or high is None else f"{text(low)} to {text(high)}"
        return self._with_ends(unit(text(value)), ends, always=isinstance(gain, Gain))

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


HTML, PLAIN = Style(html=True), Style(html=False)


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

    @property
    def _titles(self) -> list[str]:
        return [column.title for column in self.columns]


def table_page(table: Table, note: str, record: Any, head: str = "") -> RenderedPage:
    """A page of one table, with a note beneath it; the same as Markdown."""
    text, page = ("\n\n".join(filter(None, [head, one, note])) for one in (table.aligned(), table.markdown()))
    return RenderedPage(text, record, f"{page}\n")


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


def card(row: ComparisonRow, measure: str, directions: Mapping[Verdict, str]) -> tuple[str, str]:
    """How the card of a policy looks, and the verdict in words; `Comparison.verdict` says when a direction is named.

    Args:
        directions: what follows the policy's name if it is ``"smaller"``, and if it is ``"larger"``.
    """
    one = row.by(measure)
    if one.verdict == "no verdict":
        return "plain", f"{row.name}: {one.finding}"
    if one.verdict == "no difference shown":
        return "plain", f"{row.name}: no difference shown against the built-in heuristic"
    return {"smaller": "good", "larger": "bad"}[one.verdict], f"{row.name}{directions[one.verdict]}"


def coverage(bootstrap: Bootstrap) -> str:
    """What share of its intervals hold the truth, for HTML."""
    return f"{100.0 * bootstrap.confidence:g}\N{NO-BREAK SPACE}%"


def render(template: str, **values: Any) -> str:
    """Fill a template; in HTML text is escaped, and every name the template uses must be given."""
    environment = Environment(
        loader=FileSystemLoader(_FOLDER),
        autoescape=lambda name: str(name).endswith(".html.jinja"),
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        keep_trailing_newline=True,
    )
    environment.filters.update({name: getattr(HTML, name) for name in ("count", "share", "gain", "ends", "ratio")})
    environment.globals.update(style=Markup((_FOLDER / "page.css").read_text()), plotly_script=_plotly_script)
    return environment.get_template(template).render(**values)


def _plotly_script() -> Markup:
    from plotly.offline import get_plotlyjs  # here, since tables in a terminal need none of it

    return Markup(get_plotlyjs())
