"""Studies: sweeps whose trials Optuna chooses, each batch of them by what all batches before have come to.

Nothing but the folders of trainings and evaluations remembers a trial. Every batch is chosen by a study that gets
all earlier trials anew, with a generator of its own. So the trials follow from the configuration alone: not from which
training of a batch finished first, how many ran side by side, or how often the sweep was stopped.
"""

import itertools
from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from mlgo.base.config import PruningConfig, RangeConfig
from mlgo.base.files import read_record, write_record
from mlgo.base.packages import import_extra, require
from mlgo.base.seeding import generator
from mlgo.compare.inference import POINTS_ONLY
from mlgo.compare.trainings import read_curves
from mlgo.research.matrix import Sweep, Values, expand
from mlgo.research.points import Point, State, read_points

_DIGITS = 4
"""Significant digits of a drawn number: enough for a setting, short enough for the name of a folder."""


@dataclass(frozen=True)
class Trial:
    """What a trial has come to."""

    settings: Values
    state: State  # `pruned` if the training of any seed ended early, `failed` if any could not go on
    gain: float | None  # on the validation projects, over all seeds; None unless it is complete
    rewards: Mapping[int, Mapping[int, float]]  # by seed and step, mean reward on the validation modules


def batch_path(folder: Path, batch: int) -> Path:
    """File of a batch of trials, from 0."""
    return folder / f"batch-{batch}.json"


def write_batch(path: Path, trials: Sequence[Values], least: Mapping[int, Mapping[int, float]]) -> None:
    """Write settings of trials that are chosen together, and by seed and step the rewards that they must reach."""
    write_record(path, {"trials": trials, "limits": least})


def read_asked(folder: Path) -> list[dict[str, Any]]:
    """Settings of all trials that a study has chosen so far."""
    paths = itertools.takewhile(Path.exists, (batch_path(folder, batch) for batch in itertools.count()))
    return [settings for path in paths for settings in read_record(path)["trials"]]


def trials_of(values: Values, folder: Path, asked: Sequence[Values]) -> list[Trial]:
    """What trials have come to, by the files of their trainings; ``folder`` is as of `read_points`."""
    sweep = expand(values, asked)
    return trials_from_points(folder, asked, sweep, read_points(folder, sweep, POINTS_ONLY))


def trials_from_points(folder: Path, asked: Sequence[Values], sweep: Sweep, points: Sequence[Point]) -> list[Trial]:
    """What trials have come to, where their points are known; ``folder`` has ``policies``."""
    by_name, trials = {one.training.name: one for one in points}, []
    for settings, name in zip(asked, sweep.trials, strict=True):
        point, rewards = by_name[name], {}
        curves = read_curves(folder / "policies", [str(policy) for policy in point.trained])
        for policy, curve in zip(point.trained, curves, strict=True):
            known = enumerate(curve.columns.get("validation_reward", []))
            rewards[policy.seed] = {step: reward for step, reward in known if reward is not None}
        gain = point.gain("validation") if point.state == "complete" else None
        state: State = "failed" if point.state == "complete" and gain is None else point.state
        trials.append(Trial(settings, state, gain, rewards))
    return trials


def choose(
    ranges: Mapping[str, RangeConfig], trials: Sequence[Trial], count: int, random_trials: int, seed: int
) -> list[dict[str, Any]]:
    """Choose the next trials by TPE, all before any of them has run."""
    optuna = _import_optuna()
    drawn = int(generator(seed, "sweep", "tpe", len(trials)).integers(2**32))
    # Trials under way count as bad ones ("constant liar"), which keeps those of a batch apart.
    sampler = optuna.samplers.TPESampler(n_startup_trials=random_trials, constant_liar=True, seed=drawn)
    study = _study_of(optuna, ranges, trials, sampler)
    asked = [study.ask(_distributions(optuna, ranges)).params for _ in range(count)]
    return [{key: _value(ranges[key], value) for key, value in one.items()} for one in asked]


