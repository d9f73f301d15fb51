"""Policies of every task with questions: of all magnitudes, and ties that are decided by hand."""

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from mlgo.base.artifacts import trace_schema
from mlgo.host.tasks.regalloc import MAX_PRIORITY, WEIGHT_OF_UNSPILLABLE
from mlgo.host.tasks.task import get_task
from mlgo.policy.features import Normalisation
from mlgo.policy.network import Architecture
from mlgo.policy.policy import Policy
from mlgo.policy.stored import save_policy

COLUMNS = 6
FOUR = ("callsite_cost", "threshold", "node_count", "edge_count")
THREE = ("callsite_cost", "threshold", "edge_count")


def table(types, columns, answer):
    steps = len(next(iter(columns.values())))
    rows = [
        {"project": "p", "module": "m.c", "context": "", "step": step, "answer": 0}
        | {name: values[step].tolist() for name, values in columns.items()}
        for step in range(steps)
    ]
    return pa.Table.from_pylist(rows, schema=trace_schema(types, answer).remove_metadata())


def store(policy, trace, folder):
    """Write a policy and questions for a program that reads them."""
    save_policy(policy, folder / "policy")
    pq.write_table(trace, folder / "trace.parquet")
    return folder


def calls():
    """Of all magnitudes and both signs, with the extremes of int64."""
    rng = np.random.default_rng(1)
    magnitudes = np.exp2(rng.uniform(0, 62, (400, 4))).astype(np.int64)
    wide = magnitudes * rng.choice([-1, 1], magnitudes.shape)
    near = rng.integers(-20, 21, (400, 4))
    edges = rng.choice([-(2**63), 2**63 - 1, -(2**53) - 1, 2**24 + 1, -1, 0, 1], (100, 4))
    numbers = np.concatenate([wide, near, edges]).astype(np.int64)
    return table(dict.fromkeys(FOUR, pa.int64()), dict(zip(FOUR, numbers.T, strict=True)), pa.int64())


def evictions():
    rng = np.random.default_rng(1)
    mask = rng.integers(0, 2, (300, COLUMNS))
    for row in mask:
        row[rng.choice(COLUMNS, 2, replace=False)] = 1
    columns = {
        "mask": mask,
        "use_def_density": rng.random((300, COLUMNS)) * mask,
        "max_stage": rng.integers(0, 7, (300, COLUMNS)) * mask,
        "progress": rng.random(300),
    }
    types = {"mask": pa.int64(), "use_def_density": pa.float32(), "max_stage": pa.int64()}
    lists = {name: pa.list_(kind, COLUMNS) for name, kind in types.items()}
    return table({**lists, "progress": pa.float32()}, columns, pa.int64())


def ranges():
    rng = np.random.default_rng(1)
    weights = np.where(rng.random(300) < 0.2, 1e6, rng.lognormal(-4, 4, 300).astype(np.float32))
    columns = {
        "li_size": rng.lognormal(5, 3, 300).astype(np.int64),
        "stage": rng.integers(0, 8, 300),
        "weight": weights,
    }
    return table({"li_size": pa.int64(), "stage": pa.int64(), "weight": pa.float32()}, columns, pa.float32())


def policy_for(task, features, centre, scale, unit, hidden, groups=1):
    architecture = Architecture((get_task(task).actions.num_inputs(len(features)), *hidden, 1), groups)
    numbers = (None if one is None else np.array(one, np.float32) for one in (centre, scale, unit))
    weights = np.random.default_rng(0).normal(size=architecture.num_params).astype(np.float32)
    return Policy(task, Normalisation(features, *numbers), architecture, weights)


INT_SCALAR, FLOAT_SCALAR = ["int64", [1]], ["float32", [1]]
QUICK = ("inline-size", "grouped")
"""Of the cases, those that every run of the tests looks at."""

CASES = {
    "inline-size": (
        policy_for("inline-size", FOUR, [0.1, -0.1, 0.6, 0.1], [0.7, 1.9, 1.4, 1.6], None, (8, 4)),
        calls,
        dict.fromkeys(FOUR, INT_SCALAR),
        {"inlining_decision": INT_SCALAR},
    ),
    "grouped": (
        policy_for("inline-size", THREE, [0.1, -0.1, 0.1], [0.7, 1.9, 1.6], None, (12, 6, 9), groups=3),
        calls,
        dict.fromkeys(THREE, INT_SCALAR),
        {"inlining_decision": INT_SCALAR},
    ),
    "regalloc-evict": (
        policy_for(
            "regalloc-evict",
            ("use_def_density", "max_stage", "progress"),
            [5, 1, 0.3],
            [2, 2, 1],
            [2.0**-10, 1, 1],
            (8,),
        ),
        evictions,
        {
            "mask": ["int64", [1, COLUMNS]],
            "use_def_density": ["float32", [1, COLUMNS]],
            "max_stage": ["int64", [1, COLUMNS]],
            "progress": FLOAT_SCALAR,
        },
        {"index_to_evict": INT_SCALAR},
    ),
    "regalloc-priority": (
        policy_for("regalloc-priority", ("li_size", "stage", "weight"), [6, 1, 9], [2, 1, 7], [1, 1, 2.0**-16], (8,)),
        ranges,
        {"li_size": INT_SCALAR, "stage": INT_SCALAR, "weight": FLOAT_SCALAR},
        {"priority": FLOAT_SCALAR},
    ),
}


