"""Exported policies choose the columns that the policy does. TensorFlow runs in a process of its own."""

import json
import subprocess
import sys

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from mlgo.core.artifacts import trace_schema
from mlgo.core.errors import PolicyError
from mlgo.export.column_model import compare_columns, recorded_questions
from mlgo.policy.column_policy import ColumnPolicy
from mlgo.policy.features import Normalisation
from mlgo.policy.network import Architecture
from mlgo.policy.stored import save_policy

COLUMNS = 6
FEATURES = ("use_def_density", "max_stage", "progress")
UNIT = np.array([2.0**-10, 1, 1], np.float32)
TYPES = {
    "mask": pa.list_(pa.int64(), COLUMNS),
    "use_def_density": pa.list_(pa.float32(), COLUMNS),
    "max_stage": pa.list_(pa.int64(), COLUMNS),
    "progress": pa.float32(),
}

PROGRAM = """
import json, sys
from pathlib import Path
import numpy as np
import pyarrow.parquet as pq
from mlgo.export.column_model import export_column_model, recorded_questions, run_column_model
from mlgo.learn.tensorflow import import_tensorflow
from mlgo.policy.stored import load_policy

folder, name = Path(sys.argv[1]), sys.argv[2]
policy, trace = load_policy(folder / "policy"), pq.read_table(folder / "trace.parquet")
export_column_model(policy, "index_to_evict", trace, folder / name)
if name == "one":
    questions = recorded_questions(trace, policy)
    np.save(folder / "chosen.npy", run_column_model(folder / name, "index_to_evict", questions))
    raw = {key: values[:1].copy() for key, values in questions.items()}
    asked = []
    for density in (np.nan, 1.0):
        raw["use_def_density"][0, 2] = density
        asked.append(int(run_column_model(folder / name, "index_to_evict", raw)[0]))
    action = import_tensorflow().saved_model.load(str(folder / name), tags=["serve"]).signatures["action"]
    print(json.dumps({
        "unspillable": asked,
        "inputs": {k: [s.dtype.name, list(s.shape)] for k, s in action.structured_input_signature[1].items()},
        "outputs": {k: [s.dtype.name, list(s.shape)] for k, s in action.structured_outputs.items()},
    }))
"""


@pytest.fixture(scope="module")
def policy():
    rng = np.random.default_rng(0)
    architecture = Architecture((ColumnPolicy.num_inputs(len(FEATURES)), 8, 1))
    scaling = Normalisation(FEATURES, np.array([5, 1, 0.3], np.float32), np.array([2, 2, 1], np.float32), UNIT)
    weights = rng.normal(size=architecture.num_params).astype(np.float32)
    return ColumnPolicy("regalloc-evict", scaling, architecture, weights)


@pytest.fixture(scope="module")
def trace():
    rng = np.random.default_rng(1)
    rows = []
    for step in range(300):
        mask = rng.integers(0, 2, COLUMNS)
        mask[rng.choice(COLUMNS, 2, replace=False)] = 1
        numbers = {
            "mask": mask.tolist(),
            "use_def_density": (rng.random(COLUMNS) * mask).tolist(),
            "max_stage": (rng.integers(0, 7, COLUMNS) * mask).tolist(),
            "progress": float(rng.random()),
        }
        rows.append({"project": "p", "module": "m.c", "context": "f", "step": step, **numbers, "answer": 0})
    return pa.Table.from_pylist(rows, schema=trace_schema(TYPES).remove_metadata())


@pytest.fixture(scope="module")
def folder(policy, trace, tmp_path_factory):
    """Two exports by two processes, and what the first one chooses."""
    root = tmp_path_factory.mktemp("export")
    save_policy(policy, root / "policy")
    pq.write_table(trace, root / "trace.parquet")
    for name in ("one", "two"):
        run = subprocess.run([sys.executable, "-c", PROGRAM, root, name], capture_output=True, text=True, check=False)
        assert run.returncode == 0, run.stderr[-2000:]
        (root / f"{name}.json").write_text(run.stdout)
    return root


def test_columns_are_the_policys(folder, policy, trace):
    chosen = np.load(folder / "chosen.npy")
    parity = compare_columns(policy, recorded_questions(trace, policy), chosen)
    assert (parity.questions, parity.mismatches) == (300, 0)
    assert parity.ambiguous <= 3
    assert len(set(chosen.tolist())) == COLUMNS  # not a constant
    legal = np.array(trace["mask"].to_pylist())
    assert legal[np.arange(300), chosen].all()


def test_a_wrong_column_is_found(folder, policy, trace):
    chosen, legal = np.load(folder / "chosen.npy"), np.array(trace["mask"].to_pylist())
    chosen[7] = next(column for column in np.flatnonzero(legal[7]) if column != chosen[7])
    with pytest.raises(PolicyError, match="differs from the policy in 1 of 300 decisions"):
        compare_columns(policy, recorded_questions(trace, policy), chosen)


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
        "mask": ["int64", [1, COLUMNS]],
        "use_def_density": ["float32", [1, COLUMNS]],
        "max_stage": ["int64", [1, COLUMNS]],
        "progress": ["float32", [1]],
        "discount": ["float32", [1]],
        "reward": ["float32", [1]],
        "step_type": ["int32", [1]],
    }
    assert report["outputs"] == {"index_to_evict": ["int64", [1]]}
    # The compiler itself sends densities that are no numbers; the host repairs them, a built-in model must do so too.
    assert report["unspillable"][0] == report["unspillable"][1]