def limits(trials: Sequence[Trial], pruning: PruningConfig | None, seeds: Sequence[int]) -> dict[int, dict[int, float]]:
    """Rewards that a training's best so far must reach at each step, by seed and step, or it ends early.

    These are Optuna's `PercentilePruner`, as numbers that a training can be given: it needs to know no study.
    """
    finished = [one for one in trials if one.state == "complete"]
    if pruning is None or len(finished) < pruning.startup_trials:
        return {}
    found: dict[int, dict[int, float]] = {}
    for seed in seeds:
        at_step = defaultdict[int, list[float]](list)
        for one in finished:
            for step, reward in one.rewards.get(seed, {}).items():
                at_step[step].append(reward)
        reached = {step: float(np.percentile(rewards, pruning.percentile)) for step, rewards in sorted(at_step.items())}
        found[seed] = {step: reward for step, reward in reached.items() if step >= pruning.warmup_steps}
    return found


def importances(ranges: Mapping[str, RangeConfig], trials: Sequence[Trial], seed: int) -> dict[str, float]:
    """Share of each setting in the variance of the gain over the complete trials, the greatest first; by fANOVA.

    Hutter, Hoos and Leyton-Brown, "An Efficient Approach for Assessing Hyperparameter Importance", ICML 2014. Empty
    where nothing can be said: fewer than two settings, or fewer than two gains that differ.
    """
    gains = {one.gain for one in trials if one.state == "complete"}
    if len(ranges) < 2 or len(gains) < 2:
        return {}
    optuna = _import_optuna()
    drawn = int(generator(seed, "sweep", "importance").integers(2**32))
    evaluator = optuna.importance.FanovaImportanceEvaluator(seed=drawn)
    shares = optuna.importance.get_param_importances(_study_of(optuna, ranges, trials), evaluator=evaluator)
    return {key: float(share) for key, share in shares.items()}


def check_optuna() -> None:
    """Refuse to begin a study without Optuna."""
    require("sweep.sampler tpe", "optuna")


def _import_optuna() -> Any:
    optuna = import_extra("optuna", "optuna", "sweep.sampler tpe")
    optuna.logging.set_verbosity(optuna.logging.WARNING)
    return optuna


def _study_of(optuna: Any, ranges: Mapping[str, RangeConfig], trials: Sequence[Trial], sampler: Any = None) -> Any:
    """A study in memory that knows trials."""
    study = optuna.create_study(direction="maximize", sampler=sampler)
    for one in trials:
        complete, states = one.state == "complete", optuna.trial.TrialState
        steps = set.intersection(*map(set, one.rewards.values())) if one.rewards and one.state == "pruned" else set()
        means = {step: float(np.mean([rewards[step] for rewards in one.rewards.values()])) for step in sorted(steps)}
        params = {
            key: value if (choices := ranges[key].choices) is None else choices.index(value)
            for key, value in one.settings.items()
        }
        # A training that could not go on says that its settings are bad. Optuna takes a pruned trial without rewards as
        # worse than all others, and would forget a failed one.
        study.add_trial(
            optuna.trial.create_trial(
                state=states.COMPLETE if complete else states.PRUNED,
                value=one.gain if complete else None,
                params=params,
                distributions=_distributions(optuna, ranges),
                intermediate_values=means,
            )
        )
    return study


def _distributions(optuna: Any, ranges: Mapping[str, RangeConfig]) -> dict[str, Any]:
    found, kinds = {}, optuna.distributions
    for key, one in sorted(ranges.items()):
        if one.choices is not None:
            found[key] = kinds.CategoricalDistribution(range(len(one.choices)))  # places: values may be lists
        elif isinstance(one.low, int) and isinstance(one.high, int):
            found[key] = kinds.IntDistribution(one.low, one.high, log=one.log)
        else:
            found[key] = kinds.FloatDistribution(one.low, one.high, log=one.log)
    return found


def _value(one: RangeConfig, drawn: Any) -> Any:
    """Value of a setting for what was drawn."""
    if one.choices is not None:
        return one.choices[drawn]
    if isinstance(drawn, int):
        return drawn
    assert one.low is not None
    assert one.high is not None
    return min(max(float(f"{drawn:.{_DIGITS}g}"), float(one.low)), float(one.high))
