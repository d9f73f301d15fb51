"""Cloning of priorities."""

import json

import numpy as np
import pyarrow as pa
import pytest

from mlgo.base.artifacts import trace_schema
from mlgo.errors import ConfigError
from mlgo.host.tasks.regalloc import PRIORITIES, REGALLOC_PRIORITY
from mlgo.learn.dataset import clone_data
from mlgo.policy.vocabulary import build_vocabulary, normalisation, recorded_values
from tests.learn.toys import cloning_config

BC = cloning_config(25, 10, 64, 0.05)
TYPES = {"li_size": pa.int64(), "stage": pa.int64(), "weight": pa.float32()}


def trace(project, num_steps, seed):
    """Questions whose answer follows from the logarithm of the size, 2 less in stage 2."""
    rng = np.random.default_rng(seed)
    sizes, stages = rng.lognormal(5, 3, num_steps).astype(np.int64), rng.integers(1, 4, num_steps)
    outputs = np.log1p(sizes) / 7 - 1 - 2 * (stages == 2)
    table = {
        "project": pa.repeat(project, num_steps),
        "module": np.sort(np.array([f"{step % 3}.c" for step in range(num_steps)])),
        "context": pa.repeat("f", num_steps),
        "step": pa.array(range(num_steps), pa.int32()),
        "li_size": sizes,
        "stage": stages,
        "weight": rng.lognormal(-4, 4, num_steps).astype(np.float32),
        "answer": PRIORITIES.greedy(np, outputs.astype(np.float32)),
    }
    return pa.table(table, schema=trace_schema(TYPES, pa.float32()).remove_metadata())


def data(table, projects, **options):
    scaling = normalisation(build_vocabulary(recorded_values(table), 101), REGALLOC_PRIORITY.units)
    return clone_data(table, projects, PRIORITIES, scaling, 1000, 0, **options)


def test_vocabulary_is_of_what_the_compiler_sends():
    table = trace("p", 30, 0)
    values = recorded_values(table)
    assert values["weight"].tolist() == table["weight"].to_pylist()
    assert values["li_size"].tolist() == table["li_size"].to_pylist()


def test_what_is_to_be_learnt():
    found = data(trace("p", 30, 1), {"p"})
    table = trace("p", 30, 1)
    outputs = np.log1p(table["li_size"].to_numpy()) / 7 - 1 - 2 * (table["stage"].to_numpy() == 2)
    assert found.answers == pytest.approx(outputs, abs=1e-5)
    assert found.inputs.shape == (30, 22)
    assert (found.inputs[:, 1:22:3].argmax(axis=1) == table["stage"].to_numpy()).all()
    assert found.weights is None


PROGRAM = """
import json
import numpy as np
import pyarrow as pa
from mlgo.host.tasks.regalloc import PRIORITIES
from mlgo.learn.cloning import clone
from tests.learn.test_bc_priorities import BC, data, trace

both = pa.concat_tables([trace("p", 900, 2), trace("q", 300, 3)])
unseen = data(both, {"q"})
first, again = (clone(data(both, {"p"}), unseen, PRIORITIES, [], BC, 0) for _ in range(2))
((matrix, bias),), history = first
print(json.dumps({
    "accuracy": max(one["validation_accuracy"] for one in history),
    "error": float(np.abs((unseen.inputs @ matrix)[:, 0] + bias[0] - unseen.answers).max()),
    "same": (again[0][0][0] == matrix).all().item(),
}))
"""


@pytest.mark.slow
def test_a_linear_clone_of_longest_first(in_tensorflow):
    report = json.loads(in_tensorflow(PROGRAM))
    assert report["accuracy"] > 0.98
    assert report["error"] < 0.05
    assert report["same"]


def test_balancing_is_refused():
    with pytest.raises(ConfigError, match=r"bc\.balance"):
        data(trace("p", 30, 5), {"p"}, balance=True)
