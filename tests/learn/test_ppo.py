"""Proximal policy optimisation: the arithmetic by hand, the loop where the right answers are known."""

import dataclasses
import math

import numpy as np
import pytest

from mlgo.base.config import load_config
from mlgo.base.seeding import generator
from mlgo.errors import ConfigError, TrainingError
from mlgo.host.actions import Binary, Subset, sigmoid
from mlgo.host.session import CallAttribution
from mlgo.host.tasks.regalloc import PRIORITIES
from mlgo.learn.base import SampledCompile, Trajectory
from mlgo.learn.checkpoint import save_state
from mlgo.learn.ppo.advantages import advantages_of_functions, advantages_over_siblings
from mlgo.learn.ppo.loop import STATES, optimise
from mlgo.learn.ppo.update import Batch, TrainablePolicy, approximate_kl, clipped_surrogate, forward, soften
from mlgo.policy.network import Architecture, logits
from tests.conftest import REPOSITORY
from tests.learn.toys import stopped

CONFIG = load_config(REPOSITORY / "config/config.yaml").ppo.model_copy(
    update={"iterations": 4, "modules": 1, "episodes": 2, "baseline": "siblings", "start_temperature": 4.0}
    | {"epochs": 2, "batch_size": 80, "learning_rate": 0.2, "max_kl": 0.1, "entropy_bonus": 0.0, "validate_every": 2}
    | {"max_gradient_norm": 1.0, "clip_range": 0.2, "max_advantage": 3.0}
)
LINEAR = Architecture((2, 1))
DEEP = Architecture((2, 3, 1))
BOOLEAN = Binary()
WRONG = np.array([-6.0, 6.0, 0.0], np.float32)
"""Sure to answer no where the first input is 1, and yes where the second is."""


def configured(**changes):
    return CONFIG.model_copy(update=changes)


def collect(weights, iteration):
    """32 episodes of ten questions; the reward is the share of answers that are yes where the first input is 1."""
    rng = generator(3, "toy", iteration)
    episodes = []
    for number in range(32):
        kinds = rng.integers(2, size=10)
        inputs = np.stack([kinds, 1 - kinds], axis=1).astype(np.float16)
        chances = map(sigmoid, logits(LINEAR.unflatten(weights), inputs.astype(np.float32)))
        answers = (rng.random(10) < list(chances)).astype(np.uint8)
        reward = float(np.mean(answers == kinds))
        episodes.append(SampledCompile(reward, (Trajectory(f"m{number % 4}", inputs, answers, reward),)))
    return episodes


def with_reward(compiles, reward):
    """The same compiles, all of which earn this."""
    return [
        SampledCompile(reward, tuple(dataclasses.replace(episode, reward=reward) for episode in one.episodes))
        for one in compiles
    ]


def validate(weights):
    """One module per kind of question: 1 where the policy's own answer is right."""
    return ((logits(LINEAR.unflatten(weights), np.eye(2, dtype=np.float32)) > 0) == [True, False]).astype(np.float64)


def run(config=CONFIG, *, collect=collect, validate=validate, seed=0, state=None, after=lambda state: None):
    return optimise(WRONG, LINEAR, BOOLEAN, collect, validate, config, seed, state, after)


@pytest.fixture(scope="module")
def whole():
    """An undisturbed run."""
    return run()


def same(a, b):
    plain = [dataclasses.replace(state, arrays=(), best=np.zeros(0)) for state in (a, b)]
    arrays = zip((*a.arrays, a.best), (*b.arrays, b.best), strict=True)
    return all(x.dtype == y.dtype and np.array_equal(x, y) for x, y in arrays) and repr(plain[0]) == repr(plain[1])


@pytest.mark.slow
def test_clipping_by_hand():
    networks_loaded()
    ratios, gains = np.array([1.5, 1.5, 0.5, 0.5, 1.1]), np.array([1.0, -1.0, 1.0, -1.0, 1.0])
    found = np.asarray(clipped_surrogate(ratios, gains, 0.2))
    assert found.tolist() == pytest.approx([1.2, -1.5, 0.5, -0.8, 1.1])


def test_probabilities_by_hand():
    networks_loaded()
    from keras import ops

    sure = math.log(3.0)  # yes with probability 3/4
    found = np.asarray(BOOLEAN.log_prob(ops, np.array([sure, sure, 0.0]), np.array([1.0, 0.0, 1.0])))
    assert np.exp(found).tolist() == pytest.approx([0.75, 0.25, 0.5])
    expected = -(0.75 * math.log(0.75) + 0.25 * math.log(0.25))
    entropy = np.asarray(BOOLEAN.entropy(ops, np.array([sure, 0.0, 50.0])))
    assert entropy.tolist() == pytest.approx([expected, math.log(2.0), 0.0])
    # ratio - 1 - log ratio: 2 - 1 - ln 2 and 0.
    assert float(approximate_kl(np.log([2.0, 1.0]))) == pytest.approx((1.0 - math.log(2.0)) / 2)


