"""How much smaller modules are known to be possible, and which share of that each policy captured."""

import argparse
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from mlgo.base.artifacts import HEADROOM, RESULTS, SHIPPED_SIZES, read_table
from mlgo.base.names import LANGUAGE_TITLES
from mlgo.compare.inference import DEFAULT, POINTS_ONLY
from mlgo.compare.modules import with_contenders
from mlgo.compare.programs import contenders_of
from mlgo.compare.scores import ALL, BEST, ComparisonRow, compare, score_matrix, with_baseline
from mlgo.errors import ArtifactError
from mlgo.host.tasks.task import HEURISTIC
from mlgo.report.pages import RenderedPage, Table, count_column, gain_column, render, text_column
from mlgo.report.ships import compare_shipped


def read_headroom(headroom_path: Path, results_path: Path, measure: str) -> list[ComparisonRow]:
    """Read what the search has found and, where there are any, the policies' results; see `headroom_rows`."""
    if not headroom_path.exists():
        raise ArtifactError(f"{headroom_path} is missing; make it with: make headroom")
    results = read_table(results_path, RESULTS) if results_path.exists() else RESULTS.empty_table()
    return headroom_rows(read_table(headroom_path, HEADROOM), results, measure)


def headroom_rows(headroom: pa.Table, results: pa.Table, measure: str) -> list[ComparisonRow]:
    """Compare all variants and policies with the heuristic and the best known, on the modules of the search."""
    if measure not in HEADROOM.names:
        raise ArtifactError(f"the search for smaller code knows nothing of {measure}; name a size of objects")
    key = ("project", "module")
    variants = headroom.rename_columns({"variant": "contender"})
    plain = variants.filter(pc.field("contender") == HEURISTIC)
    if not len(plain):
        raise ArtifactError("the headroom table holds no module; raise headroom.max_questions and run: make headroom")
    columns = [*key, "language", "contender", measure]
    tables = [one.select(columns) for one in (variants, with_contenders(results))]
    rows = pa.concat_tables(tables, promote_options="default")
    measured = score_matrix(with_baseline(rows, plain, key, [measure]), key, {measure: 0.0}, (*key, "language"))
    best = np.fmin.reduce(measured.scores[measure], axis=0)
    measured = measured.with_contender(BEST, {measure: best})
    measured = replace(measured, asked=np.ones_like(measured.asked), best={measure: best})
    scopes = [(ALL, measured.where())]
    for column in ("language", "project"):
        scopes += [(name, measured.where(**{column: name})) for name in sorted(set(measured.items[column]))]
    found = compare(measured, lambda scores, split: scopes, DEFAULT, family=lambda row: row.scope, split=ALL)
    return [row for row in found if row.name != HEURISTIC and row.by(measure).baseline_sum]


_TITLES = {ALL: "All modules", **LANGUAGE_TITLES}


def render_headroom(rows: Sequence[ComparisonRow], measure: str, settings: Mapping[str, Any]) -> str:
    """The page as HTML; ``settings`` are the section ``headroom`` of the configuration that the search ran with."""
    tables, num_modules = _tables(rows), max(row.by(measure).num_compared for row in rows)
    return render("headroom.html.jinja", tables=tables, num_modules=num_modules, measure=measure, settings=settings)


def show(args: argparse.Namespace) -> RenderedPage:
    """A table for all modules, each language and each project; of linked files where an evaluation searched them."""
    data = args.data
    modules, linked = data / "headroom" / "headroom.parquet", data / "evaluation" / "shipped.parquet"
    if not modules.exists() and linked.exists():
        shipped = read_table(linked, SHIPPED_SIZES)
        ships = compare_shipped(shipped, [one for one in contenders_of(shipped) if one.is_policy], POINTS_ONLY)
        if ships.parts:
            head = "Totals of linked files; share = (heuristic - policy) / (heuristic - best known)."
            return _page([head, ships.shares.aligned()], ships.parts)
    rows = read_headroom(modules, data / "evaluation" / "results.parquet", args.measure)
    head = f"Gains over the heuristic in {args.measure}; share = (heuristic - policy) / (heuristic - best known)."
    return _page([head, *(f"{title}\n{table.aligned()}" for title, table in _tables(rows).items())], rows)


def _page(text: Sequence[str], rows: Sequence[ComparisonRow]) -> RenderedPage:
    return RenderedPage("\n\n".join(text), [record for row in rows for record in row.records()])


def _tables(rows: Sequence[ComparisonRow]) -> dict[str, Table]:
    """A table for each scope by its title."""

    def share(row: ComparisonRow) -> float | None:
        return row.only.total_share if row.contender.is_policy else None

    columns = [
        text_column("answers", lambda row: row.name),
        count_column("modules", lambda row: row.only.num_compared),
        count_column("bytes under the heuristic", lambda row: row.only.baseline_sum),
        count_column("bytes", lambda row: row.only.policy_sum),
        gain_column("gain in total", lambda row: row.only.total),
        gain_column("gain per project", lambda row: row.only.geomean),
        text_column("verdict", lambda row: row.only.finding if row.claim else ""),
        gain_column("share of the known headroom", share),
    ]
    scopes = dict.fromkeys(row.scope for row in rows)
    return {_TITLES.get(scope, scope): Table(columns, [row for row in rows if row.scope == scope]) for scope in scopes}
