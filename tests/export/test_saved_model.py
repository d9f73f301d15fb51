"""Exported policies decide as the policy does. TensorFlow runs in a process of its own, as in tests/learn."""

import json
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from mlgo.core.artifacts import trace_schema
from mlgo.core.errors import PolicyError
from mlgo.export.parity import compare_decisions
from mlgo.policy.features import Normalisation
from mlgo.policy.network import Architecture
from mlgo.policy.policy import Policy
from mlgo.policy.stored import save_policy
from mlgo.policy.vocabulary import values_of
from mlgo.problems.llvm.task import get_task

COLUMNS = 6

PROGRAM = """
import json, sys
from pathlib import Path
import numpy as np
import pyarrow.parquet as pq
from mlgo.export.saved_model import SIGNATURE, export_saved_model, recorded_questions, run_saved_model
from mlgo.learn.tensorflow import import_tensorflow
from mlgo.policy.stored import load_policy
from mlgo.problems.llvm.task import get_task

folder, name = Path(sys.argv[1]), sys.argv[2]
policy, trace = load_policy(folder / "policy"), pq.read_table(folder / "trace.parquet")
decision = get_task(policy.task).decision
(folder / name).mkdir()
(folder / name / "old").write_text("from an earlier export")
export_saved_model(policy, trace, folder / name)
if name == "one":
    questions = recorded_questions(trace, policy)
    np.save(folder / "decisions.npy", run_saved_model(folder / name, decision, questions))
    raw = {key: values[:1].copy() for key, values in questions.items()}
    repaired = {}
    for feature, value in get_task(policy.task).not_finite.items():
        for other in (np.inf, np.nan, float(value), 0.5):
            raw[feature][..., 0] = other
            repaired[str(other)] = float(run_saved_model(folder / name, decision, raw)[0])
    loaded = import_tensorflow().saved_model.load(str(folder / name), tags=["serve"])
    action = loaded.signatures[SIGNATURE]
    print(json.dumps({
        "signatures": list(loaded.signatures),
        "repaired": list(repaired.values()),
        "inputs": {k: [s.dtype.name, list(s.shape)] for k, s in action.structured_input_signature[1].items()},
        "outputs": {k: [s.dtype.name, list(s.shape)] for k, s in action.structured_outputs.items()},
    }))
"""


def table(types, columns, answer):
    steps = len(next(iter(columns.values())))
    rows = [
        {"project": "p", "module": "m.c", "context": "", "step": step, "answer": 0}
        | {name: values[step].tolist() for name, values in columns.items()}
        for step in range(steps)
    ]
    return pa.Table.from_pylist(rows, schema=trace_schema(types, answer).remove_metadata())


def calls():
    """Of all magnitudes and both signs, with the extremes of int64."""
    rng, names = np.random.default_rng(1), ("callsite_cost", "threshold", "node_count", "edge_count")
    magnitudes = np.exp2(rng.uniform(0, 62, (400, 4))).astype(np.int64)
    wide = magnitudes * rng.choice([-1, 1], magnitudes.shape)
    near = rng.integers(-20, 21, (400, 4))
    edges = rng.choice([-(2**63), 2**63 - 1, -(2**53) - 1, 2**24 + 1, -1, 0, 1], (100, 4))
    numbers = np.concatenate([wide, near, edges]).astype(np.int64)
    return table(dict.fromkeys(names, pa.int64()), dict(zip(names, numbers.T, strict=True)), pa.int64())


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


def policy_for(task, features, centre, scale, unit, hidden):
    architecture = Architecture((get_task(task).actions.num_inputs(len(features)), *hidden, 1))
    numbers = (None if one is None else np.array(one, np.float32) for one in (centre, scale, unit))
    weights = np.random.default_rng(0).normal(size=architecture.num_params).astype(np.float32)
    return Policy(task, Normalisation(features, *numbers), architecture, weights)


