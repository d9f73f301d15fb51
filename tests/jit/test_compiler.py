"""The .NET JIT behind SuperPMI, as the double plays it."""

import json
from contextlib import closing
from functools import partial
from pathlib import Path
from types import SimpleNamespace

import gymnasium
import numpy as np
import pytest
from gymnasium.utils.env_checker import check_env

import mlgo.envs  # noqa: F401
from mlgo.base.config import SuperPmiConfig
from mlgo.errors import ConfigError, SuperPmiError
from mlgo.jit.baseline import enumerate_units
from mlgo.jit.compiler import SuperPmiSpec, compile_each
from mlgo.jit.labels import find_label
from mlgo.jit.outcome import CompiledUnit, Failed
from mlgo.jit.pool import ChoicePool
from tests.jit.test_pool import plain


@pytest.fixture
def spec(superpmi) -> SuperPmiSpec:
    return SuperPmiSpec.of(settings(superpmi))


def settings(superpmi, **changes) -> SuperPmiConfig:
    values = {
        "core_root": None,
        "request_timeout_s": 20.0,
        "startup_timeout_s": 20.0,
        "max_restarts": 1,
        "max_methods": 100,
        "validation_share": 0.1,
        "test_share": 0.2,
    }
    return SuperPmiConfig(**{**values, **superpmi, **changes})


def test_later_runs_compile_nothing_that_is_known(superpmi, tmp_path):
    found, search = [], partial(find_label, max_exhaustive=3, max_trials=8, seed=0)
    for num_compiled in (True, False):
        spec = SuperPmiSpec.of(settings(superpmi))
        with ChoicePool(spec, 2, cache=tmp_path / "replay") as pool:
            found.append(pool.map(search, [str(index) for index in range(1, 13)]))
            assert (pool.num_compiled > 0) == num_compiled
    assert str(plain(found[0])) == str(plain(found[1]))  # some effects are NaN
    assert spec.key() != SuperPmiSpec.of(settings(superpmi, command=[*superpmi["command"], __file__])).key()


def test_the_baselines_of_a_collection_are_known_to_later_stages(superpmi, tmp_path):
    spec = SuperPmiSpec.of(settings(superpmi))
    config = SimpleNamespace(min_viable=3, max_candidates=16, superpmi=settings(superpmi))
    with ChoicePool(spec, 1, cache=tmp_path / "replay") as pool:
        tables = enumerate_units(pool, config, seed=0)
    taken = [row["unit"] for row in tables.units if not row["skip_reason"]]
    assert len(taken) > 10
    scores = {(row["unit"], row["way"]): row["score"] for row in tables.compiles}
    with ChoicePool(SuperPmiSpec.of(settings(superpmi)), 1, cache=tmp_path / "replay") as pool:
        found = pool.map(compile_each, taken)
        assert (pool.num_asked, pool.num_compiled) == (2 * len(taken), 0)
    with ChoicePool(spec, 1) as pool:  # the same as each by itself
        assert plain(pool.map(compile_each, taken)) == plain(found)
    for unit, (none, heuristic) in found.items():
        assert (scores[unit, "none"], scores[unit, "heuristic"]) == (none.score, heuristic.score)


@pytest.fixture
def changed(superpmi, tmp_path):
    """Write the collection with other fields: gives its path."""
    path, collection = tmp_path / "changed.mch", json.loads(Path(superpmi["collection"]).read_text())

    def write(**fields) -> str:
        path.write_text(json.dumps({**collection, **fields}))
        return str(path)

    return write


def test_lines_that_cannot_be_read_are_told(superpmi, changed, caplog):
    unreadable = [[index, 0, "replace", ["PerfScore", "Score"]] for index in range(1, 61)]
    spec = SuperPmiSpec.of(settings(superpmi, collection=changed(faults=unreadable[6:7])))
    assert len(list(spec.baseline(no_cse=True))) == 59
    (record,) = caplog.records
    assert "1 of 60 lines of metrics cannot be read; the first: not a line of metrics: " in record.message
    changed(faults=unreadable)
    with pytest.raises(SuperPmiError, match="60 of 60 lines of metrics cannot be read"):
        list(spec.baseline(no_cse=True))


def test_a_whole_collection_is_read_in_two_runs_that_agree_with_single_compiles(spec):
    none, heuristic = (dict(spec.baseline(no_cse=no_cse)) for no_cse in (True, False))
    assert list(none) == list(heuristic) == [str(index) for index in range(1, 61)]
    with spec.open() as compiler:
        for unit in ("1", "2", "3", "30", "60"):
            for found, decisions in ((none[unit], ()), (heuristic[unit], None)):
                assert plain(compiler.outcome(unit, decisions)) == plain(found)


