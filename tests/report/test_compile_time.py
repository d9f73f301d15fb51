"""Compile times by hand."""

import pyarrow as pa
import pytest

from mlgo.base.artifacts import TIMINGS, write_rows
from mlgo.errors import ArtifactError
from mlgo.report.compile_time import compile_times, read_timings, write_compile_times


def timings(*rows: tuple[str, str, float]) -> pa.Table:
    records = [{"project": "p", "module": m, "advisor": a, "seconds": s} for m, a, s in rows]
    return pa.Table.from_pylist(records, TIMINGS)


def test_ratio_is_taken_module_by_module():
    found = compile_times(timings(("a", "heuristic", 1.0), ("b", "heuristic", 10.0), ("a", "x", 3.0), ("b", "x", 10.0)))
    assert [one["advisor"] for one in found] == ["heuristic", "x"]
    assert (found[1]["median_seconds"], found[1]["median_ratio"]) == (6.5, 2.0)
    assert found[1]["p99_ratio"] == pytest.approx(1.0 + 0.99 * 2.0)
    assert found[0]["median_ratio"] == 1.0


def test_without_plain_compile_there_is_no_ratio(tmp_path):
    table = timings(("a", "x", 3.0))
    found = compile_times(table)[0]
    assert (found["num_ratios"], found["median_ratio"], found["p99_ratio"]) == (0, None, None)
    write_compile_times(tmp_path, table)
    assert (tmp_path / "compile_time.html").exists()


def test_nothing_timed_is_reported(tmp_path):
    table = read_timings(tmp_path / "none")
    assert table.num_rows == 0
    write_compile_times(tmp_path, table)
    assert "Nothing was timed" in (tmp_path / "compile_time.html").read_text()
    assert (tmp_path / "compile_time.json").read_text() == "{}\n"


def test_all_folders_are_read_and_damaged_files_named(tmp_path):
    for path in ("baseline/p.parquet", "evaluation/es-s0.parquet"):
        write_rows(tmp_path / path, timings(("a", path, 1.0)).to_pylist(), TIMINGS, {"path": path})
    assert read_timings(tmp_path)["advisor"].to_pylist() == ["baseline/p.parquet", "evaluation/es-s0.parquet"]
    (tmp_path / "x.parquet").write_text("no")
    with pytest.raises(ArtifactError, match="not a readable Parquet"):
        read_timings(tmp_path)
