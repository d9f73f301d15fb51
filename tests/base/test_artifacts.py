"""Files of the pipeline: atomic, deterministic, checked."""

import errno
import hashlib
import os
import struct
import subprocess
import sys
import threading
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from mlgo.base import artifacts
from mlgo.base.artifacts import (
    MODULES,
    PROJECT,
    RESULTS,
    SCORES,
    TIMINGS,
    VOCABULARY,
    TableWriter,
    provenance,
    read_provenance,
    read_table,
    schema_of_trace,
    table_rows,
    trace_schema,
    write_rows,
    write_table,
)
from mlgo.base.files import (
    canonical_json,
    content_hash,
    file_sha256,
    read_array,
    read_json,
    write_atomically,
    write_bytes,
    write_json,
    write_text,
)
from mlgo.errors import ArtifactError
from mlgo.objects.measures import SIZES

ROW = {"project": "p", "module": "m.c", "advisor": "echo", "seconds": 1.5}
SCORE = {
    "project": "p",
    "module": "m.c",
    "advisor": "never",
    "exec_bytes": 10,
    "dedup_bytes": 12,
    "text_bytes": 20,
    "spill_cost": 1.5,
    "num_questions": 3,
    "truncated": False,
    "object_sha256": "ab",
    "failure": "",
    "message": "",
}
text = st.text(st.characters(codec="utf-8"), max_size=10)
scores = st.fixed_dictionaries(
    dict.fromkeys(("project", "module", "advisor", "object_sha256", "failure", "message"), text)
    | {name: st.none() | st.integers(0, 2**63 - 1) for name in (*SIZES, "num_questions")}
    | {"truncated": st.none() | st.booleans()}
    | {"spill_cost": st.none() | st.floats(0, allow_infinity=False)}
)


@given(st.lists(scores, max_size=20))
def test_rows_come_back_as_written_and_twice_the_same_bytes(tmp_path_factory, rows):
    folder = tmp_path_factory.mktemp("rows")
    for name in ("a.parquet", "b.parquet"):
        write_rows(folder / name, rows, SCORES, provenance(seed=1))
    assert (folder / "a.parquet").read_bytes() == (folder / "b.parquet").read_bytes()
    assert read_table(folder / "a.parquet", SCORES).to_pylist() == rows


@given(
    st.lists(
        st.fixed_dictionaries(
            dict.fromkeys(("project", "module", "language", "licence", "ir_sha256", "skip_reason"), text)
            | {
                "bitcode": st.none() | st.binary(max_size=50),
                "function_hashes": st.lists(st.integers(0, 2**64 - 1), max_size=4),
                "function_sizes": st.lists(st.integers(0, 2**31 - 1), max_size=4),
            }
        ),
        max_size=10,
    )
)
def test_bitcode_and_hashes_come_back_as_written(tmp_path_factory, rows):
    path = tmp_path_factory.mktemp("rows") / "p.parquet"
    write_rows(path, rows, PROJECT, {})
    assert read_table(path, PROJECT).to_pylist() == rows


def test_columns_may_come_in_any_order_and_leave_in_the_schemas_which_explains_them(tmp_path):
    write_table(tmp_path / "t.parquet", pa.table({name: [ROW[name]] for name in reversed(ROW)}), TIMINGS, {})
    assert read_table(tmp_path / "t.parquet").column_names == TIMINGS.names
    stored = read_table(tmp_path / "t.parquet").schema.field("seconds").metadata
    assert stored[b"unit"] == b"s"
    assert stored[b"meaning"]
    for schema in (PROJECT, MODULES, SCORES, RESULTS, VOCABULARY, TIMINGS, trace_schema(["a"])):
        assert all(field.metadata[b"meaning"] for field in schema)
        assert schema is TIMINGS or not any("second" in name for name in schema.names)
    assert TIMINGS.names[-1] == "seconds"


@pytest.mark.parametrize(
    ("row", "schema"),
    [
        *(
            (ROW | change, TIMINGS)
            for change in ({"seconds": "long"}, {"project": None}, {"project": 3}, {"seconds": None})
        ),
        (SCORE | {"exec_bytes": 2**70}, SCORES),
        ({"project": "p"}, TIMINGS),
    ],
)
def test_rows_that_do_not_fit(row, schema, tmp_path):
    for write, content in ((write_rows, [row]), (write_table, pa.table({"project": ["p"]}))):
        with pytest.raises(ArtifactError, match="do not fit"):
            write(tmp_path / "t.parquet", content, schema, {})
    assert list(tmp_path.iterdir()) == []