def test_the_heuristics_choice_asked_for_gives_the_heuristics_score(spec):
    compared = 0
    with spec.open() as compiler:
        for index in range(1, 30):
            heuristic = compiler.outcome(str(index), None)
            if heuristic.requested:
                compared += 1
                assert compiler.outcome(str(index), heuristic.requested).score == heuristic.score
    assert compared > 10


def test_an_unknown_method_is_a_failure_not_an_exception(spec):
    with spec.open() as compiler:
        found = compiler.outcome("1000", ())
        assert isinstance(found, Failed)
        assert isinstance(compiler.outcome("1", ()), CompiledUnit)


def test_a_method_without_a_score_is_a_failure(superpmi, changed):
    collection = json.loads(Path(superpmi["collection"]).read_text())
    method = next(method for method in collection["methods"] if len(method["candidates"]) > 3)
    method |= {"base_score": 0.0, "pairs": []}
    method["candidates"] = [{**one, "effect": 0.0} for one in method["candidates"]]
    with SuperPmiSpec.of(settings(superpmi, collection=changed(methods=[method]))).open() as compiler:
        found = compiler.outcome("1", ())
    assert isinstance(found, Failed)
    assert found.kind == "no_score"


def test_gymnasiums_checker_passes_for_the_registered_id(superpmi):
    with closing(gymnasium.make("mlgo/JitCse-v0", **superpmi)) as env:
        check_env(env.unwrapped, skip_render_check=True)
        assert env.observation_space["candidates"].shape == (16, 1 + 25)
        assert env.unwrapped.features[1:8] == tuple(f"type_{i}" for i in range(7))
        # Features change with decisions only where the JIT says so.
        before, _ = env.reset(seed=0)
        action = int(np.flatnonzero(env.unwrapped.action_masks())[0])
        after, reward, _, _, info = env.step(action)
        assert after["candidates"][action, 0] == 0.0
        others = [np.delete(seen["candidates"], action, axis=0) for seen in (before, after)]
        assert np.array_equal(*others)
        assert reward == pytest.approx(5 * (info["previous_score"] - info["score"]) / info["previous_score"])


def test_sixteen_candidates_as_at_first_or_up_to_sixty_four(superpmi):
    with closing(gymnasium.make("mlgo/JitCse-v0", **superpmi, max_candidates=64)) as env:
        assert env.action_space.n == 65
        assert len({env.reset(seed=seed)[1]["unit"] for seed in range(40)}) > 10


def test_environments_run_side_by_side(superpmi):
    with closing(gymnasium.make_vec("mlgo/JitCse-v0", num_envs=2, vectorization_mode="async", **superpmi)) as envs:
        observations, infos = envs.reset(seed=[1, 2])
        assert observations["candidates"].shape == (2, 16, 26)
        assert len(infos["unit"]) == 2
        envs.step(envs.action_space.sample())


@pytest.mark.parametrize(
    ("changes", "error", "message"),
    [
        ({"collection": None}, ConfigError, "cse.superpmi.collection"),
        ({"command": [], "jit": None}, ConfigError, "name core_root"),
        ({"collection": "no.mch"}, SuperPmiError, "no.mch"),
        ({"core_root": "/nowhere"}, SuperPmiError, "/nowhere is no folder"),
    ],
)
def test_what_is_missing_is_named(superpmi, changes, error, message):
    with pytest.raises(error, match=message):
        SuperPmiSpec.of(settings(superpmi, **changes))


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"jit": "release"}, "Release"),
        ({"jit": "wrong_version"}, "interface version"),
        ({"jit": "no_hook"}, "ignores decisions"),
    ],
)
def test_a_jit_that_cannot_do_it_is_refused_before_any_work(superpmi, changed, change, message):
    with pytest.raises(SuperPmiError, match=message):
        gymnasium.make("mlgo/JitCse-v0", **{**superpmi, "collection": changed(**change)})


def test_a_collection_that_is_cut_short_is_named(superpmi, tmp_path):
    path = tmp_path / "cut.mch"
    path.write_text(Path(superpmi["collection"]).read_text()[:100])
    with pytest.raises(SuperPmiError, match=r"cut\.mch"):
        gymnasium.make("mlgo/JitCse-v0", **{**superpmi, "collection": str(path)})


def test_a_method_that_crashed_under_one_choice_is_tried_again_for_the_next_job(superpmi, changed):
    collection = json.loads(Path(superpmi["collection"]).read_text())
    index = next(i for i, one in enumerate(collection["methods"], 1) if len(one["candidates"]) > 3)
    # The first three requests for this method crash: its baseline, sent again once, and what was asked next.
    path = changed(faults=[[index, 1, "crash", "before"], [index, 2, "crash", "before"]])
    with SuperPmiSpec.of(settings(superpmi, collection=path, max_restarts=0)).open() as compiler:
        assert compiler.outcome(str(index), ()).kind == "crashed"
        assert compiler.outcome(str(index), ()).kind == "quarantined"
        compiler.forget()
        assert compiler.outcome(str(index), ()).kind != "quarantined"
