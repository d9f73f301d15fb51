"""The SavedModel has the signature that LLVM looks for. TensorFlow runs in a process of its own, as in tests/learn."""

import json
import subprocess
import sys

import pytest

from mlgo.host.tasks.task import get_task
from tests.deploy.export.cases import CASES, store

PROGRAM = """
import json, sys
from pathlib import Path
import numpy as np
import pyarrow.parquet as pq
from mlgo.deploy.export.form import recorded_questions
from mlgo.deploy.export.tensorflow_forms import SIGNATURE, SavedModel
from mlgo.learn.tensorflow import import_tensorflow
from mlgo.policy.stored import load_policy
from mlgo.host.tasks.task import get_task

folder, form = Path(sys.argv[1]), SavedModel()
policy, trace = load_policy(folder / "policy"), pq.read_table(folder / "trace.parquet")
form.write(policy, trace, folder / "model")
raw = {key: values[:1].copy() for key, values in recorded_questions(trace, policy).items()}
repaired = {}
with form.opened(folder / "model", policy) as ask:
    for feature, value in get_task(policy.task).not_finite.items():
        for other in (np.inf, np.nan, float(value), 0.5):
            raw[feature][..., 0] = other
            repaired[str(other)] = float(ask(raw)[0])
loaded = import_tensorflow().saved_model.load(str(folder / "model"), tags=["serve"])
action = loaded.signatures[SIGNATURE]
print(json.dumps({
    "signatures": list(loaded.signatures),
    "repaired": list(repaired.values()),
    "inputs": {k: [s.dtype.name, list(s.shape)] for k, s in action.structured_input_signature[1].items()},
    "outputs": {k: [s.dtype.name, list(s.shape)] for k, s in action.structured_outputs.items()},
}))
"""

AGAIN = """
import sys
from pathlib import Path
import pyarrow.parquet as pq
from mlgo.deploy.export import FORMS
from mlgo.policy.stored import load_policy

folder = Path(sys.argv[1])
policy, trace = load_policy(folder / "policy"), pq.read_table(folder / "trace.parquet")
for name in sys.argv[3:]:
    FORMS[name].write(policy, trace, folder / sys.argv[2] / name)
"""

BY_TASK = [pytest.param(task, marks=[] if task == "inline-size" else pytest.mark.slow) for task in CASES]


def stored(task, folder):
    policy, make_trace, *_ = CASES[task]
    return store(policy, make_trace(), folder)


@pytest.fixture(scope="module", params=BY_TASK)
def task(request):
    return request.param


@pytest.fixture(scope="module")
def report(task, tmp_path_factory, in_tensorflow):
    return json.loads(in_tensorflow(PROGRAM, stored(task, tmp_path_factory.mktemp("saved"))))


def test_the_signature_is_llvms(task, report):
    *_, inputs, outputs = CASES[task]
    assert report["signatures"] == ["action"]
    ignored = {"discount": ["float32", [1]], "reward": ["float32", [1]], "step_type": ["int32", [1]]}
    assert report["inputs"] == inputs | ignored
    assert report["outputs"] == outputs


def test_numbers_that_are_not_finite_are_repaired(task, report):
    """The compiler itself sends them; the host's guard repairs them, a built-in model must do so, too."""
    if not get_task(CASES[task][0].task).not_finite:
        return
    infinite, nan, repaired, other = report["repaired"]
    assert infinite == nan == repaired
    if task == "regalloc-priority":
        assert other != repaired


def contents(folder):
    return {str(path.relative_to(folder)): path.read_bytes() for path in folder.rglob("*") if path.is_file()}


@pytest.mark.slow
def test_another_process_writes_the_same_bytes(task, tmp_path):
    stored(task, tmp_path)
    names = ["saved_model", "tflite"]  # the graph counts functions: a second export of one process has other names
    commands = [[sys.executable, "-c", AGAIN, tmp_path, folder, *names] for folder in ("one", "two")]
    runs = [subprocess.Popen(command, stderr=subprocess.PIPE, text=True) for command in commands]
    assert [(run.communicate(timeout=120)[1], run.returncode) for run in runs] == [("", 0)] * 2
    first, second = contents(tmp_path / "one"), contents(tmp_path / "two")
    assert {
        "saved_model/saved_model.pb",
        "saved_model/variables/variables.index",
        "tflite/model.tflite",
    } <= first.keys()
    assert first == second
