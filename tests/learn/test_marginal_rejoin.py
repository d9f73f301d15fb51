"""Members of trained policies joined anew."""

import subprocess
import sys
from dataclasses import replace

import numpy as np
import pytest

from mlgo.base.seeding import generator
from mlgo.errors import PolicyError
from mlgo.learn.marginal.ensemble import join, joint_shape, members_of, rejoin
from mlgo.policy.features import Normalisation
from mlgo.policy.network import Architecture, logits
from mlgo.policy.policy import Policy
from mlgo.policy.stored import load_policy
from tests.conftest import REPOSITORY, WITHIN_S

SHAPE = Architecture((2, 5, 1))
HEURISTIC = (np.array([[0.0], [100.0]], np.float32), np.zeros(1, np.float32))  # inlines where x1 is positive
RELEASED = REPOSITORY / "data/released"


def members(seed, count):
    rng = generator(seed, "rejoin")
    return rng.standard_normal((count, SHAPE.num_params)).astype(np.float32)


def trained(of, caution=0.75, scale=1.0):
    """A policy as marginal leaves it."""
    scaling = Normalisation(("callee_users", "caller_users"), np.zeros(2, np.float32), np.full(2, scale, np.float32))
    origin = {"marginal": {"hidden": [5], "members": len(of), "caution": caution, "rounds": 2}, "corpus_sha256": "x"}
    weights = join(list(of), SHAPE, HEURISTIC, caution)
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
    with pytest.raises(PolicyError, match="1 was joined without caution, so it holds no clone of the heuristic"):
        rejoin(means, 0.75)


@pytest.mark.parametrize(
    ("other", "message"),
    [
        (trained(members(2, 2), scale=2.0), "b and a differ in task, features, their scales, or hidden layers"),
        (replace(trained(members(2, 2)), task="inline-speed"), "b and a differ"),
        (replace(trained(members(2, 2)), origin={}), "b has no members to join; take a policy that marginal"),
        (replace(trained(members(2, 2)), origin={"marginal": {"margins": [0.5]}}), "b has no members to join"),
        (
            replace(trained(members(2, 2)), origin={"marginal": {"hidden": [6], "members": 2, "caution": 0.75}}),
            "b has no members",
        ),
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
        (("tree8-s0", "--caution", 0, "--output", "x-s0"), "tree8-s0 has no members to join"),
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


def test_a_policy_is_not_overwritten(tmp_path):
    run = program(RELEASED / "marginal-s0", "--caution", 0, "--output", RELEASED / "marginal-s0")
    assert run.returncode == 1
    assert "is one of the policies; give another folder" in run.stderr
