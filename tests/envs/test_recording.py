"""Episodes in a file, played again with and without the compiler."""

import re

import gymnasium
import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from gymnasium.error import ResetNeeded
from gymnasium.utils.env_checker import data_equivalence

from mlgo.base.artifacts import read_provenance, read_table, write_table
from mlgo.base.seeding import generator
from mlgo.envs import recording
from mlgo.envs.recording import RecordedEnv, RecordEpisodes, first_difference
from mlgo.envs.vector import VectorObservation
from mlgo.errors import ArtifactError, ConfigError, ToolchainError
from tests.conftest import almost
from tests.envs.conftest import INLINING, SMALL, finish

NAMES = ("mlgo/InlineSize-v0", "mlgo/RegallocEvict-v0", "mlgo/RegallocPriority-v0")


def record(env, path, num_episodes=2, seed=0):
    """Random legal episodes to a file; all that they showed."""
    recorder, rng, shown = RecordEpisodes(env, path), generator(seed, "test", "record"), []

    def act(observation, info):
        if isinstance(env.action_space, gymnasium.spaces.Box):
            action = rng.uniform(0, 9, 1).astype(np.float32)
        else:
            action = int(rng.choice(np.flatnonzero(recorder.action_masks())))
        shown.append(({name: one.copy() for name, one in observation.items()}, info["context"], action))
        return action

    rewards = []
    for _ in range(num_episodes):
        more, _, info = finish(recorder, act)
        rewards += more
    recorder.close()
    return [(*asked, reward) for asked, reward in zip(shown, rewards, strict=True)], info


@pytest.fixture(scope="module")
def one_episode(tmp_path_factory):
    """A recorded episode of inlining; not to be changed."""
    path, env = tmp_path_factory.mktemp("recorded") / "episodes.parquet", gymnasium.make(NAMES[0], modules=[SMALL])
    record(env.unwrapped, path, 1)
    return path


@pytest.mark.parametrize("name", [pytest.param(one, marks=[pytest.mark.slow] * ("Inline" not in one)) for one in NAMES])
def test_what_was_recorded_is_played_again(name, make, tmp_path):
    path = tmp_path / "episodes.parquet"
    shown, last = record(make(name, [SMALL]), path)
    env = RecordedEnv(path)
    assert env.num_episodes == 2
    played = []
    for _ in range(2):
        observation, info = env.reset()
        while "action" in info:
            before, context, action = observation, info["context"], info["action"]
            assert env.observation_space.contains(observation)
            assert env.action_space.contains(action)
            observation, reward, _, _, info = env.step(action)
            played.append((before, context, action, reward))
    assert data_equivalence(played, shown, exact=True)
    assert (info["score"], info["object_sha256"]) == (last["score"], last["object_sha256"])
    assert not any(values.any() for values in observation.values())
    assert first_difference(path, make(name, [SMALL])) == ""


def test_the_file(make, tmp_path, toolchain):
    path = tmp_path / "episodes.parquet"
    env = make(NAMES[0], [SMALL])
    recorder = RecordEpisodes(env, path)
    _, info = recorder.reset()
    heuristic = info["heuristic"]
    recorder.step(1)
    recorder.step(0)
    assert not path.exists()
    recorder.close()
    recorder.close()
    rows = read_table(path).to_pylist()
    assert [(row["episode"], row["question"], row["action"]) for row in rows] == [(0, 0, 1), (0, 1, 0), (0, 2, None)]
    assert (rows[0]["module"], rows[0]["bitcode_sha256"]) == (SMALL, env.problem.sha256)
    assert (rows[0]["heuristic"], rows[0]["terminated"], rows[0]["score"]) == (heuristic, False, None)
    assert "inlining_default" not in rows[0]
    origin = read_provenance(path)
    assert (origin["task"], origin["compiler"], origin["reward"]) == ("inline-size", toolchain.name, "end")
    assert origin["compile"] == env.settings.model_dump()
    assert "-inliner-interactive-channel-base=CHANNEL" in origin["flags"]
    assert all(field.metadata[b"meaning"] for field in pq.read_schema(path))


def test_the_same_episodes_give_the_same_bytes(one_episode, make, tmp_path):
    record(make(NAMES[0], [SMALL]), tmp_path / "again", 1)
    assert (tmp_path / "again").read_bytes() == one_episode.read_bytes()


