"""JSON and Parquet that show damage: each flipped bit is refused, or changes nothing that is read."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import mlgo.base.artifacts as artifacts
from mlgo.base.artifacts import TableWriter, provenance, read_provenance, read_table, table_rows, write_table
from mlgo.base.files import read_record, record_text, write_json, write_record
from mlgo.errors import MlgoError
from mlgo.jit.cache import CompileCache
from mlgo.jit.outcome import Failed
from mlgo.learn.checkpoint import load_state, save_state
from mlgo.policy.stored import load_policy
from tests.conftest import REPOSITORY

SCHEMAS = [one for one in vars(artifacts).values() if isinstance(one, pa.Schema)]


def example(field: pa.Field, row: int) -> Any:
    """A value for a column."""
    kind = field.type
    if pa.types.is_struct(kind):
        return {inner.name: example(inner, row) for inner in kind}
    if pa.types.is_list(kind) or pa.types.is_fixed_size_list(kind):
        return [example(kind.value_field, row)] * 2
    if field.nullable and row == 1:
        return None
    if pa.types.is_string(kind):
        return f"{field.name} {row}"
    return b"\0\1" if pa.types.is_binary(kind) else kind.to_pandas_dtype()(row)


def example_table(schema: pa.Schema) -> pa.Table:
    """Three rows of a table."""
    rows = [{field.name: example(field, row) for field in schema} for row in range(3)]
    return pa.Table.from_pylist(rows, schema=schema.remove_metadata())


def read_all(path: Path, schema: pa.Schema) -> object:
    """What the readers of a table see."""
    rows = list(table_rows(path, schema, schema.names))
    return read_table(path, schema).to_pylist(), read_table(path, columns=schema.names[:1]), rows, read_provenance(path)


def write_in_parts(path: Path, table: pa.Table, schema: pa.Schema, origin: dict[str, Any]) -> None:
    writer = TableWriter(path, schema, origin)
    for _ in range(2):
        writer.write({name: table[name] for name in table.column_names})
    writer.close()


def is_noticed(path: Path, place: int, read: Callable[[], object], expected: object) -> bool:
    """Whether a flipped bit is refused, in one line; where it is not, all that is read is the same."""
    content = path.read_bytes()
    damaged = bytearray(content)
    damaged[place // 8] ^= 1 << place % 8
    path.write_bytes(damaged)
    try:
        found = read()
    except MlgoError as error:
        found = str(error)
    finally:
        path.write_bytes(content)
    if found == expected:
        return False
    assert isinstance(found, str)
    assert str(path.parent) in found
    assert "\n" not in found
    return True


def check_some_flips(path: Path, read: Callable[[], object], data: st.DataObject, num_flips: int = 8) -> None:
    expected = read()
    for _ in range(num_flips):
        is_noticed(path, data.draw(st.integers(0, 8 * path.stat().st_size - 1)), read, expected)


@settings(max_examples=30)
@given(schema=st.sampled_from(SCHEMAS), write=st.sampled_from([write_table, write_in_parts]), data=st.data())
def test_a_flipped_bit_in_a_table(tmp_path_factory, schema, write, data):
    path = tmp_path_factory.mktemp("table") / "t.parquet"
    write(path, example_table(schema), schema, provenance(seed=1))
    check_some_flips(path, lambda: read_all(path, schema), data)


def test_all_of_a_table_but_the_mark_of_its_checksum_is_checked(tmp_path):
    path, schema = tmp_path / "t.parquet", artifacts.COPIES
    write_table(path, example_table(schema), schema, provenance(seed=1))
    content, expected = path.read_bytes(), read_all(path, schema)
    end = len(content) - 8 - int.from_bytes(content[-8:-4], "little")  # of what stands before the footer
    assert content[end - 8 : end - 4] == b"MLGC"
    mark, last = range(8 * (end - 8), 8 * (end - 4)), 8 * len(content)
    for place in [*range(0, last, 151), *mark, *range(last - 64, last)]:
        assert is_noticed(path, place, lambda: read_all(path, schema), expected) == (place not in mark)
    assert pq.read_table(path).to_pylist() == expected[0]  # for others it is Parquet


def test_tables_of_others_have_no_checksum(tmp_path):
    for name in ("docs/results/run/evaluation/shipped.parquet", "docs/results/sealed/evaluation/results.parquet"):
        path = REPOSITORY / name
        assert read_table(path).num_rows > 0
    pq.write_table(read_table(REPOSITORY / name).slice(0, 3), tmp_path / "t.parquet")
    assert read_table(tmp_path / "t.parquet").num_rows == 3


RECORD = {"seed": 1, "text": "ü\n", "sizes": [1.5, None, 1e-9], "inner": {"a": True, "1": {}}}
"""Of all kinds of JSON."""


@settings(max_examples=100)
@given(place=st.integers(0, 8 * len(record_text(RECORD).encode()) - 1))
def test_a_flipped_bit_in_a_record(tmp_path_factory, place):
    path = tmp_path_factory.mktemp("record") / "x.json"
    write_record(path, RECORD)
    is_noticed(path, place, lambda: read_record(path), RECORD)


def test_records_of_others_have_no_hash_and_formatting_is_free(tmp_path):
    path = tmp_path / "x.json"
    write_json(path, RECORD)
    assert read_record(path) == RECORD
    write_record(path, {2: 1, 10: 2})
    assert read_record(path) == {"2": 1, "10": 2}
    path.write_text(json.dumps(dict(reversed(json.loads(record_text(RECORD)).items()))))
    assert read_record(path) == RECORD


@pytest.mark.parametrize("file", ["policy.json", "weights.npy"])
@settings(max_examples=40)
@given(data=st.data())
def test_a_flipped_bit_in_a_policy(tmp_path_factory, file, data):
    folder = tmp_path_factory.mktemp("policy") / "tree8-s0"
    folder.mkdir()
    for name in ("policy.json", "weights.npy"):
        (folder / name).write_bytes((REPOSITORY / "data/released/tree8-s0" / name).read_bytes())

    def read() -> object:
        policy = load_policy(folder)
        return policy.weights.tobytes(), policy.origin, policy.architecture, policy.normalisation.features, policy.task

    check_some_flips(folder / file, read, data)


@settings(max_examples=40)
@given(data=st.data())
def test_a_flipped_bit_in_a_checkpoint(tmp_path_factory, data):
    path = tmp_path_factory.mktemp("checkpoint") / "x.npz"
    save_state({"weights": np.arange(5, dtype=np.float32), "step": 3}, path, {"seed": 1})

    def read() -> object:
        state, extra = load_state(path)
        return state["weights"].tobytes(), state["weights"].dtype, state["step"], extra

    check_some_flips(path, read, data)


@settings(max_examples=40)
@given(data=st.data())
def test_a_flipped_bit_in_what_is_known_of_compiles(tmp_path_factory, data):
    root = tmp_path_factory.mktemp("cache")
    for unit in range(2):  # a record each
        CompileCache(root, {"name": "superpmi"}).add("7", {(unit,): Failed("exit", str(unit))})
    (path,) = root.glob("*/*.choices")
    known = CompileCache(root, {"name": "superpmi"}).outcomes("7")

    def read() -> object:
        return CompileCache(root, {"name": "superpmi"}).outcomes("7")

    assert len(known) == 2
    check_some_flips(path, read, data)
