"""The SavedModel has the signature that LLVM looks for. TensorFlow runs in a process of its own, as in tests/learn."""

import json
import subprocess
import sys

import pytest

from tests.deploy.export.cases import CASES, FED_IN_TRAINING, LOADING, store

PROGRAM = """
from mlgo.deploy.export.tensorflow_forms import SIGNATURE, SavedModel

SavedModel().write(policy, trace, folder / "model")
loaded = import_tensorflow().saved_model.load(str(folder / "model"), tags=["serve"])
action = loaded.signatures[SIGNATURE]
print(json.dumps({
    "signatures": list(loaded.signatures),
    "inputs": {k: [s.dtype.name, list(s.shape)] for k, s in action.structured_input_signature[1].items()},
    "outputs": {k: [s.dtype.name, list(s.shape)] for k, s in action.structured_outputs.items()},
}))
"""

AGAIN = """
for name in sys.argv[3:]:
    ALL_FORMS[name].write(policy, trace, folder / sys.argv[2] / name)
"""


def stored(task, folder):
    policy, make_trace, *_ = CASES[task]
    return store(policy, make_trace(), folder)


@pytest.mark.parametrize(
    "task", [pytest.param(one, marks=[] if one == "inline-size" else pytest.mark.slow) for one in CASES]
)
def test_the_signature_is_llvms(task, tmp_path, in_tensorflow):
    *_, inputs, outputs = CASES[task]
    report = json.loads(in_tensorflow(LOADING + PROGRAM, stored(task, tmp_path)))
    assert report == {"signatures": ["action"], "inputs": inputs | FED_IN_TRAINING, "outputs": outputs}


def contents(folder):
    return {str(path.relative_to(folder)): path.read_bytes() for path in folder.rglob("*") if path.is_file()}


@pytest.mark.slow
@pytest.mark.parametrize("task", CASES)
def test_another_process_writes_the_same_bytes(task, tmp_path):
    stored(task, tmp_path)
    names = ["saved_model", "tflite"]  # the graph counts functions: a second export of one process has other names
    commands = [[sys.executable, "-c", LOADING + AGAIN, tmp_path, folder, *names] for folder in ("one", "two")]
    runs = [subprocess.Popen(command, stderr=subprocess.PIPE, text=True) for command in commands]
    assert [(run.communicate(timeout=120)[1], run.returncode) for run in runs] == [("", 0)] * 2
    first, second = contents(tmp_path / "one"), contents(tmp_path / "two")
    files = {"saved_model/saved_model.pb", "saved_model/variables/variables.index", "tflite/model.tflite"}
    assert files <= first.keys()
    assert first == second
