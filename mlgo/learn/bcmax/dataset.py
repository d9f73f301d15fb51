"""From the recorded trace and from compiles to trajectories."""

import itertools
from collections.abc import Collection, Iterable, Mapping

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from mlgo.errors import TrainingError
from mlgo.learn.bcmax.best import HEURISTIC, Trajectory
from mlgo.policy.features import Normalisation, check_features
from mlgo.rollout.episodes import Episode


def heuristic_trajectories(
    trace: pa.Table, modules: Collection[str], normalise: Normalisation
) -> dict[str, Trajectory]:
    """What the heuristic was asked and answered, whole modules.

    Args:
        trace: ``artifacts.trace_schema`` rows, steps of a module in order.
        modules: keys of the modules to take.
        normalise: from raw features to inputs; its features must all be in the trace.

    Returns:
        Trajectories by module key, their reward 0.

    Raises:
        PolicyError: the trace lacks a feature.
        TrainingError: the trace lacks a module.
    """
    check_features(normalise.features, trace.column_names, "the trace")
    keys = pc.binary_join_element_wise(trace["project"], trace["module"], "/").to_pylist()
    columns = [trace[name].to_numpy() for name in normalise.features]
    answers = trace["answer"].to_numpy()
    found: dict[str, Trajectory] = {}
    for key, run in itertools.groupby(range(len(keys)), key=keys.__getitem__):
        if key in modules:
            rows = np.array(list(run))
            inputs = normalise(np.column_stack([column[rows] for column in columns])).astype(np.float16)
            found[key] = Trajectory(key, HEURISTIC, inputs, answers[rows].astype(np.uint8), 0.0)
    if missing := sorted(set(modules) - found.keys()):
        raise TrainingError(
            f"the trace lacks {len(missing)} modules that have scores, the first is {missing[0]}; "
            "run the baseline stage again"
        )
    return found


def trajectories(episodes: Iterable[Episode | None], source: str, baseline: Mapping[str, float]) -> list[Trajectory]:
    """Episodes with their rewards; failed compiles are left out.

    Args:
        episodes: compiles, None where one failed.
        source: who answered.
        baseline: score under the heuristic by module.
    """
    return [
        Trajectory(one.module, source, one.inputs, one.answers, one.reward(baseline[one.module]))
        for one in episodes
        if one is not None
    ]
