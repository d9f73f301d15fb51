"""What TensorFlow's side of `mlgo import` refuses, and how it says so."""

import json
import sys

import numpy as np
import pytest

from mlgo.core.errors import ArtifactError, ConfigError, PolicyError
from mlgo.core.types import TensorSpec
from mlgo.foreign.convert import NUM_QUESTIONS, drawn_questions, read_converted
from mlgo.foreign.importing import check_importable
from mlgo.problems.llvm.task import get_task

REFUSALS = {
    "no-decision": ("no output inlining_decision or index_to_evict or priority, only chosen",),
    "two-decisions": ("decides for inline-size, regalloc-priority", "--task"),
    "small-decision": ("'inlining_decision' is int32 [1], not one int64",),
    "wide-decision": ("'inlining_decision' is int64 [2], not one int64",),
    "no-features": ("no features", "discount, reward, step_type"),
    "no-mask": ("lacks the input mask",),
    "text": ("'cost_estimate' is of type string",),
    "no-shape": ("'cost_estimate' has no fixed shape",),
    "operator": ("TensorFlow Lite lacks operators", "MatrixDeterminant"),
    "other-key": ("no signature 'action', only __saved_model_init_op, serving_default",),
    "other-tag": ("no graph with the tag 'serve', only with train",),
    "damaged": ("saved_model.pb cannot be read",),
    "no-variables": ("cannot convert",),
}

PROGRAM = """
import sys
from pathlib import Path
from mlgo.foreign import convert
from tests.foreign.models import build_bad
root = Path(sys.argv[1])
for name in sys.argv[2:]:
    build_bad(name, root / name)
    (root / f"{name}.out").mkdir()
    sys.argv = ["convert", str(root / name), "", str(root / f"{name}.out")]
    convert.main()
"""


@pytest.fixture(scope="module")
def refused(in_tensorflow, tmp_path_factory):
    root = tmp_path_factory.mktemp("bad")
    in_tensorflow(PROGRAM, root, *REFUSALS)
    return root


@pytest.mark.parametrize("name", REFUSALS)
def test_one_line_says_what_is_wrong(name, refused):
    with pytest.raises(PolicyError) as caught:
        read_converted(refused / f"{name}.out")
    message = str(caught.value)
    assert "\n" not in message
    assert len(message) < 500
    for part in REFUSALS[name]:
        assert part in message


def test_the_task_that_is_given_counts(refused, in_tensorflow, tmp_path):
    program = """
import sys
from mlgo.foreign import convert
convert.main()
"""
    for task, words in (
        ("regalloc-evict", "no output index_to_evict, only inlining_decision, priority"),
        ("jit-cse", "asks no questions"),
        ("unrolling", "unrolling"),
    ):
        (tmp_path / task).mkdir()
        in_tensorflow(program, refused / "two-decisions", task, tmp_path / task)
        assert words in json.loads((tmp_path / task / "result.json").read_text())["refused"]


def test_questions_that_are_drawn():
    inputs = [TensorSpec("mask", np.dtype(np.int64), (1, 33)), TensorSpec("progress", np.dtype(np.float32), ())]
    inputs.append(TensorSpec("max_stage", np.dtype(np.int64), (33,)))
    drawn = drawn_questions(get_task("regalloc-evict"), inputs)
    assert {name: (values.shape, values.dtype.name) for name, values in drawn.items()} == {
        "mask": ((NUM_QUESTIONS, 33), "int64"),
        "progress": ((NUM_QUESTIONS, 1), "float32"),
        "max_stage": ((NUM_QUESTIONS, 33), "int64"),
    }
    assert set(np.unique(drawn["mask"])) == {0, 1}
    assert drawn["mask"][:, -1].all()
    assert 0.4 < drawn["mask"][:, :-1].mean() < 0.6
    assert drawn["progress"].min() >= 0.0
    assert drawn["progress"].max() < 1.0
    assert 2**19 < np.abs(drawn["max_stage"]).max() < 2**20
    assert (drawn["max_stage"] < 0).any()
    assert (drawn["max_stage"] == 0).any()
    again = drawn_questions(get_task("regalloc-evict"), inputs)
    assert all(np.array_equal(drawn[name], again[name]) for name in drawn)


def test_what_is_no_model_or_not_installed_is_refused_at_once(refused, tmp_path, monkeypatch):
    for folder in (tmp_path, tmp_path / "none"):
        with pytest.raises(ArtifactError, match=r"holds no saved_model.pb; give the folder"):
            check_importable(folder)
    monkeypatch.setitem(sys.modules, "ai_edge_litert", None)
    with pytest.raises(ConfigError, match=r"make setup EXTRA=import, or pip install 'ai-edge-litert"):
        check_importable(refused / "no-features")
    monkeypatch.setitem(sys.modules, "tensorflow", None)
    with pytest.raises(ConfigError, match=r"not installed; run pip install 'tensorflow"):
        check_importable(refused / "no-features")
