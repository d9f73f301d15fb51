"""Evolution strategies from a given start, one generation after another."""

from collections.abc import Callable
from dataclasses import dataclass, replace

import numpy as np

from mlgo.base.seeding import generator
from mlgo.errors import NothingCompiled, TrainingError
from mlgo.learn.base import State, Validate, run_steps
from mlgo.learn.es import gradient
from mlgo.learn.es.config import ESConfig

_PERCENTILES = (5, 25, 50, 75, 95)
_OF_CANDIDATES = ("mean_reward", "max_reward", "min_reward", *(f"reward_p{q:02}" for q in _PERCENTILES))
_OF_MODULES = ("win_share", "regression_share", "mean_regression", "worst_regression")


def mean_over_common(rewards: np.ndarray) -> np.ndarray:
    """Mean reward of each candidate over the modules that it compiled: float64 [num_candidates].

    A module on which at least half of the candidates fail says more about itself than about them; it counts for none.
    A candidate that fails on another is left without a mean (NaN); so is one without a module that counts.
    """
    values, asked = np.ma.getdata(rewards), ~np.ma.getmaskarray(rewards)
    counted = asked & ((asked & np.isnan(values)).sum(axis=0) < 0.5 * asked.sum(axis=0))
    num = counted.sum(axis=1)
    return np.where(num > 0, np.where(counted, values, 0.0).sum(axis=1) / np.maximum(num, 1), np.nan)


def ranks_by_module(rewards: np.ndarray) -> np.ndarray:
    """Rewards, float64 [num_candidates, num_modules], as ranks on their module, see `gradient.centred_ranks`."""
    ranks = rewards.copy()
    for column in range(ranks.shape[1]):
        known = np.isfinite(np.ma.filled(rewards[:, column], np.nan))
        if known.any():
            ranks[known, column] = gradient.centred_ranks(np.ma.getdata(rewards)[known, column])
    return ranks


def shared_out(num_pairs: int, num_modules: int, per_pair: int, rng: np.random.Generator) -> np.ndarray:
    """Give each antithetic pair some modules of its own, in turn: bool [2 * num_pairs, num_modules]."""
    taken = rng.permutation(num_modules)[np.arange(num_pairs * per_pair).reshape(num_pairs, per_pair) % num_modules]
    shared = np.zeros((num_pairs, num_modules), bool)
    np.put_along_axis(shared, taken, True, axis=1)
    return np.tile(shared, (2, 1))


def reward_figures(rewards: np.ndarray, means: np.ndarray) -> dict[str, float | None]:
    """Figures of one generation by rewards, float64 [num_candidates, num_modules]; None where nothing compiled.

    A failed compile is NaN; ``means`` are of `mean_over_common`. ``*_reward`` and ``reward_p*`` (percentiles) are of
    candidates. ``win_share`` and ``regression_share`` are the shares of module rewards above and below 0;
    ``mean_regression`` and ``worst_regression`` are of those below 0, and 0 when there are none.
    """
    means, rewards = means[np.isfinite(means)], np.ma.compressed(rewards)
    rewards = rewards[np.isfinite(rewards)]
    figures: dict[str, float | None] = dict.fromkeys((*_OF_CANDIDATES, *_OF_MODULES))
    if means.size:
        values = [means.mean(), means.max(), means.min(), *np.percentile(means, _PERCENTILES)]
        figures.update(zip(_OF_CANDIDATES, map(float, values), strict=True))
    if rewards.size:
        worse = rewards[rewards < 0.0]
        ends = (worse.mean(), worse.min()) if worse.size else (0.0, 0.0)
        values = [(rewards > 0.0).mean(), worse.size / rewards.size, *ends]
        figures.update(zip(_OF_MODULES, map(float, values), strict=True))
    return figures


Evaluate = Callable[[np.ndarray, int], np.ndarray]
"""``(candidates float32 [num, num_params], generation) -> rewards float64 [num, num_modules]``, NaN where a compile
failed, masked where none was asked for; the modules are the same whenever the generation is."""

Steer = Callable[[np.ndarray, np.ndarray], float]
"""``(mean float64 [num_varied], noise [pairs, num_varied]) -> factor`` of noise and step."""


def as_configured(mean: np.ndarray, noise: np.ndarray) -> float:
    """Noise and steps, float64 [pairs, num_varied], stay as they are configured."""
    return 1.0


_MAX_SKIPPED_IN_A_ROW = 3


