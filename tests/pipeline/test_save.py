"""Policies kept during training: all of them, readable, and without any effect on the result."""

import csv
import json

import numpy as np
import pytest

from mlgo.learn.cost import read_cost
from mlgo.policy.stored import load_policy
from tests.pipeline.conftest import last_logged


@pytest.mark.slow
def test_policies_are_kept_and_change_nothing(finished):
    finished.succeed(*finished.training("es", "saving", es={"save_every": 1}))
    folder, data = finished.root / "data/saving/work/policies/es-s0", finished.root / "data"
    history = csv.DictReader((data / "saving/es-s0/history.csv").open())
    validated = [float(record["validation_reward"]) for record in history]
    best = {
        f"best_policy_{reward:.5f}_step_{number}"
        for number, reward in enumerate(validated)
        if number and reward > max(validated[:number])
    }
    assert {path.name for path in folder.iterdir()} == {"iteration1", "iteration2"} | best
    for name in ("iteration1", "iteration2"):
        policy = load_policy(folder / name)
        assert policy.origin["generation"] == int(name[-1])
        assert not np.array_equal(policy.weights, load_policy(data / "policies/bc-s0").weights)
    expected = (data / "policies/es-s0/weights.npy").read_bytes()
    assert (data / "saving/es-s0/weights.npy").read_bytes() == expected
    for name in best:
        assert json.loads((folder / name / "policy.json").read_text())["provenance"]["validation_reward"] in validated


@pytest.mark.parametrize("enabled", [True, pytest.param(False, marks=pytest.mark.slow)])
def test_the_log_counts_compiles_with_and_without_trees(finished, enabled):
    name = f"counting-{enabled}"
    finished.succeed(*finished.training("es", name, replay={"enabled": enabled}))
    work = finished.root / "data" / name / "work"
    cost = read_cost(work, "es-s0")
    figures = ("compiles", "cache_hits", "recalled_share")
    compiles, hits, share = (last_logged(work / "tensorboard/es-s0", figure) for figure in figures)
    assert cost.evaluations == 44
    assert (compiles, hits) == (cost.compiles, 44 - cost.compiles)
    assert share == pytest.approx(1 - cost.compiles / 44)
    assert (cost.compiles == 44) == (not enabled)  # modules are small, candidates meet on known paths


def test_skipped_generations_say_so_and_three_of_them_end_the_run(finished):
    changes = {"es": {"generations": 5}, "compile": {"compile_timeout_s": 0.001}}
    run = finished.run(*finished.training("es", "skipping", **changes))
    assert run.returncode == 1
    for generation in (1, 2, 3):
        said = f"generation {generation} is skipped: 0 of 2 directions are usable, es.min_success_share asks for 40%"
        assert said in run.stderr
    assert "error: 3 generations in a row had too few candidates that compile" in run.stderr
    assert "generation 4" not in run.stderr


def test_equal_rewards_are_named(finished):
    changes = {"es": {"perturbation": 1e-9, "generations": 1}}
    run = finished.run(*finished.training("es", "equal", **changes))
    assert run.returncode == 0, run.stderr
    assert "generation 1 has equal rewards, and no gradient: raise es.flip_share or es.perturbation" in run.stderr


def test_pairs_with_modules_of_their_own_change_a_share_of_the_answers(finished):
    changes = {"es": {"perturbation": 1.0, "flip_share": 0.1, "modules_per_pair": 1, "ranks": "modules"}}
    run = finished.run(*finished.training("es", "apart", **changes))
    assert run.returncode == 0, run.stderr
    history = list(csv.DictReader((finished.root / "data/apart/es-s0/history.csv").open()))
    # Two pairs of two candidates compile one of two modules each; a validation has 12, as in the trainings above.
    asked = [int(record["evaluations"]) for record in history]
    assert asked[1] - asked[0] - (asked[0] if history[1]["validation_reward"] else 0) == 4
    again = finished.run(*finished.training("es", "apart-again", **changes, replay={"enabled": False}))
    assert again.returncode == 0, again.stderr
    weights = [(finished.root / f"data/{one}/es-s0/weights.npy").read_bytes() for one in ("apart", "apart-again")]
    assert weights[0] == weights[1]


@pytest.mark.parametrize("learner", ["es", "ppo"])
def test_a_network_of_the_learners_own_begins_as_a_clone(finished, learner):
    command = finished.training(learner, f"own-{learner}", **{learner: {"hidden": [3]}})
    run = finished.run(*command)
    assert f"error: {learner}.hidden: a network of its own goes on from no policy; leave out --start" in run.stderr
    finished.succeed(*(word for word in command if word not in ("--start", "data/policies/bc-s0")))
    policy, before = (
        load_policy(finished.root / f"data/{one}-s0") for one in (f"own-{learner}/{learner}", "policies/bc")
    )
    assert policy.architecture.widths == (before.architecture.widths[0], 3, 1)
    assert {"bc", learner, "trace_sha256"} <= policy.origin.keys()
