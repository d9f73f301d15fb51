"""Policies of every task with questions: of all magnitudes, and ties with the decisions by hand."""

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
from tests.fakes.policies import linear_policy

COLUMNS = 6
FOUR = ("callsite_cost", "threshold", "node_count", "edge_count")
THREE = ("callsite_cost", "threshold", "edge_count")
EVICTING = ("use_def_density", "max_stage", "progress")
RANGES = ("li_size", "stage", "weight")
INT, FLOAT = pa.int64(), pa.float32()
INTS, FLOATS = pa.list_(INT, COLUMNS), pa.list_(FLOAT, COLUMNS)
INT_SCALAR, FLOAT_SCALAR = ["int64", [1]], ["float32", [1]]
FED_IN_TRAINING = {"discount": FLOAT_SCALAR, "reward": FLOAT_SCALAR, "step_type": ["int32", [1]]}


def table(types, columns, answer):
    steps = len(next(iter(columns.values())))
    rows = [
        {"project": "p", "module": "m.c", "context": "", "step": step, "answer": 0}
        | {name: values[step].tolist() for name, values in columns.items()}
        for step in range(steps)
    ]
    return pa.Table.from_pylist(rows, schema=trace_schema(types, answer).remove_metadata())


LOADING = """
import json, sys
from pathlib import Path
import numpy as np
import pyarrow.parquet as pq
from mlgo.deploy.export import ALL_FORMS
from mlgo.deploy.export.form import recorded_questions
from mlgo.learn.tensorflow import import_tensorflow
from mlgo.policy.stored import load_policy

folder = Path(sys.argv[1])
policy, trace = load_policy(folder / "policy"), pq.read_table(folder / "trace.parquet")
"""
"""Begins a program that is given the folder of a policy and questions."""


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
    return table(dict.fromkeys(FOUR, INT), dict(zip(FOUR, numbers.T, strict=True)), INT)


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
    return table({"mask": INTS, "use_def_density": FLOATS, "max_stage": INTS, "progress": FLOAT}, columns, INT)


def ranges():
    rng = np.random.default_rng(1)
    weights = np.where(rng.random(300) < 0.2, 1e6, rng.lognormal(-4, 4, 300).astype(np.float32))
    columns = {"li_size": rng.lognormal(5, 3, 300).astype(np.int64), "stage": rng.integers(0, 8, 300)}
    return table({"li_size": INT, "stage": INT, "weight": FLOAT}, columns | {"weight": weights}, FLOAT)


def policy_for(task, features, centre, scale, unit, hidden, groups=1):
    architecture = Architecture((get_task(task).actions.num_inputs(len(features)), *hidden, 1), groups)
    numbers = (None if one is None else np.array(one, np.float32) for one in (centre, scale, unit))
    weights = np.random.default_rng(0).normal(size=architecture.num_params).astype(np.float32)
    return Policy(task, Normalisation(features, *numbers), architecture, weights)


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
        policy_for("regalloc-evict", EVICTING, [5, 1, 0.3], [2, 2, 1], [2.0**-10, 1, 1], (8,)),
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
        policy_for("regalloc-priority", RANGES, [6, 1, 9], [2, 1, 7], [1, 1, 2.0**-16], (8,)),
        ranges,
        {"li_size": INT_SCALAR, "stage": INT_SCALAR, "weight": FLOAT_SCALAR},
        {"priority": FLOAT_SCALAR},
    ),
}


# Policies of small integers: neither their sums nor their normalisation of 0 are rounded.


def tied_calls():
    """Inlines where the first number is larger, by the difference of two hidden units: a tie is a logit of 0."""
    policy = linear_policy("inline-size", ("callsite_cost", "threshold"), [1, -1, -1, 1, 0, 0, 1, -1, 0], hidden=(2,))
    larger, smaller = [(1, 0), (8, 7), (-3, -4)], [(0, 1), (7, 8), (-4, -3)]
    equal = [(0, 0), (1, 1), (7, 7), (-3, -3), (-(2**63), -(2**63))]
    equal += [(1000, 10**12)]  # the logarithms of both are clipped at 5
    first, second = np.array(larger + smaller + equal).T
    trace = table({"callsite_cost": INT, "threshold": INT}, {"callsite_cost": first, "threshold": second}, INT)
    return policy, trace, np.repeat([1, 0], [len(larger), len(smaller + equal)])


def tied_evictions():
    """Evicts where the logarithm of the stage is farthest above that of broken hints, the last column as any other."""
    # stage, broken hints; both again for the last column; 1 for the last column; no bias
    policy = linear_policy("regalloc-evict", ("max_stage", "nr_broken_hints"), [1, -1, 0, 0, 0, 0])
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
    columns = {"mask": mask, "max_stage": stage, "nr_broken_hints": hints.astype(np.float32)}
    return policy, table({"mask": INTS, "max_stage": INTS, "nr_broken_hints": FLOATS}, columns, INT), chosen


def tied_ranges():
    """Stages 0 to 6 have the logits 0, 1, -1, 3, -3, 0, 0, whatever the size; what cannot be spilled has 1 more."""
    groups = [[0, logit, 0] for logit in (0, 1, -1, 3, -3, 0, 0)]
    policy = linear_policy("regalloc-priority", RANGES, [*np.ravel(groups), 1, 0])
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
    columns = {"li_size": size, "stage": stage, "weight": weight.astype(np.float32)}
    trace = table({"li_size": INT, "stage": INT, "weight": FLOAT}, columns, FLOAT)
    half = MAX_PRIORITY / np.float32(2.0)  # in float32, as -2/3 is no short fraction
    logits = share * 2 - 1
    return policy, trace, np.float32(half + half * logits.astype(np.float32))


TIES = {"inline-size": tied_calls, "regalloc-evict": tied_evictions, "regalloc-priority": tied_ranges}