def test_provenance(tmp_path):
    origin = provenance(compiler="clang 22", seed=3, nested={"b": 1, "a": [1, 2]})
    write_rows(tmp_path / "t.parquet", [ROW], TIMINGS, origin)
    assert read_provenance(tmp_path / "t.parquet") == origin
    assert origin["package"].startswith("mlgo ")
    pq.write_table(pa.table({"a": [1]}), tmp_path / "foreign.parquet")
    for name, why in (("foreign.parquet", "no provenance"), ("none.parquet", "is missing")):
        with pytest.raises(ArtifactError, match=why):
            read_provenance(tmp_path / name)


def test_reading_what_is_missing_or_of_another_kind(tmp_path):
    with pytest.raises(ArtifactError, match=r"none\.parquet is missing; run the stage"):
        read_table(tmp_path / "none.parquet")
    write_rows(tmp_path / "t.parquet", [ROW], TIMINGS, {})
    with pytest.raises(ArtifactError, match="no column 'exec_bytes'"):
        read_table(tmp_path / "t.parquet", SCORES)
    with pytest.raises(ArtifactError, match="no column 'seconds' of type int64"):
        read_table(tmp_path / "t.parquet", pa.schema([("seconds", pa.int64())]))
    assert read_table(tmp_path / "t.parquet", SCORES, columns=["project"]).column_names == ["project"]


def test_json(tmp_path):
    path = tmp_path / "deep" / "x.json"
    write_json(path, {"b": 1, "a": ["ü", 0.1, None]})
    assert path.read_text() == '{\n  "b": 1,\n  "a": [\n    "ü",\n    0.1,\n    null\n  ]\n}\n'
    assert read_json(path) == {"b": 1, "a": ["ü", 0.1, None]}
    with pytest.raises(ArtifactError, match="is missing"):
        read_json(tmp_path / "none.json")
    with pytest.raises(ValueError, match="JSON"):
        write_json(path, float("nan"))


json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | text,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(text, inner, max_size=3),
    max_leaves=8,
)


@given(st.dictionaries(text, json_values, max_size=5))
def test_canonical_json_does_not_depend_on_order(value):
    turned = dict(reversed(value.items()))
    assert canonical_json(turned) == canonical_json(value)
    assert content_hash(turned) == content_hash(value)
    assert len(content_hash(value)) == 16
    assert canonical_json({"b": [1, 2.5], "a": {"d": None, "c": True}}) == '{"a":{"c":true,"d":null},"b":[1,2.5]}'
    assert content_hash({}) == hashlib.sha256(b"{}").hexdigest()[:16]
    assert content_hash([1]) != content_hash([2])


def test_file_hash(tmp_path):
    (tmp_path / "x").write_bytes(b"abc")
    # FIPS 180-2, appendix B.1
    assert file_sha256(tmp_path / "x") == "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad"
    with pytest.raises(ArtifactError, match="cannot read"):
        file_sha256(tmp_path / "none")


@pytest.mark.parametrize(
    ("error", "shown", "message"),
    [
        (ZeroDivisionError(), ZeroDivisionError, None),
        (OSError(errno.ENOSPC, os.strerror(errno.ENOSPC)), ArtifactError, "no space left"),
    ],
    ids=["defect", "full disk"],
)
def test_writing_replaces_or_leaves_the_old(tmp_path, error, shown, message):
    path = tmp_path / "x"
    write_text(path, "old")

    def fail(temporary):
        temporary.write_text("half")
        raise error

    with pytest.raises(shown, match=message):
        write_atomically(path, fail)
    assert path.read_text() == "old"
    write_bytes(path, b"new")
    assert path.read_bytes() == b"new"
    assert [p.name for p in tmp_path.iterdir()] == ["x"]


def test_a_place_that_cannot_be_written(tmp_path):
    (tmp_path / "folder").mkdir()
    (tmp_path / "file").write_text("")
    for path in (tmp_path / "folder", tmp_path / "file" / "x"):
        with pytest.raises(ArtifactError, match="cannot write"):
            write_text(path, "text")
    assert sorted(p.name for p in tmp_path.iterdir()) == ["file", "folder"]


WRITER = """
import os, signal, sys
from pathlib import Path
from mlgo.base.files import write_atomically
def write(temporary):
    {}
write_atomically(Path(sys.argv[1]), write)
"""


