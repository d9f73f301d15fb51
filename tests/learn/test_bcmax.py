"""BC-Max: what is kept and how it is weighed, by hand; the rounds on a problem with a known optimum."""

import json
import sys
from dataclasses import replace
from types import SimpleNamespace

import numpy as np
import pytest

from mlgo.base.config import load_config
from mlgo.base.seeding import generator
from mlgo.errors import PolicyError, TrainingError
from mlgo.evaluate.episodes import Episode
from mlgo.host.actions import Binary
from mlgo.learn.base import Trajectory
from mlgo.learn.bcmax.explorers import explorers, load_earlier, perturbed
from mlgo.learn.bcmax.loop import (
    HEURISTIC,
    STATES,
    BCMaxState,
    heuristic_trajectories,
    imitate_best,
    imitation_data,
    keep_best,
    mean_reward,
)
from mlgo.learn.cloning import CloneData, fit
from mlgo.learn.dataset import question_weights
from mlgo.learn.modules import ModuleContext
from mlgo.policy.features import Normalisation
from mlgo.policy.network import Architecture
from mlgo.policy.policy import Policy
from mlgo.policy.stored import save_policy
from tests.conftest import REPOSITORY
from tests.learn.test_bc import SCALING, trace
from tests.learn.toys import stopped

CONFIG = load_config(REPOSITORY / "config" / "config.yaml").bcmax.model_copy(
    update={"rounds": 5, "weighting": "module", "gain_weight": 1.0, "flipped": 2, "perturbed": 3}
)


def trajectory(module, reward, answers=(0, 1), source="x"):
    inputs = np.arange(len(answers), dtype=np.float16)[:, None]
    return Trajectory(module, inputs, np.array(answers, np.uint8), reward, source=source)


def test_the_best_is_kept_and_of_equals_the_earlier():
    first, second, third = (
        trajectory("m", reward, source=name) for reward, name in ((0.1, "a"), (0.2, "b"), (0.2, "c"))
    )
    other = trajectory("n", -0.5)
    assert keep_best({}, [first, second, third, other]) == {"m": second, "n": other}
    known = {"m": second}
    assert keep_best(known, [third, first])["m"] is second
    assert keep_best(known, []) == known
    better = trajectory("m", 0.2000001)
    assert keep_best(known, [better])["m"] is better
    assert known["m"] is second  # the old state is still whole


def test_weights_of_questions_by_hand():
    modules, answers = np.array([0, 0, 0, 0, 1]), np.array([0, 0, 0, 1, 1])
    assert question_weights(modules, answers, "question", False) is None
    # 1/4 for four questions, 1 for one: sum 2, mean 0.4
    assert question_weights(modules, answers, "module", False).tolist() == pytest.approx([0.625] * 4 + [2.5])
    # 1/2 for four questions, 1 for one: sum 3, mean 0.6
    assert question_weights(modules, answers, "sqrt", False).tolist() == pytest.approx([5 / 6] * 4 + [5 / 3])
    # three against two: 1/3 and 1/2, sum 2, mean 0.4
    assert question_weights(modules, answers, "question", True).tolist() == pytest.approx([5 / 6] * 3 + [1.25] * 2)
    # by module first: answer 0 has 3/4, answer 1 has 1/4 + 1; each then sums to 1
    balanced = question_weights(modules, answers, "module", True)
    assert balanced.tolist() == pytest.approx([2.5 / 3] * 3 + [2.5 * 0.25 / 1.25, 2.5 / 1.25])
    factors = question_weights(modules, answers, "question", False, np.array([3.0, 1.0]))
    assert factors.tolist() == pytest.approx([15 / 13] * 4 + [5 / 13])
    assert factors.dtype == np.float32
    assert question_weights(modules[:0], answers[:0], "module", True).shape == (0,)
    assert question_weights(modules, np.ones(5), "question", True).tolist() == [1.0] * 5  # nothing to balance