def exact(task, features, weights, hidden=()):
    """A policy of small integers: neither its sums nor its normalisation of 0 are rounded."""
    architecture = Architecture((get_task(task).actions.num_inputs(len(features)), *hidden, 1))
    scaling = Normalisation(features, np.zeros(len(features), np.float32), np.ones(len(features), np.float32))
    return Policy(task, scaling, architecture, np.array(weights, np.float32))


def tied_calls():
    """Inlines where the first number is larger, by the difference of two hidden units: a tie is a logit of 0."""
    policy = exact("inline-size", ("callsite_cost", "threshold"), [1, -1, -1, 1, 0, 0, 1, -1, 0], hidden=(2,))
    pairs = {
        (0, 0): 0,
        (1, 1): 0,
        (7, 7): 0,
        (-3, -3): 0,
        (1000, 10**12): 0,  # the logarithms of both are clipped at 5
        (-(2**63), -(2**63)): 0,
        (1, 0): 1,
        (8, 7): 1,
        (-3, -4): 1,
        (0, 1): 0,
        (7, 8): 0,
        (-4, -3): 0,
    }
    first, second = np.array(list(pairs)).T
    types = {"callsite_cost": pa.int64(), "threshold": pa.int64()}
    trace = table(types, {"callsite_cost": first, "threshold": second}, pa.int64())
    return policy, trace, np.array(list(pairs.values()), np.int64)


def tied_evictions():
    """Evicts where the logarithm of the stage is farthest above that of broken hints, the last column as any other."""
    # stage, broken hints; both again for the last column; 1 for the last column; no bias
    policy = exact("regalloc-evict", ("max_stage", "nr_broken_hints"), [1, -1, 0, 0, 0, 0])
    rows = [  # mask, max_stage, nr_broken_hints -> the first of the best
        ([1, 1, 1, 1, 1, 1], [0, 0, 0, 0, 0, 0], [0, 0, 0, 0, 0, 0], 0),
        ([0, 0, 1, 1, 0, 1], [3, 3, 3, 3, 3, 3], [0, 0, 0, 0, 0, 0], 2),
        ([1, 1, 1, 1, 1, 1], [1, 4, 2, 4, 1, 4], [0, 0, 0, 0, 0, 0], 1),
        ([1, 0, 1, 1, 1, 1], [1, 4, 2, 4, 1, 4], [0, 0, 0, 0, 0, 0], 3),
        ([1, 1, 1, 1, 1, 1], [2, 3, 5, 1, 0, 0], [2, 3, 5, 1, 0, 0], 0),  # other numbers, all logits 0
        ([0, 0, 0, 0, 0, 1], [9, 9, 9, 9, 9, 0], [0, 0, 0, 0, 0, 9], 5),
        ([0, 0, 0, 0, 1, 1], [0, 0, 0, 0, 2, 2], [0, 0, 0, 0, 1, 1], 4),
        ([1, 1, 0, 0, 0, 1], [1, 1, 9, 9, 9, 2], [5, 5, 0, 0, 0, 5], 5),
    ]
    mask, stage, hints, chosen = (np.array(one) for one in zip(*rows, strict=True))
    lists = {
        name: pa.list_(kind, COLUMNS)
        for name, kind in (("mask", pa.int64()), ("max_stage", pa.int64()), ("nr_broken_hints", pa.float32()))
    }
    columns = {"mask": mask, "max_stage": stage, "nr_broken_hints": hints.astype(np.float32)}
    return policy, table(lists, columns, pa.int64()), chosen


def tied_ranges():
    """Stages 0 to 6 have the logits 0, 1, -1, 3, -3, 0, 0, whatever the size; what cannot be spilled has 1 more."""
    groups = [[0, logit, 0] for logit in (0, 1, -1, 3, -3, 0, 0)]
    policy = exact("regalloc-priority", ("li_size", "stage", "weight"), [*np.ravel(groups), 1, 0])
    spilled, below = WEIGHT_OF_UNSPILLABLE, np.nextafter(WEIGHT_OF_UNSPILLABLE, np.float32(0.0))
    rows = [  # size, stage, weight -> share of the largest priority, (1 + x / (1 + |x|)) / 2
        (16, 0, 0.5, 1 / 2),
        (160_000, 0, 0.25, 1 / 2),
        (16, 5, 0.5, 1 / 2),
        (16, 6, 0.5, 1 / 2),
        (16, 7, 0.5, 1 / 2),  # as the last stage
        (16, 1, 0.5, 3 / 4),
        (32, 1, below, 3 / 4),
        (16, 0, spilled, 3 / 4),
        (16, 2, 0.5, 1 / 4),
        (48, 2, spilled, 1 / 2),
        (16, 3, 0.5, 7 / 8),
        (80, 3, 0.125, 7 / 8),
        (16, 4, 0.5, 1 / 8),
        (16, 4, spilled, 1 / 6),
    ]
    size, stage, weight, share = (np.array(one) for one in zip(*rows, strict=True))
    types = {"li_size": pa.int64(), "stage": pa.int64(), "weight": pa.float32()}
    trace = table(types, {"li_size": size, "stage": stage, "weight": weight.astype(np.float32)}, pa.float32())
    half = MAX_PRIORITY / np.float32(2.0)  # in float32, as -2/3 is no short fraction
    logits = share * 2 - 1
    return policy, trace, np.float32(half + half * logits.astype(np.float32))


TIES = {"inline-size": tied_calls, "regalloc-evict": tied_evictions, "regalloc-priority": tied_ranges}
"""Policy, trace, and the decisions."""
