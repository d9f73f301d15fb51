"""The best known trajectory of each module, or of each function of it, and what to imitate of it."""

from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from mlgo.evaluate.episodes import Episode
from mlgo.host.action_space import ActionSpace, Scaling
from mlgo.learn.bc import CloneData
from mlgo.learn.bc.dataset import Weighting, question_weights, whole_modules

HEURISTIC = "heuristic"
"""Source of the trajectories that every search begins with; their reward is 0 by definition."""

_PERCENT = 100.0


@dataclass(frozen=True)
class Trajectory:
    """Questions and answers of one compile, or of one of its functions, and what they were worth.

    Attributes:
        inputs: float16 [num_questions, ...], see `Policy.inputs_for`.
        answers: uint8 [num_questions].
        reward: relative reward, see `Episode.reward`.
        function: symbol, where each function is judged by itself; else empty.
    """

    module: str
    source: str
    inputs: np.ndarray
    answers: np.ndarray
    reward: float
    function: str = ""

    @property
    def key(self) -> str:
        """What it is a trajectory of."""
        return f"{self.module} {self.function}" if self.function else self.module


def heuristic_trajectories(
    trace: pa.Table, modules: Collection[str], actions: ActionSpace, normalise: Scaling
) -> dict[str, Trajectory]:
    """What the heuristic was asked and answered, whole modules."""
    return {
        key: Trajectory(key, HEURISTIC, inputs, answers, 0.0)
        for key, inputs, answers in whole_modules(trace, modules, actions, normalise)
    }


def trajectories(
    episodes: Iterable[Episode], source: str, baseline: Mapping[str, float], offset: float = 0.0
) -> list[Trajectory]:
    """Episodes with their rewards."""
    return [
        Trajectory(one.module, source, one.inputs, one.answers, one.reward(baseline[one.module], offset), one.function)
        for one in episodes
    ]


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
    """Join the best trajectories for cloning.

    A module counts ``1 + gain_weight * percent gained`` times what its number of questions gives it. Where nothing has
    beaten the heuristic its own trajectory counts once, so that the clone does not forget it.
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
