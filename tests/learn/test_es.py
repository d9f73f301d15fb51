"""Evolution strategies: the loop on problems with a known optimum, and its state on disk."""

from dataclasses import fields

import numpy as np
import pytest

from mlgo.base.config import load_config
from mlgo.errors import TrainingError
from mlgo.learn.es.gradient import Coordinates
from mlgo.learn.es.loop import STATES, EsState, evolve, shared_out
from tests.conftest import REPOSITORY
from tests.learn.toys import stopped

CONFIG = load_config(REPOSITORY / "config" / "config.yaml").es.model_copy(
    update={"generations": 12, "pairs": 8, "perturbation": 0.1, "step_size": 0.1, "validate_every": 4}
)
TARGET = np.array([0.8, -0.5, 0.3, 0.0, 1.0])
START = np.zeros(5, np.float32)
COORDINATES = Coordinates(START, np.arange(5), np.ones(5))


def distance(weights):
    return -((np.atleast_2d(weights) - TARGET) ** 2).sum(axis=1)


def evaluate(candidates, generation):
    """Two modules, whose rewards differ in a constant."""
    return distance(candidates)[:, None] + [-0.1, 0.1]


def run(evaluate=evaluate, validate=distance, config=CONFIG, seed=0, **options):
    return evolve(COORDINATES, evaluate, validate, config, seed, **options)


def watched(config):
    """Candidates and generations of a run that were asked for, and its state."""
    asked = []
    state = run(lambda *candidates: asked.append(candidates) or evaluate(*candidates), config=config)
    return asked, state


def configured(**changes):
    return CONFIG.model_copy(update=changes)


def same(a: EsState, b: EsState) -> bool:
    """Whether two states are equal to the last bit."""
    optimizers = [[getattr(state.optimizer, one.name) for one in fields(state.optimizer)] for state in (a, b)]
    return (
        all(np.array_equal(x, y) for x, y in zip(*optimizers, strict=True))
        and np.array_equal(a.mean, b.mean)
        and np.array_equal(a.best, b.best)
        and (a.done, a.best_reward, a.history) == (b.done, b.best_reward, b.history)
    )


def test_coordinates_by_hand():
    start = np.array([9, 9, 3, 4, 0, 0], np.float32)  # layers: [9 9], [3 4], [0 0]
    layers = [slice(0, 2), slice(2, 4), slice(4, 6)]
    chosen = Coordinates.last_layers(start, layers, 2)
    assert chosen.varied.tolist() == [2, 3, 4, 5]
    assert chosen.unit.tolist() == pytest.approx([np.sqrt(12.5), np.sqrt(12.5), 0.0, 0.0])
    weights = chosen.weights(np.array([[1.0, -1.0, 5.0, 5.0], [0.0, 0.0, 0.0, 0.0]]))
    assert weights.dtype == np.float32
    assert weights[1].tolist() == start.tolist()
    assert weights[0] == pytest.approx([9, 9, 3 + 12.5**0.5, 4 - 12.5**0.5, 0, 0])
    assert start.tolist() == [9, 9, 3, 4, 0, 0]
    assert Coordinates.last_layers(start, layers, 9).varied.tolist() == list(range(6))


def test_coordinates_in_units_of_each_weight():
    start = np.array([9, 9, -3, 4, 0, 0.5], np.float32)
    chosen = Coordinates.last_layers(start, [slice(0, 2), slice(2, 6)], 1, "weight", 0.25)
    assert chosen.varied.tolist() == [2, 3, 4, 5]
    assert chosen.unit.tolist() == [3.25, 4.25, 0.25, 0.75]
    assert chosen.unit.dtype == np.float64
    assert chosen.weights(np.array([2.0, -1.0, 4.0, 0.0])).tolist() == [9, 9, 3.5, -0.25, 1.0, 0.5]


def test_it_climbs_to_the_optimum():
    assert run(config=configured(generations=0)).best_reward == pytest.approx(-1.98)
    config = configured(generations=80, step_size=0.05)
    state = run(config=config)
    assert state.best_reward > -0.05
    assert state.best == pytest.approx(TARGET, abs=0.2)
    assert state.done == 80
    assert len(state.history) == 81


def test_the_start_is_returned_when_nothing_is_better():
    state = evolve(COORDINATES, evaluate, lambda weights: -abs(weights.sum(keepdims=True)), CONFIG, 0)
    assert state.best.tolist() == [0.0] * 5


def test_the_history_counts_compiles():
    # 16 candidates on 2 modules in a generation, validations at 0, 4 and 6
    state = run(validate=lambda weights: np.repeat(distance(weights), 5), config=configured(generations=6))
    assert [record["evaluations"] for record in state.history] == [5, 37, 69, 101, 138, 170, 207]


def test_the_seed_decides():
    runs = [run(seed=seed) for seed in (0, 0, 1)]
    assert same(runs[0], runs[1])
    assert not same(runs[0], runs[2])


def resumed(config, stop, path):
    """A run that was stopped after some generations and went on from its checkpoint."""
    again = {"config": config, "seed": 5}
    state = stopped(lambda keep: run(**again, after_generation=keep), stop, path, STATES) if stop else None
    return run(**again, state=state)


SHRINKING = {"step_decay": 0.9}