def test_rows_are_written_in_groups(make, tmp_path, monkeypatch):
    monkeypatch.setattr(recording, "_GROUP_ROWS", 50)
    path = tmp_path / "episodes.parquet"
    shown, _ = record(make(NAMES[0], [SMALL]), path, 3)
    metadata = pq.ParquetFile(path).metadata
    assert len(shown) > 100
    assert [metadata.row_group(i).num_rows for i in range(metadata.num_row_groups)][:-1] == [50] * (len(shown) // 50)
    assert first_difference(path, make(NAMES[0], [SMALL])) == ""


def test_an_episode_that_was_left(make, tmp_path):
    path = tmp_path / "episodes.parquet"
    recorder = RecordEpisodes(make(NAMES[0], [SMALL]), path)
    for _ in range(2):
        recorder.reset()
        recorder.step(1)
    recorder.close()
    env = RecordedEnv(path)
    for _ in range(2):
        _, info = env.reset()
        _, _, _, _, info = env.step(info["action"])
        assert (info["question"], info["action"]) == (1, None)
        with pytest.raises(ResetNeeded, match="ends here"):
            env.step(0)
    assert first_difference(path, make(NAMES[0], [SMALL])) == ""


def test_a_recorder_that_is_dropped_leaves_nothing(make, tmp_path):
    recorder = RecordEpisodes(make(NAMES[0], [SMALL]), tmp_path / "episodes.parquet")
    recorder.reset()
    assert list(tmp_path.iterdir())
    del recorder
    assert not list(tmp_path.iterdir())


def test_a_failed_compile_is_recorded(make, tmp_path):
    path, env = tmp_path / "episodes.parquet", make(NAMES[0], [SMALL])
    recorder = RecordEpisodes(env, path)
    env.problem.bitcode.write_bytes(b"no bitcode")
    recorder.reset()
    recorder.step(1)
    recorder.close()
    (row,) = read_table(path).to_pylist()
    assert (row["question"], row["truncated"], row["failure"]) == (None, True, "exit")
    replayed = RecordedEnv(path)
    _, info = replayed.reset()
    *_, truncated, info = replayed.step(info["action"])
    assert (truncated, info["error"]["kind"]) == (True, "exit")


def test_trees_make_the_same_record(make, tmp_path):
    path = tmp_path / "episodes.parquet"
    record(make("mlgo/RegallocEvict-v0", [SMALL]), path)
    with_trees = make("mlgo/RegallocEvict-v0", [SMALL], trees=str(tmp_path / "trees"))
    assert first_difference(path, with_trees) == ""
    assert first_difference(path, with_trees) == ""


def rewritten(path, to, changes):
    """A record with values put in the place of others: by column, row and value."""
    table = read_table(path)
    for name, (row, value) in changes.items():
        values, place = table[name].to_pylist(), table.schema.get_field_index(name)
        values[row] = value
        table = table.set_column(place, table.schema.field(place), pa.array(values, table.schema.field(place).type))
    pq.write_table(table, to)
    return to


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"callee_users": (3, 99)}, r"episode 0, .*match\.c, step 3: callee_users is 1?\d, recorded 99"),
        ({"reward": (5, 0.5)}, r"step 5: reward is 0\.0, recorded 0\.5"),
        ({"context": (2, "f")}, r"step 2: context is , recorded f"),
        ({"object_sha256": (-1, "00")}, r"object_sha256 is [0-9a-f]{64}, recorded 00"),
    ],
    ids=["feature", "reward", "context", "object"],
)
def test_the_first_difference_is_told(change, message, one_episode, make, tmp_path):
    path = rewritten(one_episode, tmp_path / "changed", change)
    found = first_difference(path, make(NAMES[0], [SMALL]))
    assert re.search(message, found), found


def test_mistakes_of_the_user(one_episode, make, tmp_path):
    env = make("mlgo/InlineSize-v0", INLINING[1:])
    with pytest.raises(ConfigError, match="around an environment of mlgo itself"):
        RecordEpisodes(VectorObservation(env), tmp_path / "episodes.parquet")
    with pytest.raises(ConfigError, match=r"recorded with size_stop_factor 4\.0, the environment has 9\.0"):
        settings = env.settings.model_copy(update={"size_stop_factor": 9.0})
        first_difference(one_episode, make("mlgo/InlineSize-v0", [SMALL], settings=settings))
    other, table = tmp_path / "other compiler", read_table(one_episode)
    origin = read_provenance(one_episode)
    origin["compiler_sha256"] = almost(origin["compiler_sha256"])
    write_table(other, table, table.schema, origin)
    with pytest.raises(ToolchainError, match="the episodes were recorded with"):
        first_difference(other, env)
    replayed = RecordedEnv(one_episode)
    with pytest.raises(ResetNeeded):
        replayed.step(0)
    with pytest.raises(ConfigError, match=r"3, but .* holds 1 episodes"):
        replayed.reset(options={"episode": 3})
    _, info = replayed.reset()
    with pytest.raises(ValueError, match=r"step 0: action .* but the record goes on only with"):
        replayed.step(1 - info["action"])
    with pytest.raises(ArtifactError, match="is missing"):
        RecordedEnv(tmp_path / "none.parquet")
