"""Evolution strategies from a given start, one generation after another."""

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from mlgo.base.seeding import generator
from mlgo.errors import NothingCompiled, TrainingError
from mlgo.learn.base import State, run_steps
from mlgo.learn.es.config import ESConfig
from mlgo.learn.es.directions import Coordinates, Directions
from mlgo.learn.es.gradient import (
    AdamState,
    TrustRegionState,
    adam_step,
    estimate_gradient,
    fit_slope,
    trust_region_step,
)
from mlgo.learn.es.rewards import mean_improvement, mean_over_common, reward_figures

Evaluate = Callable[[np.ndarray, int], np.ndarray]
"""``(candidates float32 [num, num_params], generation) -> rewards float64 [num, num_modules]``, NaN where a compile
failed; the modules are the same whenever the generation is. A trust region asks twice in a generation."""

Validate = Callable[[np.ndarray], np.ndarray]
"""``weights float32 [num_params] -> rewards on the validation modules, float64 [num_modules]``."""

_MAX_SKIPPED_IN_A_ROW = 3


@dataclass(frozen=True)
class EsState(State):
    """State of a run, enough to resume it.

    Attributes:
        mean: float64 [num_varied], search point; `best` is another, of those that were validated.
    """

    mean: np.ndarray
    optimizer: AdamState | TrustRegionState

    @classmethod
    def start(cls, num_varied: int, config: ESConfig) -> "EsState":
        """State before the first generation."""
        zeros, record = np.zeros(num_varied), {"generation": 0, "evaluations": 0, "skipped": False}
        region = TrustRegionState(config.trust_region.radius)
        optimizer = AdamState.zeros(num_varied) if config.update == "adam" else region
        return cls(zeros, float("-inf"), (record,), zeros, optimizer)

    @property
    def beats_all_before(self) -> bool:
        """Whether the last generation was validated, with a higher reward than ever before."""
        *before, last = (record.get("validation_reward", float("-inf")) for record in self.history)
        return bool(last > max(before, default=float("-inf")))


STATES = (EsState, AdamState, TrustRegionState)
"""Dataclasses of a checkpoint."""


def evolve(
    coordinates: Coordinates,
    evaluate: Evaluate,
    validate: Validate,
    config: ESConfig,
    seed: int,
    state: EsState | None = None,
    after_generation: Callable[[EsState, np.ndarray], None] = lambda state, rewards: None,
) -> EsState:
    """Run generations until the configured number is reached.

    The noise of a generation depends on seed and generation only, so a resumed run equals an undisturbed one.

    Args:
        coordinates: where to search.
        evaluate: rewards of candidates.
        validate: rewards of the mean on other projects; decides which point is returned as best.
        config: sizes of generations and steps.
        seed: root seed of the noise.
        state: where to go on, from a run with the same configuration; None starts anew.
        after_generation: called with each new state and the rewards of its candidates, float64 [num, num_modules], for
            checkpoints and logs.

    Raises:
        NothingCompiled: several generations in a row had too few candidates that compile.
    """
    rewards = np.zeros((0, 0))

    def generation(state: EsState) -> EsState:
        nonlocal rewards
        state, rewards = _next_generation(state, coordinates, evaluate, config, seed)
        return state

    def validated(state: EsState) -> EsState:
        found = validate(coordinates.weights(state.mean))
        return state.validated(state.mean, float(found.mean()), len(found))

    def after(state: EsState) -> None:
        after_generation(state, rewards)
        _stop_if_all_skipped(state)

    state = state or validated(EsState.start(coordinates.varied.size, config))
    _stop_if_all_skipped(state)
    return run_steps(state, config.generations, generation, after, validated, config.validate_every)


def _next_generation(
    state: EsState, coordinates: Coordinates, evaluate: Evaluate, config: ESConfig, seed: int
) -> tuple[EsState, np.ndarray]:
    evaluations = state.history[-1]["evaluations"]

    def rewards_at(offsets: np.ndarray) -> np.ndarray:
        nonlocal evaluations
        rewards = evaluate(coordinates.weights(state.mean + offsets), state.done)
        evaluations += rewards.size
        return rewards

    rng = generator(seed, "es", "noise", state.done)
    noise = config.perturbation * rng.standard_normal((config.pairs, state.mean.size))
    directions = Directions(noise, config.estimator == "antithetic")
    rewards = rewards_at(directions.offsets)
    means = mean_over_common(rewards)
    usable = directions.usable(means)
    record = {
        "generation": state.done + 1,
        **reward_figures(rewards, means),
        "failed_candidates": int((~np.isfinite(means)).sum()),
        "successful_pairs": int(usable.sum()),
        "skipped": bool(usable.mean() < max(config.min_success_share, 1e-9)),
    }
    if not record["skipped"]:
        directions, means = directions.keep(usable, means)
        state, notes = _moved(state, directions, means, config, rewards_at)
        record |= notes
    record["evaluations"] = evaluations
    return replace(state, history=(*state.history, record)), rewards


def _moved(
    state: EsState,
    directions: Directions,
    means: np.ndarray,
    config: ESConfig,
    rewards_at: Callable[[np.ndarray], np.ndarray],
) -> tuple[EsState, dict[str, Any]]:
    """The state with mean and optimiser moved by what the usable directions have shown, and notes for its record."""
    if isinstance(state.optimizer, TrustRegionState):

        def improvement(step: np.ndarray) -> float:
            return mean_improvement(rewards_at(np.stack([np.zeros_like(step), step])))

        slope = fit_slope(directions.offsets, means, config.perturbation, config.trust_region.ridge_penalty)
        change, region, notes = trust_region_step(state.optimizer, slope, improvement, config.trust_region)
        return replace(state, mean=_finite(state.mean + change), optimizer=region), notes
    change, optimizer = adam_step(state.optimizer, estimate_gradient(directions, means, config), config.step_size)
    return replace(state, mean=_finite(state.mean + change), optimizer=optimizer), {}


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
