"""What episodes of choosing teach."""

import itertools
from dataclasses import replace
from types import SimpleNamespace

import numpy as np
import pytest

from mlgo.errors import TrainingError
from mlgo.evaluate.compiles import Quarantine
from mlgo.jit.baseline import EligibleUnit
from mlgo.jit.env import ChoiceEnv
from mlgo.jit.outcome import Candidates, CompiledUnit, Failed
from mlgo.jit.policy import ChoiceEpisode, ChoicePolicy, play
from mlgo.jit.pool import ChoicePool
from mlgo.jit.state import Choice, Observer, columns_for
from mlgo.learn.choices import ChoiceContext, demonstrations, results, sampled_compiles
from mlgo.learn.marginal.savings import fit_savings, savings
from tests.jit.additive import NAMES, OBSERVER, AdditiveCompiler, AdditiveSpec
from tests.learn.toys import cloning_config

UNIT = EligibleUnit("u", "train", 3, none=100.0, heuristic=80.0, heuristic_choice=(0,))


def episode(num_steps: int, score: float | None) -> ChoiceEpisode:
    candidates = Candidates((), np.zeros((0, 0), np.int64), np.zeros(0, bool))
    outcome = Failed("timeout", "") if score is None else CompiledUnit(score, 10, (), num_steps, candidates)
    inputs = np.ones((num_steps, 3, 5), np.float32)
    inputs[:, 1, -1] = 0.0
    return ChoiceEpisode(inputs, np.arange(num_steps), outcome)


def test_every_unit_weighs_the_same_however_many_steps_it_takes():
    data = demonstrations([[episode(1, 1.0)], [episode(2, 1.0), episode(1, 1.0)], []])
    assert data.answers.tolist() == [0, 0, 1, 0]
    assert data.weights.tolist() == [2.0] + [pytest.approx(2 / 3)] * 3  # mean 1, both units 2
    assert data.inputs.shape == (4, 3, 5)
    assert (data.inputs[..., -1] != 0).tolist() == [[True, False, True]] * 4  # which actions are legal
    assert len(demonstrations([[], [episode(0, 1.0)]]).answers) == 0  # nothing to imitate


def test_rewards_are_gains_over_the_heuristic():
    good, failed, bad = sampled_compiles(UNIT, [episode(2, 60.0), episode(1, None), episode(1, 88.0)])
    assert good.reward == pytest.approx(0.25)
    assert good.episodes[0].key == "u"
    assert failed is None
    assert bad.reward == pytest.approx(-0.1)


def test_figures_for_those_who_watch():
    episodes = [episode(2, 60.0), episode(1, None), episode(1, 88.0), episode(0, 80.0)]
    found = results([UNIT], [[one.outcome for one in episodes]])
    assert found["results/vs_heuristic"] == pytest.approx((0.25 - 0.1 + 0.0) / 3)
    assert found["results/vs_no_cse"] == pytest.approx((0.4 + 0.12 + 0.2) / 3)
    assert found["results/better"] == pytest.approx(1 / 3)
    assert found["results/worse"] == pytest.approx(1 / 3)
    assert found["results/num_cse"] == pytest.approx(1.0)
    assert found["results/failed"] == pytest.approx(0.25)
    assert results([UNIT], [[episode(1, None).outcome]]) == {"results/failed": 1.0}


def compiled(values) -> CompiledUnit:
    return AdditiveCompiler({"u": values}).outcome("u", ())


def test_effects_become_percent_saved_beside_a_stop_for_each_unit():
    other = EligibleUnit("v", "train", 1, none=100.0, heuristic=50.0, heuristic_choice=())
    changes = {"u": {0: -4.0, 2: 8.0}, "v": {0: -10.0}}
    units = [(UNIT, compiled([(5, 1), (1, 5), (3, 2)])), (other, compiled([(9, 1)]))]
    found = savings(OBSERVER, units, changes, max_effect=9.0)
    # 4 / 80, -8 / 80 and 10 / 50 are cut to 9 percent; the stop of a unit has no saving of its own
    assert np.array_equal(found.answers, [5.0, -9.0, np.nan, 9.0, np.nan], equal_nan=True)
    assert found.weights.tolist() == pytest.approx([5 / 6] * 3 + [5 / 4] * 2)  # half of 5 for each unit
    assert np.array_equal(found.inputs[:, -1] != 0, np.isnan(found.answers))
    with pytest.raises(TrainingError, match=r"raise cse\.max_trials"):
        savings(OBSERVER, [(UNIT, compiled([(5, 1)]))], {}, 5.0)