def test_what_is_imitated_by_hand():
    known = {"b": trajectory("b", 0.0, (1,)), "a": trajectory("a", 0.02, (0, 1, 1, 0))}
    data = imitation_data(known, "sqrt", 1.0)
    assert data.answers.tolist() == [0, 1, 1, 0, 1]  # a before b
    assert data.inputs[:, 0].tolist() == [0, 1, 2, 3, 0]
    assert data.inputs.dtype == data.answers.dtype == np.float32
    # 2 % gained: factor 3, times 1/2 for each of four questions; the other one counts 1; mean 7/5
    assert data.weights.tolist() == pytest.approx([1.5 / 1.4] * 4 + [1 / 1.4])
    assert imitation_data(known, "question", 0.0).weights.tolist() == [1.0] * 5
    worse = imitation_data({"a": trajectory("a", -0.3), "b": trajectory("b", 0.0)}, "module", 5.0)
    assert worse.weights.tolist() == [1.0] * 4  # a loss is no negative weight


def test_the_heuristic_s_trajectories():
    rows = [("p", "m", 0, 1, 7, 1), ("p", "m", 1, 2, 7, 0), ("p", "n", 0, 3, 7, 1), ("q", "m", 0, 4, 7, 0)]
    found = heuristic_trajectories(trace(rows), {"q/m", "p/m"}, Binary(), SCALING)
    assert list(found) == ["p/m", "q/m"]
    one = found["p/m"]
    assert (one.source, one.reward, one.answers.tolist()) == (HEURISTIC, 0.0, [1, 0])
    assert one.inputs == pytest.approx(np.log([[8, 2], [8, 3]]), rel=1e-3)  # b comes first
    assert (one.inputs.dtype, one.answers.dtype) == (np.float16, np.uint8)
    nothing = trace(rows).slice(0, 0)
    assert heuristic_trajectories(nothing, set(), Binary(), SCALING) == {}
    with pytest.raises(TrainingError, match="the trace lacks 2 modules that have scores, the first is p/m"):
        heuristic_trajectories(nothing, {"p/n", "p/m"}, Binary(), SCALING)
    with pytest.raises(TrainingError, match="the trace lacks 1 modules that have scores, the first is p/x"):
        heuristic_trajectories(trace(rows), {"p/x", "p/m"}, Binary(), SCALING)
    with pytest.raises(PolicyError, match=r"the trace lacks 1 .* \(z\)"):
        heuristic_trajectories(trace(rows), {"p/m"}, Binary(), Normalisation(("z", "a"), SCALING.centre, SCALING.scale))


POLICY = Policy("inline-size", SCALING, Architecture((2, 1)), np.array([3.0, 4.0, 0.0], np.float32))


def test_variants_of_a_round():
    found = explorers(POLICY, {}, CONFIG, 0, 1)
    assert list(found) == ["flipped-0", "flipped-1", "perturbed-0", "perturbed-1", "perturbed-2"]
    assert found["flipped-0"].policy is POLICY
    assert found["flipped-0"].flip_share == CONFIG.flip_share
    again, later, other = (explorers(POLICY, {}, CONFIG, *at) for at in ((0, 1), (0, 2), (1, 1)))
    lucks = [run["flipped-0"].seed for run in (found, again, later, other)] + [found["flipped-1"].seed]
    assert lucks[0] == lucks[1]
    assert len(set(lucks)) == 4
    noise = [run["perturbed-0"].weights.tolist() for run in (found, again, later, other)]
    assert noise[0] == noise[1]
    assert len({str(weights) for weights in noise}) == 3
    assert explorers(POLICY, {}, CONFIG.model_copy(update={"flipped": 0, "perturbed": 0}), 0, 1) == {}


