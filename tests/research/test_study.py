"""Studies: the same trials from the same past, limits that are Optuna's own, and ranges that cannot be."""

import pytest

from mlgo.base.config import PruningConfig, RangeConfig, Settings
from mlgo.compare.inference import Bootstrap
from mlgo.errors import ConfigError, PackageError
from mlgo.research.matrix import expand, study_name
from mlgo.research.points import read_points
from mlgo.research.study import Trial, batch_path, choose, importances, limits, read_asked, trials_of, write_batch
from mlgo.research.sweep_page import point_records, render_sweep, study_record
from tests.research.test_matrix import values
from tests.research.test_points import write_failure, write_point

optuna = pytest.importorskip("optuna", reason="Optuna is not installed: make setup EXTRA=optuna")

RANGES = {
    "es.step_size": RangeConfig(low=0.01, high=1.0, log=True),
    "es.pairs": RangeConfig(low=2, high=16),
    "es.start": RangeConfig(choices=["bc", "marginal"]),
}
STUDY = {"sampler": "tpe", "ranges": {key: one.model_dump() for key, one in RANGES.items()}}


def past(count: int) -> list[Trial]:
    """Trials that gain more the smaller the step size; every third was pruned."""
    asked = choose(RANGES, (), count, count, 0)
    outcomes = (("pruned", None) if i % 3 == 2 else ("complete", -one["es.step_size"]) for i, one in enumerate(asked))
    rewards = [{0: {0: 0.0, 1: -one["es.step_size"]}} for one in asked]
    return [Trial(one, *outcome, reward) for one, outcome, reward in zip(asked, outcomes, rewards, strict=True)]


def test_trials_follow_from_the_past_alone_and_go_where_the_gain_is():
    told = past(24)
    batch = choose(RANGES, told, 8, 4, 0)
    middle = sorted(one.settings["es.step_size"] for one in told)[12]
    assert sum(one["es.step_size"] < middle for one in batch) >= 7
    told = past(8)
    batch = choose(RANGES, told, 3, 4, 0)
    assert choose(RANGES, told, 3, 4, 0) == batch
    assert choose(RANGES, told, 2, 4, 0) == batch[:2]  # with more trials in all, a study begins with the same
    assert choose(RANGES, told, 3, 4, 1) != batch
    assert choose(RANGES, told[:-1], 3, 4, 0) != batch


def test_what_is_chosen_lies_in_its_range():
    for one in past(40):
        assert 0.01 <= one.settings["es.step_size"] <= 1.0
        assert float(f"{one.settings['es.step_size']:.4g}") == one.settings["es.step_size"]
        assert one.settings["es.pairs"] in range(2, 17)
        assert one.settings["es.start"] in ("bc", "marginal")


def test_limits_are_those_of_optunas_own_pruner():
    pruning = PruningConfig(percentile=40.0, startup_trials=3, warmup_steps=1)
    rewards = [(0.0, 0.03, 0.01), (0.0, 0.01, 0.05), (0.0, 0.02, 0.04), (0.0, 0.05, 0.02)]
    told = [Trial({}, "complete", one[-1], {7: dict(enumerate(one))}) for one in rewards]
    told.append(Trial({}, "pruned", None, {7: {1: -1.0}}))  # counts for nobody
    found = limits(told, pruning, [7])
    assert found.keys() == {7}
    assert limits(told[:2], pruning, [7]) == limits(told, None, [7]) == {}
    # PercentilePruner keeps the best: 60 of our gains, counted from above, are its 60th percentile.
    pruner = optuna.pruners.PercentilePruner(60.0, n_startup_trials=3, n_warmup_steps=1)
    for reward in (0.005, 0.015, 0.018, 0.022, 0.025, 0.03, 0.06):
        for step in (0, 1, 2):
            known = optuna.create_study(direction="maximize", pruner=pruner)
            for one in rewards:
                record = {"state": optuna.trial.TrialState.COMPLETE, "intermediate_values": dict(enumerate(one))}
                known.add_trial(optuna.trial.create_trial(value=one[-1], **record))
            trial = known.ask()
            trial.report(reward, step)
            assert trial.should_prune() == (reward < found[7].get(step, float("-inf"))), (reward, step)


def test_importance_is_that_of_the_one_setting_that_matters():
    told = past(30)
    shares = importances(RANGES, told, 0)
    assert next(iter(shares)) == "es.step_size"
    assert shares["es.step_size"] > 0.8
    assert sum(shares.values()) == pytest.approx(1.0)
    assert importances(RANGES, told, 0) == shares
    assert importances(RANGES, told[:1], 0) == importances({"es.step_size": RANGES["es.step_size"]}, told, 0) == {}