def test_a_kill_while_writing_leaves_the_old(tmp_path):
    path, half = tmp_path / "x", "temporary.write_text('half')"
    write_text(path, "old")
    killed = [sys.executable, "-c", WRITER.format(f"{half}; os.kill(os.getpid(), signal.SIGKILL)"), path]
    for _ in range(2):
        assert subprocess.run(killed, check=False).returncode == -9
        assert path.read_text() == "old"
        assert len(list(tmp_path.iterdir())) == 2  # the second has removed what the first left
    other, foreign = tmp_path / ".y.0123abcd.tmp", tmp_path / ".x.notes.tmp"
    other.write_text("of another file")
    foreign.write_text("not written by this package")
    subprocess.run([sys.executable, "-c", WRITER.format(half), path], check=True)
    assert path.read_text() == "half"
    assert {one.name for one in tmp_path.iterdir()} == {"x", other.name, foreign.name}


def test_what_a_living_process_writes_is_left_alone(tmp_path):
    path = tmp_path / "x"
    program = WRITER.format("print(flush=True); sys.stdin.read(); temporary.write_text('slow')")
    pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE}
    writer = subprocess.Popen([sys.executable, "-c", program, path], **pipes)
    writer.stdout.readline()
    write_text(path, "quick")
    writer.communicate(b"", timeout=60)
    assert writer.returncode == 0
    assert path.read_text() == "slow"  # the last to finish
    assert [one.name for one in tmp_path.iterdir()] == ["x"]


def test_threads_that_write_one_path_do_not_disturb_each_other(tmp_path):
    path, meet = tmp_path / "x", threading.Barrier(4)

    def write(text):
        def fill(temporary):
            meet.wait(60)  # all four are in the middle of it
            temporary.write_text(text)
            meet.wait(60)
            assert temporary.read_text() == text

        write_atomically(path, fill)

    with ThreadPoolExecutor(4) as pool:
        list(pool.map(write, ["one", "two", "three", "four"]))
    assert path.read_text() in {"one", "two", "three", "four"}
    assert [one.name for one in tmp_path.iterdir()] == ["x"]


def test_json_of_a_size_that_no_file_of_this_package_has(tmp_path):
    with (tmp_path / "x.json").open("wb") as file:
        file.truncate(1 << 32)  # takes no room on the disk
    with pytest.raises(ArtifactError, match=r"4,294,967,296 bytes, where 67,108,864 are"):
        read_json(tmp_path / "x.json")
    with pytest.raises(ArtifactError, match="cannot read"):
        read_json(tmp_path)


def npy(header: str, body: bytes = b"") -> bytes:
    """An ``.npy`` file of version 1.0, written by hand."""
    text = header.encode() + b"\n"
    return b"\x93NUMPY\x01\x00" + struct.pack("<H", len(text)) + text + body


def array_header(shape: str, kind: str = "'<f4'") -> str:
    return f"{{'descr': {kind}, 'fortran_order': False, 'shape': {shape}}}"


def test_arrays_are_read_as_numpy_writes_them(tmp_path, monkeypatch):
    for number, array in enumerate([np.arange(6, dtype=np.float32).reshape(2, 3), np.zeros(0), np.array(3)]):
        np.save(tmp_path / f"{number}.npy", array)
        found = read_array(tmp_path / f"{number}.npy")
        np.testing.assert_array_equal(found, array)
        assert (found.dtype, found.shape, type(found)) == (array.dtype, array.shape, np.ndarray)
    (tmp_path / "x.npy").write_bytes(npy(array_header("(2,)"), struct.pack("<2f", 1.5, -2.0)))
    assert read_array(tmp_path / "x.npy").tolist() == [1.5, -2.0]
    with pytest.raises(ArtifactError, match="is missing"):
        read_array(tmp_path / "none.npy")
    monkeypatch.setattr("mlgo.base.files._MAX_ARRAY_BYTES", 8)
    with pytest.raises(ArtifactError, match="8 are the most"):
        read_array(tmp_path / "x.npy")


NO_JSON = [b"[" * 100_000, b"1" * 5000, "\ud800".encode(errors="surrogatepass"), b"{", b"", b"\xff", b"{'a': 1}"]
NO_ARRAYS = [
    b"",
    b"text",
    b"\x93NUMPY",
    b"PK\x03\x04aaaa",
    b"\x80\x04K\x01.",
    npy(array_header("(1000000000000000,)")),
    npy(array_header("(4611686018427387904, 4611686018427387904)")),
    npy(array_header("(0, 10000000000000000000000)")),
    npy(array_header("(-4,)"), b"\0" * 16),
    npy(array_header("(True,)"), b"\0" * 16),
    npy(array_header("(8,)"), b"\0" * 16),
    npy(array_header("(1,)", "'|O'"), b"\0" * 16),
    npy(array_header("(1,)", "('<f4', (100000, 100000))"), b"\0" * 16),
    npy(array_header("(1,)", "3"), b"\0" * 16),
    npy(array_header("(10000000000,)", "'|V0'"), b"\0" * 16),
    npy(array_header("(3000000000,)", "'|S0'"), b"\0" * 16),
    npy("(" * 9000),
    npy("[" * 3000 + "]" * 3000),
]