def test_references_and_earlier_policies_come_before_the_first_round(tmp_path):
    save_policy(POLICY, tmp_path)
    earlier = load_earlier([str(tmp_path)], POLICY.task)
    config = CONFIG.model_copy(update={"references": ["random", "never"]})
    assert list(explorers(POLICY, earlier, config, 0, 0)) == ["random", "never", str(tmp_path)]
    assert explorers(POLICY, {}, config, 0, 0)["random"].flip_share == config.random_share
    assert list(explorers(POLICY, earlier, config, 0, 1)) == list(explorers(POLICY, {}, CONFIG, 0, 1))
    with pytest.raises(PolicyError, match=r"named in bcmax\.policies, is a policy for .*, the start policy for other"):
        load_earlier([str(tmp_path)], "other")


def test_noise_is_in_units_of_a_layer():
    policy = Policy("inline-size", SCALING, Architecture((2, 1, 1)), np.array([3, 4, 0, 0, 0], np.float32))
    draws = np.array([perturbed(policy, 0.1, np.random.default_rng(i)) for i in range(2000)])
    assert draws.std(axis=0) == pytest.approx([0.1 * (25 / 3) ** 0.5] * 3 + [0.0] * 2, rel=0.06)
    assert draws.mean(axis=0) == pytest.approx([3, 4, 0, 0, 0], abs=0.03)


class Toy:
    """Modules of questions in [0, 1] that should be answered with 1 above 0.3; a policy is one threshold.

    The heuristic has its threshold at 0.7. The reward is the share of right answers beyond those of the heuristic.
    """

    def __init__(self, seed=0, fails=lambda module: False):
        self.seed, self.fails, self.fitted = seed, fails, []
        self.questions = {f"m{i}": np.random.default_rng(i).uniform(size=12).astype(np.float16) for i in range(8)}
        self.heuristic = {name: self.play(name, x > 0.7, HEURISTIC) for name, x in self.questions.items()}

    def play(self, name, answers, source):
        x = self.questions[name]
        reward = np.mean(answers == (x > 0.3)) - np.mean((x > 0.7) == (x > 0.3))
        return Trajectory(name, x[:, None], answers.astype(np.uint8), float(reward), source=source)

    def explore(self, weights, number):
        rng, found = generator(self.seed, "toy", number), []
        for i in range(4):
            found += self.compiled(f"{i} of {number}", lambda: weights[0] + 0.15 * rng.standard_normal())
        return found

    def measure(self, weights):
        return self.compiled("policy", lambda: weights[0])

    def compiled(self, source, threshold):
        plays = [self.play(name, x > threshold(), source) for name, x in self.questions.items()]
        return [[] if self.fails(one.module) else [one] for one in plays]

    def validate(self, weights):
        return np.array([-abs(float(weights[0]) - 0.3)])

    def fit(self, data, start, number):
        """The threshold with the fewest wrong answers by weight."""
        self.fitted.append((number, None if start is None else float(start[0])))
        grid = np.linspace(0, 1, 101)
        wrong = (data.inputs[:, 0] > grid[:, None]) != (data.answers > 0)
        errors = np.average(wrong, axis=1, weights=data.weights)
        chosen = int(np.argmin(errors))
        figures = {"loss": float(errors[chosen]), "accuracy": float(1 - wrong[chosen].mean())}
        return np.array([grid[chosen]], np.float32), figures


START = np.array([0.7], np.float32)


def run(toy, config=CONFIG, state=None, after_round=lambda state: None, start=START):
    compiles = toy.explore, toy.measure, toy.validate
    return imitate_best(start, toy.heuristic, *compiles, toy.fit, config, state, after_round)


def same(a: BCMaxState, b: BCMaxState) -> bool:
    assert list(a.known) == list(b.known)
    for one, other in zip(a.known.values(), b.known.values(), strict=True):
        assert (one.module, one.source, one.reward) == (other.module, other.source, other.reward)
        assert np.array_equal(one.inputs, other.inputs)
        assert np.array_equal(one.answers, other.answers)
    arrays = [(a.weights, b.weights), (a.best, b.best)]
    scalars = [(s.done, s.best_reward, s.history) for s in (a, b)]
    return all(np.array_equal(x, y) and x.dtype == y.dtype for x, y in arrays) and scalars[0] == scalars[1]


