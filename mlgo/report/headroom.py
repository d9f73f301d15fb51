"""The page about the headroom: how much smaller modules could be, and what share of that each policy captured."""

import argparse
from collections.abc import Mapping, Sequence
from typing import Any

import pyarrow as pa

from mlgo.base.artifacts import SHIPPED_SIZES, read_table
from mlgo.base.languages import LANGUAGE_TITLES
from mlgo.compare.headroom import read_headroom
from mlgo.compare.inference import POINTS_ONLY
from mlgo.compare.measured import ALL, Contender, Row
from mlgo.report.pages import Shown, Table, count_column, gain_column, render, text_column
from mlgo.report.ships import compare_shipped

_TITLES = {ALL: "All modules", **LANGUAGE_TITLES}


def render_headroom(rows: Sequence[Row], measure: str, settings: Mapping[str, Any]) -> str:
    """The page as HTML.

    Args:
        rows: as of `headroom_rows`.
        measure: size that was compared.
        settings: section ``headroom`` of the configuration that the search ran with.
    """
    return render(
        "headroom.html.jinja",
        tables=_tables(rows, measure),
        num_modules=max(row.by(measure).num_compared for row in rows),
        measure=measure,
        settings=settings,
    )


def show(args: argparse.Namespace) -> Shown:
    """A table for all modules, each language and each project; of linked files where an evaluation searched them."""
    data = args.data
    modules, linked = data / "headroom" / "headroom.parquet", data / "evaluation" / "shipped.parquet"
    if not modules.exists() and linked.exists() and (shown := _linked(read_table(linked, SHIPPED_SIZES))):
        return shown
    rows = read_headroom(modules, data / "evaluation" / "results.parquet", args.measure)
    head = f"Gains over the heuristic in {args.measure}; share = (heuristic - policy) / (heuristic - best known)."
    tables = [f"{title}\n{table.aligned()}" for title, table in _tables(rows, args.measure).items()]
    return Shown("\n\n".join([head, *tables]), [record for row in rows for record in row.records()])


def _linked(shipped: pa.Table) -> Shown | None:
    """Of a search for smaller linked files; None where there was none."""
    policies = [one for one in map(Contender.named, shipped["contender"].unique().to_pylist()) if one.is_policy]
    ships = compare_shipped(shipped, policies, POINTS_ONLY)
    if not ships.parts:
        return None
    head = "Totals of linked files; share = (heuristic - policy) / (heuristic - best known)."
    records = [record for row in ships.parts for record in row.records()]
    return Shown(f"{head}\n\n{ships.shares.aligned()}", records)


def _tables(rows: Sequence[Row], measure: str) -> dict[str, Table]:
    """A table for each scope by its title."""
    columns = [
        text_column("answers", lambda row: row.name),
        count_column("modules", lambda row: row.by(measure).num_compared),
        count_column("bytes under the heuristic", lambda row: row.by(measure).baseline_sum),
        count_column("bytes", lambda row: row.by(measure).policy_sum),
        gain_column("gain in total", lambda row: row.by(measure).total),
        gain_column("gain per project", lambda row: row.by(measure).geomean),
        text_column("verdict", lambda row: row.by(measure).finding if row.claim else ""),
        gain_column(
            "share of the known headroom", lambda row: row.by(measure).total_share if row.contender.is_policy else None
        ),
    ]
    scopes = dict.fromkeys(row.scope for row in rows)
    return {_TITLES.get(scope, scope): Table(columns, [row for row in rows if row.scope == scope]) for scope in scopes}
