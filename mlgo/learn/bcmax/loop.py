"""BC-Max: rounds of exploring, keeping the best trajectory of each module, and cloning it.

Kim et al. 2024, "Offline Imitation Learning from Multiple Baselines with Applications to Compiler Optimization": of
several baseline policies' trajectories in an environment, imitate the one with the highest reward; repeat with the
clone among the baselines.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace

import numpy as np

from mlgo.errors import NothingCompiled, TrainingError
from mlgo.learn.base import State
from mlgo.learn.bc import CloneData
from mlgo.learn.bcmax.best import HEURISTIC, Trajectory, imitation_data, keep_best, mean_reward
from mlgo.learn.bcmax.config import BCMaxConfig
from mlgo.learn.bcmax.explorers import CompiledRollouts
from mlgo.learn.bcmax.fit import Fit

FitClone = Callable[[CloneData, np.ndarray | None, int], Fit]
"""``(what to imitate, start weights or None for fresh ones, round) -> clone``."""


@dataclass(frozen=True)
class BCMaxState(State):
    """Everything a run needs to go on after a stop.

    The history has rewards of the policy that each round ended with, and begins with round 0, the start.

    Attributes:
        weights: float32 [num_params], current policy.
        known: best trajectory of each training module, or of each of its functions.
    """

    weights: np.ndarray
    known: Mapping[str, Trajectory]


STATES = (BCMaxState, Trajectory)
"""What a checkpoint is made of."""


def imitate_best(
    start: np.ndarray | None,
    heuristic: Mapping[str, Trajectory] | None,
    rollouts: CompiledRollouts,
    fit: FitClone,
    config: BCMaxConfig,
    state: BCMaxState | None = None,
    after_round: Callable[[BCMaxState], None] = lambda state: None,
) -> BCMaxState:
    """Run rounds until the configured number is reached."""
    if heuristic is not None and not heuristic:
        raise TrainingError("no training module has a trajectory of the heuristic; run the baseline stage again")
    if state is None:
        state = _first_state(start, heuristic or {}, rollouts, fit, config)
        after_round(state)
    while state.done < config.rounds:
        state = _next_round(state, rollouts, fit, config)
        after_round(state)
    return state


def _first_state(
    start: np.ndarray | None,
    heuristic: Mapping[str, Trajectory],
    rollouts: CompiledRollouts,
    fit: FitClone,
    config: BCMaxConfig,
) -> BCMaxState:
    if start is None:
        start = fit(imitation_data(heuristic, config.weighting, config.gain_weight), None, 0).weights
    state = BCMaxState(start, float("-inf"), (), start, heuristic)
    return _judged(state, rollouts, list(rollouts.explore(start, 0)), {})


def _next_round(state: BCMaxState, rollouts: CompiledRollouts, fit: FitClone, config: BCMaxConfig) -> BCMaxState:
    number = state.done + 1
    explored = list(rollouts.explore(state.weights, number))
    known = keep_best(state.known, explored)
    clone = fit(imitation_data(known, config.weighting, config.gain_weight), state.weights, number)
    return _judged(
        replace(state, weights=clone.weights), rollouts, explored, {"loss": clone.loss, "accuracy": clone.accuracy}
    )


def _judged(
    state: BCMaxState, rollouts: CompiledRollouts, explored: list[Trajectory], fitted: dict[str, float]
) -> BCMaxState:
    """Compile everything under the new policy, add its trajectories to the known ones, write the round's record."""
    own, number = rollouts.measure(state.weights), len(state.history)
    if not own:
        raise NothingCompiled(
            f"every compile under the policy of round {number} failed; raise compile.compile_timeout_s or lower "
            "bcmax.learning_rate"
        )
    known = keep_best(state.known, [*explored, *own])
    reward = rollouts.validate(state.weights)
    record = {
        "generation": number,  # the report draws learning curves over this column
        "mean_reward": mean_reward(own),
        "best_known_reward": mean_reward(known.values()),
        "improved_modules": len({one.module for key, one in known.items() if one is not state.known.get(key)}),
        "heuristic_modules": len({one.module for one in known.values() if one.source == HEURISTIC}),
        **fitted,
        "validation_reward": reward,
        "evaluations": rollouts.num_evaluations,
    }
    return replace(state, known=known, history=(*state.history, record)).validated(state.weights, reward)