def networks_loaded():
    """Keras is loaded by whoever makes networks."""
    return TrainablePolicy(WRONG, LINEAR, BOOLEAN, CONFIG)


@pytest.mark.parametrize("architecture", [LINEAR, DEEP])
def test_the_network_is_the_policy_and_softening_divides_its_logits(architecture):
    weights = generator(0, "same").standard_normal(architecture.num_params).astype(np.float32)
    inputs = generator(1, "same").standard_normal((50, 2)).astype(np.float16)
    policy = TrainablePolicy(weights, architecture, BOOLEAN, CONFIG)
    assert np.array_equal(policy.weights, weights)
    expected = logits(architecture.unflatten(weights), inputs.astype(np.float32))
    assert forward(policy.model, inputs)[:, 0] == pytest.approx(expected, abs=1e-5)
    softened = logits(architecture.unflatten(soften(weights, architecture, 8.0)), inputs.astype(np.float32))
    assert np.array_equal(expected, 8.0 * softened)  # to the bit


@pytest.mark.parametrize(("iteration", "step"), [(0, 0.2), (2, 0.05)])
def test_one_step_goes_up_the_advantage(iteration, step):
    config = configured(epochs=1, learning_rate_decay=0.5)
    policy = TrainablePolicy(np.zeros(3, np.float32), LINEAR, BOOLEAN, config)
    inputs = np.eye(2, dtype=np.float32)
    old = np.full(2, math.log(0.5), np.float32)
    batch = Batch(inputs, np.ones(2, np.float32), old, np.array([1.0, -2.0], np.float32))
    record = policy.update(batch, generator(0, "step"), iteration)
    # Adam's first step is the step size against the sign of the gradient: slopes -1/4, 1/2 and, for the bias, 1/4.
    assert policy.weights.tolist() == pytest.approx([step, -step, -step], rel=1e-3)
    assert record["policy_loss"] == pytest.approx(0.5)  # -(1 - 2) / 2 at ratio 1
    assert record["entropy"] == pytest.approx(math.log(2.0))
    assert (record["kl"], record["clip_fraction"], record["policy_steps"]) == (0.0, 0.0, 1)


def test_the_policy_stops_where_it_has_moved_too_far():
    config = configured(max_kl=1e-4)
    policy = TrainablePolicy(WRONG, LINEAR, BOOLEAN, config)
    inputs = np.tile(np.eye(2, dtype=np.float32), (100, 1))
    from keras import ops

    old = np.asarray(BOOLEAN.log_prob(ops, forward(policy.model, inputs)[:, 0], np.ones(200, np.float32)))
    batch = Batch(inputs, np.ones(200, np.float32), old, np.ones(200, np.float32))
    record = policy.update(batch, generator(0, "stop"))
    assert record["policy_steps"] < 6  # minibatches there are
    assert record["kl"] > 1e-4


@pytest.mark.slow
def test_it_finds_the_right_answers():
    state = run(configured(iterations=12))
    assert validate(WRONG).tolist() == [0.0, 0.0]
    assert state.best_reward == 1.0
    assert validate(state.best).tolist() == [1.0, 1.0]
    rewards = [record["mean_reward"] for record in state.history[1:]]
    assert rewards[0] < 0.25  # sigmoid(-1.5) = 0.18
    assert rewards[-1] > 0.9
    learnt = [record for record in state.history[1:] if record["differing_share"]]  # in the end all answer alike
    assert all(0.0 <= record["clip_fraction"] <= 1.0 for record in learnt)


def test_a_failed_episode_leaves_a_count_alone(whole):
    state = run(collect=lambda *at: [None, *collect(*at)])
    assert [record["iteration"] for record in state.history] == [0, 1, 2, 3, 4]
    # Two modules are validated at the start and every second iteration; 33 compiles are asked for in each.
    assert [record["evaluations"] for record in state.history] == [2, 35, 70, 103, 138]
    assert [record["failed_episodes"] for record in state.history[1:]] == [1, 1, 1, 1]
    assert ["validation_reward" in record for record in state.history] == [True, False, True, False, True]
    assert np.array_equal(state.best, whole.best)


