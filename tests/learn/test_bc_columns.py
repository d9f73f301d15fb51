"""Cloning of answers that choose a column."""

import json

import numpy as np
import pyarrow as pa
import pytest

from mlgo.base.artifacts import trace_schema
from mlgo.host.actions import Categorical
from mlgo.learn.dataset import clone_data
from mlgo.policy.vocabulary import build_vocabulary, normalisation, recorded_values, values_of
from tests.learn.toys import cloning_config

COLUMNS = 5
SPACE = Categorical("mask")
BC = cloning_config(40, 10, 64, 0.05)
TYPES = {
    "mask": pa.list_(pa.int64(), COLUMNS),
    "density": pa.list_(pa.float32(), COLUMNS),
    "stage": pa.list_(pa.int64(), COLUMNS),
    "progress": pa.float32(),
}


def trace(project, num_steps, seed):
    """Questions whose answer is the legal column of least density."""
    rng = np.random.default_rng(seed)
    rows = []
    for step in range(num_steps):
        mask = rng.integers(0, 2, COLUMNS)
        mask[rng.choice(COLUMNS, 2, replace=False)] = 1
        density = rng.random(COLUMNS).astype(np.float32) * mask
        rows.append(
            {
                "project": project,
                "module": f"{step % 3}.c",
                "context": "f",
                "step": step // 3,
                "mask": mask.tolist(),
                "density": density.tolist(),
                "stage": (rng.integers(0, 3, COLUMNS) * mask).tolist(),
                "progress": float(rng.random()),
                "answer": int(np.where(mask == 1, density, np.inf).argmin()),
            }
        )
    rows.sort(key=lambda row: row["module"])
    return pa.Table.from_pylist(rows, schema=trace_schema(TYPES).remove_metadata())


def test_vocabulary_knows_legal_columns_only():
    table = trace("p", 30, 0)
    values = recorded_values(table, "mask")
    legal = values_of(table, "mask") == 1
    assert set(values) == {"density", "stage", "progress"}
    assert len(values["density"]) == legal.sum()
    assert values["density"].min() > 0
    assert len(values["progress"]) == 30


def data(table, projects):
    scaling = normalisation(build_vocabulary(recorded_values(table, "mask"), 101))
    return clone_data(table, projects, SPACE, scaling, 1000, 0)


def test_legal_columns_come_first():
    table = trace("p", 12, 1)
    found = data(table, {"p"})
    masks, chosen = values_of(table, "mask"), table["answer"].to_numpy()
    marked = found.inputs[..., -1] != 0
    for step in range(12):
        legal = np.flatnonzero(masks[step])
        assert marked[step].sum() == len(legal)
        assert marked[step][: len(legal)].all()
        assert legal[found.answers[step]] == chosen[step]
    last = masks[:, -1] == 1  # the last column, where legal, is marked as such by its last input
    assert ((found.inputs[..., -2] * marked).sum(axis=1) == last).all()


PROGRAM = """
import json
import pyarrow as pa
from mlgo.learn.cloning import clone
from tests.learn.test_bc_columns import BC, SPACE, data, trace

both = pa.concat_tables([trace("p", 600, 2), trace("q", 150, 3)])
first, again = (clone(data(both, {"p"}), data(both, {"q"}), SPACE, [], BC, 0) for _ in range(2))
((matrix, bias),), history = first
print(json.dumps({
    "accuracy": max(one["validation_accuracy"] for one in history),
    "matrix": matrix.tolist(),
    "bias": bias.tolist(),
    "same": (again[0][0][0] == matrix).all().item(),
}))
"""


@pytest.mark.slow
def test_a_clone_of_the_lightest_column(in_tensorflow):
    report = json.loads(in_tensorflow(PROGRAM))
    assert report["accuracy"] > 0.97
    assert report["same"]
    assert np.shape(report["matrix"]) == (2 * 3 + 1, 1)
    assert len(report["bias"]) == 1
    weights = [row[0] for row in report["matrix"]]
    assert weights[0] < -5 * abs(weights[1])  # density counts, the stage does not
