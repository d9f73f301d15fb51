"""What pages show of linked files: sizes as they ship, one by one and in total."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial

import pyarrow as pa

from mlgo.base.artifacts import Row
from mlgo.base.names import LANGUAGE_TITLES
from mlgo.compare import programs
from mlgo.compare.inference import Bootstrap, Comparison, Gain
from mlgo.compare.scores import ALL, BEST, ComparisonRow, Contender, by_contender, by_language, compare
from mlgo.evaluate.linked_search import SEARCH
from mlgo.evaluate.shipped import FULL_LTO
from mlgo.host.process import without_folders
from mlgo.host.tasks.task import HEURISTIC
from mlgo.report.pages import PLAIN, Column, Style, Table, count_column, gain_column, text_column

TITLES = {
    "text": "code",
    "read_only": "constants",
    "unwind": "unwind tables",
    "total": "total",
    "folded": "folded",
    "without_unwind": "without unwind tables",
    "compressed": "compressed",
}
"""How pages call the sizes of a linked file."""

_PARTS = {programs.PROGRAMS: "all", **{name: f"of {title}" for name, title in LANGUAGE_TITLES.items()}}


@dataclass(frozen=True)
class ShippedFiles:
    """Linked files against the heuristic's."""

    # Each policy and reference on each program, then over all of a split; by contender, policies first.
    rows: Sequence[ComparisonRow]
    failures: Sequence[Row]  # rows of `artifacts.SHIPPED_SIZES` without sizes
    # Each policy and what is best known, over all programs, by language and by project; none without a search.
    parts: Sequence[ComparisonRow] = ()

    @property
    def totals(self) -> list[ComparisonRow]:
        """Each policy and reference over all programs of a split."""
        return [row for row in self.rows if row.scope == programs.PROGRAMS]

    @property
    def headline(self) -> str:
        """The totals in a line: what each policy gains, over how many files, and how many are missing."""
        policies = [row for row in self.totals if row.contender.is_policy]
        several = len(policies) > 1
        return "; ".join(
            f"{f'{row.name}: ' if several else ''}{PLAIN.gain(one.total)} in total, {_programs(one, PLAIN)}, "
            f"{PLAIN.count(one.num_failed)} not measured"
            for row, one in ((row, row.by("total")) for row in policies)
        )

    @property
    def table(self) -> Table:
        """Gains and sizes, program by program and in total."""
        several = len({row.split for row in self.rows}) > 1
        searched = any(row.name == SEARCH for row in self.rows)

        def program(row: ComparisonRow, style: Style) -> str:
            return _programs(row.by("total"), style) if row.scope == programs.PROGRAMS else str(row.counts["program"])

        def count(row: ComparisonRow, style: Style, name: str) -> str:
            return style.count(row.counts[name]) if name in row.counts else ""

        def gain(row: ComparisonRow, figure: str) -> Gain | float | None:
            total = row.by(figure).total
            return total if row.scope == programs.PROGRAMS else total.value

        def share(row: ComparisonRow) -> float | None:
            return row.by("total").total_share if row.contender.is_policy else None

        return Table(
            [
                text_column("policy or level", lambda row: row.name),
                *([text_column("split", lambda row: row.split)] if several else []),
                text_column("project", lambda row: row.counts.get("project", "in total")),
                Column("program", program, left=True),
                Column("modules", partial(count, name="num_modules")),
                Column("left out", partial(count, name="num_foreign")),
                *(gain_column(f"gain, {title}", partial(gain, figure=name)) for name, title in TITLES.items()),
                count_column("total under the heuristic (bytes)", lambda row: row.by("total").baseline_sum),
                count_column("under this one (bytes)", lambda row: row.by("total").policy_sum),
                *([gain_column("share of the known headroom", share)] if searched else []),
            ],
            [row for row in self.rows if row.scope != programs.PROGRAMS or row.by("total").num_items > 1],
        )

    @property
    def shares(self) -> Table:
        """What share of the known headroom each policy has: in total, by language and by project."""
        best = {(row.split, row.scope): row for row in self.parts if row.name == BEST}
        return Table(
            [
                text_column("policy", lambda row: row.name),
                text_column("programs", lambda row: _PARTS.get(row.scope, row.scope)),
                count_column("how many", lambda row: row.by("total").num_compared),
                count_column("total under the heuristic (bytes)", lambda row: row.by("total").baseline_sum),
                gain_column("gain of the policy", lambda row: row.by("total").total.value),
                gain_column("best known", lambda row: best[row.split, row.scope].by("total").total.value),
                gain_column("share of the known headroom", lambda row: row.by("total").total_share),
            ],
            [row for row in self.parts if row.contender.is_policy],
        )


