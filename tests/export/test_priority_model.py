"""Exported policies give the priorities that the policy does. TensorFlow runs in a process of its own."""

import json
import subprocess
import sys

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from mlgo.core.artifacts import trace_schema
from mlgo.core.errors import PolicyError
from mlgo.export.priority_model import compare_priorities, recorded_ranges
from mlgo.policy.features import Normalisation
from mlgo.policy.network import Architecture
from mlgo.policy.priority_policy import PriorityPolicy
from mlgo.policy.stored import save_policy

FEATURES = ("li_size", "stage", "weight")
UNIT = np.array([1, 1, 2.0**-16], np.float32)
TYPES = {"li_size": pa.int64(), "stage": pa.int64(), "weight": pa.float32()}

PROGRAM = """
import json, sys
from pathlib import Path
import numpy as np
import pyarrow.parquet as pq
from mlgo.export.priority_model import export_priority_model, recorded_ranges, run_priority_model
from mlgo.learn.tensorflow import import_tensorflow
from mlgo.policy.stored import load_policy

folder, name = Path(sys.argv[1]), sys.argv[2]
policy, trace = load_policy(folder / "policy"), pq.read_table(folder / "trace.parquet")
export_priority_model(policy, "priority", trace, folder / name)
if name == "one":
    ranges = recorded_ranges(trace, policy)
    np.save(folder / "given.npy", run_priority_model(folder / name, "priority", ranges))
    raw = {key: values[:1].copy() for key, values in ranges.items()}
    given = []
    for weight in (np.inf, np.nan, 1e6, 1.0):
        raw["weight"][0] = weight
        given.append(float(run_priority_model(folder / name, "priority", raw)[0]))
    action = import_tensorflow().saved_model.load(str(folder / name), tags=["serve"]).signatures["action"]
    print(json.dumps({
        "unspillable": given,
        "inputs": {k: [s.dtype.name, list(s.shape)] for k, s in action.structured_input_signature[1].items()},
        "outputs": {k: [s.dtype.name, list(s.shape)] for k, s in action.structured_outputs.items()},
    }))
"""


@pytest.fixture(scope="module")
def policy():
    rng = np.random.default_rng(0)
    architecture = Architecture((PriorityPolicy.num_inputs(len(FEATURES)), 8, 1))
    scaling = Normalisation(FEATURES, np.array([6, 1, 9], np.float32), np.array([2, 1, 7], np.float32), UNIT)
    weights = rng.normal(size=architecture.num_params).astype(np.float32)
    return PriorityPolicy("regalloc-priority", scaling, architecture, weights)


@pytest.fixture(scope="module")
def trace():
    rng = np.random.default_rng(1)
    rows = []
    for step in range(300):
        weight = 1e6 if rng.random() < 0.2 else float(np.float32(rng.lognormal(-4, 4)))
        numbers = {"li_size": int(rng.lognormal(5, 3)), "stage": int(rng.integers(0, 8)), "weight": weight}
        rows.append({"project": "p", "module": "m.c", "context": "f", "step": step, **numbers, "answer": 0.0})
    return pa.Table.from_pylist(rows, schema=trace_schema(TYPES, pa.float32()).remove_metadata())


@pytest.fixture(scope="module")
def folder(policy, trace, tmp_path_factory):
    """Two exports by two processes, and what the first one gives."""
    root = tmp_path_factory.mktemp("export")
    save_policy(policy, root / "policy")
    pq.write_table(trace, root / "trace.parquet")
    for name in ("one", "two"):
        run = subprocess.run([sys.executable, "-c", PROGRAM, root, name], capture_output=True, text=True, check=False)
        assert run.returncode == 0, run.stderr[-2000:]
        (root / f"{name}.json").write_text(run.stdout)
    return root


def test_priorities_are_the_policys(folder, policy, trace):
    given = np.load(folder / "given.npy")
    parity = compare_priorities(policy, recorded_ranges(trace, policy), given)
    assert (parity.questions, parity.mismatches) == (300, 0)
    assert len(set(given.tolist())) > 250


def test_a_wrong_priority_is_found(folder, policy, trace):
    given = np.load(folder / "given.npy")
    given[7] *= 0.99
    with pytest.raises(PolicyError, match="differs from the policy in 1 of 300 decisions"):
        compare_priorities(policy, recorded_ranges(trace, policy), given)


def test_a_policy_without_an_order(policy, trace):
    flat = policy.with_weights(np.zeros_like(policy.weights))
    with pytest.raises(PolicyError, match="the same priority; parity cannot be shown"):
        compare_priorities(flat, recorded_ranges(trace, flat), np.zeros(300, np.float32))


def test_twice_the_same_bytes(folder):
    first, second = (
        {str(path.relative_to(root)): path.read_bytes() for path in root.rglob("*") if path.is_file()}
        for root in (folder / "one", folder / "two")
    )
    assert "saved_model.pb" in first
    assert first == second


def test_the_signature_is_llvms(folder):
    report = json.loads((folder / "one.json").read_text().splitlines()[-1])
    assert report["inputs"] == {
        "li_size": ["int64", [1]],
        "stage": ["int64", [1]],
        "weight": ["float32", [1]],
        "discount": ["float32", [1]],
        "reward": ["float32", [1]],
        "step_type": ["int32", [1]],
    }
    assert report["outputs"] == {"priority": ["float32", [1]]}
    # The compiler itself sends infinite weights; the host repairs them, a built-in model must do so too.
    infinite, nan, repaired, other = report["unspillable"]
    assert infinite == nan == repaired != other