@pytest.mark.parametrize(
    ("read", "kind", "data"),
    [*((read_json, "JSON", one) for one in NO_JSON), *((read_array, "a readable array", one) for one in NO_ARRAYS)],
    ids=range(len(NO_JSON + NO_ARRAYS)),
)
def test_json_and_arrays_that_cannot_be_read(read, kind, data, tmp_path):
    (tmp_path / "x").write_bytes(data)
    with pytest.raises(ArtifactError, match=f"is not {kind}") as caught:
        read(tmp_path / "x")
    assert "\n" not in str(caught.value)
    assert len(str(caught.value)) < 500


def read_all(path: Path) -> None:
    """Read a table and its provenance; it may be refused, in one line that names the file."""
    for read in (lambda: read_table(path, SCORES).to_pylist(), lambda: read_provenance(path)):
        refusal = None
        try:
            read()
        except ArtifactError as error:
            refusal = str(error)
        if refusal is not None:
            assert refusal.startswith(str(path))
            assert "\n" not in refusal


@settings(max_examples=120)
@given(rows=st.lists(scores, min_size=1, max_size=5), data=st.data())
def test_damaged_tables_end_in_one_line(tmp_path_factory, rows, data):
    path = tmp_path_factory.mktemp("damage") / "t.parquet"
    write_rows(path, rows, SCORES, provenance(seed=1))
    content = bytearray(path.read_bytes())
    for _ in range(data.draw(st.integers(1, 3))):
        content[data.draw(st.integers(0, len(content) - 1))] ^= 1 << data.draw(st.integers(0, 7))
    if data.draw(st.booleans()):
        del content[data.draw(st.integers(0, len(content) - 1)) :]
    path.write_bytes(content)
    read_all(path)


@given(data=st.data())
def test_tables_that_are_cut_short(tmp_path_factory, data):
    path = tmp_path_factory.mktemp("cut") / "t.parquet"
    write_rows(path, [SCORE] * 50, SCORES, provenance(seed=1))
    whole = path.read_bytes()
    path.write_bytes(whole[: data.draw(st.integers(0, len(whole) - 1))])
    with pytest.raises(ArtifactError, match=r"is not a readable Parquet file .* delete it and run its stage"):
        read_table(path, SCORES)
    with pytest.raises(ArtifactError):
        read_provenance(path)
    read_all(path)


def test_tables_of_an_earlier_version_say_how_to_make_them_anew(tmp_path):
    path = tmp_path / "t.parquet"
    pq.write_table(pa.Table.from_pylist([SCORE]).drop_columns(["dedup_bytes"]), path)
    with pytest.raises(ArtifactError, match="has no column 'dedup_bytes' of type int64; run its stage again"):
        read_table(path, SCORES)
    may_be_null = pa.schema([field.with_nullable(True) for field in SCORES.remove_metadata()])
    pq.write_table(pa.Table.from_pylist([SCORE | {"failure": None}, SCORE], may_be_null), path)
    with pytest.raises(ArtifactError, match="has rows without 'failure'; run its stage again"):
        read_table(path, SCORES)
    pq.write_table(pa.Table.from_arrays([pa.array(["p"])] * 2, ["project", "project"]), path)
    with pytest.raises(ArtifactError, match="has no column 'project'"):
        read_table(path, SCORES)


@pytest.mark.parametrize("text", ["[3]", "3", "[" * 100_000, "null", "{", "\udcff"], ids=range(6))
def test_provenance_of_any_form(tmp_path, text):
    path = tmp_path / "t.parquet"
    pq.write_table(pa.table({"a": [1]}).replace_schema_metadata({"mlgo": text.encode(errors="surrogateescape")}), path)
    with pytest.raises(ArtifactError, match="no provenance of this package; run its stage again"):
        read_provenance(path)


def test_schemas_of_traces():
    schema = trace_schema(["a", "b"])
    assert schema.names == ["project", "module", "context", "step", "a", "b", "answer"]
    assert schema.field("a").type == schema.field("answer").type == pa.int64()
    floats = trace_schema({"a": pa.list_(pa.float32(), 3)}, pa.float32())
    assert floats.field("answer").type == pa.float32()
    assert schema_of_trace(floats.empty_table()) == floats


