"""What is known on disk: found again by later runs, one line for whatever is wrong with it."""

import json
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from mlgo.core.config import LOCAL_WORKERS
from mlgo.core.errors import ArtifactError, ReplayMismatch
from mlgo.execution.records import MALFORMED, NONCE_BYTES, frame, packed, record_files
from mlgo.problems.subset.cache import CompileCache, Findings, caches, decode_findings, encode_findings, outdated_caches
from mlgo.problems.subset.compiler import Candidates, Compiled, Failed
from mlgo.problems.subset.jobs import BaselineJob, LabelJob
from mlgo.problems.subset.pool import CsePool
from tests.problems.subset.additive import AdditiveSpec
from tests.problems.subset.test_pool import plain

SPEC = AdditiveSpec({f"u{i}": ((5, 1), (1, 5), (i, 2)) for i in range(3)})
JOBS = [LabelJob(("u0", "u1"), 9, 64, 0), LabelJob(("u2",), 9, 64, 0)]
CANDIDATES = Candidates(("a", "b"), np.array([[1, -2], [3, 2**40]]), np.array([True, False]))
FIRST = Findings(
    {
        "": {
            (): Compiled(1.5, 7, (), 0, CANDIDATES),
            (0,): Compiled(1.25, 6, (0,), 1, CANDIDATES),
            None: Failed("jit_error", "why"),
        },
        ":f": {None: Compiled(0.1 + 0.2, 3, None, 1, Candidates((), np.zeros((0, 0), np.int64), np.zeros(0, bool)))},
    },
    notes={"own": [1, 2]},
)


RAY = pytest.param("ray", marks=[pytest.mark.slow, pytest.mark.skipif(find_spec("ray") is None, reason="no Ray")])


@pytest.mark.parametrize("kind", ["local", "serial", RAY])
def test_later_runs_compile_nothing_that_is_known(tmp_path, kind):
    where = LOCAL_WORKERS.model_copy(update={"kind": kind, "num_workers": 2})
    with CsePool(SPEC, 2, where, tmp_path) as pool:
        first = pool.map(JOBS)
        assert pool.num_compiled == 3 * (2**3 + 1)  # all subsets, and the heuristic
    with CsePool(SPEC, 1, where, tmp_path) as pool:
        assert plain(pool.map(JOBS)) == plain(first)
        assert (pool.num_compiled, pool.num_asked) == (0, 3 * (2**3 + 1))
    assert len(list(record_files(tmp_path))) == 3


@dataclass(frozen=True)
class OtherSpec(AdditiveSpec):
    def key(self):
        return {"name": "additive", "build": 2}


def test_another_compiler_knows_nothing_of_it(tmp_path):
    for spec in (SPEC, OtherSpec(SPEC.effects)):
        with CsePool(spec, 1, cache=tmp_path) as pool:
            pool.map([BaselineJob(("u0",))])
            assert pool.num_compiled == 2
    assert len(list(record_files(tmp_path))) == 2


def test_two_runs_at_a_time_share_one_file(tmp_path):
    one, other = CompileCache(tmp_path, {}), CompileCache(tmp_path, {})
    assert not other.findings("x")
    one.add("x", FIRST)
    other.add("x", Findings({"": {(1,): Compiled(2.0, 8, (1,), 1, CANDIDATES)}}))
    assert set(other.findings("x").outcomes[""]) == {(), (0,), None, (1,)}
    assert set(CompileCache(tmp_path, {}).findings("x").outcomes[""]) == {(), (0,), None, (1,)}


def test_nothing_new_adds_nothing(tmp_path):
    cache = CompileCache(tmp_path, {})
    cache.add("x", FIRST)
    (path,) = record_files(tmp_path)
    before = path.read_bytes()
    CompileCache(tmp_path, {}).add("x", FIRST)
    assert path.read_bytes() == before


def test_a_compile_that_comes_out_otherwise_is_told(tmp_path):
    CompileCache(tmp_path, {}).add("x", FIRST)
    other = Findings({"": {(0,): Compiled(9.0, 6, (0,), 1, CANDIDATES)}})
    with pytest.raises(ReplayMismatch, match=r"the unit under \(0,\): the compiler gives \(9\.0.*delete .*x\.choices"):
        CompileCache(tmp_path, {}).add("x", other)


def test_a_writer_that_was_killed(tmp_path):
    CompileCache(tmp_path, {}).add("x", FIRST)
    (path,) = record_files(tmp_path)
    whole = path.read_bytes()
    for length in (3, 11, len(whole) - 1):
        path.write_bytes(whole[:length])
        cache = CompileCache(tmp_path, {})
        assert not cache.findings("x")
        cache.add("x", FIRST)
        assert same(CompileCache(tmp_path, {}).findings("x"), FIRST)


def test_damage_is_one_line(tmp_path):
    CompileCache(tmp_path, {}).add("x", FIRST)
    (path,) = record_files(tmp_path)
    whole = path.read_bytes()
    path.write_bytes(whole[:40] + bytes([whole[40] ^ 1]) + whole[41:])
    with pytest.raises(ArtifactError, match=r"x\.choices is damaged at byte 0; delete it, it will be made anew"):
        CompileCache(tmp_path, {}).findings("x")


