"""Single rows out of large tables."""

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given
from hypothesis import strategies as st

from mlgo.base.artifacts import TableWriter, rows_where
from mlgo.errors import ArtifactError

SCHEMA = pa.schema([pa.field("name", pa.string(), False), pa.field("list", pa.list_(pa.int32()), False)])
names = st.text("ab/", max_size=3)


@given(st.lists(st.lists(names, min_size=1, max_size=4), max_size=5), st.sets(names))
def test_what_is_wanted_comes_in_the_order_of_the_table(tmp_path_factory, groups, wanted):
    path = tmp_path_factory.mktemp("rows") / "table.parquet"
    writer = TableWriter(path, SCHEMA, {})
    for number, group in enumerate(groups):
        writer.write({"name": group, "list": [[number, place] for place in range(len(group))]})
    writer.close()
    expected = [
        {"name": name, "list": [number, place]}
        for number, group in enumerate(groups)
        for place, name in enumerate(group)
        if name in wanted
    ]
    assert list(rows_where(path, SCHEMA, "name", wanted, ["name", "list"])) == expected


def test_tables_without_statistics_are_read_as_well(tmp_path):
    table = pa.table({"name": ["b", "a"], "list": [[1], [2]]}, schema=SCHEMA)
    pq.write_table(table, tmp_path / "table.parquet", write_statistics=False)
    assert list(rows_where(tmp_path / "table.parquet", SCHEMA, "name", {"a"}, ["list"])) == [{"list": [2]}]


def test_other_tables_are_refused(tmp_path):
    pq.write_table(pa.table({"name": [1]}), tmp_path / "table.parquet")
    with pytest.raises(ArtifactError, match="has no column 'name' of type string"):
        list(rows_where(tmp_path / "table.parquet", SCHEMA, "name", {"a"}, ["name"]))
