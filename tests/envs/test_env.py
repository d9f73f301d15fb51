"""The environments with the real compiler."""

import copy
import os
import pickle
import re
import subprocess
import sys
import threading

import gymnasium
import numpy as np
import pytest
from gymnasium.error import ClosedEnvironmentError, ResetNeeded
from gymnasium.utils.env_checker import check_env

from mlgo.envs import compile_environments
from mlgo.envs.env import CompileEnv
from mlgo.envs.rewards import MarginalShare, Shaped
from mlgo.envs.vector import VectorObservation
from mlgo.errors import ConfigError, CorpusError, PolicyError
from mlgo.host.session import compile_plain, compile_under_advice
from mlgo.host.tasks.regalloc import LIGHTEST
from mlgo.host.tasks.task import get_task
from mlgo.policy.features import Normalisation
from tests.conftest import REPOSITORY, processes_naming
from tests.envs.conftest import EVICTING, INLINING, finish
from tests.fakes.policies import linear_policy


def play(env, act, **reset):
    """All answers by ``act(observation, info)``; what the last step returns and the number of steps."""
    (*before, reward), terminated, info = finish(env, act, **reset)
    assert not any(before)
    return reward, terminated, info, len(before) + 1


@pytest.mark.filterwarnings("ignore::UserWarning")  # that what a compiler may send has no bounds
@pytest.mark.parametrize(
    "name", [pytest.param(one, marks=[pytest.mark.slow] * ("Inline" not in one)) for one in compile_environments()]
)
def test_gymnasiums_own_checks(name, make):
    check_env(make(name, render_mode="rgb_array"))  # the other ways to render are tried, too


@pytest.mark.parametrize("name", compile_environments())
def test_data_sheets_list_what_is_observed(name, make):
    page = (REPOSITORY / "docs/environments.md").read_text()
    described = name.replace("InlineSpeed", "InlineSize")  # the same features
    sheet = page.partition(f"### `{described}`")[2].partition("\n##")[0].partition("| feature |")[2]
    listed = [one for line in sheet.splitlines() for one in re.findall(r"`(\w+)`", line.split(" | ")[0])]
    assert sorted(listed) == sorted(spec.name for spec in make(name, [EVICTING]).features)


def test_the_process_of_an_environment_imports_no_tensorflow():
    code = (
        "import sys, gymnasium, mlgo.envs; gymnasium.spec('mlgo/InlineSize-v0'); "
        "from mlgo.envs.env import CompileEnv; sys.exit('tensorflow' in sys.modules)"
    )
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0


def test_the_heuristics_own_answers_are_a_plain_compile(make, toolchain):
    env = make("mlgo/InlineSize-v0")
    reward, terminated, info, steps = play(env, lambda _, info: info["heuristic"], options={"module": INLINING[0]})
    plain = compile_plain(toolchain, env.problem.bitcode, env.settings)
    assert (reward, terminated, info["questions"]) == (0.0, True, steps)
    assert info["object_sha256"] == plain.object_sha256
    assert info["score"] == info["baseline"] == plain.scores["text_bytes"]
    assert "heuristic" not in env.observation_space.spaces
    assert "inlining_default" not in env.observation_space.spaces


def test_columns_are_those_of_an_advisor(make, toolchain):
    """The same rule as an agent and as an advisor gives the same object; illegal columns are masked."""
    env = make("mlgo/RegallocEvict-v0", [EVICTING])
    header, rule = env.header, LIGHTEST.respond_to(env.header)

    def least(observation, info):
        payload = b"".join(observation[spec.name].tobytes() for spec in header.features)
        column = int.from_bytes(rule(payload), "little")
        assert env.action_masks()[column]
        return column

    _, terminated, info, steps = play(env, least)
    task = get_task("regalloc-evict")
    advised = compile_under_advice(toolchain, task, env.problem.bitcode, LIGHTEST, env.settings)
    assert terminated
    assert (info["object_sha256"], steps) == (advised.object_sha256, advised.num_questions)
    assert info["repaired_answers"] == 0


