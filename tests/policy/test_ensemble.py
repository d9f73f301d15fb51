"""Estimates joined into one network, as the formula says; members of trained policies joined anew."""

import subprocess
import sys
from dataclasses import replace

import numpy as np
import pytest

from mlgo.base.seeding import generator
from mlgo.errors import PolicyError
from mlgo.policy.ensemble import (
    gated_ensemble,
    gated_members,
    gated_shape,
    join,
    joint_shape,
    mean_members,
    mean_of,
    mean_shape,
    members_of,
    rejoin,
    steep,
)
from mlgo.policy.features import Normalisation
from mlgo.policy.network import Architecture, flatten, logits
from mlgo.policy.policy import Overrides, Policy
from mlgo.policy.stored import load_policy
from tests.conftest import REPOSITORY, WITHIN_S
from tests.fakes.policies import linear_policy

SHAPE = Architecture((2, 5, 1))
HEURISTIC = (np.array([[0.0], [100.0]], np.float32), np.zeros(1, np.float32))  # inlines where x1 is positive
RELEASED = REPOSITORY / "data/released"


def estimate(sign, constant):
    """One hidden layer of two units: ``sign * x0 + constant``."""
    hidden = np.array([[1.0, -1.0], [0.0, 0.0]]), np.zeros(2)
    return flatten([hidden, (np.array([[sign], [-sign]]), np.array([constant]))])


TWO_UNITS = Architecture((2, 2, 1))


def output(members, shape, caution, inputs):
    joint = gated_shape(shape, len(members))
    weights = gated_ensemble(members, shape, HEURISTIC, caution)
    assert weights.shape == (joint.num_params,)
    return logits(joint.unflatten(weights), np.asarray(inputs, np.float32))


def test_a_gated_ensemble_by_hand():
    # Estimates 3 and 1 everywhere (x0 = 0): mean 2, mean absolute deviation 1.
    members = [estimate(1.0, 3.0), estimate(1.0, 1.0)]
    yes, no = [0.0, 1.0], [0.0, -1.0]
    assert output(members, TWO_UNITS, 0.0, [yes, no]).tolist() == pytest.approx([2.0, 2.0], abs=0.05)
    assert output(members, TWO_UNITS, 1.5, [yes, no]).tolist() == pytest.approx([3.5, 0.5], abs=0.05)
    assert output(members, TWO_UNITS, 3.0, [yes, no]).tolist() == pytest.approx([5.0, -1.0], abs=0.05)


@pytest.mark.parametrize("hidden", [(5,), (6, 4), (4, 3, 3)])
@pytest.mark.parametrize("count", [1, 2, 4])
def test_a_gated_ensemble_equals_the_formula(hidden, count):
    shape = Architecture((2, *hidden, 1))
    rng = generator(1, "caution", count, *hidden)
    members = [rng.standard_normal(shape.num_params).astype(np.float32) for _ in range(count)]
    inputs = rng.uniform(-3, 3, (500, 2)).astype(np.float32)
    inputs = inputs[np.abs(inputs[:, 1]) > 0.02]  # where the heuristic is sure
    each = np.stack([logits(shape.unflatten(member), inputs) for member in members])
    mean, deviation = each.mean(axis=0), np.abs(each - each.mean(axis=0)).mean(axis=0)
    expected = mean + 2.0 * np.sign(inputs[:, 1]) * deviation
    rounding = 0.1 if len(hidden) == 1 else 0.002  # a second layer clips the heuristic's answer once more
    assert output(members, shape, 2.0, inputs) == pytest.approx(expected, abs=rounding)


def test_a_steep_clone_answers_as_before():
    clone = (np.array([[0.5], [-1.0]], np.float32), np.array([0.1], np.float32))
    inputs = generator(2, "steep").uniform(-2, 2, (1000, 2)).astype(np.float32)
    steeper = steep(clone, inputs)
    before, after = logits([clone], inputs), logits([steeper], inputs)
    assert np.array_equal(before > 0, after > 0)
    assert np.median(np.abs(after)) == pytest.approx(50.0, rel=1e-3)


