"""A policy judges all actions alike; on disk it keeps everything."""

import numpy as np
import pytest

from mlgo.base.files import read_record, write_record
from mlgo.errors import ArtifactError, PolicyError
from mlgo.jit.policy import ChoicePolicy, load_choice_policy, play, save_choice_policy
from mlgo.jit.state import Choice
from tests.jit.additive import OBSERVER, AdditiveCompiler


def linear(can_apply=0.0, benefit=0.0, cost=0.0, stop=0.0) -> ChoicePolicy:
    """Outputs are a weighted sum of a candidate's inputs; stopping gives ``stop``."""
    policy = ChoicePolicy.fresh("jit-cse", OBSERVER, [], np.random.default_rng(0))
    weights = np.zeros(policy.architecture.num_params, np.float32)
    weights[:3] = can_apply, benefit, cost
    weights[OBSERVER.num_inputs - 1] = stop
    return policy.with_weights(weights)


def test_a_policy_takes_what_benefits_until_stopping_is_better():
    # log(1 + 10) / log(11) = 1 and log(1 + 1) / log(11) = 0.29: the stop at 0.5 lies between
    compiler = AdditiveCompiler({"u": [(1, 0), (10, 0), (9, 0)]})
    policy = linear(benefit=1.0, stop=0.5)
    episode = play(compiler, policy, "u", policy.decide)
    assert episode.actions.tolist() == [1, 2, 4]
    assert episode.outcome.score == 100 - 10 - 9
    assert episode.inputs[:, :, -1].tolist() == [[1, 1, 1, 0, 1], [1, 0, 1, 0, 1], [1, 0, 0, 0, 1]]


def test_a_unit_is_compiled_after_each_choice_and_in_the_end():
    compiler = AdditiveCompiler({"u": [(5, 0), (6, 0), (7, 0)]})
    policy = linear(can_apply=1.0)
    episode = play(compiler, policy, "u", policy.decide)
    assert episode.actions.tolist() == [0, 1, 2]
    assert [choice for _, choice in compiler.compiles] == [(), (0,), (0, 1), (0, 1, 2), (0, 1, 2)]
    failing = AdditiveCompiler(compiler.effects, failing=frozenset({("u", (0,))}))
    episode = play(failing, policy, "u", policy.decide)  # a choice that fails on the way ends the episode
    assert (episode.actions.tolist(), episode.outcome.kind) == ([0], "jit_error")


def test_a_fresh_policy_finds_all_actions_equal_and_draws_each_as_often():
    policy = ChoicePolicy.fresh("jit-cse", OBSERVER, [8], np.random.default_rng(0))
    compiler = AdditiveCompiler({"u": [(5, 0), (6, 0)]})
    none = compiler.outcome("u", ())
    choice, rng = Choice(none, none), np.random.default_rng(1)
    drawn = [policy.draw(choice, rng) for _ in range(3000)]
    shares = [drawn.count(action) / 3000 for action in (0, 1, 4)]
    assert sum(shares) == 1.0
    assert shares == pytest.approx([1 / 3] * 3, abs=0.03)  # 3.5 standard errors


def test_probabilities_are_a_softmax_of_the_scores():
    policy = linear(benefit=np.log(3.0), stop=0.0)  # benefit 10 becomes 1: three times the weight of the stop
    none = AdditiveCompiler({"u": [(10, 0)]}).outcome("u", ())
    choice, rng = Choice(none, none), np.random.default_rng(2)
    drawn = [policy.draw(choice, rng) for _ in range(4000)]
    assert drawn.count(0) / 4000 == pytest.approx(0.75, abs=0.025)


def test_a_policy_survives_the_disk(tmp_path):
    policy = ChoicePolicy.fresh("jit-cse", OBSERVER, [5], np.random.default_rng(0))
    save_choice_policy(policy, tmp_path)
    found = load_choice_policy(tmp_path)
    assert (found.task, found.observer, found.architecture) == (policy.task, OBSERVER, policy.architecture)
    assert np.array_equal(found.weights, policy.weights)


@pytest.mark.parametrize(
    ("change", "error"),
    [
        ({"format": 2}, PolicyError),
        ({"kind": "other"}, PolicyError),
        ({"widths": [4, 1]}, PolicyError),
        ({"columns": [{"nothing": 1}]}, ArtifactError),
        ({"max_candidates": None}, ArtifactError),
    ],
)
def test_damaged_policies_are_refused(tmp_path, change, error):
    save_choice_policy(linear(), tmp_path)
    write_record(tmp_path / "policy.json", read_record(tmp_path / "policy.json") | change)
    with pytest.raises(error):
        load_choice_policy(tmp_path)


def test_weights_that_are_no_numbers_are_refused(tmp_path):
    save_choice_policy(linear(benefit=np.nan), tmp_path)
    with pytest.raises(PolicyError, match="finite"):
        load_choice_policy(tmp_path)