def test_it_climbs_to_the_optimum():
    toy = Toy()
    state = run(toy)
    assert toy.validate(START).tolist() == pytest.approx([-0.4])
    assert state.best_reward > -0.1
    assert state.done == 5
    records = state.history
    assert [record["generation"] for record in records] == list(range(6))
    best_known = [record["best_known_reward"] for record in records]
    assert best_known == sorted(best_known)
    assert best_known[-1] > 0.3
    assert records[0]["mean_reward"] == pytest.approx(0.0)  # the start is the heuristic
    assert records[-1]["mean_reward"] > 0.25
    assert records[-1]["heuristic_modules"] == 0
    assert "loss" not in records[0]
    assert {"loss", "accuracy"} <= records[1].keys()
    assert [record["evaluations"] for record in records] == [41 * (i + 1) for i in range(6)]  # one is validated
    assert toy.fitted[0] == (1, pytest.approx(0.7))
    assert [number for number, _ in toy.fitted] == [1, 2, 3, 4, 5]


def test_fresh_weights_begin_as_a_clone_of_the_heuristic():
    toy = Toy()
    state = run(toy, CONFIG.model_copy(update={"rounds": 0}), start=None)
    assert toy.fitted == [(0, None)]
    assert state.history[0]["mean_reward"] == 0.0
    assert np.array_equal(state.best, state.weights)


@pytest.mark.parametrize(("rewards", "chosen"), [([0, 1, 3, 2, 3, 1], 2), ([5, 1, 5, 1, 1, 1], 0)])
def test_the_best_validated_round_is_returned(rewards, chosen):
    toy, seen = Toy(), []

    def validate(weights):
        seen.append(weights)
        return np.array([rewards[len(seen) - 1]])

    toy.validate = validate
    state = run(toy)
    assert len(seen) == 6
    assert state.best is seen[chosen]
    assert state.best_reward == max(rewards)


@pytest.mark.parametrize("stop", range(6))
def test_a_resumed_run_equals_an_undisturbed_one(stop, tmp_path):
    state = stopped(lambda keep: run(Toy(), after_round=keep), stop, tmp_path / "state.npz", STATES)
    assert same(run(Toy(), state=state), run(Toy()))


def test_compiles_become_trajectories_by_hand():
    inputs, answers = np.zeros((2, 1), np.float16), np.array([0, 1], np.uint8)
    episodes = [Episode("m", inputs, answers, 150.0, ""), Episode("n", inputs, answers, 30.0, "")]
    compiles = object.__new__(ModuleContext)
    compiles.compile = SimpleNamespace(objective="text_bytes")
    compiles._baselines, compiles._read = {"m": 200.0, "n": 20.0}, lambda module, result: [result]
    first, second = (one for each in episodes for one in compiles.trajectories(each.module, each))
    assert (first.module, first.reward) == ("m", 0.25)
    assert (second.module, second.reward) == ("n", -0.5)
    assert first.answers is answers


def test_functions_are_judged_by_themselves():
    first, other, better = (
        Trajectory("m", np.zeros((1, 1), np.float16), np.zeros(1, np.uint8), reward, function=function, source=source)
        for source, reward, function in (("x", 0.1, "f"), ("x", -0.2, "g"), ("y", 0.3, "g"))
    )
    assert mean_reward([first, other]) == pytest.approx(-0.1)  # one module, so they add up
    assert mean_reward([first, other, replace(better, module="n")]) == pytest.approx((0.1 - 0.2 + 0.3) / 2)
    known = keep_best({}, [first, other, better])
    assert {key: one.source for key, one in known.items()} == {"m f": "x", "m g": "y"}
    assert mean_reward(known.values()) == pytest.approx(0.4)


def test_a_module_that_fails_keeps_what_is_known_of_it():
    state = run(Toy(fails=lambda module: module == "m3"))
    assert state.known["m3"].source == HEURISTIC
    assert state.known["m3"].reward == 0.0
    assert state.best_reward > -0.1


