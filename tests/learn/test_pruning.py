"""Trials that end early: where, with what they leave, and whatever stopped them before."""

from dataclasses import replace

import pytest

from mlgo.errors import ArtifactError, TrialPruned
from mlgo.learn.progress import missed_limit, read_limits
from mlgo.research.study import write_batch
from tests.learn.toys import es_context

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
    found = missed_limit(least, HISTORY, total)
    assert (found and found[0]) == missed


def test_limits_are_read_for_a_seed(tmp_path):
    write_batch(tmp_path / "batch-0.json", [], {3: {1: -0.25, 10: 0.5}, 12: {}})
    assert read_limits(tmp_path / "batch-0.json", 3) == {1: -0.25, 10: 0.5}
    assert read_limits(tmp_path / "batch-0.json", 4) == {}
    (tmp_path / "batch-0.json").write_text("{}")
    with pytest.raises(ArtifactError, match="is no batch of trials"):
        read_limits(tmp_path / "batch-0.json", 3)


def limited(folder, least):
    """Evolution strategies that must reach rewards; train as before where they were stopped."""
    context = es_context(folder)
    context.order = replace(context.order, limits=least)
    context.write(context.order.learner.train(context))
    return context.order.output


def test_a_pruned_training_leaves_its_history_and_ends_at_the_same_step_again(tmp_path):
    whole = (limited(tmp_path / "calm", {}) / "history.csv").read_text().splitlines()
    for _ in range(2):  # the second goes on from a checkpoint
        with pytest.raises(TrialPruned, match=r"pruned after step 2: .* earlier trials had \+50\.000 % there"):
            limited(tmp_path / "pruned", {2: 0.5})
        assert (tmp_path / "pruned/es-s0/history.csv").read_text().splitlines() == whole[:4]
        assert not (tmp_path / "pruned/es-s0/policy.json").exists()


def test_a_finished_training_is_pruned_where_it_would_have_been(tmp_path):
    limited(tmp_path, {})
    with pytest.raises(TrialPruned, match="pruned after step 1"):
        limited(tmp_path, {1: 0.5})
