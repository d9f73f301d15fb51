"""Cloning of answers that choose a column, and of priorities."""

import json

import numpy as np
import pyarrow as pa
import pytest

from mlgo.base.artifacts import trace_schema
from mlgo.errors import ConfigError
from mlgo.host.actions import Categorical
from mlgo.host.tasks.regalloc import PRIORITIES, REGALLOC_PRIORITY
from mlgo.learn.dataset import clone_data
from mlgo.policy.vocabulary import build_vocabulary, normalisation, recorded_values, values_of

COLUMNS = 5
SPACE = Categorical("mask")
OF_COLUMNS = {"mask": pa.int64(), "density": pa.float32(), "stage": pa.int64()}
COLUMN_TYPES = {name: pa.list_(kind, COLUMNS) for name, kind in OF_COLUMNS.items()} | {"progress": pa.float32()}
PRIORITY_TYPES = {"li_size": pa.int64(), "stage": pa.int64(), "weight": pa.float32()}


def table_of(project, types, dtype, features, answers):
    """A trace of three modules that ask alike."""
    count = len(answers)
    table = {
        "project": pa.repeat(project, count),
        "module": np.sort(np.array([f"{step % 3}.c" for step in range(count)])),
        "context": pa.repeat("f", count),
        "step": pa.array(range(count), pa.int32()),
        "answer": answers,
    }
    return pa.table(table | features, schema=trace_schema(types, dtype).remove_metadata())


def choosing(project, num_steps, seed):
    """Questions whose answer is the legal column of least density."""
    rng = np.random.default_rng(seed)
    mask = rng.integers(0, 2, (num_steps, COLUMNS))
    mask[np.arange(num_steps)[:, None], rng.permuted(np.tile(np.arange(COLUMNS), (num_steps, 1)), axis=1)[:, :2]] = 1
    density = rng.random((num_steps, COLUMNS)).astype(np.float32) * mask
    columns = {"mask": mask, "density": density, "stage": rng.integers(0, 3, mask.shape) * mask}
    features = {name: pa.array(values.tolist(), COLUMN_TYPES[name]) for name, values in columns.items()}
    features["progress"] = rng.random(num_steps).astype(np.float32)
    return table_of(project, COLUMN_TYPES, pa.int64(), features, np.where(mask == 1, density, np.inf).argmin(axis=1))


def of_columns(table, projects):
    scaling = normalisation(build_vocabulary(recorded_values(table, "mask"), 101))
    return clone_data(table, projects, SPACE, scaling, 1000, 0)


def prioritising(project, num_steps, seed):
    """Questions whose answer follows from the logarithm of the size, 2 less in stage 2."""
    rng = np.random.default_rng(seed)
    sizes, stages = rng.lognormal(5, 3, num_steps).astype(np.int64), rng.integers(1, 4, num_steps)
    outputs = np.log1p(sizes) / 7 - 1 - 2 * (stages == 2)
    features = {"li_size": sizes, "stage": stages, "weight": rng.lognormal(-4, 4, num_steps).astype(np.float32)}
    answers = PRIORITIES.greedy(np, outputs.astype(np.float32))
    return table_of(project, PRIORITY_TYPES, pa.float32(), features, answers)


def of_priorities(table, projects, **options):
    scaling = normalisation(build_vocabulary(recorded_values(table), 101), REGALLOC_PRIORITY.units)
    return clone_data(table, projects, PRIORITIES, scaling, 1000, 0, **options)


def test_legal_columns_come_first():
    table = choosing("p", 12, 1)
    found = of_columns(table, {"p"})
    masks, chosen = values_of(table, "mask"), table["answer"].to_numpy()
    marked = found.inputs[..., -1] != 0
    for step in range(12):
        legal = np.flatnonzero(masks[step])
        assert marked[step].sum() == len(legal)
        assert marked[step][: len(legal)].all()
        assert legal[found.answers[step]] == chosen[step]
    last = masks[:, -1] == 1  # the last column, where legal, is marked as such by its last input
    assert ((found.inputs[..., -2] * marked).sum(axis=1) == last).all()


def test_priorities_are_learnt_before_the_exponential():
    table = prioritising("p", 30, 1)
    found = of_priorities(table, {"p"})
    outputs = np.log1p(table["li_size"].to_numpy()) / 7 - 1 - 2 * (table["stage"].to_numpy() == 2)
    assert found.answers == pytest.approx(outputs, abs=1e-5)
    assert found.inputs.shape == (30, 22)
    assert (found.inputs[:, 1:22:3].argmax(axis=1) == table["stage"].to_numpy()).all()
    assert found.weights is None
    with pytest.raises(ConfigError, match=r"bc\.balance"):
        of_priorities(table, {"p"}, balance=True)


PROGRAM = """
import json, sys
import pyarrow as pa
from mlgo.learn.bc import clone
from tests.learn import test_bc_answers
from tests.learn.toys import cloning_config

trace, data, space, train, validation, epochs = sys.argv[1:]
trace, data, space = (getattr(test_bc_answers, name) for name in (trace, data, space))
both = pa.concat_tables([trace("p", int(train), 2), trace("q", int(validation), 3)])
config = cloning_config(int(epochs), 10, 64, 0.05)
first, again = (clone(data(both, {"p"}), data(both, {"q"}), space, [], config, 0) for _ in range(2))
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
    report = json.loads(in_tensorflow(PROGRAM, "choosing", "of_columns", "SPACE", 600, 150, 40))
    assert report["accuracy"] > 0.97
    assert report["same"]
    assert np.shape(report["matrix"]) == (2 * 3 + 1, 1)
    assert len(report["bias"]) == 1
    weights = [row[0] for row in report["matrix"]]
    assert weights[0] < -5 * abs(weights[1])  # density counts, the stage does not


@pytest.mark.slow
def test_a_linear_clone_of_longest_first(in_tensorflow):
    report = json.loads(in_tensorflow(PROGRAM, "prioritising", "of_priorities", "PRIORITIES", 900, 300, 25))
    assert report["accuracy"] > 0.98
    assert report["same"]
    unseen = of_priorities(pa.concat_tables([prioritising("p", 900, 2), prioritising("q", 300, 3)]), {"q"})
    outputs = (unseen.inputs @ np.array(report["matrix"], np.float32))[:, 0] + report["bias"][0]
    assert np.abs(outputs - unseen.answers).max() < 0.05