def drawn(hidden, count):
    shape = Architecture((2, *hidden, 1))
    rng = generator(1, "mean", count, *hidden)
    return shape, rng.standard_normal((count, shape.num_params)).astype(np.float32)


def test_a_mean_by_hand():
    # 2 relu(x) + 1, and 4 relu(-x) - 3: for x = 5 the mean is (11 - 3) / 2, for x = -1 it is (1 + 1) / 2.
    members = [np.array(weights, np.float32) for weights in ([1, 0, 2, 1], [-1, 0, 4, -3])]
    joint = mean_of(members, Architecture((1, 1, 1)))
    assert mean_shape(Architecture((1, 1, 1)), 2) == Architecture((1, 2, 1), groups=2)
    assert joint.tolist() == [1, -1, 0, 0, 1, 2, -1]
    layers = Architecture((1, 2, 1), groups=2).unflatten(joint)
    assert logits(layers, np.array([[5.0], [-1.0]], np.float32)).tolist() == [4.0, 1.0]


@pytest.mark.parametrize("hidden", [(5,), (6, 4), (4, 3, 3)])
@pytest.mark.parametrize("count", [1, 2, 20])
def test_a_mean_of_estimates_equals_their_mean(hidden, count):
    shape, members = drawn(hidden, count)
    joint = mean_shape(shape, count)
    inputs = generator(2, "mean").uniform(-3, 3, (500, 2)).astype(np.float32)
    each = np.stack([logits(shape.unflatten(member), inputs) for member in members])
    found = logits(joint.unflatten(mean_of(members, shape)), inputs)
    assert found == pytest.approx(each.mean(axis=0), abs=1e-4)


@pytest.mark.parametrize("hidden", [(5,), (6, 4), (4, 3, 3)])
@pytest.mark.parametrize("count", [1, 3])
def test_members_come_back(hidden, count):
    shape, members = drawn(hidden, count)
    gated = gated_members(gated_ensemble(list(members), shape, HEURISTIC, 0.75), shape, count)
    assert gated == pytest.approx(members, abs=1e-6)
    of_mean = mean_members(mean_of(members, shape), shape, count)  # but for their last biases
    assert of_mean[:, :-1] == pytest.approx(members[:, :-1], abs=1e-6)
    assert of_mean[:, -1] == pytest.approx([members[:, -1].mean()] * count, abs=1e-6)


def members(seed, count):
    rng = generator(seed, "rejoin")
    return rng.standard_normal((count, SHAPE.num_params)).astype(np.float32)


def trained(of, caution=0.75, scale=1.0, hidden=5):
    """A policy as marginal leaves it."""
    scaling = Normalisation(("callee_users", "caller_users"), np.zeros(2, np.float32), np.full(2, scale, np.float32))
    settings = {"hidden": [hidden], "members": len(of), "caution": caution, "rounds": 2}
    weights, origin = join(list(of), SHAPE, HEURISTIC, caution), {"marginal": settings, "corpus_sha256": "x"}
    return Policy("inline-size", scaling, joint_shape(SHAPE, len(of), caution), weights, origin)


def test_without_caution_the_mean_of_all_members_decides():
    first, second = members(1, 3), members(2, 2)
    joint = rejoin({"a": trained(first), "b": trained(second, caution=2.0)}, 0.0)
    inputs = generator(3, "rejoin").uniform(-3, 3, (200, 2)).astype(np.float32)
    each = [logits(SHAPE.unflatten(one), inputs) for one in (*first, *second)]
    assert logits(joint.layers, inputs) == pytest.approx(np.mean(each, axis=0), abs=2e-3)
    each = members_of(joint.weights, SHAPE, 5, 0.0)
    assert each[:, :-1] == pytest.approx(np.concatenate([first, second])[:, :-1], abs=1e-5)
    assert joint.architecture == Architecture((2, 25, 1), groups=5)
    assert joint.origin["marginal"] == {"hidden": [5], "members": 5, "caution": 0.0, "rounds": 2}
    assert joint.origin["corpus_sha256"] == "x"


