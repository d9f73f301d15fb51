"""`mlgo replay` on the trees of a real training."""

import json
from pathlib import Path

import pyarrow.parquet as pq


def test_trees_of_the_tiny_preset(finished):
    run = finished.succeed("mlgo", "replay", "stats", "--json")
    (row,) = json.loads(run.stdout)
    assert row["modules"] > 0
    assert row["compiles"] >= row["modules"]
    assert 0 < row["bytes_per_node"] < 100
    verified = finished.run("mlgo", "replay", "verify", "--count", "5")
    assert "5 of 5 results are as the trees say" in verified.stdout
    finished.succeed("mlgo", "replay", "export", "data/work/trees.parquet")
    table = pq.read_table(Path(finished.root) / "data/work/trees.parquet")
    assert len(set(table["compile"].to_pylist())) <= row["compiles"]
    assert "cost_estimate" in table.column_names
    finished.succeed("mlgo", "replay", "prune", "--max-gb", "0.000001")
    (left,) = json.loads(finished.run("mlgo", "replay", "stats", "--json").stdout)
    assert left["bytes"] <= 1000