def test_a_table_written_in_parts_is_there_once_it_is_closed(tmp_path):
    path = tmp_path / "folder" / "timings.parquet"
    writer = TableWriter(path, TIMINGS, provenance(seed=1))
    part = {"project": ["p", "p"], "module": ["a.c", "b.c"], "advisor": ["echo"] * 2, "seconds": [1.0, 2.0]}
    writer.write(part)
    writer.write(part)
    assert not path.exists()
    with pytest.raises(ArtifactError, match="do not fit their schema"):
        writer.write({"project": ["p"]})
    writer.close()
    assert [one.name for one in path.parent.iterdir()] == ["timings.parquet"]
    assert read_table(path, TIMINGS)["module"].to_pylist() == ["a.c", "b.c"] * 2
    assert read_table(path, TIMINGS, filters=[("module", "==", "b.c")])["seconds"].to_pylist() == [2.0, 2.0]
    assert read_provenance(path)["seed"] == 1


def test_a_full_disk_ends_a_table_written_in_parts(small_disk):
    path = small_disk / "timings.parquet"
    writer = TableWriter(path, TIMINGS, provenance())
    names = [os.urandom(1000).hex() for _ in range(2000)]
    with pytest.raises(ArtifactError, match="no space left"):
        writer.write({"project": names, "module": names, "advisor": names, "seconds": [1.0] * 2000})
        writer.close()
    assert not list(small_disk.iterdir())


SCHEMA = pa.schema([pa.field("name", pa.string(), False), pa.field("list", pa.list_(pa.int32()), False)])
NAMES = st.text("ab/", max_size=3)


@given(st.lists(st.lists(NAMES, min_size=1, max_size=4), max_size=5), st.sets(NAMES, min_size=1))
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
    assert read_table(path, SCHEMA, filters=[("name", "in", sorted(wanted))]).to_pylist() == expected


def test_tables_without_statistics_are_read_as_well(tmp_path):
    table = pa.table({"name": ["b", "a"], "list": [[1], [2]]}, schema=SCHEMA)
    pq.write_table(table, tmp_path / "table.parquet", write_statistics=False)
    found = read_table(tmp_path / "table.parquet", SCHEMA, ["list"], [("name", "in", ["a"])])
    assert found.to_pylist() == [{"list": [2]}]


def test_tables_without_the_key_are_refused(tmp_path):
    pq.write_table(pa.table({"name": [1]}), tmp_path / "table.parquet")
    with pytest.raises(ArtifactError, match=r"table\.parquet is not a readable Parquet file \(Array type"):
        read_table(tmp_path / "table.parquet", SCHEMA, ["name"], [("name", "in", ["a"])])


@pytest.mark.parametrize("how", [{}, {"use_dictionary": False}, {"row_group_size": 1}])
def test_a_table_that_unpacks_to_far_more_than_its_file(tmp_path, monkeypatch, how):
    """One value, 20 times: as a dictionary, as pages of zeros, and as many groups."""
    monkeypatch.setattr(artifacts, "_MAX_BYTES", 1 << 22)
    path, zeros = tmp_path / "t.parquet", pa.chunked_array([pa.array([bytes(1 << 18)])] * 20)
    pq.write_table(pa.table({"b": zeros}), path, compression="zstd", **how)
    assert path.stat().st_size < 1 << 14
    for read in (read_table, lambda path: list(table_rows(path, pa.schema([]), ["b"]))):
        with pytest.raises(ArtifactError, match=r"t\.parquet .*unpacks to more than 4,194,304 bytes"):
            read(path)


def test_many_equal_texts_in_one_list(tmp_path):
    texts = pa.DictionaryArray.from_arrays(pa.array(np.zeros(200_000, np.int32)), pa.array(["y" * (1 << 16)]))
    table = pa.table({"l": pa.ListArray.from_arrays(pa.array([0, 200_000], pa.int32()), texts)})
    pq.write_table(table, tmp_path / "t.parquet")
    with pytest.raises(ArtifactError, match="unpacks to more than"):
        read_table(tmp_path / "t.parquet")


@pytest.mark.parametrize("rows_of_a_group", [1, 7, 1000])
def test_nested_texts_are_read_as_they_were(tmp_path, rows_of_a_group):
    rows = [{"l": [str(n), "x"], "s": [{"k": str(n), "m": ["p"] * (n % 3)}] if n % 4 else None} for n in range(50)]
    table = pa.Table.from_pylist(rows)
    pq.write_table(table, tmp_path / "t.parquet", row_group_size=rows_of_a_group)
    assert read_table(tmp_path / "t.parquet").equals(table)
    assert list(table_rows(tmp_path / "t.parquet", table.schema, ["s", "l"])) == [
        {"s": r["s"], "l": r["l"]} for r in rows
    ]