@pytest.mark.slow
def test_a_fitted_network_chooses_what_saves_more_than_the_margin():
    rng = np.random.default_rng(0)
    values = rng.integers(0, 11, (60, 3, 2))
    units = [(replace(UNIT, name=str(i)), compiled([tuple(row) for row in rows])) for i, rows in enumerate(values)]
    # Saved is a linear function of what is seen: of log(1 + benefit) / log(11), in percent of 80.
    saved = 4.0 * np.log1p(values[:, :, 0]) / np.log(11.0) - 2.0
    changes = {str(i): {place: -0.8 * one for place, one in enumerate(row)} for i, row in enumerate(saved)}
    data = savings(OBSERVER, units, changes, 5.0)
    config = cloning_config(60, 20, 60, 0.1)
    weights, history = fit_savings(data, data, 0.5, [], config, seed=0)
    assert history[-1]["validation_loss"] < 0.01
    policy = ChoicePolicy.fresh("jit-cse", OBSERVER, [], rng).with_weights(weights)
    # 4 x - 2 > 0.5 where x > 0.625, that is 1 + benefit > 4.48
    episode = play(AdditiveCompiler({"u": [(3, 0), (4, 0), (9, 0)]}), policy, "u", policy.decide)
    assert episode.actions.tolist() == [2, 1, 4]


@pytest.mark.slow
def test_the_network_of_the_library_is_the_one_of_our_policies():
    pytest.importorskip("sb3_contrib", reason="Stable-Baselines3 is not installed: make setup EXTRA=sb3")
    import torch

    from mlgo.learn.maskable_ppo import ActionScores

    env = ChoiceEnv(AdditiveCompiler({"u": [(5, 1), (1, 5), (3, 3)]}), ["u"], max_candidates=4)
    observation, _ = env.reset()
    torch.manual_seed(0)
    network = ActionScores(env.observation_space, (16,))
    expected = network({name: torch.as_tensor(array[None]) for name, array in observation.items()})[0].tolist()
    fresh = ChoicePolicy.fresh("jit-cse", Observer(columns_for(NAMES), 4), [16], np.random.default_rng(0))
    none = compiled([(5, 1), (1, 5), (3, 3)])
    found = fresh.with_weights(network.weights()).logits(Choice(none, none))
    assert found[[0, 1, 2, 4]] == pytest.approx([expected[i] for i in (0, 1, 2, 4)], abs=1e-6)
    assert len(set(expected[:3])) == 3


def test_units_that_keep_failing_are_no_longer_drawn():
    units = [EligibleUnit(f"u{i}", "train", 2, 100.0, 98.0, (0,)) for i in range(3)]
    policy = ChoicePolicy.fresh("jit-cse", OBSERVER, [3], np.random.default_rng(0))
    order = SimpleNamespace(learner=SimpleNamespace(name="es"))
    context = object.__new__(ChoiceContext)
    context.train, context.validation, context.seed, context.order = units, units[:1], 0, order
    context.policy, context.quarantine = policy, Quarantine(4)
    choices = [choice for size in (1, 2) for choice in itertools.permutations(range(2), size)]
    failing = frozenset(("u1", choice) for choice in choices)  # it compiles without elimination only
    with ChoicePool(AdditiveSpec({f"u{i}": ((5, 1), (1, 2)) for i in range(3)}, failing), 1) as pool:
        context.pool = pool
        weights = np.zeros((3, policy.architecture.num_params), np.float32)
        for counted in (True, False):
            rewards = context._rewards(weights, context.draw(3, 0), counted)
            assert np.isnan(rewards).tolist() == [[False, True, False]] * 3
            assert context.draw(3, 0) == units
        assert context.quarantine.state()["u1"] == {"compiles": 3, "failures": 3, "reason": "jit_error: it was to fail"}
        context.sampled(np.ones(policy.architecture.num_params, np.float32), units, 8, 0, False)
    assert context.quarantine.state()["u0"]["failures"] == 0
    assert context.draw(3, 0) == [units[0], units[2]]