def test_the_start_is_returned_when_nothing_is_better():
    start = soften(WRONG, LINEAR, 4.0)
    assert np.array_equal(run(configured(iterations=1), validate=lambda weights: -np.abs(weights - start)).best, start)
    assert np.array_equal(run(configured(iterations=0)).best, start)


def test_the_seed_decides():
    one, other = (run(configured(iterations=1), seed=seed) for seed in (0, 1))
    assert not any(np.array_equal(a, b) for a, b in zip(one.arrays[:2], other.arrays[:2], strict=True))


@pytest.mark.parametrize("stop", [1, 3])
def test_a_resumed_run_equals_an_undisturbed_one(stop, whole, tmp_path):
    state = stopped(lambda keep: run(after=keep), stop, tmp_path / "state.npz", STATES)
    resumed = run(state=state)
    assert same(whole, resumed)
    for name, one in (("whole", whole), ("resumed", resumed)):
        save_state(one, tmp_path / name)
    assert (tmp_path / "whole").read_bytes() == (tmp_path / "resumed").read_bytes()


def fails(message, config=CONFIG, **options):
    """A run ends with a message, before a checkpoint."""
    states = []
    with pytest.raises(TrainingError, match=message):
        run(config, after=states.append, **options)
    assert states == []


@pytest.mark.parametrize(
    ("returned", "message"),
    [([], "no training module is left.*ppo.quarantine_after"), ([None, None], "all 2 compiles of an iteration failed")],
)
def test_nothing_to_learn_from(returned, message):
    fails(message, collect=lambda weights, iteration: returned)


def test_a_loss_that_is_not_a_number():
    fails("the policy loss of PPO is not a number; lower ppo", configured(learning_rate=1e39, max_kl=1e30))


def test_weights_that_the_last_step_has_spoilt():
    """The loss of the only minibatch is from before the step, so it is a number."""
    once = configured(epochs=1, batch_size=10**6, max_kl=1e30, learning_rate=1e39)
    fails("the policy of PPO has weights that are not numbers; lower ppo.learning_rate", once)


def test_equal_rewards_move_nothing():
    seen = []
    run(configured(iterations=2), collect=lambda *at: seen.append(at[0]) or with_reward(collect(*at), 0.25))
    assert all(np.array_equal(weights, seen[0]) for weights in seen)


def test_advantages_over_siblings_by_hand():
    # a: 1 less 2, and 2 less 1; b: an only child; c: all alike. The root mean square of those that differ is 1.
    found = advantages_over_siblings(["a", "b", "c", "a", "c"], np.array([1.0, 7.0, 3.0, 2.0, 3.0]), 3.0)
    assert found.tolist() == [-1.0, 0.0, 0.0, 1.0, 0.0]
    # a: 4 less the mean 0 of the others, and three times 0 less 4/3; mean square (16 + 3 * 16/9) / 4 = 16/3.
    rewards, root = np.array([4.0, 0.0, 0.0, 0.0]), math.sqrt(16 / 3)
    assert advantages_over_siblings(["a"] * 4, rewards, 3.0).tolist() == pytest.approx([4 / root, *[-4 / 3 / root] * 3])
    assert advantages_over_siblings(["a"] * 4, rewards, 1.5).max() == 1.5
    assert advantages_over_siblings(["a", "a"], np.array([0.1, 0.1]), 3.0).tolist() == [0.0, 0.0]
    assert advantages_over_siblings([], np.zeros(0), 3.0).tolist() == []


def inlining(subject, answers, sizes):
    """Two calls: of f in main, and of g in f. Functions are main (1), f (2) and g (3)."""
    calls = np.array([0, 1], np.int32), np.array([1, 2], np.int32)
    credit = CallAttribution(np.array([1, 2, 3], np.uint64), np.array(sizes, np.float32), *calls)
    return Trajectory(subject, np.zeros((2, 1), np.float16), np.array(answers, np.uint8), 0.0, credit)