def test_shares_by_marginal_cost_add_up_to_the_gain(make):
    """A policy that expects 6 bytes of each inlined call with one constant argument; the end corrects it."""
    policy = linear_policy("inline-size", ["constant_args"], [3.0 / np.log(2), 0.0])
    env = make("mlgo/InlineSize-v0", reward=MarginalShare(policy, 2.0))
    observation, info = env.reset(options={"module": INLINING[0]})
    total, terminated, number = 0.0, False, 0
    while not terminated:
        before, answer = observation["constant_args"].item(), number % 2
        observation, reward, terminated, _, info = env.step(answer)
        total, number = total + reward, number + 1
        if not terminated:
            expected = 3.0 * np.log1p(before) / np.log(2) * 2.0 / info["baseline"] if answer else 0.0
            assert reward == pytest.approx(expected, rel=1e-5)
    assert total == pytest.approx(1 - info["score"] / info["baseline"])
    assert MarginalShare(policy, 2.0).of_answer({"constant_args": np.array([1])}, 1, None, 0.0) == 0.0
    with pytest.raises(PolicyError, match="answers yes or no"):
        MarginalShare(linear_policy("regalloc-evict", ["constant_args"], [0.0] * 4), 2.0)


def test_shaped_rewards_add_up_to_the_gain_less_the_first_potential(make):
    def potential(seen):
        return float(seen["callsite_height"].item())

    env = make("mlgo/InlineSize-v0", reward=Shaped(potential))
    seen = []
    rewards, _, info = finish(
        env, lambda observation, _: seen.append(potential(observation)) or 0, options={"module": INLINING[0]}
    )
    assert rewards[:-1] == np.diff(seen).tolist()
    assert sum(rewards) == pytest.approx(1 - info["score"] / info["baseline"] - seen[0])


def test_modules_are_drawn_by_the_seed(make):
    env = make("mlgo/InlineSize-v0")
    drawn = [env.reset(seed=seed)[1]["module"] for seed in (*range(8), *range(8))]
    assert drawn[:8] == drawn[8:]
    assert set(drawn) == set(INLINING)


def test_what_is_asked_and_its_vector_by_hand(make):
    env = make("mlgo/RegallocPriority-v0", [EVICTING], render_mode="ansi")
    found, info = VectorObservation(env).reset()
    assert (info["module"], info["question"]) == (EVICTING, 0)
    assert info["context"].startswith("_Z")
    size, stage, weight = (float(env._observation[name][0]) for name in ("li_size", "stage", "weight"))
    assert found == pytest.approx([np.log1p(size) / 10, np.log1p(stage) / 10, np.log1p(weight * 2**16) / 10], abs=1e-6)
    _, _, _, _, info = env.step(np.array([7.0], np.float32))
    assert info["question"] == 1
    assert env.render().splitlines()[1].endswith(": 7.0")
    scaling = Normalisation(("stage",), np.array([1], np.float32), np.array([2], np.float32))
    assert VectorObservation(env, scaling).reset()[0] == pytest.approx([(np.log1p(stage) - 1) / 2])
    with pytest.raises(ConfigError, match="does not observe nothing_like_it"):
        VectorObservation(env, Normalisation(("nothing_like_it",), scaling.centre, scaling.scale))


def test_a_vector_of_columns_ends_with_their_mask(make):
    vectors = VectorObservation(make("mlgo/RegallocEvict-v0", [EVICTING]))
    observation, _ = vectors.reset()
    assert observation.shape == (19 * 33 + 1 + 33,)
    assert (observation[-33:] != 0).tolist() == vectors.action_masks().tolist()


def test_a_compile_or_machine_that_fails_ends_the_episode(make, monkeypatch):
    env = make("mlgo/InlineSize-v0")

    def asks_once(*compiling, **options):
        compiling[3].respond_to(env.header)(bytes(env.header.payload_bytes))
        raise OSError("no space left")

    with monkeypatch.context() as patched:
        patched.setattr("mlgo.envs.episode.compile_under_advice", asks_once)
        env.reset(options={"module": INLINING[1]})
        with pytest.raises(OSError, match="no space left"):
            env.step(0)
    with pytest.raises(ResetNeeded):
        env.step(0)
    env.problem.bitcode.write_bytes(b"no bitcode")
    _, info = env.reset(options={"module": INLINING[1]})
    assert info["error"]["kind"] == "exit"
    _, reward, terminated, truncated, info = env.step(1)
    assert (reward, terminated, truncated) == (0.0, False, True)
    assert "context" not in info