def test_a_file_that_was_deleted_is_made_anew(tmp_path):
    cache = CompileCache(tmp_path, {})
    cache.add("x", FIRST)
    (path,) = record_files(tmp_path)
    path.unlink()
    cache.add("x", FIRST)
    assert same(CompileCache(tmp_path, {}).findings("x"), FIRST)


def plain_record(**changes) -> dict:
    table = [["a"], [[1]], [1]]
    return {"notes": None, "candidates": [table], "outcomes": [["", [0], 1.5, 7, [0], 1, 0]], **changes}


@pytest.mark.parametrize(
    "record",
    [
        [],
        {},
        plain_record(outcomes=[["", [0], 1.5, 7, [0], 1, 1]]),
        plain_record(outcomes=[["", [0], 1.5, 7, [0], 1]]),
        plain_record(outcomes=[["", [0], "1", 7, [0], 1, 0]]),
        plain_record(outcomes=[["", [0], float("nan"), 7, [0], 1, 0]]),
        plain_record(outcomes=[["", [0.5], 1.5, 7, [0], 1, 0]]),
        plain_record(outcomes=[[7, [0], 1.5, 7, [0], 1, 0]]),
        plain_record(candidates=[[["a"], [[1, 2]], [1]]]),
        plain_record(candidates=[[[1], [[1]], [1]]]),
        plain_record(candidates=[[["a"], [["x"]], [1]]]),
        plain_record(candidates=[[["a"], [[2**70]], [1]]]),
    ],
)
def test_what_is_no_record(record, tmp_path):
    payload = packed(json.dumps(record).encode())
    with pytest.raises(MALFORMED):
        decode_findings(payload)
    cache = CompileCache(tmp_path, {})
    cache.add("x", FIRST)
    (path,) = record_files(tmp_path)
    path.write_bytes(frame(b"MLC1", bytes(NONCE_BYTES) + payload))
    with pytest.raises(ArtifactError, match=r"is damaged at byte 0 \(.*\); delete it") as error:
        CompileCache(tmp_path, {}).findings("x")
    assert "\n" not in str(error.value)


def same(one: Findings, other: Findings) -> bool:
    return plain(one.outcomes) == plain(other.outcomes) and one.notes == other.notes


def test_records_are_read_back():
    assert same(decode_findings(encode_findings(FIRST)), FIRST)


positions = st.lists(st.integers(0, 63), max_size=5).map(tuple)


@st.composite
def candidates(draw) -> Candidates:
    names = tuple(draw(st.lists(st.text(max_size=5), max_size=4)))
    number = draw(st.integers(0, 4))
    cells = st.lists(st.integers(-(2**63), 2**63 - 1), min_size=number * len(names), max_size=number * len(names))
    viable = draw(st.lists(st.booleans(), min_size=number, max_size=number))
    return Candidates(
        names, np.array(draw(cells), np.int64).reshape(number, len(names)), np.array(viable, bool).reshape(-1)
    )


outcomes = st.one_of(
    st.builds(Failed, st.text(), st.text()),
    st.builds(
        Compiled,
        st.floats(allow_nan=False, allow_infinity=False),
        st.integers(0, 2**62),
        st.none() | positions,
        st.integers(0, 64),
        candidates(),
    ),
)


@given(st.dictionaries(st.text(max_size=4), st.dictionaries(st.none() | positions, outcomes, max_size=4), max_size=3))
def test_any_findings_are_read_back(found):
    read = decode_findings(encode_findings(Findings(found)))
    assert plain(read.outcomes) == plain({part: one for part, one in found.items() if one})


@given(st.binary())
def test_any_bytes_are_refused_or_read(data: bytes):
    try:
        decode_findings(data)
    except MALFORMED:
        pass


def test_findings_are_kept_by_key(tmp_path: Path):
    CompileCache(tmp_path, {"name": "additive"}).add("x", FIRST)
    (folder,) = tmp_path.iterdir()
    assert json.loads((folder / "choices.json").read_text()) == {"name": "additive", "records": 1}


def test_a_key_of_another_version_or_damaged_is_outdated(tmp_path):
    for name, records in (("old", 0), ("now", 1)):
        CompileCache(tmp_path, {"name": name}).add("x", FIRST)
        (path,) = [path for path in tmp_path.glob("*/choices.json") if json.loads(path.read_text())["name"] == name]
        path.write_text(json.dumps({"name": name, "records": records}))
    assert [cache.key["name"] for cache in caches(tmp_path)] == ["now"]
    (old,) = outdated_caches(tmp_path)
    assert json.loads((old / "choices.json").read_text())["name"] == "old"
    (old / "choices.json").write_text("[]")
    assert outdated_caches(tmp_path) == [old]
    with pytest.raises(ArtifactError, match=r"choices\.json does not describe a key"):
        caches(tmp_path)