def test_advantages_of_functions_by_hand():
    nothing, f_into_main = inlining("a", [0, 0], [30, 20, 10]), inlining("a", [1, 0], [44, -1, 10])
    # main: 30 and 44 bytes, 14 apart. f: it has 20 bytes, and is gone in the second compile. g is always alike.
    # So inlining f costs 14 and saves 20, and the call of g teaches nothing. The root mean square is 6.
    assert advantages_of_functions([nothing, f_into_main], 3.0).tolist() == [-1.0, 0.0, 1.0, 0.0]
    # Another module is compared with itself alone, and one compile of it with none; 6 of 6, 6, 0, 0. Both weigh alike:
    # three questions each, in the mean, of which a has four.
    found = advantages_of_functions([nothing, inlining("b", [1, 1], [99, -1, -1]), f_into_main], 3.0)
    assert found.tolist() == [-0.75, 0.0, 0.0, 0.0, 0.75, 0.0]
    # Ten times the bytes in another module weigh as much.
    large = [inlining("b", [0, 0], [300, 200, 100]), inlining("b", [1, 0], [440, -1, 100])]
    assert advantages_of_functions([nothing, f_into_main, *large], 3.0).tolist() == [-1.0, 0.0, 1.0, 0.0] * 2
    # Three compiles, by leave one out. main: 30, 44, 30 less 37, 30, 37; f: saves 0, 20, 0 where 10, 0, 10 are usual.
    found = advantages_of_functions([nothing, f_into_main, nothing], 0.9)
    root = math.sqrt((3**2 + 6**2 + 3**2) / 3)
    assert found.tolist() == pytest.approx([-3 / root, 0, 0.9, 0, -3 / root, 0])
    assert advantages_of_functions([nothing, nothing], 3.0).tolist() == [0.0] * 4
    assert advantages_of_functions([], 3.0).tolist() == []
    silent = dataclasses.replace(inlining("a", [0, 0], [30, 20, 10]), credit=None)
    with pytest.raises(ConfigError, match=r"ppo\.baseline functions: .* do not tell their functions; choose siblings"):
        advantages_of_functions([silent, silent], 3.0)


def test_outputs_are_learnt_over_siblings():
    """The reward is higher, the closer the answers are to minus the input; the start says plus the input."""

    def collect(weights, iteration):
        rng, compiles = generator(7, "toy", iteration), []
        for _ in range(16):
            inputs = rng.uniform(-2, 2, (6, 1)).astype(np.float16)
            answers = (inputs[:, 0] * weights[0] + weights[1] + rng.standard_normal(6)).astype(np.float32)
            reward = -float(np.mean((answers + inputs[:, 0]) ** 2))
            compiles.append(SampledCompile(reward, (Trajectory("m f", inputs, answers, reward),)))
        return compiles

    config = configured(baseline="siblings", iterations=25, validate_every=25, start_temperature=1.0, max_kl=1.0)
    start, shape = np.array([1.0, 0.0], np.float32), Architecture((1, 1))
    state = optimise(start, shape, PRIORITIES, collect, lambda weights: -weights[:1], config, 0)
    assert state.best[0] < -0.2


def columns_of_functions(weights, iteration):
    """Eight compiles of two functions with four questions about three columns; the reward is the share of answers that
    take the column whose only input is largest. The second function is always the same, whatever is answered."""
    rng = generator(5, "toy", iteration)
    compiles = []
    for _ in range(8):
        values = rng.permuted(np.tile([0.0, 0.5, 1.0], (4, 1)), axis=1)
        legal = np.ones((4, 3))
        scores = values * weights[0] + weights[1]
        answers = (scores + rng.gumbel(size=scores.shape)).argmax(axis=1).astype(np.uint8)
        inputs = np.stack([values, legal], axis=2).astype(np.float16)
        reward = float(np.mean(values[np.arange(4), answers] == 1.0))
        taught, idle = Trajectory("m f", inputs, answers, reward), Trajectory("m g", inputs, answers, 0.0)
        compiles.append(SampledCompile(reward, (taught, idle)))
    return compiles


def test_columns_are_learnt_over_siblings():
    config = configured(baseline="siblings", iterations=10, validate_every=10, start_temperature=1.0)
    start, shape = np.array([-2.0, 0.0], np.float32), Architecture((1, 1))
    checked = []

    def watched(weights):
        checked.append(weights)
        return weights[:1]

    state = optimise(start, shape, Subset(), columns_of_functions, watched, config, 0)
    assert checked[0][0] == -2.0
    assert checked[-1][0] > 1.0  # the largest column is liked best
    assert state.best[0] == checked[-1][0]
    records = state.history[1:]
    assert all(0.0 < record["differing_share"] <= 0.5 for record in records)  # the other function teaches nothing
    assert records[-1]["mean_reward"] > records[0]["mean_reward"] + 0.3


def test_siblings_that_are_all_alike_move_nothing():
    def level(weights, iteration):
        return with_reward(columns_of_functions(weights, iteration), 0.25)

    config = configured(baseline="siblings", iterations=2)
    start = np.array([1.0, 0.0], np.float32)
    state = optimise(start, Architecture((1, 1)), Subset(), level, lambda weights: weights, config, 0)
    assert [record["differing_share"] for record in state.history[1:]] == [0.0, 0.0]
    assert np.array_equal(state.best, soften(start, Architecture((1, 1)), 4.0))