def test_means_are_joined_again():
    parts = [members(seed, count) for seed, count in ((1, 1), (2, 2))]
    means = {str(len(part)): trained(part, caution=0.0) for part in parts}
    again, at_once = rejoin(means, 0.0), rejoin({"all": trained(np.concatenate(parts))}, 0.0)
    assert again.weights[:-1] == pytest.approx(at_once.weights[:-1], abs=1e-5)
    with pytest.raises(PolicyError, match="1 holds no clone of the heuristic; give caution 0"):
        rejoin(means, 0.75)


def network(weights):
    """A policy as PPO leaves it."""
    return replace(trained([weights]), architecture=SHAPE, weights=weights, origin={"algorithm": "ppo"})


def test_linear_policies_are_joined_as_well():
    features = ["callee_users", "caller_users"]
    linear = [linear_policy("inline-size", features, weights) for weights in ([3.0, 0.0, 1.0], [-1.0, 2.0, 0.0])]
    policies = {str(number): policy for number, policy in enumerate(linear)}
    clone = replace(trained(members(1, 3)), normalisation=linear[0].normalisation)
    inputs = [[2.0, 1.0], [2.0, -1.0]]
    # The first says 7 to both, the second 0 and -4: means 3.5 and 1.5, deviations 3.5 and 5.5.
    joint = rejoin(policies, 0.0)
    assert (joint.architecture, joint.weights.tolist()) == (Architecture((2, 1)), [1.0, 1.0, 0.5])
    assert logits(joint.layers, np.array(inputs, np.float32)).tolist() == [3.5, 1.5]
    gated = rejoin(policies, 1.0, ("m", clone))
    assert gated.architecture == gated_shape(TWO_UNITS, 2)
    assert logits(gated.layers, np.array(inputs, np.float32)).tolist() == pytest.approx([7.0, -4.0], abs=0.05)


def test_what_is_joined_joins_again_for_candidates_of_several_inputs_and_for_groups_that_another_learner_took_over():
    shape = Architecture((3, 5, 1))  # of a candidate: the feature, its mean, and whether it may be chosen
    rng = generator(5, "rejoin")
    scaling = Normalisation(("liveness",), np.zeros(1, np.float32), np.ones(1, np.float32))
    parts = rng.standard_normal((3, shape.num_params)).astype(np.float32)
    choosing = [Policy("regalloc-evict", scaling, shape, weights, {}) for weights in parts]
    pair = rejoin({"a": choosing[0], "b": choosing[1]}, 0.0)
    again, at_once = rejoin({"ab": pair, "c": choosing[2]}, 0.0), rejoin(dict(zip("abc", choosing, strict=True)), 0.0)
    assert again.weights[:-1] == pytest.approx(at_once.weights[:-1], abs=1e-5)
    finished = replace(pair, origin={"algorithm": "es"})  # one member with blocks of zeros
    inputs = rng.uniform(-3, 3, (50, 3)).astype(np.float32)
    alone = rejoin({"f": finished}, 0.0)
    assert logits(alone.layers, inputs) == pytest.approx(logits(finished.layers, inputs), abs=1e-5)


def test_a_clone_that_sees_other_inputs_is_refused():
    message = "the clone of the heuristic in m has other languages, features or scales than the members"
    with pytest.raises(PolicyError, match=message):
        rejoin({"0": network(members(4, 1)[0])}, 2.0, ("m", trained(members(1, 3), scale=2.0)))


