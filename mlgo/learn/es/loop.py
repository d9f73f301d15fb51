"""Evolution strategies from a given start, one generation after another."""

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from mlgo.config import ESConfig
from mlgo.errors import TrainingError
from mlgo.learn.es.estimate import antithetic, gradient, perturb, shape_rewards, successful_pairs
from mlgo.learn.es.update import AdamState, adam_step
from mlgo.seeding import generator

Evaluate = Callable[[np.ndarray, int], np.ndarray]
"""``(candidates float32 [num, num_params], generation) -> rewards float64 [num]``, NaN for a failed candidate."""

Validate = Callable[[np.ndarray], float]
"""``weights float32 [num_params] -> mean reward on the validation modules``."""

_MAX_SKIPPED_IN_A_ROW = 3


@dataclass(frozen=True)
class Coordinates:
    """Search coordinates around a start: weight = start + unit * coordinate, for the weights that vary.

    Attributes:
        start: float32 [num_params].
        varied: int64 [num_varied], positions of the weights that vary.
        unit: float64 [num_varied], size of one unit.
    """

    start: np.ndarray
    varied: np.ndarray
    unit: np.ndarray

    @classmethod
    def last_layers(cls, start: np.ndarray, layers: list[slice], num_layers: int) -> "Coordinates":
        """Vary the last layers, in units of each layer's root mean square weight."""
        chosen = layers[-num_layers:]
        units = [np.full(part.stop - part.start, np.sqrt(np.mean(start[part] ** 2))) for part in chosen]
        varied = np.concatenate([np.arange(part.start, part.stop) for part in chosen])
        return cls(start, varied, np.concatenate(units).astype(np.float64))

    def weights(self, points: np.ndarray) -> np.ndarray:
        """Map ``[..., num_varied]`` to weights ``float32 [..., num_params]``."""
        weights = np.broadcast_to(self.start, (*points.shape[:-1], self.start.size)).copy()
        weights[..., self.varied] += (self.unit * points).astype(np.float32)
        return weights


@dataclass(frozen=True)
class EsState:
    """Everything a run needs to go on after a stop.

    Attributes:
        generation: generations done.
        mean: float64 [num_varied], search point.
        adam: optimiser state.
        best: float64 [num_varied], validated point with the highest validation reward.
        best_reward: its validation reward; -inf before the first validation.
        history: one record per generation, oldest first.
    """

    generation: int
    mean: np.ndarray
    adam: AdamState
    best: np.ndarray
    best_reward: float
    history: tuple[dict[str, Any], ...] = ()

    @classmethod
    def start(cls, num_varied: int) -> "EsState":
        """State before the first generation."""
        zeros = np.zeros(num_varied)
        return cls(0, zeros, AdamState.zeros(num_varied), zeros, float("-inf"))


def evolve(
    coordinates: Coordinates,
    evaluate: Evaluate,
    validate: Validate,
    config: ESConfig,
    seed: int,
    state: EsState | None = None,
    after_generation: Callable[[EsState], None] = lambda state: None,
) -> EsState:
    """Run generations until the configured number is reached.

    The noise of a generation depends on seed and generation only, so a resumed run equals an undisturbed one.

    Args:
        coordinates: where to search.
        evaluate: rewards of candidates.
        validate: reward of the mean on other projects; decides which point is returned as best.
        config: sizes of generations and steps.
        seed: root seed of the noise.
        state: where to go on; None starts anew.
        after_generation: called with each new state, for checkpoints and logs.

    Raises:
        TrainingError: several generations in a row had too few successful pairs.
    """
    state = state or _validated(EsState.start(coordinates.varied.size), coordinates, validate)
    _stop_if_all_skipped(state)
    while state.generation < config.generations:
        state = _next_generation(state, coordinates, evaluate, config, seed)
        if state.generation % config.validate_every == 0 or state.generation == config.generations:
            state = _validated(state, coordinates, validate)
        after_generation(state)
        _stop_if_all_skipped(state)
    return state


def _next_generation(
    state: EsState, coordinates: Coordinates, evaluate: Evaluate, config: ESConfig, seed: int
) -> EsState:
    rng = generator(seed, "es", "noise", state.generation)
    noise = perturb(rng, config.pairs, state.mean.size, config.perturbation)
    rewards = evaluate(coordinates.weights(antithetic(state.mean, noise)), state.generation)
    good = successful_pairs(rewards)
    record = _record(state.generation + 1, rewards, good)
    if good.mean() < max(config.min_success_share, 1e-9):
        return replace(state, generation=state.generation + 1, history=(*state.history, {**record, "skipped": True}))
    shaped = shape_rewards(rewards[np.tile(good, 2)], config.shaping)
    slope = gradient(noise[good], shaped, config.perturbation)
    change, adam = adam_step(state.adam, slope, config.step_size) if slope.any() else (0.0, state.adam)
    mean = (1.0 - config.weight_decay) * state.mean + change
    return replace(state, generation=state.generation + 1, mean=mean, adam=adam, history=(*state.history, record))


def _validated(state: EsState, coordinates: Coordinates, validate: Validate) -> EsState:
    reward = validate(coordinates.weights(state.mean))
    history = state.history
    if history:
        history = (*history[:-1], {**history[-1], "validation_reward": reward})
    else:
        history = ({"generation": 0, "validation_reward": reward, "skipped": False},)
    state = replace(state, history=history)
    if reward > state.best_reward:
        return replace(state, best=state.mean, best_reward=reward)
    return state


def _record(generation: int, rewards: np.ndarray, good: np.ndarray) -> dict[str, Any]:
    finite = rewards[np.isfinite(rewards)]
    return {
        "generation": generation,
        "mean_reward": float(finite.mean()) if finite.size else None,
        "max_reward": float(finite.max()) if finite.size else None,
        "min_reward": float(finite.min()) if finite.size else None,
        "win_share": float((finite > 0).mean()) if finite.size else None,
        "failed_candidates": int(rewards.size - finite.size),
        "successful_pairs": int(good.sum()),
        "skipped": False,
    }


def _stop_if_all_skipped(state: EsState) -> None:
    last = state.history[-_MAX_SKIPPED_IN_A_ROW:]
    if len(last) == _MAX_SKIPPED_IN_A_ROW and all(record["skipped"] for record in last):
        raise TrainingError(
            f"{_MAX_SKIPPED_IN_A_ROW} generations in a row had too few candidates that compile; raise "
            "compile.compile_timeout_s or lower es.perturbation"
        )