@pytest.mark.parametrize("name", [one for one in compile_environments() if "Regalloc" not in one])
@pytest.mark.parametrize("flatten", [False, True])
def test_a_module_without_code_rewards_with_nothing(make, tmp_path, name, flatten):
    """Its text is 0 bytes under any policy: 0 of 0."""
    (tmp_path / "data.c").write_text("#ifdef __unknown__\nint f(void) { return 1; }\n#endif\nint data = 7;\n")
    env = gymnasium.make(name, modules=[str(tmp_path / "data.c")], flatten=flatten)
    _, told = env.reset(seed=0)
    _, reward, terminated, truncated, info = env.step(env.action_space.sample())
    env.close()
    assert (reward, terminated, truncated) == (0.0, True, False)
    assert (told["baseline"], info["baseline"], info["score"]) == (0, 0, 0)


def test_what_is_closed_begins_no_more_and_nothing_is_copied(make):
    env = make("mlgo/InlineSize-v0")
    for copied in (copy.copy, copy.deepcopy, pickle.dumps):
        with pytest.raises(TypeError, match=r"cannot be copied; make another with gymnasium\.make"):
            copied(env)
    env.close()
    env.close()
    with pytest.raises(ClosedEnvironmentError, match=r"reset\(\) after close\(\)"):
        env.reset()


def test_mistakes_of_the_user(make):
    env = make("mlgo/InlineSize-v0")
    with pytest.raises(ResetNeeded, match=r"call reset\(\)"):
        env.step(0)
    with pytest.raises(ConfigError, match="not among the 2 modules"):
        env.reset(options={"module": "other.c"})
    env.reset()
    with pytest.raises(ValueError, match="action 2 is not in Discrete"):
        env.step(2)
    play(env, lambda *_: 0)
    with pytest.raises(ResetNeeded):
        env.step(0)
    with pytest.raises(ConfigError, match="render_mode: human is none of ansi, rgb_array"):
        CompileEnv("inline-size", INLINING, render_mode="human")


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"modules": None, "corpus": "data/corpus"}, "either modules"),
        ({"modules": []}, "modules: the list is empty"),
        ({"modules": "main.c"}, "modules: a list of files is wanted, not 'main.c'"),
        ({"modules": [None]}, "modules: None is no name of a file"),
        ({"corpus": "data/corpus", "baseline": "data/baseline"}, "either modules"),
        ({"modules": ["none.c"]}, r"none\.c is no file"),
        ({"objective": "spill_cost"}, "spill_cost is not measured"),
        ({"objective": "dedup_bytes"}, "dedup_bytes depends on a project's other modules"),
    ],
)
def test_arguments_that_do_not_fit(make, arguments, message):
    with pytest.raises((ConfigError, CorpusError), match=message):
        make("mlgo/InlineSize-v0", **arguments)


@pytest.mark.parametrize("recalls", [False, True])
@pytest.mark.parametrize("how", ["reset", "close", "drop"])
def test_nothing_stays_behind(how, recalls, own_temporary_folder, tmp_path):
    trees, before = str(tmp_path) if recalls else None, set(threading.enumerate())
    env = gymnasium.make("mlgo/InlineSize-v0", modules=INLINING, trees=trees).unwrapped
    env.reset()
    env.step(0)
    (compiling,) = set(threading.enumerate()) - before
    if how == "drop":
        del env  # and at once, without a collection of garbage
    else:
        if how == "reset":
            env.reset()
            assert not compiling.is_alive()
            env.step(1)
        env.close()
        env.close()
        assert env._episode is None
        assert not list(own_temporary_folder.glob("*/channel.in"))
    assert not compiling.is_alive()


def test_a_process_that_ends_without_close_leaves_nothing(tmp_path):
    code = f"import gymnasium, mlgo.envs; gymnasium.make('mlgo/InlineSize-v0', modules={INLINING!r}).reset()"
    environment = os.environ | {"TMPDIR": str(tmp_path)}
    run = subprocess.run([sys.executable, "-c", code], env=environment, timeout=60, check=False)
    assert run.returncode == 0
    assert not list(tmp_path.rglob("*.bc"))
    assert not list(tmp_path.rglob("channel.*"))
    assert not processes_naming(str(tmp_path))