def apart(candidates, generation):
    """Three modules, of which each pair compiles one."""
    rewards = distance(candidates)[:, None] + [-0.1, 0.0, 0.1]
    asked = shared_out(len(candidates) // 2, 3, 1, np.random.default_rng(generation))
    return np.ma.masked_array(rewards, ~asked)


@pytest.mark.parametrize("ranks", ["candidates", "modules"])
def test_pairs_climb_on_modules_of_their_own(ranks):
    state = run(apart, config=configured(generations=60, ranks=ranks))
    assert state.best_reward > (-0.1 if ranks == "modules" else -0.5)
    assert state.history[1]["evaluations"] == 1 + 2 * CONFIG.pairs  # and the validation of the start


def test_noise_and_steps_are_steered():
    once = configured(generations=1)
    double = evolve(COORDINATES, evaluate, distance, once, 0, steer=lambda mean, noise: 2.0)
    assert double.mean == pytest.approx(2.0 * run(config=once).mean)
    assert double.history[1]["noise"] == pytest.approx(0.2)


def test_steps_shrink_by_the_same_share():
    steps = [record["step"] for record in run(config=configured(generations=4, step_decay=0.5)).history[1:]]
    assert steps == [0.1, 0.05, 0.025, 0.0125]
    equal = run(config=configured(generations=4)).history[1:]
    assert {record["step"] for record in equal} == {0.1}


@pytest.mark.parametrize(
    ("method", "stop"),
    [*(({}, stop) for stop in range(13)), *((SHRINKING, stop) for stop in (1, 6, 11))],
    ids=lambda value: "-".join(value) if isinstance(value, dict) else str(value),
)
def test_a_run_resumes_exactly(method, stop, tmp_path):
    config = configured(**method)
    whole = run(config=config, seed=5)
    assert np.any(whole.mean)
    assert same(whole, resumed(config, stop, tmp_path / "state.npz"))


@pytest.mark.parametrize("method", [{}, SHRINKING], ids="-".join)
def test_a_run_climbs(method):
    state = run(config=configured(**method, generations=60))
    assert state.best_reward > -0.1  # from -1.98


def test_a_failing_candidate_drops_its_twin_and_the_run_goes_on():
    def sometimes(candidates, generation):
        rewards = evaluate(candidates, generation)
        rewards[generation % len(rewards)] = np.nan
        return rewards

    state = run(sometimes, config=configured(generations=60))
    assert state.best_reward > -0.1
    record = state.history[1]
    assert (record["failed_candidates"], record["successful_pairs"], record["skipped"]) == (1, 7, False)


def test_the_value_of_a_failed_candidate_s_twin_does_not_matter():
    def mean_after(twin):
        def evaluate_once(candidates, generation):
            rewards = evaluate(candidates, generation)
            rewards[2], rewards[2 + CONFIG.pairs] = np.nan, twin
            return rewards

        return run(evaluate_once, config=configured(generations=1)).mean

    assert np.array_equal(mean_after(1000.0), mean_after(-1000.0))


def test_a_generation_with_too_few_pairs_is_skipped():
    def fails_once(candidates, generation):
        rewards = evaluate(candidates, generation)
        if generation == 1:
            rewards[:5] = np.nan  # 3 of 8 pairs are left, less than 40 %
        return rewards

    means = []
    config = configured(generations=3)
    state = run(fails_once, config=config, after_generation=lambda state, rewards: means.append(state.mean))
    assert [record["skipped"] for record in state.history] == [False, False, True, False]
    assert np.array_equal(means[0], means[1])
    assert not np.array_equal(means[1], means[2])


@pytest.mark.parametrize("share", [0.0, 0.4])
def test_when_all_fail_it_stops_with_advice(share):
    calls = []

    def fail(candidates, generation):
        calls.append(generation)
        return np.full((len(candidates), 2), np.nan)

    with pytest.raises(TrainingError, match="3 generations in a row"):
        run(fail, config=configured(min_success_share=share))
    assert calls == [0, 1, 2]


def test_equal_rewards_move_nothing():
    state = evolve(COORDINATES, lambda candidates, generation: np.zeros((len(candidates), 1)), distance, CONFIG, 0)
    assert state.mean.tolist() == [0.0] * 5
    assert not any(record["skipped"] for record in state.history)
    assert {record["differing_pairs"] for record in state.history[1:]} == {0}


def test_candidates_are_what_was_announced():
    seen, _ = watched(configured(generations=2))
    assert [generation for _, generation in seen] == [0, 1]
    first = seen[0][0]
    assert first.shape == (16, 5)
    assert first.dtype == np.float32
    assert first[:8] + first[8:] == pytest.approx(np.zeros((8, 5)), abs=1e-6)  # pairs around the start


@pytest.mark.parametrize("step_size", [1e308, 1e40])  # the second is finite as float64, not in a policy
def test_a_mean_beyond_all_numbers_is_an_error(step_size):
    with np.errstate(over="ignore"), pytest.raises(TrainingError, match=r"range of numbers; lower es\.step_size"):
        run(config=configured(step_size=step_size, generations=20))


def test_which_generation_beats_all_before():
    rewards, states = iter([0.1, 0.05, 0.2, 0.2]), []
    config = configured(generations=5, validate_every=2)
    options = {"config": config, "after_generation": lambda state, _: states.append(state)}
    last = run(validate=lambda weights: np.array([next(rewards)]), **options)
    # Validated at 0.1 at the start, then at 2, 4 and 5; an equal reward beats nothing.
    assert [state.done for state in states if state.beats_all_before] == [4]
    assert last.best_reward == 0.2


def test_rewards_of_the_candidates_are_handed_on():
    seen = []
    run(config=configured(generations=2), after_generation=lambda state, rewards: seen.append(rewards))
    assert [rewards.shape for rewards in seen] == [(16, 2), (16, 2)]
    assert seen[0][:, 1] - seen[0][:, 0] == pytest.approx(np.full(16, 0.2))