def test_networks_of_other_learners_are_gated_by_the_clone_that_a_policy_of_marginal_holds():
    parts = members(4, 3)
    joint = rejoin(
        {str(number): network(part) for number, part in enumerate(parts)}, 2.0, ("m", trained(members(1, 3)))
    )
    expected = gated_ensemble(list(parts), SHAPE, HEURISTIC, 2.0)
    assert joint.weights == pytest.approx(expected, abs=1e-5)
    assert joint.origin == {"algorithm": "ppo", "marginal": {"hidden": [5], "caution": 2.0, "members": 3}}
    with pytest.raises(PolicyError, match="0 holds no clone of the heuristic; give caution 0"):
        rejoin({"0": network(parts[0])}, 2.0)


OVERRIDES = Overrides(("callee_users",), np.array([[1]]), np.array([1]))


@pytest.mark.parametrize(
    ("other", "message"),
    [
        (trained(members(2, 2), scale=2.0), "b and a differ in task, languages, features, their scales"),
        (replace(trained(members(2, 2)), origin={"languages": ["c"]}), "b and a differ"),
        (replace(trained(members(2, 2)), overrides=OVERRIDES), "b was tuned to a program; join the policy"),
        (replace(trained(members(2, 2)), task="inline-speed"), "b and a differ"),
        (replace(trained(members(2, 2)), origin={}), "b and a differ in task, languages, features, their scales"),
        (linear_policy("inline-size", ["callee_users", "caller_users"], [0.0] * 3), "b and a differ"),
        (
            replace(trained(members(2, 2)), origin={"marginal": {"margins": [0.5]}}),
            "b is neither a network nor",
        ),
        (trained(members(2, 2), hidden=6), "b is neither a network"),
    ],
)
def test_what_cannot_be_joined(other, message):
    with pytest.raises(PolicyError, match=message):
        rejoin({"a": trained(members(1, 3)), "b": other}, 0.0)


def program(*arguments):
    command = [sys.executable, "scripts/rejoin_policies.py", *map(str, arguments)]
    return subprocess.run(command, cwd=REPOSITORY, capture_output=True, text=True, timeout=3 * WITHIN_S)


def test_the_same_caution_gives_the_same_policy(tmp_path):
    run = program(RELEASED / "marginal-s0", "--caution", 0.75, "--output", tmp_path / "again-s3")
    assert (run.returncode, run.stderr) == (0, "")
    before, after = load_policy(RELEASED / "marginal-s0"), load_policy(tmp_path / "again-s3")
    assert np.array_equal(before.weights, after.weights)
    assert (after.origin["algorithm"], after.origin["seed"]) == ("again", 3)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("tree8-s0", "--caution", 0, "--output", "x-s0"), "tree8-s0 is neither a network nor what"),
        (("marginal-s0", "--caution", -1, "--output", "x-s0"), "--caution -1.0: give a number from 0 on"),
        (("marginal-s0", "--caution", "nan", "--output", "x-s0"), "--caution nan: give a number from 0 on"),
        (("marginal-s0", "--caution", 0, "--output", "x"), "must be called <learner>-s<seed>"),
    ],
)
def test_bad_input_is_one_line_and_leaves_nothing(tmp_path, arguments, message):
    policy, *options, output = arguments
    run = program(RELEASED / policy, *options, tmp_path / output)
    assert run.returncode == 1
    assert message in run.stderr
    assert run.stderr.count("\n") == 1
    assert not list(tmp_path.iterdir())


def test_a_policy_that_is_named_twice_is_refused(tmp_path):
    run = program(
        RELEASED / "marginal-s0", f"{RELEASED}/../released/marginal-s0", "--caution", 0, "--output", tmp_path / "x-s0"
    )
    assert (run.returncode, run.stderr) == (1, "error: a policy is named twice; each would count once\n")


def test_a_policy_is_not_overwritten(tmp_path):
    run = program(RELEASED / "marginal-s0", "--caution", 0, "--output", RELEASED / "marginal-s0")
    assert run.returncode == 1
    assert "is one of the policies; give another folder" in run.stderr
