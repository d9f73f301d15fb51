"""Compile times under each advisor. They differ from run to run, so they have a page of their own."""

from collections import defaultdict
from collections.abc import Sequence
from operator import itemgetter
from pathlib import Path

import numpy as np
import pyarrow as pa

from mlgo.base.artifacts import TIMINGS, Row, read_table
from mlgo.base.files import write_json, write_text
from mlgo.report.pages import Column, Table, count_column, render, text_column

_ORDER = ("heuristic", "echo", "never", "random")


def read_timings(folder: Path) -> pa.Table:
    """Join all measured times below a folder: ``artifacts.TIMINGS``, without rows where nothing was timed here."""
    tables = [read_table(path, TIMINGS).select(TIMINGS.names) for path in sorted(folder.rglob("*.parquet"))]
    schema = TIMINGS.remove_metadata()
    return pa.concat_tables(
        [table.replace_schema_metadata().cast(schema) for table in tables] or [schema.empty_table()]
    )


def compile_times(timings: pa.Table) -> list[Row]:
    """Summarise ``artifacts.TIMINGS`` by advisor: references first, then policies by name.

    Ratios are to the heuristic's plain compile of the same module, None where there is none.
    """
    seconds = defaultdict[str, dict[tuple[str, str], float]](dict)
    for row in timings.to_pylist():
        seconds[row["advisor"]][row["project"], row["module"]] = row["seconds"]
    plain = seconds.get("heuristic", {})
    found = []
    for advisor in [*(name for name in _ORDER if name in seconds), *sorted(seconds.keys() - set(_ORDER))]:
        times = seconds[advisor]
        ratios = [time / plain[key] for key, time in times.items() if plain.get(key, 0.0) > 0.0]
        of_times = {"num_modules": len(times), **_summary("seconds", list(times.values()))}
        of_ratios = {"num_ratios": len(ratios), **_summary("ratio", ratios)}
        found.append({"advisor": advisor, **of_times, **of_ratios})
    return found


def _summary(what: str, values: Sequence[float]) -> Row:
    median, p99 = (float(np.median(values)), float(np.percentile(values, 99))) if values else (None, None)
    return {f"median_{what}": median, f"p99_{what}": p99}


def write_compile_times(folder: Path, timings: pa.Table) -> None:
    """Write ``compile_time.html`` and ``compile_time.json``."""
    times = compile_times(timings)
    write_json(folder / "compile_time.json", {one["advisor"]: one for one in times})

    def column(title: str, name: str, digits: int) -> Column:
        return Column(title, lambda one, style: style.none if one[name] is None else f"{one[name]:.{digits}f}")

    columns = [
        text_column("advisor", itemgetter("advisor")),
        count_column("modules", itemgetter("num_modules")),
        column("median (s)", "median_seconds", 3),
        column("99th percentile (s)", "p99_seconds", 3),
        count_column("modules with a ratio", itemgetter("num_ratios")),
        column("median ratio", "median_ratio", 2),
        column("99th percentile of the ratio", "p99_ratio", 2),
    ]
    write_text(folder / "compile_time.html", render("compile_time.html.jinja", times=Table(columns, times)))
