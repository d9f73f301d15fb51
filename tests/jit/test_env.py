"""Choosing as an environment."""

import gymnasium
import numpy as np
import pytest
from gymnasium.error import ClosedEnvironmentError
from gymnasium.utils.env_checker import check_env

from mlgo.errors import ConfigError, CorpusError
from mlgo.jit.env import INVALID_LIMIT, INVALID_PENALTY, ChoiceEndGain, ChoiceEnv, StepChange
from tests.jit.additive import AdditiveCompiler

EFFECTS = {"a/u": [(20, 0), (0, 10), (5, 5)], "a/v": [(10, 0), (10, 0), (10, 0), (10, 0)], "b/small": [(1, 1)]}


def make(compiler=None, **options) -> ChoiceEnv:
    compiler = compiler or AdditiveCompiler(EFFECTS)
    return ChoiceEnv(compiler, list(compiler.effects), **{"max_candidates": 4, **options})


def test_gymnasiums_checker_passes():
    check_env(make(), skip_render_check=True)


def test_an_episode_can_be_read_and_seen():
    text, picture = make(render_mode="ansi"), make(render_mode="rgb_array")
    assert picture.render().shape == (480, 640, 3)
    for env in (text, picture):
        env.reset(options={"unit": "a/u"})
        env.step(np.int64(0))
    assert text.render().splitlines() == [
        "a/u: 100 without elimination, 80 under the heuristic",
        "   0: 80 (1 performed), reward +1.0000",
    ]
    assert len(np.unique(picture.render())) > 2
    assert make().render() is None


def test_rewards_are_five_times_the_relative_change():
    env = make()
    env.reset(options={"unit": "a/u"})
    assert env.step(np.int64(0))[1] == pytest.approx(5 * (100 - 80) / 100)
    assert env.step(np.int64(1))[1] == pytest.approx(5 * (80 - 90) / 80)
    _, reward, terminated, truncated, info = env.step(np.int64(4))
    assert (reward, terminated, truncated) == (0.0, True, False)
    assert info["final_score"] == 90
    assert info["heuristic_score"] == 80
    assert info["no_cse_score"] == 100
    assert info["total_reward"] == pytest.approx(1.0 - 0.625)


def test_the_gain_over_the_heuristic_comes_at_the_end():
    env = make(reward=ChoiceEndGain())
    env.reset(options={"unit": "a/v"})
    for action in range(3):
        assert env.step(np.int64(action))[1] == 0.0
    _, reward, terminated, _, _ = env.step(np.int64(4))
    assert terminated
    assert reward == pytest.approx((90 - 70) / 90)  # the heuristic takes one of four


def test_losses_can_weigh_more_and_waste_can_cost():
    reward = ChoiceEndGain(loss_weight=2.0, no_improvement=-0.1)
    assert reward.at_the_end(110, 100, 100, 1) == pytest.approx(-0.2 - 0.1)
    assert reward.at_the_end(90, 100, 100, 1) == pytest.approx(0.1)
    assert reward.at_the_end(100, 100, 100, 0) == 0.0
    assert StepChange().of_choice(0.0, 1.0) == 0.0  # no baseline for a change


def test_actions_that_are_not_allowed_cost_and_in_the_end_truncate():
    env = make()
    env.reset(options={"unit": "a/u"})
    env.step(np.int64(0))
    for number in range(1, INVALID_LIMIT + 1):
        observation, reward, terminated, truncated, info = env.step(np.int64([0, 3][number % 2]))
        assert (reward, terminated) == (INVALID_PENALTY, False)
        assert (info["invalid_actions"], info["action_is_valid"]) == (number, False)
        assert truncated == (number == INVALID_LIMIT)
    assert observation["candidates"][:, 0].tolist() == [0, 1, 1, 0]
    with pytest.raises(gymnasium.error.ResetNeeded):
        env.step(np.int64(1))


def test_stopping_at_once_can_be_forbidden_as_it_once_was():
    env = make(stop_at_once=False)
    env.reset(options={"unit": "a/u"})
    assert env.step(np.int64(4))[1] == INVALID_PENALTY
    allowed = make()
    allowed.reset(options={"unit": "a/u"})
    assert allowed.step(np.int64(4))[2]


def test_masks_follow_the_choice_and_an_episode_ends_when_nothing_is_left():
    env = make()
    env.reset(options={"unit": "a/u"})
    assert env.action_masks().tolist() == [True, True, True, False, True]
    assert not env.step(np.int64(1))[2]
    assert env.action_masks().tolist() == [True, False, True, False, True]
    assert [env.step(np.int64(action))[2] for action in (0, 2)] == [False, True]


def test_a_compile_that_fails_truncates_and_its_unit_is_dropped():
    compiler = AdditiveCompiler(EFFECTS, failing=frozenset({("a/u", (0,))}))
    env = make(compiler)
    env.reset(options={"unit": "a/u"})
    _, reward, terminated, truncated, info = env.step(np.int64(0))
    assert (reward, terminated, truncated) == (INVALID_PENALTY, False, True)
    assert info["error"] == {"kind": "jit_error", "message": "it was to fail"}
    assert {env.reset()[1]["unit"] for _ in range(20)} == {"a/v"}


def test_units_are_drawn_by_the_seed():
    env = make()
    drawn = [env.reset(seed=3)[1]["unit"], *(env.reset()[1]["unit"] for _ in range(10))]
    again = [env.reset(seed=3)[1]["unit"], *(env.reset()[1]["unit"] for _ in range(10))]
    assert drawn == again
    assert set(drawn) == {"a/u", "a/v"}  # b/small has one candidate only


def test_more_candidates_on_the_way_than_fit_end_the_episode():
    class Growing(AdditiveCompiler):
        def outcome(self, unit, decisions):
            grown = {unit: [*EFFECTS[unit], (1, 1), (1, 1)]} if decisions else EFFECTS
            return AdditiveCompiler(grown).outcome(unit, decisions)

    env = make(Growing(EFFECTS))
    env.reset(options={"unit": "a/u"})
    observation, _, terminated, _, info = env.step(np.int64(0))
    assert terminated
    assert info["final_score"] == 80
    assert not observation["candidates"].any()


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"render_mode": "human"}, "render_mode: human is none of"),
        ({"max_candidates": 65}, "at most 64"),
        ({"min_viable": 5}, "min_viable is 5"),
    ],
)
def test_bad_arguments_are_named(options, message):
    with pytest.raises(ConfigError, match=message):
        make(**options)


def test_units_that_do_not_exist_or_are_not_eligible_are_named():
    env = make()
    with pytest.raises(ConfigError, match="none is not among the 3 units"):
        env.reset(options={"unit": "none"})
    with pytest.raises(ConfigError, match="cannot be chosen for: too few viable candidates: 1"):
        env.reset(options={"unit": "b/small"})
    with pytest.raises(CorpusError, match="no eligible unit among 1"):
        make(AdditiveCompiler({"b/small": [(1, 1)]})).reset()


def test_actions_outside_the_space_and_before_the_reset_are_refused():
    env = make()
    with pytest.raises(gymnasium.error.ResetNeeded):
        env.step(np.int64(0))
    env.reset()
    with pytest.raises(ValueError, match="not in Discrete"):
        env.step(np.int64(5))


def test_the_compiler_is_closed_with_the_environment():
    compiler = AdditiveCompiler(EFFECTS)
    env = make(compiler)
    env.close()
    assert compiler.num_closed >= 1
    with pytest.raises(ClosedEnvironmentError, match=r"reset\(\) after close\(\)"):
        env.reset()
