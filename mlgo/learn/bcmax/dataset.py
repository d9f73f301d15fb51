"""From the recorded trace and from compiles to trajectories."""

from collections.abc import Collection, Iterable, Mapping

import pyarrow as pa

from mlgo.actions import ActionSpace
from mlgo.learn.bc.dataset import whole_modules
from mlgo.learn.bcmax.best import HEURISTIC, Trajectory
from mlgo.policy.features import Normalisation
from mlgo.rollout.episodes import Episode


def heuristic_trajectories(
    trace: pa.Table, modules: Collection[str], actions: ActionSpace, normalise: Normalisation
) -> dict[str, Trajectory]:
    """What the heuristic was asked and answered, whole modules.

    Args:
        trace: ``artifacts.trace_schema`` rows, steps of a module in order.
        modules: keys of the modules to take.
        actions: how observations are seen.
        normalise: from raw features to inputs; its features must all be in the trace.

    Returns:
        Trajectories by module key, their reward 0.

    Raises:
        PolicyError: the trace lacks a feature.
        TrainingError: the trace lacks a module.
    """
    return {
        key: Trajectory(key, HEURISTIC, inputs, answers, 0.0)
        for key, (inputs, answers) in whole_modules(trace, modules, actions, normalise).items()
    }


def trajectories(
    episodes: Iterable[Episode], source: str, baseline: Mapping[str, float], offset: float = 0.0
) -> list[Trajectory]:
    """Episodes with their rewards.

    Args:
        episodes: compiles, or functions of them.
        source: who answered.
        baseline: score under the heuristic by module.
        offset: see `relative_reward`.
    """
    return [
        Trajectory(one.module, source, one.inputs, one.answers, one.reward(baseline[one.module], offset), one.function)
        for one in episodes
    ]
