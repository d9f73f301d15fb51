"""BC-Max: rounds of exploring, keeping the best trajectory of each module, and cloning it.

Kim et al. 2024, "Offline Imitation Learning from Multiple Baselines with Applications to Compiler Optimization": of
several baseline policies' trajectories in an environment, imitate the one with the highest reward; repeat with the
clone among the baselines.
"""

from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import dataclass, replace
from itertools import chain

import numpy as np
import pyarrow as pa

from mlgo.errors import NothingCompiled, TrainingError
from mlgo.host.actions import ActionSpace, Scaling
from mlgo.learn.base import Fitted, State, Trajectory, Validate, run_steps
from mlgo.learn.bcmax.explorers import BCMaxConfig
from mlgo.learn.cloning import CloneData
from mlgo.learn.dataset import Weighting, question_weights, whole_modules

HEURISTIC = "heuristic"
"""Source of the trajectories that every search begins with; their reward is 0 by definition."""

_PERCENT = 100.0

Compiled = list[list[Trajectory]]
"""What each compile teaches, of the module as a whole or of its functions; nothing where it failed."""

FitClone = Callable[[CloneData, np.ndarray | None, int], Fitted]
"""``(what to imitate, start weights or None for fresh ones, round) -> clone``."""


@dataclass(frozen=True)
class BCMaxState(State):
    """State of a run, enough to resume it; each record is of the policy that its round ended with, first the start."""

    weights: np.ndarray  # float32 [num_params], current policy
    known: Mapping[str, Trajectory]  # best trajectory of each training module, or of each of its functions


STATES = (BCMaxState, Trajectory)
"""What a checkpoint is made of."""


def imitate_best(
    start: np.ndarray | None,
    heuristic: Mapping[str, Trajectory] | None,
    explore: Callable[[np.ndarray, int], Compiled],
    measure: Callable[[np.ndarray], Compiled],
    validate: Validate,
    fit: FitClone,
    config: BCMaxConfig,
    state: BCMaxState | None = None,
    after_round: Callable[[BCMaxState], None] = lambda state: None,
) -> BCMaxState:
    """Run all configured rounds, from weights ``start``, float32 [num_params], or from a clone of the heuristic.

    ``explore`` compiles training modules under the references (round 0), or under variants of a policy; ``measure``
    compiles them under a policy itself.
    """
    if heuristic is not None and not heuristic:
        raise TrainingError("no training module has a trajectory of the heuristic; run the baseline stage again")

    def cloned(known: Mapping[str, Trajectory], weights: np.ndarray | None, number: int) -> Fitted:
        return fit(imitation_data(known, config.weighting, config.gain_weight), weights, number)

    def judged(state: BCMaxState, explored: Compiled, fitted: Mapping[str, float]) -> BCMaxState:
        """Compile under the new policy, add its trajectories to the known ones, write the round's record."""
        own, number = measure(state.weights), len(state.history)
        if not any(own):
            raise NothingCompiled(
                f"every compile under the policy of round {number} failed; raise compile.compile_timeout_s or lower "
                "bcmax.learning_rate"
            )
        known, rewards = keep_best(state.known, chain(*explored, *own)), validate(state.weights)
        before = state.history[-1]["evaluations"] if state.history else 0
        record = {
            "generation": number,  # the report draws learning curves over this column
            "mean_reward": mean_reward(list(chain(*own))),
            "best_known_reward": mean_reward(known.values()),
            "improved_modules": len({one.module for key, one in known.items() if one is not state.known.get(key)}),
            "heuristic_modules": len({one.module for one in known.values() if one.source == HEURISTIC}),
            **fitted,
            "validation_reward": float(rewards.mean()),
            "evaluations": before + len(explored) + len(own) + len(rewards),
        }
        state = replace(state, known=known, history=(*state.history, record))
        return state.with_better(state.weights, record["validation_reward"])

    def next_round(state: BCMaxState) -> BCMaxState:
        number = state.done + 1
        explored = explore(state.weights, number)
        weights, figures = cloned(keep_best(state.known, chain(*explored)), state.weights, number)
        return judged(replace(state, weights=weights), explored, figures)

    if state is None:
        known = heuristic or {}
        weights = cloned(known, None, 0)[0] if start is None else start
        state = judged(BCMaxState(weights, float("-inf"), (), weights, known), explore(weights, 0), {})
        after_round(state)
    return run_steps(state, config.rounds, next_round, after_round)


def heuristic_trajectories(
    trace: pa.Table, modules: Collection[str], actions: ActionSpace, normalise: Scaling
) -> dict[str, Trajectory]:
    """What the heuristic was asked and answered, whole modules."""
    return {
        key: Trajectory(key, inputs, answers, 0.0, source=HEURISTIC)
        for key, inputs, answers in whole_modules(trace, modules, actions, normalise)
    }


def mean_reward(trajectories: Collection[Trajectory]) -> float:
    """Mean over modules of what their functions gain together."""
    return sum(one.reward for one in trajectories) / len({one.module for one in trajectories})


def keep_best(known: Mapping[str, Trajectory], new: Iterable[Trajectory]) -> dict[str, Trajectory]:
    """Replace what has been beaten; of equals the earlier stays: the order of modules and rounds decides."""
    best = dict(known)
    for one in new:
        if one.key not in best or one.reward > best[one.key].reward:
            best[one.key] = one
    return best


def imitation_data(known: Mapping[str, Trajectory], weighting: Weighting, gain_weight: float) -> CloneData:
    """Join the best trajectories for cloning; modules count ``1 + gain_weight * percent gained`` times their weight.

    Where nothing has beaten the heuristic its own trajectory counts once, so that the clone does not forget it.
    """
    chosen = [known[key] for key in sorted(known)]
    answers = np.concatenate([one.answers for one in chosen]).astype(np.float32)
    modules = np.repeat(np.arange(len(chosen)), [len(one.answers) for one in chosen])
    factors = np.array([1.0 + gain_weight * _PERCENT * max(0.0, one.reward) for one in chosen])
    return CloneData(
        np.concatenate([one.inputs for one in chosen]).astype(np.float32),
        answers,
        question_weights(modules, answers, weighting, False, factors),
    )
