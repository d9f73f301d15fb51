"""Trials that end early: where, with what they leave, and whatever stopped them before."""

from dataclasses import replace

import pytest

from mlgo.base.files import write_json
from mlgo.errors import ArtifactError, TrialPruned
from mlgo.learn.progress import Limits
from tests.learn.test_glue import ToyContext, order

HISTORY = [{"validation_reward": -0.5}, {}, {"validation_reward": -0.2}, {"validation_reward": -0.4}]


@pytest.mark.parametrize(
    ("least", "total", "missed"),
    [
        ({}, 9, None),
        ({0: -0.5, 2: -0.2, 3: -0.2}, 9, None),  # the best so far counts, and a limit may be met exactly
        ({1: 0.0}, 9, None),  # not validated there
        ({2: -0.1, 3: -0.1}, 9, 2),
        ({3: -0.1}, 9, 3),
        ({3: -0.1}, 3, None),  # done
    ],
)
def test_the_first_limit_that_is_missed(least, total, missed):
    found = Limits(least).missed(HISTORY, total)
    assert (found and found[0]) == missed


def test_limits_are_read_for_a_seed(tmp_path):
    write_json(tmp_path / "batch-0.json", {"trials": [], "limits": {3: {1: -0.25}}})
    assert Limits.read(tmp_path / "batch-0.json", 3) == Limits({1: -0.25})
    assert Limits.read(tmp_path / "batch-0.json", 4) == Limits()
    (tmp_path / "batch-0.json").write_text("[]")
    with pytest.raises(ArtifactError, match="is no batch of trials"):
        Limits.read(tmp_path / "batch-0.json", 3)


def test_a_pruned_training_leaves_its_history_and_ends_at_the_same_step_again(tmp_path):
    calm = ToyContext(order(tmp_path / "calm", "es", generations=4))
    calm.write(calm.order.learner.train(calm))
    whole = (calm.order.output / "history.csv").read_text().splitlines()
    wanted = replace(order(tmp_path / "pruned", "es", generations=4), limits=Limits({2: 0.5}))
    for _ in range(2):  # the second goes on from a checkpoint
        with pytest.raises(TrialPruned, match=r"pruned after step 2: .* earlier trials had \+50\.000 % there"):
            wanted.learner.train(ToyContext(wanted))
        assert (wanted.output / "history.csv").read_text().splitlines() == whole[:4]
        assert not (wanted.output / "policy.json").exists()


def test_a_finished_training_is_pruned_where_it_would_have_been(tmp_path):
    done = ToyContext(order(tmp_path, "es", generations=4))
    done.order.learner.train(done)
    with pytest.raises(TrialPruned, match="pruned after step 1"):
        again = replace(done.order, limits=Limits({1: 0.5}))
        again.learner.train(ToyContext(again))
