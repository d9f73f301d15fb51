"""The TensorFlow Lite model has the names, the order and the weights that LLVM's development mode relies on."""

import json

import numpy as np
import pytest

from mlgo.host.tasks.task import get_task
from mlgo.policy.network import Architecture
from mlgo.policy.policy import Policy
from tests.deploy.export.cases import CASES, FED_IN_TRAINING, LOADING, TIES, store

WRITE = """
from mlgo.deploy.export.tensorflow_forms import TFLite, _interpreter

TFLite().write(policy, trace, folder / "tflite")
model = _interpreter(import_tensorflow(), (folder / "tflite/model.tflite").read_bytes())
print(json.dumps([
    [[one["name"], one["index"], one["dtype"].__name__, one["shape"].tolist()] for one in details]
    for details in (model.get_input_details(), model.get_output_details())
]))
"""

OPEN = """
import sys
from pathlib import Path
from mlgo.errors import PolicyError
from mlgo.deploy.export.tensorflow_forms import TFLite
from mlgo.policy.stored import load_policy

try:
    with TFLite().opened(Path(sys.argv[1]) / "tflite", load_policy(Path(sys.argv[2]) / "policy")):
        print("no error")
except PolicyError as error:
    print(error)
"""

C_TYPES = {"int64": "int64_t", "float32": "float"}


@pytest.fixture(scope="module")
def written(tmp_path_factory, in_tensorflow):
    policy, trace, _ = TIES["inline-size"]()
    folder = store(policy, trace, tmp_path_factory.mktemp("tflite"))
    in_tensorflow(LOADING + WRITE, folder)
    return folder


@pytest.mark.parametrize(
    "task", [pytest.param(one, marks=[] if one == "regalloc-evict" else pytest.mark.slow) for one in CASES]
)
def test_names_and_order_are_llvms(task, tmp_path, in_tensorflow):
    policy, make_trace, inputs, outputs = CASES[task]
    found, (output,) = json.loads(in_tensorflow(LOADING + WRITE, store(policy, make_trace(), tmp_path)))
    assert {name: [dtype, shape] for name, _, dtype, shape in found} == {
        f"action_{name}:0": kind for name, kind in (inputs | FED_IN_TRAINING).items()
    }
    assert [index for _, index, *_ in found] == list(range(len(found)))
    ((decision, kind),) = outputs.items()
    assert decision == get_task(policy.task).decision
    name, _, dtype, shape = output
    assert (name, [dtype, shape]) == ("StatefulPartitionedCall:0", kind)
    # As in LLVM's documentation of this file: the first entry is the decision, its types are those of C.
    assert json.loads((tmp_path / "tflite/output_spec.json").read_text()) == [
        {
            "logging_name": decision,
            "tensor_spec": {"name": "StatefulPartitionedCall", "port": 0, "type": C_TYPES[dtype], "shape": [1]},
        }
    ]


def test_what_is_not_of_the_policy_is_refused(written, tmp_path, in_tensorflow):
    assert in_tensorflow(OPEN, written, written) == "no error\n"
    policy, make_trace, *_ = CASES["inline-size"]
    wide = Architecture((4, 4096, 1))
    large = Policy(policy.task, policy.normalisation, wide, np.zeros(wide.num_params, np.float32))
    other = (
        "inputs of model.tflite are not those that LLVM feeds: action_edge_count:0, action_node_count:0; export again"
    )
    for one, words in ((policy, other), (large, "its weights alone 98308; export again")):
        assert words in in_tensorflow(OPEN, written, store(one, make_trace(), tmp_path))


@pytest.mark.parametrize(("field", "value"), [("name", "PartitionedCall"), ("port", 1)])
def test_an_output_that_llvm_would_not_find_is_refused(field, value, written, tmp_path, in_tensorflow):
    (tmp_path / "tflite").mkdir()
    spec = json.loads((written / "tflite/output_spec.json").read_text())
    spec[0]["tensor_spec"][field] = value
    (tmp_path / "tflite/output_spec.json").write_text(json.dumps(spec))
    (tmp_path / "tflite/model.tflite").write_bytes((written / "tflite/model.tflite").read_bytes())
    said = in_tensorflow(OPEN, tmp_path, written)
    assert said.startswith("output_spec.json asks for ")
    assert said.endswith("model.tflite has StatefulPartitionedCall:0; export again\n")
