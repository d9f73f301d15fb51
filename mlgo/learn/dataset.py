"""From a recorded trace to arrays for cloning."""

import bisect
import itertools
from collections.abc import Collection, Iterator, Mapping
from typing import Any, Literal

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from mlgo.base.artifacts import trace_schema
from mlgo.base.seeding import sample
from mlgo.errors import ConfigError, TrainingError
from mlgo.host.actions import ActionSpace, Observation, Scaling, check_features
from mlgo.host.tasks.task import get_task
from mlgo.learn.cloning import CloneData
from mlgo.policy.features import Normalisation
from mlgo.policy.vocabulary import values_of

Weighting = Literal["question", "module", "sqrt"]

_MODULE_EXPONENT = {"question": 0.0, "sqrt": 0.5, "module": 1.0}


def question_weights(
    modules: np.ndarray,
    answers: np.ndarray,
    weighting: Weighting,
    balance: bool,
    module_weights: np.ndarray | None = None,
) -> np.ndarray | None:
    """Weights of questions, their mean 1, so that the step size keeps its meaning.

    A module of n questions has a total weight in proportion to n (``question``), to its square root (``sqrt``) or to
    nothing (``module``). Balancing then scales the questions of each answer so that all answers weigh the same.

    Args:
        modules: int64 [num_questions], number of each question's module, from 0.
        module_weights: float64 [num_modules], further factor of each module.

    Returns:
        float32 [num_questions]; None where all questions count the same.
    """
    if weighting == "question" and not balance and module_weights is None:
        return None
    if not len(answers):
        return np.zeros(0, np.float32)
    weights = (1.0 / np.bincount(modules)[modules]) ** _MODULE_EXPONENT[weighting]
    if module_weights is not None:
        weights = weights * module_weights[modules]
    if balance:
        _, kinds = np.unique(answers, return_inverse=True)
        weights = weights / np.bincount(kinds, weights)[kinds]
    return (weights / weights.mean()).astype(np.float32)


MOST_QUESTIONS = 1 << 20
"""Questions to imitate, at most: with 38 features as float32 they take 160 MB, and twice that as a trace has them."""


def check_trace(trace: pa.Table, origin: Mapping[str, Any], task: str, normalise: Scaling) -> None:
    """Refuse a trace of another task, or one that the vocabulary was not made of."""
    if origin.get("task", task) != task:
        raise TrainingError(f"the trace is of task {origin['task']!r}, not {task!r}; run the baseline stage again")
    check_features(normalise.features, trace.column_names, "the trace")
    known = {*trace_schema([]).names, *normalise.features, *get_task(task).actions.needed}
    if unknown := [name for name in trace.column_names if name not in known]:
        raise TrainingError(
            f"the vocabulary lacks {len(unknown)} features of the trace ({', '.join(unknown[:5])}); it was made of "
            "another trace: run the baseline stage again"
        )


def recorded(trace: pa.Table, actions: ActionSpace, features: tuple[str, ...]) -> Observation:
    """Observations of a trace."""
    names = (*actions.needed, *features)
    check_features(names, trace.column_names, "the trace")
    return actions.pack(np, {name: values_of(trace, name) for name in names}, features)


def whole_modules(
    trace: pa.Table, modules: Collection[str], actions: ActionSpace, normalise: Scaling
) -> Iterator[tuple[str, np.ndarray, np.ndarray]]:
    """What the heuristic was asked and answered in some modules, one after another.

    Yields:
        In the order of the trace: key of the module, inputs float16 [num_questions, ...] and actions [num_questions],
        as in an `Episode`.
    """
    check_features(normalise.features, trace.column_names, "the trace")
    missing = set(modules)
    for key, rows in _rows_of_modules(trace):
        if key in modules:
            part = trace.slice(rows.start, len(rows))
            seen = actions.learner_inputs(recorded(part, actions, normalise.features), normalise)
            missing.discard(key)
            yield key, seen.astype(np.float16), actions.targets(part["answer"].to_numpy())
    if missing:
        raise TrainingError(
            f"the trace lacks {len(missing)} modules that have scores, the first is {min(missing)}; "
            "run the baseline stage again"
        )


def _rows_of_modules(trace: pa.Table) -> list[tuple[str, range]]:
    """Key of each module with its rows, in the order of the trace."""
    keys = pc.binary_join_element_wise(trace["project"], trace["module"], "/")
    runs = pc.run_end_encode(keys.combine_chunks())
    bounds = itertools.pairwise([0, *runs.run_ends.to_pylist()])
    return [(key, range(*rows)) for key, rows in zip(runs.values.to_pylist(), bounds, strict=True)]


def clone_data(
    trace: pa.Table,
    projects: set[str],
    actions: ActionSpace,
    normalise: Normalisation,
    max_steps_per_module: int,
    seed: int,
    weighting: Weighting = "question",
    balance: bool = False,
) -> CloneData:
    """Select a trace's questions of some projects, a bounded number per module, and encode them."""
    if balance and np.issubdtype(actions.dtype, np.floating):
        raise ConfigError("bc.balance: priorities are no kinds of answers that could weigh the same; set it to false")
    trace = trace.filter(pc.is_in(trace["project"], pa.array(sorted(projects), pa.string())))
    rows, modules = bounded_rows(trace, max_steps_per_module, seed)
    trace = trace.take(pa.array(rows))
    chosen = trace["answer"].to_numpy()
    inputs, targets = actions.demonstrations(recorded(trace, actions, normalise.features), normalise, chosen)
    return CloneData(inputs, targets, question_weights(modules, chosen, weighting, balance))


def bounded_rows(
    trace: pa.Table, max_steps: int, seed: int, most: int = MOST_QUESTIONS
) -> tuple[np.ndarray, np.ndarray]:
    """Choose at most ``max_steps`` questions of each module, reproducibly; fewer if these are more than ``most``.

    Gives the rows to keep, ascending, and the number of each row's module; both int64 [num_kept].
    """
    runs = _rows_of_modules(trace)
    counts = np.array([len(rows) for _, rows in runs], np.int64)
    bounds = range(1, max_steps + 1)  # the greatest that leaves at most so many in all
    bound = max(1, bisect.bisect_right(bounds, most, key=lambda bound: int(np.minimum(counts, bound).sum())))
    chosen = [sample(rows, bound, seed, "clone", key) for key, rows in runs]
    modules = np.repeat(np.arange(len(runs)), np.minimum(counts, bound))
    return np.array(list(itertools.chain(*chosen)), np.int64), modules
