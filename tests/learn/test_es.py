"""Evolution strategies: the arithmetic by hand, the loop on problems with a known optimum."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from mlgo.config import ESConfig
from mlgo.errors import ArtifactError, TrainingError
from mlgo.learn.es import Coordinates, EsState, evolve
from mlgo.learn.es.checkpoint import load_state, save_state
from mlgo.learn.es.estimate import antithetic, gradient, perturb, shape_rewards, successful_pairs
from mlgo.learn.es.update import AdamState, adam_step

CONFIG = ESConfig(
    start="bc",
    generations=12,
    pairs=8,
    modules=1,
    max_questions=1000,
    perturbation=0.1,
    step_size=0.1,
    trainable_layers=1,
    shaping="rank",
    weight_decay=0.0,
    min_success_share=0.4,
    quarantine_after=10,
    validate_every=4,
    validation_modules=1,
)
TARGET = np.array([0.8, -0.5, 0.3, 0.0, 1.0])
START = np.zeros(5, np.float32)
COORDINATES = Coordinates(START, np.arange(5), np.ones(5))


def distance(weights):
    return -((np.atleast_2d(weights) - TARGET) ** 2).sum(axis=1)


def evaluate(candidates, generation):
    return distance(candidates)


def validate(weights):
    return float(distance(weights)[0])


def configured(**changes):
    return CONFIG.model_copy(update=changes)


def same(a: EsState, b: EsState) -> bool:
    arrays = [(a.mean, b.mean), (a.best, b.best), (a.adam.first, b.adam.first), (a.adam.second, b.adam.second)]
    return all(np.array_equal(x, y) for x, y in arrays) and (a.generation, a.adam.count, a.best_reward, a.history) == (
        b.generation,
        b.adam.count,
        b.best_reward,
        b.history,
    )


@pytest.mark.parametrize(
    ("rewards", "expected"),
    [
        ([3.0, 1.0, 2.0], [0.5, -0.5, 0.0]),
        ([0.0, 10.0], [-0.5, 0.5]),
        ([5.0, 5.0, 1.0, 9.0, 5.0], [0.0, 0.0, -0.5, 0.5, 0.0]),  # ranks 0, 2, 2, 2, 4
        ([1.0, 1.0, 2.0], [-0.25, -0.25, 0.5]),  # ranks 0.5, 0.5, 2
        ([4.0, 4.0, 4.0], [0.0, 0.0, 0.0]),
        ([-1e300, 1e300, 0.0], [-0.5, 0.5, 0.0]),
    ],
)
def test_ranks_by_hand(rewards, expected):
    assert shape_rewards(np.array(rewards), "rank").tolist() == pytest.approx(expected)


def test_zscore_by_hand():
    # mean 2, variance ((-1)^2 + 1^2) / 2 = 1
    assert shape_rewards(np.array([1.0, 3.0]), "zscore").tolist() == [-1.0, 1.0]
    assert shape_rewards(np.array([2.0, 2.0]), "zscore").tolist() == [0.0, 0.0]


@given(st.lists(st.floats(-1e6, 1e6), min_size=2, max_size=30))
def test_ranks_are_centred_bounded_and_keep_the_order(rewards):
    values = np.array(rewards)
    shaped = shape_rewards(values, "rank")
    assert abs(shaped.sum()) < 1e-9
    assert np.all(np.abs(shaped) <= 0.5)
    for i in range(len(values)):
        assert np.array_equal(shaped > shaped[i], values > values[i])


def test_antithetic_candidates_and_their_success():
    mean, noise = np.array([1.0, 2.0]), np.array([[0.5, 0.0], [0.0, -1.0]])
    assert antithetic(mean, noise).tolist() == [[1.5, 2.0], [1.0, 1.0], [0.5, 2.0], [1.0, 3.0]]
    assert successful_pairs(np.array([1.0, np.nan, 3.0, 4.0])).tolist() == [True, False]
    assert successful_pairs(np.array([1.0, 2.0, np.inf, 4.0])).tolist() == [False, True]
    assert successful_pairs(np.array([1.0, 2.0, 3.0, 4.0])).tolist() == [True, True]


def test_noise_has_the_scale():
    noise = perturb(np.random.default_rng(0), 2000, 5, 0.3)
    assert noise.shape == (2000, 5)
    assert noise.std() == pytest.approx(0.3, rel=0.03)
    assert abs(noise.mean()) < 0.01


def test_gradient_by_hand():
    noise = np.array([[0.1, 0.0], [0.0, 0.2]])
    shaped = np.array([0.5, -0.5, -0.1, 0.1])
    # differences 0.6 and -0.6; sums (0.06, -0.12); divided by 2 * 2 pairs * 0.01
    assert gradient(noise, shaped, 0.1).tolist() == pytest.approx([1.5, -3.0])


def test_gradient_of_a_linear_reward_is_its_slope():
    slope = np.array([2.0, -1.0, 0.5])
    noise = perturb(np.random.default_rng(1), 20_000, 3, 0.1)
    rewards = antithetic(np.zeros(3), noise) @ slope
    assert gradient(noise, rewards, 0.1) == pytest.approx(slope, abs=0.05)


def test_first_adam_steps_by_hand():
    # First step: corrected moments are g and g^2, so the change is step * g / (|g| + 1e-8).
    change, state = adam_step(AdamState.zeros(3), np.array([4.0, -0.25, 0.0]), 0.1)
    assert change.tolist() == pytest.approx([0.1, -0.1, 0.0])
    assert state.count == 1
    assert state.first.tolist() == pytest.approx([0.4, -0.025, 0.0])
    assert state.second.tolist() == pytest.approx([0.016, 0.0000625, 0.0])
    # Second step with gradient 0: first 0.36 / (1 - 0.81), second 0.015984 / (1 - 0.998001).
    change, state = adam_step(state, np.zeros(3), 0.1)
    assert change[0] == pytest.approx(0.1 * (0.36 / 0.19) / np.sqrt(0.015984 / 0.001999))
    assert state.count == 2


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


@pytest.mark.parametrize("shaping", ["rank", "zscore"])
def test_it_climbs_to_the_optimum(shaping):
    config = configured(generations=80, step_size=0.05, shaping=shaping)
    state = evolve(COORDINATES, evaluate, validate, config, 0)
    assert validate(START) == pytest.approx(-1.98)
    assert state.best_reward > -0.05
    assert state.best == pytest.approx(TARGET, abs=0.2)
    assert state.generation == 80
    assert len(state.history) == 81


def test_the_best_point_is_one_that_was_validated():
    seen = []

    def watch(weights):
        seen.append(weights.copy())
        return float(len(seen) == 3)  # the third validation is declared the best

    state = evolve(COORDINATES, evaluate, watch, CONFIG, 0)
    assert len(seen) == 1 + 3  # at the start and after generations 4, 8, 12
    assert state.best_reward == 1.0
    assert np.array_equal(COORDINATES.weights(state.best), seen[2])


def test_the_start_is_returned_when_nothing_is_better():
    state = evolve(COORDINATES, evaluate, lambda weights: -abs(float(weights.sum())), CONFIG, 0)
    assert state.best.tolist() == [0.0] * 5


def test_the_last_generation_is_always_validated():
    state = evolve(COORDINATES, evaluate, validate, configured(generations=6), 0)
    validated = [record["generation"] for record in state.history if "validation_reward" in record]
    assert validated == [0, 4, 6]


def test_no_generations():
    state = evolve(COORDINATES, evaluate, validate, configured(generations=0), 0)
    assert (state.generation, state.best_reward) == (0, pytest.approx(-1.98))


def test_the_seed_decides():
    runs = [evolve(COORDINATES, evaluate, validate, CONFIG, seed) for seed in (0, 0, 1)]
    assert same(runs[0], runs[1])
    assert not same(runs[0], runs[2])


@pytest.mark.parametrize("stop", range(13))
def test_a_resumed_run_equals_an_undisturbed_one(stop, tmp_path):
    whole = evolve(COORDINATES, evaluate, validate, CONFIG, 5)
    path = tmp_path / "state.npz"

    class Stopped(Exception):
        pass

    def keep(state):
        save_state(state, path)
        if state.generation == stop:
            raise Stopped

    if stop:
        with pytest.raises(Stopped):
            evolve(COORDINATES, evaluate, validate, CONFIG, 5, None, keep)
    resumed = evolve(COORDINATES, evaluate, validate, CONFIG, 5, load_state(path)[0])
    assert same(whole, resumed)


def test_checkpoints_come_back_exactly(tmp_path):
    state = evolve(COORDINATES, evaluate, validate, CONFIG, 2)
    save_state(state, tmp_path / "a", {"a": [1]})
    save_state(state, tmp_path / "b", {"a": [1]})
    assert (tmp_path / "a").read_bytes() == (tmp_path / "b").read_bytes()
    loaded, extra = load_state(tmp_path / "a")
    assert same(loaded, state)
    assert extra == {"a": [1]}
    fresh = EsState.start(3)
    save_state(fresh, tmp_path / "c")
    assert same(load_state(tmp_path / "c")[0], fresh)  # with a best reward of minus infinity
    assert load_state(tmp_path / "none") == (None, None)


@given(data=st.data())
def test_damaged_checkpoints(tmp_path_factory, data):
    path = tmp_path_factory.mktemp("state") / "state.npz"
    save_state(EsState.start(3), path)
    whole = path.read_bytes()
    path.write_bytes(whole[: data.draw(st.integers(0, len(whole) - 1))])
    with pytest.raises(ArtifactError, match="damaged"):
        load_state(path)


def test_a_failing_candidate_drops_its_twin_and_the_run_goes_on():
    def sometimes(candidates, generation):
        rewards = evaluate(candidates, generation)
        rewards[generation % len(rewards)] = np.nan
        return rewards

    state = evolve(COORDINATES, sometimes, validate, configured(generations=60), 0)
    assert state.best_reward > -0.1
    record = state.history[1]
    assert (record["failed_candidates"], record["successful_pairs"], record["skipped"]) == (1, 7, False)


def test_the_value_of_a_failed_candidate_s_twin_does_not_matter():
    def run(twin):
        def evaluate_once(candidates, generation):
            rewards = evaluate(candidates, generation)
            rewards[2], rewards[2 + CONFIG.pairs] = np.nan, twin
            return rewards

        return evolve(COORDINATES, evaluate_once, validate, configured(generations=1), 0).mean

    assert np.array_equal(run(1000.0), run(-1000.0))


def test_a_generation_with_too_few_pairs_is_skipped():
    def fails_once(candidates, generation):
        rewards = evaluate(candidates, generation)
        if generation == 1:
            rewards[:5] = np.nan  # 3 of 8 pairs are left, less than 40 %
        return rewards

    means = []
    state = evolve(
        COORDINATES, fails_once, validate, configured(generations=3), 0, None, lambda state: means.append(state.mean)
    )
    assert [record["skipped"] for record in state.history] == [False, False, True, False]
    assert np.array_equal(means[0], means[1])
    assert not np.array_equal(means[1], means[2])


@pytest.mark.parametrize("share", [0.0, 0.4])
def test_when_all_fail_it_stops_with_advice(share):
    calls = []

    def fail(candidates, generation):
        calls.append(generation)
        return np.full(len(candidates), np.nan)

    with pytest.raises(TrainingError, match="3 generations in a row"):
        evolve(COORDINATES, fail, validate, configured(min_success_share=share), 0)
    assert calls == [0, 1, 2]


def test_equal_rewards_move_nothing():
    state = evolve(COORDINATES, lambda candidates, generation: np.zeros(len(candidates)), validate, CONFIG, 0)
    assert state.mean.tolist() == [0.0] * 5
    assert not any(record["skipped"] for record in state.history)


def test_weight_decay_pulls_to_the_start():
    free = evolve(COORDINATES, evaluate, validate, CONFIG, 0)
    pulled = evolve(COORDINATES, evaluate, validate, configured(weight_decay=0.2), 0)
    assert np.linalg.norm(pulled.mean) < np.linalg.norm(free.mean)


def test_candidates_are_what_was_announced():
    seen = []

    def watch(candidates, generation):
        seen.append((candidates, generation))
        return evaluate(candidates, generation)

    evolve(COORDINATES, watch, validate, configured(generations=2), 0)
    assert [generation for _, generation in seen] == [0, 1]
    first = seen[0][0]
    assert first.shape == (16, 5)
    assert first.dtype == np.float32
    assert first[:8] + first[8:] == pytest.approx(np.zeros((8, 5)), abs=1e-6)  # pairs around the start