def test_nothing_to_learn_from(monkeypatch):
    monkeypatch.setitem(sys.modules, "tensorflow", None)  # found out before anything large is loaded: it cannot be
    with pytest.raises(TrainingError, match=r"every compile under the policy of round 0 failed; raise compile\."):
        run(Toy(fails=lambda module: True))
    with pytest.raises(TrainingError, match="no training module has a trajectory"):
        imitate_best(START, {}, Toy().explore, Toy().measure, Toy().validate, Toy().fit, CONFIG)
    empty = CloneData(np.zeros((0, 2), np.float32), np.zeros(0, np.float32))
    with pytest.raises(TrainingError, match="no question"):
        fit(empty, Binary(), Architecture((2, 1)), None, 1, 1, 0.1, 0)


PROGRAM = """
import hashlib, json
import numpy as np
from mlgo.errors import TrainingError
from mlgo.host.actions import Binary, Subset
from mlgo.learn.cloning import CloneData
from mlgo.learn.cloning import fit, measure
from mlgo.policy.network import Architecture

rng = np.random.default_rng(0)
inputs = rng.uniform(-2, 2, (600, 3)).astype(np.float32)
answers = (inputs @ np.array([1.0, -2.0, 0.5]) > 0.3).astype(np.float32)
shape = Architecture((3, 8, 1))
data = CloneData(inputs, answers)
weights, first = fit(data, Binary(), shape, None, 30, 64, 0.01, 1)
unmoved, still = fit(data, Binary(), shape, weights, 1, 64, 1e-30, 2)
(moved, further), (again, _) = (fit(data, Binary(), shape, weights, 5, 64, 0.01, 3) for _ in range(2))
# two halves that contradict each other: the heavier one is followed
shares = np.repeat([1.8, 0.2], 600).astype(np.float32)
torn = CloneData(np.tile(inputs, (2, 1)), np.concatenate([answers, 1 - answers]), shares)
followed, heavy = fit(torn, Binary(), shape, None, 30, 64, 0.01, 1)
try:
    fit(CloneData(inputs * np.inf, answers), Binary(), shape, None, 1, 64, 0.01, 1)
    message = ""
except TrainingError as error:
    message = str(error)
values = rng.uniform(-1, 1, (600, 5, 2)).astype(np.float16)
legal = rng.random((600, 5)) < 0.7
legal[:, 2] = True
columns = np.where(legal, values[..., 1] - 2 * values[..., 0], -np.inf).argmax(axis=1).astype(np.float32)
choices = CloneData(np.concatenate([values, legal[..., None]], axis=2, dtype=np.float32), columns)
by_column, chosen = fit(choices, Subset(), Architecture((2, 1)), None, 40, 64, 0.05, 1)
print(json.dumps({
    "columns": [chosen["accuracy"], chosen["loss"]],
    "ratio": float(by_column[0] / by_column[1]),
    "accuracy": first["accuracy"],
    "still": bool(np.array_equal(unmoved, weights)),
    "loss": [one["loss"] for one in (first, still, further)],
    "same": bool(np.array_equal(moved, again)),
    "heavy": [one["accuracy"] for one in (heavy, measure(shape.unflatten(followed), Binary(), data))],
    "dtype": str(weights.dtype),
    "nan": message,
}))
"""


@pytest.mark.slow
def test_fitting_with_keras(in_tensorflow):
    report = json.loads(in_tensorflow(PROGRAM))
    assert report["accuracy"] > 0.97
    assert report["still"]  # weights went in and came out as they were
    assert report["loss"][0] == report["loss"][1] > report["loss"][2]
    assert report["same"]
    assert report["heavy"][0] == pytest.approx(0.5)  # right on one half, wrong on the other
    assert report["heavy"][1] > 0.95
    assert report["dtype"] == "float32"
    assert report["columns"][0] > 0.97
    assert report["columns"][1] < 0.2
    assert report["ratio"] == pytest.approx(-2.0, abs=0.2)
    assert "lower bcmax.learning_rate" in report["nan"]
