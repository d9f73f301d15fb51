"""From a recorded trace to arrays for cloning."""

import itertools

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from mlgo.learn.bc.loop import CloneData
from mlgo.policy.features import Normalisation, check_features
from mlgo.seeding import sample


def clone_data(
    trace: pa.Table, projects: set[str], normalise: Normalisation, max_steps_per_module: int, seed: int
) -> CloneData:
    """Select a trace's questions of some projects, a bounded number per module, and normalise them.

    Args:
        trace: ``artifacts.trace_schema`` rows.
        projects: projects to take.
        normalise: from raw features to inputs; its features must all be in the trace.
        max_steps_per_module: larger modules are sampled, reproducibly.
        seed: root seed of the sampling.

    Raises:
        PolicyError: the trace lacks a feature.
    """
    check_features(normalise.features, trace.column_names, "the trace")
    trace = trace.filter(pc.is_in(trace["project"], pa.array(sorted(projects), pa.string())))
    rows = _bounded_rows(trace, max_steps_per_module, seed)
    observations = np.column_stack([trace[name].to_numpy()[rows] for name in normalise.features])
    return CloneData(normalise(observations), trace["answer"].to_numpy()[rows].astype(np.float32))


def _bounded_rows(trace: pa.Table, max_steps: int, seed: int) -> np.ndarray:
    """Positions of the rows to keep, ascending."""
    keys = pc.binary_join_element_wise(trace["project"], trace["module"], "/").to_pylist()
    chosen: list[int] = []
    for key, run in itertools.groupby(range(len(keys)), key=keys.__getitem__):
        chosen += sample(list(run), max_steps, seed, "clone", key)
    return np.array(chosen, np.int64)
