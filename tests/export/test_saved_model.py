"""Exported policies decide as the policy does. TensorFlow runs in a process of its own, as in tests/learn."""

import json
import subprocess
import sys

import numpy as np
import pytest

from mlgo.core.errors import PolicyError
from mlgo.export.parity import compare_decisions
from mlgo.policy.features import Normalisation
from mlgo.policy.network import Architecture
from mlgo.policy.network_policy import NetworkPolicy
from mlgo.policy.stored import save_policy
from mlgo.tasks import get_task

DECISION = get_task("inline-size").decision
FEATURES = ("callsite_cost", "threshold", "node_count", "edge_count")

PROGRAM = """
import json, sys
from pathlib import Path
import numpy as np
from mlgo.export.saved_model import SIGNATURE, export_saved_model, run_saved_model
from mlgo.learn.tensorflow import import_tensorflow
from mlgo.policy.stored import load_policy

folder, decision, name = Path(sys.argv[1]), sys.argv[2], sys.argv[3]
policy = load_policy(folder / "policy")
(folder / name).mkdir()
(folder / name / "old").write_text("from an earlier export")
export_saved_model(policy, decision, folder / name)
if name == "one":
    observations = np.load(folder / "observations.npy")
    answers = run_saved_model(folder / name, policy.normalisation.features, decision, observations)
    np.save(folder / "decisions.npy", answers)
    loaded = import_tensorflow().saved_model.load(str(folder / name), tags=["serve"])
    action = loaded.signatures[SIGNATURE]
    print(json.dumps({
        "signatures": list(loaded.signatures),
        "inputs": {k: [s.dtype.name, list(s.shape)] for k, s in action.structured_input_signature[1].items()},
        "outputs": {k: [s.dtype.name, list(s.shape)] for k, s in action.structured_outputs.items()},
    }))
"""


@pytest.fixture(scope="module")
def policy():
    rng = np.random.default_rng(0)
    architecture = Architecture((len(FEATURES), 8, 4, 1))
    centre, scale = rng.normal(size=len(FEATURES)), rng.uniform(0.5, 2.0, len(FEATURES))
    scaling = Normalisation(FEATURES, centre.astype(np.float32), scale.astype(np.float32))
    weights = rng.normal(size=architecture.num_params).astype(np.float32)
    return NetworkPolicy("inline-size", scaling, architecture, weights)


@pytest.fixture(scope="module")
def observations():
    """Of all magnitudes and both signs, with the extremes of int64."""
    rng = np.random.default_rng(1)
    magnitudes = np.exp2(rng.uniform(0, 62, (400, len(FEATURES)))).astype(np.int64)
    wide = magnitudes * rng.choice([-1, 1], magnitudes.shape)
    near = rng.integers(-20, 21, (400, len(FEATURES)))
    edges = rng.choice([-(2**63), 2**63 - 1, -(2**53) - 1, 2**24 + 1, -1, 0, 1], (100, len(FEATURES)))
    return np.concatenate([wide, near, edges]).astype(np.int64)


@pytest.fixture(scope="module")
def folder(policy, observations, tmp_path_factory):
    """Two exports by two processes, and the first one's decisions."""
    root = tmp_path_factory.mktemp("export")
    save_policy(policy, root / "policy")
    np.save(root / "observations.npy", observations)
    for name in ("one", "two"):
        command = [sys.executable, "-c", PROGRAM, root, DECISION, name]
        run = subprocess.run(command, capture_output=True, text=True, check=False)
        assert run.returncode == 0, run.stderr[-2000:]
        (root / f"{name}.json").write_text(run.stdout)
    return root


@pytest.fixture(scope="module")
def report(folder):
    return json.loads((folder / "one.json").read_text().splitlines()[-1])


def contents(folder):
    return {str(path.relative_to(folder)): path.read_bytes() for path in folder.rglob("*") if path.is_file()}


def test_decisions_are_the_policys(folder, policy, observations):
    logits, decisions = policy.decide(observations), np.load(folder / "decisions.npy")
    assert decisions.dtype == np.int64
    assert np.all(np.isfinite(logits))
    parity = compare_decisions(logits, decisions)
    assert (parity.questions, parity.mismatches) == (len(observations), 0)
    assert parity.ambiguous <= 2
    assert 100 < parity.inlined < len(observations) - 100  # not a constant


def test_a_wrong_decision_is_found(folder, policy, observations):
    logits, decisions = policy.decide(observations), np.load(folder / "decisions.npy")
    decisions[np.argmax(np.abs(logits))] ^= 1
    with pytest.raises(PolicyError, match=f"differs from the policy in 1 of {len(observations)} decisions"):
        compare_decisions(logits, decisions)


def test_twice_the_same_bytes(folder):
    first, second = contents(folder / "one"), contents(folder / "two")
    assert "saved_model.pb" in first
    assert "variables/variables.index" in first
    assert first == second


def test_the_folder_is_replaced_and_nothing_is_left_beside_it(folder):
    assert not (folder / "one" / "old").exists()
    assert not [path.name for path in folder.iterdir() if path.name.startswith(".")]


def test_the_signature_is_llvms(report):
    assert report["signatures"] == ["action"]
    ignored = {"discount": ["float32", [1]], "reward": ["float32", [1]], "step_type": ["int32", [1]]}
    assert report["inputs"] == {name: ["int64", [1]] for name in FEATURES} | ignored
    assert report["outputs"] == {"inlining_decision": ["int64", [1]]}
