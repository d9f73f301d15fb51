"""What is known on disk: found again by later runs, one line for whatever is wrong with it."""

import json
from dataclasses import dataclass
from functools import partial
from importlib.util import find_spec

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from mlgo.base.config import LOCAL_WORKERS
from mlgo.base.files import content_hash
from mlgo.errors import ArtifactError, ReplayMismatch
from mlgo.jit.cache import CompileCache, caches, decode_outcomes, encode_outcomes, outdated_caches
from mlgo.jit.compiler import compile_each
from mlgo.jit.env import ChoiceEndGain, ChoiceEnv
from mlgo.jit.labels import find_label
from mlgo.jit.outcome import Candidates, CompiledUnit, Failed
from mlgo.jit.pool import ChoicePool
from mlgo.pool.records import MALFORMED, NONCE_BYTES, frame, packed, record_files
from tests.jit.additive import AdditiveSpec
from tests.jit.test_pool import plain

SPEC = AdditiveSpec({f"u{i}": ((5, 1), (1, 5), (i, 2)) for i in range(3)})
LABELS = partial(find_label, max_exhaustive=9, max_trials=64, seed=0)
CANDIDATES = Candidates(("a", "b"), np.array([[1, -2], [3, 2**40]]), np.array([True, False]))
FIRST = {
    (): CompiledUnit(1.5, 7, (), 0, CANDIDATES),
    (0,): CompiledUnit(0.1 + 0.2, 6, (0,), 1, CANDIDATES),
    None: Failed("jit_error", "why"),
}


RAY = pytest.param("ray", marks=[pytest.mark.slow, pytest.mark.skipif(find_spec("ray") is None, reason="no Ray")])


@pytest.mark.parametrize("kind", ["local", "serial", RAY])
def test_later_runs_compile_nothing_that_is_known(tmp_path, kind):
    where = LOCAL_WORKERS.model_copy(update={"kind": kind, "num_workers": 2})
    with ChoicePool(SPEC, 2, where, tmp_path) as pool:
        first = pool.map(LABELS, list(SPEC.effects))
        assert pool.num_compiled == 3 * (2**3 + 1)  # all subsets, and the heuristic
    with ChoicePool(SPEC, 1, where, tmp_path) as pool:
        assert plain(pool.map(LABELS, list(SPEC.effects))) == plain(first)
        assert (pool.num_compiled, pool.num_asked) == (0, 3 * (2**3 + 1))
    assert len(list(record_files(tmp_path))) == 3


@dataclass(frozen=True)
class OtherSpec(AdditiveSpec):
    def key(self):
        return {"name": "superpmi", "build": 2}


def environment(pool: ChoicePool) -> ChoiceEnv:
    return ChoiceEnv(pool, list(SPEC.effects), max_candidates=4, reward=ChoiceEndGain())


def test_an_environment_compiles_by_the_pool_and_later_ones_nothing(tmp_path):
    figures = []
    for _ in range(2):
        with ChoicePool(SPEC, 1, cache=tmp_path) as pool:
            env = environment(pool)
            rewards = []
            for seed, action in ((0, 0), (1, 1), (2, 4)):
                env.reset(seed=seed, options={"unit": f"u{seed}"})
                env.step(np.int64(action))
                rewards.append(env.step(np.int64(4))[1] if action < 4 else 0.0)
            figures.append((rewards, env.num_asked, pool.num_compiled))
    # Candidate 0 of u0 is the heuristic's choice; candidate 1 of u1 adds 4 to 100, where the heuristic has 96.
    assert figures[0][0] == pytest.approx([0.0, 1 - 104 / 96, 0.0])
    assert figures[0][:2] == figures[1][:2]
    assert [compiled for _, _, compiled in figures] == [2 * 3 + 2, 0]  # baselines, and a choice of u0 and of u1


@pytest.mark.slow
def test_a_training_of_another_library_compiles_nothing_that_is_known(tmp_path):
    pytest.importorskip("sb3_contrib", reason="Stable-Baselines3 is not installed: make setup EXTRA=sb3")
    from mlgo.learn.maskable_ppo import train_maskable_ppo

    weights, compiled = [], []
    for _ in range(2):
        with ChoicePool(SPEC, 1, cache=tmp_path) as pool:
            weights.append(train_maskable_ppo(environment(pool), 64, (4,), 0, None).tolist())
            compiled.append(pool.num_compiled)
    assert weights[0] == weights[1]
    assert compiled[0] >= 3 * 2  # at least both baselines of each unit
    assert compiled[1] == 0


def test_another_compiler_knows_nothing_of_it(tmp_path):
    for spec in (SPEC, OtherSpec(SPEC.effects)):
        with ChoicePool(spec, 1, cache=tmp_path) as pool:
            pool.map(compile_each, ["u0"])
            assert pool.num_compiled == 2
    assert len(list(record_files(tmp_path))) == 2


def test_two_runs_at_a_time_share_one_file(tmp_path):
    one, other = CompileCache(tmp_path, {}), CompileCache(tmp_path, {})
    assert not other.outcomes("x")
    one.add("x", FIRST)
    other.add("x", {(1,): CompiledUnit(2.0, 8, (1,), 1, CANDIDATES)})
    for cache in (other, CompileCache(tmp_path, {})):
        assert set(cache.outcomes("x")) == {(), (0,), None, (1,)}