def test_what_trials_have_come_to_is_read_from_their_folders(tmp_path):
    folder, seeds = tmp_path / "sweep", [0, 1]
    ranges = {"es.step_size": {"low": 0.1, "high": 0.9}}
    config = values(sampler="tpe", ranges=ranges, seeds=seeds)
    asked = [{"es.step_size": size} for size in (0.2, 0.3, 0.4, 0.2)]  # the last is the first again
    for seed in seeds:
        write_point(folder, "es,es.step_size=0.2", seed, 0.01 + 0.02 * seed, 0.0)
        write_failure(folder, "es,es.step_size=0.3", seed, "the weights are too large")
    write_point(folder, "es,es.step_size=0.4", 0, 0.9, 0.0)
    write_failure(folder, "es,es.step_size=0.4", 1, "pruned after step 1")
    (folder / "policies/es,es.step_size=0.4-s1/history.csv").write_text(
        "generation,evaluations,validation_reward\n0,9,-1.0\n"
    )
    told = trials_of(config, folder, asked)
    assert [one.state for one in told] == ["complete", "failed", "pruned", "complete"]
    assert told[0].gain == pytest.approx(1 - (0.99 * 0.97) ** 0.5)
    assert told[0].rewards == {0: {0: 0.0, 1: 0.01}, 1: {0: 0.0, 1: 0.03}}
    assert (told[2].gain, told[2].rewards[1]) == (None, {0: -1.0})
    assert told[3] == told[0]
    bootstrap = Bootstrap(200, 0.95, 0)
    sweep = expand(config, asked)
    points = read_points(folder, sweep, bootstrap)
    assert [one.best for one in points] == [True, False, False]  # what is left of a pruned trial is not its gain
    record = study_record(Settings(config), folder, asked, sweep, points)
    assert [one["point"][-3:] for one in record["trials"]] == ["0.2", "0.3", "0.4", "0.2"]
    page = render_sweep(points, sweep, {}, bootstrap, record)
    text = page[page.index("<main>") :]
    assert "the weights are too large" in text
    assert "pruned after step 1" in text
    assert "figure-trials" in text
    assert [one["state"] for one in point_records(points)] == ["complete", "failed", "pruned"]


def test_batches_are_read_in_order_up_to_the_first_that_is_missing(tmp_path):
    for batch, size in ((0, 0.1), (1, 0.2), (3, 0.4)):
        write_batch(batch_path(tmp_path, batch), [{"es.step_size": size}], {})
    assert read_asked(tmp_path) == [{"es.step_size": 0.1}, {"es.step_size": 0.2}]


def test_a_study_is_named_by_what_its_trials_follow_from():
    config = values(**STUDY)
    longer = values(**STUDY, trials=99)
    elsewhere = config | {"workers": config["workers"] | {"kind": "ray"}}
    assert study_name(config) == study_name(longer) == study_name(elsewhere)
    assert study_name(config) != study_name(values(**STUDY, parallel=9))
    assert study_name(config) != study_name(config | {"es": config["es"] | {"pairs": 3}})


def test_without_optuna_one_message_says_what_to_install(without):
    without("optuna")
    with pytest.raises(PackageError, match=r"tpe needs optuna.* \(not installed\); run make setup EXTRA=optuna"):
        choose(RANGES, (), 1, 1, 0)


@pytest.mark.parametrize(
    ("sweep", "message"),
    [
        ({"ranges": {}}, "sweep.ranges is empty"),
        ({"ranges": {"es.step_size": {"low": 0.2, "high": 0.2}}}, "nothing lies between low 0.2 and high 0.2"),
        ({"ranges": {"es.step_size": {"low": 0.2}}}, "give low and high, or choices"),
        ({"ranges": {"es.step_size": {"low": 0, "high": 1, "log": True}}}, "logarithms need a low above 0"),
        ({"ranges": {"es.start": {"choices": []}}}, "sweep.ranges.es.start.choices: list should have at least 1 item"),
        ({"ranges": {"es.stepsize": {"low": 0.1, "high": 1}}}, "sweep.ranges: unknown setting 'es.stepsize'"),
        ({"ranges": {"es.step_size": {"low": -0.1, "high": 1}}}, "es.step_size: input should be greater than 0"),
        (
            {"ranges": {"ppo.epochs": {"low": 1, "high": 4}}},
            "sweep.ranges: ppo.epochs is read by none of sweep.learners",
        ),
        ({"ranges": {"train.seeds": {"choices": [[0]]}}}, "train.seeds cannot be swept"),
        ({"trials": 0}, "sweep.trials: input should be greater than or equal to 1, got 0"),
        ({"points": {"es.step_size": [0.1]}}, "a study takes sweep.ranges"),
        ({"learners": ["es", "ppo"]}, "a study has one learner and one task"),
        ({"sampler": "grid"}, "a grid takes sweep.points"),
        ({"sampler": "cmaes"}, "sweep.sampler: input should be 'grid' or 'tpe'"),
    ],
)
def test_what_cannot_be_made_is_said(sweep, message):
    with pytest.raises(ConfigError) as caught:
        expand(values(**STUDY | sweep))
    assert message in str(caught.value)
