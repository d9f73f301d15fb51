"""A policy as the SavedModel that LLVM's build compiles ahead of time.

Contract (llvm/cmake/modules/TensorFlowCompile.cmake, llvm/include/llvm/Analysis/ReleaseModeModelRunner.h, and for
register allocation llvm/lib/CodeGen/MLRegAllocEvictAdvisor.cpp and gen-regalloc-priority-test-model.py): tag ``serve``,
signature ``action``; an input for each feature, of shape [1] or [1, num_columns] and of the type that the compiler
sends, plus ``discount`` and ``reward`` (float [1]) and ``step_type`` (int32 [1]); one output, named as the task's
decision, of shape [1], int64 or float. The build of LLVM 22 has no place for a model of priorities yet.
"""

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
import pyarrow as pa

from mlgo.base.artifacts import trace_features
from mlgo.base.files import write_bytes, write_folder
from mlgo.deploy.export.form import Ask
from mlgo.deploy.export.questions import PARITY_QUESTIONS, asked_features
from mlgo.errors import ArtifactError
from mlgo.host.tasks.task import get_task
from mlgo.learn.tensorflow import import_tensorflow
from mlgo.policy.network import logits
from mlgo.policy.policy import Policy

SIGNATURE = "action"
TRAINING_INPUTS = ("discount", "reward", "step_type")
"""Inputs that LLVM's training mode feeds besides the features; the model ignores them."""


@dataclass(frozen=True)
class SavedModel:
    """The form of this module; TensorFlow takes a millisecond for one question."""

    name: ClassVar[str] = "saved_model"
    max_questions: ClassVar[int | None] = PARITY_QUESTIONS

    def write(self, policy: Policy, trace: pa.Table, folder: Path) -> None:
        """See `Form.write`."""
        tf = import_tensorflow()
        types = trace_features(trace)
        specs = [_spec(tf, name, types[name]) for name in asked_features(policy)]
        specs += [tf.TensorSpec((1,), type_of_training_input(tf, name), name=name) for name in TRAINING_INPUTS]
        module = _module(tf, policy)
        signature = tf.function(module.action, autograph=False).get_concrete_function(*specs)

        def save(temporary: Path) -> None:
            try:
                tf.saved_model.save(module, str(temporary), signatures={SIGNATURE: signature})
            except tf.errors.OpError as error:
                raise ArtifactError(f"cannot write {folder}: {error.message or error}") from error
            _make_reproducible(temporary)

        write_folder(folder, save)

    @contextmanager
    def opened(self, folder: Path, policy: Policy) -> Iterator[Ask]:
        """By TensorFlow, a tensor for each feature."""
        tf, decision = import_tensorflow(), get_task(policy.task).decision
        loaded = tf.saved_model.load(str(folder))  # goes with the last reference to it, and its function with it
        action = loaded.signatures[SIGNATURE]
        ignored = {name: tf.zeros([1], type_of_training_input(tf, name)) for name in TRAINING_INPUTS}

        def ask(questions: Mapping[str, np.ndarray]) -> np.ndarray:
            answers = []
            for step in range(len(next(iter(questions.values())))):
                inputs = {name: tf.constant(values[step : step + 1]) for name, values in questions.items()}
                answers.append(action(**inputs, **ignored)[decision].numpy())
            return np.concatenate(answers)

        yield ask


def type_of_training_input(tf: Any, name: str) -> Any:
    """Of `TRAINING_INPUTS`."""
    return tf.int32 if name == "step_type" else tf.float32


def _spec(tf: Any, name: str, kind: pa.DataType) -> Any:
    if pa.types.is_fixed_size_list(kind):
        return tf.TensorSpec((1, kind.list_size), tf.as_dtype(kind.value_type.to_pandas_dtype()), name=name)
    return tf.TensorSpec((1,), tf.as_dtype(kind.to_pandas_dtype()), name=name)


def _module(tf: Any, policy: Policy) -> Any:
    from keras import ops

    names, actions, task = asked_features(policy), policy.actions, get_task(policy.task)

    class PolicyModule(tf.Module):
        def __init__(self) -> None:
            super().__init__()
            # Plain variables: a Keras model kept here would be saved with a second, unrestored set of them.
            self.weights = [tf.Variable(array, trainable=False) for layer in policy.layers for array in layer]

        def action(self, *observation: Any) -> dict[str, Any]:
            tensors = dict(zip(names, observation[: len(names)], strict=True))
            for name in filter(tensors.__contains__, task.not_finite):
                tensors[name] = tf.where(tf.math.is_finite(tensors[name]), tensors[name], task.not_finite[name])
            seen = actions.pack(ops, tensors, policy.normalisation.features)
            layers = list(zip(self.weights[::2], self.weights[1::2], strict=True))
            found = logits(layers, actions.encode(ops, seen, policy.normalisation), ops)
            if seen.legal is not None:
                found = tf.where(seen.legal, found, found.dtype.min)
            # As NumPy: the first of equal logits. Keras's own argmax finds 0 larger than -0.
            return {task.decision: tf.cast(actions.greedy(tf.math, found), tf.as_dtype(actions.dtype))}

    return PolicyModule()


def signature_of(folder: Path) -> Any:
    """The protocol buffer ``SignatureDef`` of a SavedModel: names of the graph's tensors by input and by output."""
    return _parsed(folder).meta_graphs[0].signature_def[SIGNATURE]


def _parsed(folder: Path) -> Any:
    from tensorflow.core.protobuf import saved_model_pb2

    model = saved_model_pb2.SavedModel()
    model.ParseFromString((folder / "saved_model.pb").read_bytes())
    return model


def _make_reproducible(folder: Path) -> None:
    """Write the graph in canonical order and drop the fingerprint, which holds a random identifier."""
    write_bytes(folder / "saved_model.pb", _parsed(folder).SerializeToString(deterministic=True))
    (folder / "fingerprint.pb").unlink(missing_ok=True)