@pytest.fixture
def stored(tmp_path):
    """File of the outcomes of a unit."""
    CompileCache(tmp_path, {}).add("x", FIRST)
    (path,) = record_files(tmp_path)
    assert (path.name, json.loads(path.with_name("choices.json").read_text())) == ("method-x.choices", {"records": 2})
    return path


def test_nothing_new_adds_nothing_and_what_comes_out_otherwise_is_reported(tmp_path, stored):
    before = stored.read_bytes()
    CompileCache(tmp_path, {}).add("x", FIRST)
    assert stored.read_bytes() == before
    other = {(0,): CompiledUnit(9.0, 6, (0,), 1, CANDIDATES)}
    with pytest.raises(ReplayMismatch, match=r"the unit under \(0,\): the compiler gives \(9\.0.*delete .*x\.choices"):
        CompileCache(tmp_path, {}).add("x", other)


def test_a_writer_that_was_killed(tmp_path, stored):
    whole = stored.read_bytes()
    for length in (3, 11, len(whole) - 1):
        stored.write_bytes(whole[:length])
        cache = CompileCache(tmp_path, {})
        assert not cache.outcomes("x")
        cache.add("x", FIRST)
        assert plain(CompileCache(tmp_path, {}).outcomes("x")) == plain(FIRST)


def test_damage_is_one_line(tmp_path, stored):
    whole = stored.read_bytes()
    stored.write_bytes(whole[:40] + bytes([whole[40] ^ 1]) + whole[41:])
    cache = CompileCache(tmp_path, {})
    for _ in range(2):
        with pytest.raises(ArtifactError, match=r"x\.choices is damaged at byte 0; delete it, it will be made anew"):
            cache.outcomes("x")


def test_a_file_that_was_deleted_is_made_anew(tmp_path):
    cache = CompileCache(tmp_path, {})
    for _ in range(2):
        cache.add("x", FIRST)
        (path,) = record_files(tmp_path)
        assert plain(CompileCache(tmp_path, {}).outcomes("x")) == plain(FIRST)
        path.unlink()


def plain_record(**changes) -> dict:
    table = [["a"], [[1]], [1]]
    return {"candidates": [table], "outcomes": [[[0], 1.5, 7, [0], 1, 0]], **changes}


@pytest.mark.parametrize(
    "record",
    [
        [],
        {},
        plain_record(outcomes=[[[0], 1.5, 7, [0], 1, 1]]),
        plain_record(outcomes=[[[0], 1.5, 7, [0], 1]]),
        plain_record(outcomes=[[[0], "1", 7, [0], 1, 0]]),
        plain_record(outcomes=[[[0], float("nan"), 7, [0], 1, 0]]),
        plain_record(outcomes=[[[0.5], 1.5, 7, [0], 1, 0]]),
        plain_record(outcomes=[["", [0], 1.5, 7, [0], 1, 0]]),  # of the version before
        plain_record(candidates=[[["a"], [[1, 2]], [1]]]),
        plain_record(candidates=[[[1], [[1]], [1]]]),
        plain_record(candidates=[[["a"], [["x"]], [1]]]),
        plain_record(candidates=[[["a"], [[2**70]], [1]]]),
    ],
)
def test_what_is_no_record(record, tmp_path, stored):
    payload = packed(json.dumps(record).encode())
    with pytest.raises(MALFORMED):
        decode_outcomes(payload)
    stored.write_bytes(frame(b"MLC2", bytes(NONCE_BYTES) + payload))
    with pytest.raises(ArtifactError, match=r"is damaged at byte 0 \(.*\); delete it") as error:
        CompileCache(tmp_path, {}).outcomes("x")
    assert "\n" not in str(error.value)


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
        CompiledUnit,
        st.floats(allow_nan=False, allow_infinity=False),
        st.integers(0, 2**62),
        positions,
        st.integers(0, 64),
        candidates(),
    ),
)


@given(st.dictionaries(st.none() | positions, outcomes, max_size=4))
def test_any_outcomes_are_read_back(found):
    assert plain(decode_outcomes(encode_outcomes(found))) == plain(found)


@given(st.binary())
def test_any_bytes_are_refused_or_read(data: bytes):
    try:
        decode_outcomes(data)
    except MALFORMED:
        pass


@pytest.mark.parametrize("change", [{"records": 0}, {"name": "gcc"}])
def test_a_key_of_another_version_or_compiler_is_outdated_and_a_damaged_one_is_not(tmp_path, change):
    for build in ("old", "now"):
        CompileCache(tmp_path, {"name": "superpmi", "build": build}).add("x", FIRST)
    (old,) = [path for path in tmp_path.glob("*/choices.json") if json.loads(path.read_text())["build"] == "old"]
    key = {**json.loads(old.read_text()), **change}
    old.write_text(json.dumps(key))
    assert outdated_caches(tmp_path) == []
    with pytest.raises(ArtifactError, match=r"choices\.json is not the key of the files beside it .* delete it, a run"):
        caches(tmp_path)
    folder = old.parent.rename(tmp_path / content_hash(key))
    assert [cache.key["build"] for cache in caches(tmp_path)] == ["now"]
    assert outdated_caches(tmp_path) == [folder]