@dataclass(frozen=True)
class EsState(State):
    """State of a run, enough to resume it: search points are float64 [num_varied], `best` of those validated."""

    mean: np.ndarray
    optimizer: gradient.AdamState

    @property
    def beats_all_before(self) -> bool:
        """Whether the last generation was validated, with a higher reward than ever before."""
        *before, last = (record.get("validation_reward", float("-inf")) for record in self.history)
        return bool(last > max(before, default=float("-inf")))


STATES = (EsState, gradient.AdamState)
"""Dataclasses of a checkpoint."""


def evolve(
    coordinates: gradient.Coordinates,
    evaluate: Evaluate,
    validate: Validate,
    config: ESConfig,
    seed: int,
    state: EsState | None = None,
    after_generation: Callable[[EsState, np.ndarray], None] = lambda state, rewards: None,
    steer: Steer = as_configured,
) -> EsState:
    """Run generations until the configured number is reached.

    The noise of a generation depends on seed and generation only, so a resumed run equals an undisturbed one.

    Args:
        validate: rewards of the mean on other projects; decides which point is returned as best.
        state: where to go on, from a run with the same configuration; None starts anew.
        after_generation: called with each new state and the rewards of its candidates, float64 [num, num_modules], for
            checkpoints and logs.
        steer: how much larger than configured noise and steps of a generation are.

    Raises:
        NothingCompiled: several generations in a row had too few candidates that compile.
    """
    rewards = np.zeros((0, 0))

    def generation(state: EsState) -> EsState:
        nonlocal rewards
        state, rewards = _next_generation(state, coordinates, evaluate, config, seed, steer)
        return state

    def validated(state: EsState) -> EsState:
        return state.validated(state.mean, validate(coordinates.weights(state.mean)))

    def after(state: EsState) -> None:
        after_generation(state, rewards)
        _stop_if_all_skipped(state)

    if state is None:
        zeros, record = np.zeros(coordinates.varied.size), {"generation": 0, "evaluations": 0, "skipped": False}
        state = validated(EsState(zeros, float("-inf"), (record,), zeros, gradient.AdamState(0, zeros, zeros)))
    _stop_if_all_skipped(state)
    return run_steps(state, config.generations, generation, after, validated, config.validate_every)


def _next_generation(
    state: EsState, coordinates: gradient.Coordinates, evaluate: Evaluate, config: ESConfig, seed: int, steer: Steer
) -> tuple[EsState, np.ndarray]:
    rng = generator(seed, "es", "noise", state.done)
    noise = config.perturbation * rng.standard_normal((config.pairs, state.mean.size))
    factor = steer(state.mean, noise)
    step_size = factor * config.step_size * config.step_decay**state.done
    config = config.model_copy(update={"perturbation": factor * config.perturbation})
    directions = gradient.Directions(factor * noise)
    rewards = evaluate(coordinates.weights(state.mean + directions.offsets), state.done)
    means = mean_over_common(rewards if config.ranks == "candidates" else ranks_by_module(rewards))
    usable = directions.usable(means)
    skipped = bool(usable.mean() < max(config.min_success_share, 1e-9))
    record = {
        "generation": state.done + 1,
        **reward_figures(rewards, mean_over_common(rewards)),
        "noise": config.perturbation,
        "step": step_size,
        "failed_candidates": int((~np.isfinite(means)).sum()),
        "successful_pairs": int(usable.sum()),
        "differing_pairs": int((directions.rises(means)[usable] != 0.0).sum()),
        "skipped": skipped,
        "evaluations": state.history[-1]["evaluations"] + int(np.ma.count(rewards)),
    }
    if not skipped:
        chosen, kept = directions.chosen(usable, means)
        shaped = gradient.centred_ranks(kept)
        record["signal_share"] = gradient.signal_share(chosen, shaped)
        slope = gradient.monte_carlo(chosen, shaped, config.perturbation)
        change, optimizer = gradient.adam_step(state.optimizer, slope, step_size)
        state = replace(state, mean=_finite(state.mean + change), optimizer=optimizer)
    return replace(state, history=(*state.history, record)), rewards


def _finite(mean: np.ndarray) -> np.ndarray:
    with np.errstate(over="ignore"):
        representable = np.isfinite(mean.astype(np.float32)).all()  # what policies are made of
    if not representable:
        raise TrainingError("the mean policy has left the range of numbers; lower es.step_size")
    return mean


def _stop_if_all_skipped(state: EsState) -> None:
    last = state.history[-_MAX_SKIPPED_IN_A_ROW:]
    if len(last) == _MAX_SKIPPED_IN_A_ROW and all(record["skipped"] for record in last):
        raise NothingCompiled(
            f"{_MAX_SKIPPED_IN_A_ROW} generations in a row had too few candidates that compile; raise "
            "compile.compile_timeout_s or lower es.perturbation"
        )