INT_SCALAR, FLOAT_SCALAR = ["int64", [1]], ["float32", [1]]
CASES = {
    "inline-size": (
        policy_for(
            "inline-size",
            ("callsite_cost", "threshold", "node_count", "edge_count"),
            [0.1, -0.1, 0.6, 0.1],
            [0.7, 1.9, 1.4, 1.6],
            None,
            (8, 4),
        ),
        calls,
        dict.fromkeys(("callsite_cost", "threshold", "node_count", "edge_count"), INT_SCALAR),
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


@dataclass
class Exported:
    """Two exports of a policy by two processes, and what the first one decides."""

    folder: Path
    policy: Policy
    trace: pa.Table
    inputs: dict
    outputs: dict

    @property
    def decisions(self):
        return np.load(self.folder / "decisions.npy")

    @property
    def report(self):
        return json.loads((self.folder / "one.json").read_text().splitlines()[-1])

    def compare(self, decisions):
        actions, features = self.policy.actions, self.policy.normalisation.features
        questions = {name: values_of(self.trace, name) for name in (*actions.needed, *features)}
        return compare_decisions(actions, self.policy.logits(actions.pack(np, questions, features)), decisions)


@pytest.fixture(
    scope="module",
    params=[pytest.param(task, marks=[] if task == "inline-size" else pytest.mark.slow) for task in CASES],
)
def exported(request, tmp_path_factory):
    policy, make_trace, inputs, outputs = CASES[request.param]
    root, trace = tmp_path_factory.mktemp("export"), make_trace()
    save_policy(policy, root / "policy")
    pq.write_table(trace, root / "trace.parquet")
    for name in ("one", "two"):
        run = subprocess.run([sys.executable, "-c", PROGRAM, root, name], capture_output=True, text=True, check=False)
        assert run.returncode == 0, run.stderr[-2000:]
        (root / f"{name}.json").write_text(run.stdout)
    return Exported(root, policy, trace, inputs, outputs)


def contents(folder):
    return {str(path.relative_to(folder)): path.read_bytes() for path in folder.rglob("*") if path.is_file()}


def test_decisions_are_the_policys(exported):
    decisions, parity = exported.decisions, exported.compare(exported.decisions)
    assert decisions.dtype == exported.policy.actions.dtype
    assert (parity.questions, parity.mismatches) == (exported.trace.num_rows, 0)
    assert parity.ambiguous <= 3
    if exported.policy.task == "inline-size":
        assert 100 < parity.inlined < exported.trace.num_rows - 100  # not a constant
    elif exported.policy.task == "regalloc-evict":
        assert len(set(decisions.tolist())) == COLUMNS
        assert values_of(exported.trace, "mask")[np.arange(len(decisions)), decisions].all()
    else:
        assert len(set(decisions.tolist())) > 250


def test_a_wrong_decision_is_found(exported):
    decisions = exported.decisions
    if exported.policy.task == "inline-size":
        decisions[0] ^= 1
    elif exported.policy.task == "regalloc-evict":
        legal = np.flatnonzero(values_of(exported.trace, "mask")[7])
        decisions[7] = next(column for column in legal if column != decisions[7])
    else:
        decisions[7] *= 0.99
    with pytest.raises(PolicyError, match=f"differs from the policy in 1 of {len(decisions)} decisions"):
        exported.compare(decisions)


def test_twice_the_same_bytes(exported):
    first, second = contents(exported.folder / "one"), contents(exported.folder / "two")
    assert {"saved_model.pb", "variables/variables.index"} <= first.keys()
    assert first == second


def test_the_folder_is_replaced_and_nothing_is_left_beside_it(exported):
    assert not (exported.folder / "one" / "old").exists()
    assert not [path.name for path in exported.folder.iterdir() if path.name.startswith(".")]


def test_the_signature_is_llvms(exported):
    report = exported.report
    assert report["signatures"] == ["action"]
    ignored = {"discount": FLOAT_SCALAR, "reward": FLOAT_SCALAR, "step_type": ["int32", [1]]}
    assert report["inputs"] == exported.inputs | ignored
    assert report["outputs"] == exported.outputs


def test_numbers_that_are_not_finite_are_repaired(exported):
    """The compiler itself sends them; the host's guard repairs them, a built-in model must do so, too."""
    if not get_task(exported.policy.task).not_finite:
        return
    infinite, nan, repaired, other = exported.report["repaired"]
    assert infinite == nan == repaired
    if exported.policy.task == "regalloc-priority":
        assert other != repaired
