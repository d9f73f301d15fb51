"""Compile times under each advisor. They differ from run to run, so they have a page of their own."""

from dataclasses import asdict, dataclass
from operator import attrgetter
from pathlib import Path

import numpy as np
import pyarrow as pa

from mlgo.base.artifacts import TIMINGS, read_table
from mlgo.base.files import write_json, write_text
from mlgo.report.pages import Column, Table, count_column, render, text_column

_ORDER = ("heuristic", "echo", "never", "random")


@dataclass(frozen=True)
class CompileTime:
    """Compile times of all modules under one advisor; ratios are to the heuristic's plain compile of the module."""

    advisor: str
    num_modules: int
    median_seconds: float
    p99_seconds: float
    num_ratios: int
    median_ratio: float | None
    p99_ratio: float | None


def read_timings(folder: Path) -> pa.Table:
    """Join all measured times below a folder: ``artifacts.TIMINGS``, without rows where nothing was timed here."""
    tables = [read_table(path, TIMINGS).select(TIMINGS.names) for path in sorted(folder.rglob("*.parquet"))]
    schema = TIMINGS.remove_metadata()
    return pa.concat_tables(
        [table.replace_schema_metadata().cast(schema) for table in tables] or [schema.empty_table()]
    )


def compile_times(timings: pa.Table) -> list[CompileTime]:
    """Summarise by advisor: references first, then policies by name."""
    seconds: dict[str, dict[tuple[str, str], float]] = {}
    for row in timings.to_pylist():
        seconds.setdefault(row["advisor"], {})[row["project"], row["module"]] = row["seconds"]
    plain = seconds.get("heuristic", {})
    names = [*(name for name in _ORDER if name in seconds), *sorted(seconds.keys() - set(_ORDER))]
    return [_summary(name, seconds[name], plain) for name in names]


def write_compile_times(folder: Path, timings: pa.Table) -> None:
    """Write ``compile_time.html`` and ``compile_time.json``."""
    times = compile_times(timings)
    write_json(folder / "compile_time.json", {time.advisor: asdict(time) for time in times})

    def column(title: str, name: str, digits: int) -> Column:
        read = attrgetter(name)
        return Column(title, lambda one, style: style.none if read(one) is None else f"{read(one):.{digits}f}")

    columns = [
        text_column("advisor", attrgetter("advisor")),
        count_column("modules", attrgetter("num_modules")),
        column("median (s)", "median_seconds", 3),
        column("99th percentile (s)", "p99_seconds", 3),
        count_column("modules with a ratio", attrgetter("num_ratios")),
        column("median ratio", "median_ratio", 2),
        column("99th percentile of the ratio", "p99_ratio", 2),
    ]
    write_text(folder / "compile_time.html", render("compile_time.html.jinja", times=Table(columns, times)))


def _summary(advisor: str, seconds: dict[tuple[str, str], float], plain: dict[tuple[str, str], float]) -> CompileTime:
    values = np.array(list(seconds.values()), np.float64)
    ratios = np.array([time / plain[key] for key, time in seconds.items() if plain.get(key, 0.0) > 0.0], np.float64)
    return CompileTime(
        advisor=advisor,
        num_modules=len(values),
        median_seconds=float(np.median(values)),
        p99_seconds=float(np.percentile(values, 99)),
        num_ratios=len(ratios),
        median_ratio=float(np.median(ratios)) if len(ratios) else None,
        p99_ratio=float(np.percentile(ratios, 99)) if len(ratios) else None,
    )