def compare_shipped(shipped: pa.Table, policies: Sequence[Contender], bootstrap: Bootstrap) -> ShippedFiles:
    """Compare ``artifacts.SHIPPED_SIZES`` under policies, and at other levels, with those under the heuristic."""
    measured = programs.with_best_known(
        programs.measured_programs(shipped, [*policies, *programs.ship_references(shipped)]), SEARCH
    )
    if (best := programs.best_level(measured)) is not None:
        measured = measured.with_contender(programs.BEST_LEVEL, best)
    rows = [row for row in programs.program_rows(measured) if row.by("total").num_compared]
    failures = [{**row, "message": without_folders(row["message"])} for row in programs.ship_failures(shipped)]
    parts = [row for row in programs.shares_by_part(measured) if row.contender.is_policy or row.name == BEST]
    return ShippedFiles(by_contender([*rows, *programs.shipped_totals(measured, bootstrap)]), failures, parts)


@dataclass(frozen=True)
class _WayToShip:
    """Some programs, shipped in one way."""

    scope: str  # `ALL`, a language, or a program
    label: str  # what ships
    num_programs: int
    sizes: Mapping[str, int]  # bytes without a policy, by figure
    gains: Mapping[str, Gain]  # of the policy on top; empty where none was asked

    def saves(self, other: "_WayToShip", figure: str) -> float | None:
        """Share of the bytes of another way that this one saves; None where they are of other programs."""
        same = self.num_programs == other.num_programs
        return 1.0 - self.sizes[figure] / other.sizes[figure] if same else None


_OF_RECORDS = ("total", "text", "without_unwind")
_WAYS = ("-Oz", "-Os", FULL_LTO)


def compare_records(shipped: Mapping[str, pa.Table], policy: str, bootstrap: Bootstrap) -> Table:
    """The same programs shipped in several ways, under the heuristic and under a policy.

    Args:
        shipped: ``artifacts.SHIPPED_SIZES`` by the text of the record of what ships. The first is what others are
            compared with. Other levels and full LTO, where they were measured, are ways of their own; so is each way
            with identical functions folded, unless a record says how: its own, or one that is the same but for that.

    Returns:
        Totals over the programs that were measured in all ways, of all and by language, then each program.
    """
    own = Contender.named(policy)
    together = programs.measured_everywhere(list(shipped.values()), [HEURISTIC, policy, *_WAYS])
    ways = [way for record in shipped for way in _ways(record, shipped, own, bootstrap, together)]
    ways = [way for way in ways if way.num_programs]
    first = {way.scope: way for way in reversed(ways)}
    parts = [one for one in (ALL, *LANGUAGE_TITLES) if one in first]
    several = len(first) - len(parts) > 1
    shown = [one for one in parts if several and (one == ALL or first[one].num_programs < first[ALL].num_programs)]
    shown += [one for one in first if one not in parts]

    def saves(figure: str) -> Callable[[_WayToShip], float | None]:
        return lambda way: way.saves(first[way.scope], figure)

    def gain(figure: str) -> Callable[[_WayToShip], Gain | None]:
        return lambda way: way.gains.get(figure)

    return Table(
        [
            text_column("programs", lambda way: "all" if way.scope == ALL else _PARTS.get(way.scope, way.scope)),
            count_column("how many", lambda way: way.num_programs),
            text_column("what ships", lambda way: way.label),
            count_column("total (bytes)", lambda way: way.sizes["total"]),
            *(gain_column(f"saves, {TITLES[one]}", saves(one)) for one in _OF_RECORDS),
            *(gain_column(f"{policy}, {TITLES[one]}", gain(one)) for one in _OF_RECORDS),
        ],
        sorted((way for way in ways if way.scope in shown), key=lambda way: shown.index(way.scope)),
    )


def _ways(
    record: str,
    every: Mapping[str, pa.Table],
    own: Contender,
    bootstrap: Bootstrap,
    together: frozenset[str],
) -> Iterator[_WayToShip]:
    shipped = every[record]
    others = [one for one in programs.ship_references(shipped) if one.name in _WAYS]
    tables = {"": shipped}
    if "folding=" not in record and f"{record},folding=all" not in every:
        tables[", folded"] = programs.as_folded(shipped)
    for folded, table in tables.items():
        measured = programs.measured_programs(table, [own, *others])
        totals = programs.measured_programs(programs.only_programs(table, together), [own, *others])
        rows = compare(totals, by_language, bootstrap, together=False)
        for row in [*rows, *programs.program_rows(measured)]:
            figures = {one: row.by(one) for one in _OF_RECORDS}
            number = figures["total"].num_compared
            if row.contender == own:
                gains = {one: figure.total for one, figure in figures.items()}
                sizes = {one: int(figure.baseline_sum) for one, figure in figures.items()}
                yield _WayToShip(row.scope, record + folded, number, sizes, gains)
            else:
                sizes = {one: int(figure.policy_sum) for one, figure in figures.items()}
                yield _WayToShip(row.scope, f"{record}, {row.name}{folded}", number, sizes, {})


def _programs(one: Comparison, style: Style) -> str:
    number = f"{style.count(one.num_compared)} program{'' if one.num_compared == 1 else 's'}"
    return f"{number} of {style.count(one.num_projects)} project{'' if one.num_projects == 1 else 's'}"
