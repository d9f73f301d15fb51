"""A policy as the SavedModel that LLVM's build compiles ahead of time.

Contract (llvm/cmake/modules/TensorFlowCompile.cmake, llvm/include/llvm/Analysis/ReleaseModeModelRunner.h, and for
register allocation llvm/lib/CodeGen/MLRegAllocEvictAdvisor.cpp and gen-regalloc-priority-test-model.py): tag ``serve``,
signature ``action``; an input for each feature, of shape [1] or [1, num_columns] and of the type that the compiler
sends, plus ``discount`` and ``reward`` (float [1]) and ``step_type`` (int32 [1]); one output, named as the task's
decision, of shape [1], int64 or float. The build of LLVM 22 has no place for a model of priorities yet.
"""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa

from mlgo.actions.reading import check_features
from mlgo.core.artifacts import read_table, trace_features
from mlgo.core.errors import ArtifactError
from mlgo.core.files import write_bytes, write_folder
from mlgo.core.seeding import sample
from mlgo.learn.tensorflow import import_tensorflow
from mlgo.policy.network import logits
from mlgo.policy.policy import Policy
from mlgo.policy.vocabulary import values_of
from mlgo.problems.llvm.task import get_task

SIGNATURE = "action"
PARITY_QUESTIONS = 1000
TRAINING_INPUTS = ("discount", "reward", "step_type")
"""Inputs that LLVM's training mode feeds besides the features; the model ignores them."""


def export_saved_model(policy: Policy, trace: pa.Table, folder: Path) -> None:
    """Write a SavedModel; the same policy gives the same bytes.

    Args:
        policy: what to export.
        trace: recorded questions; tells types and shapes of the inputs.
        folder: replaced.

    Raises:
        ArtifactError: the folder cannot be written.
    """
    tf = import_tensorflow()
    types = trace_features(trace)
    specs = [_spec(tf, name, types[name]) for name in asked_features(policy)]
    specs += [tf.TensorSpec((1,), _training_type(tf, name), name=name) for name in TRAINING_INPUTS]
    module = _module(tf, policy)
    signature = tf.function(module.action, autograph=False).get_concrete_function(*specs)

    def save(temporary: Path) -> None:
        try:
            tf.saved_model.save(module, str(temporary), signatures={SIGNATURE: signature})
        except tf.errors.OpError as error:
            raise ArtifactError(f"cannot write {folder}: {error.message or error}") from error
        _make_reproducible(temporary)

    write_folder(folder, save)


def asked_features(policy: Policy) -> tuple[str, ...]:
    """Features that a model is fed."""
    return (*policy.actions.needed, *policy.normalisation.features)


def sampled_questions(path: Path, policy: Policy, seed: int) -> pa.Table:
    """Draw rows of a trace, on which exported models are compared with the policy.

    Args:
        path: the trace.
        policy: what was exported.
        seed: root seed of the draw.

    Raises:
        ArtifactError: there is no readable trace, or no question in it.
        PolicyError: it lacks a feature of the policy.
    """
    trace = read_table(path)
    check_features(asked_features(policy), trace.column_names, "the trace")
    if not trace.num_rows:
        raise ArtifactError(f"{path} holds no question; parity cannot be shown")
    return trace.take(sample(range(trace.num_rows), PARITY_QUESTIONS, seed, "parity"))


def recorded_questions(trace: pa.Table, policy: Policy) -> dict[str, np.ndarray]:
    """What a model is asked in a trace: features by name, [num_steps] or [num_steps, num_columns]."""
    return {name: values_of(trace, name) for name in asked_features(policy)}


def run_saved_model(folder: Path, decision: str, questions: Mapping[str, np.ndarray]) -> np.ndarray:
    """Ask an exported model, one question at a time as a compiler does.

    Args:
        folder: the SavedModel.
        decision: name of the output.
        questions: by feature, [num_steps] or [num_steps, num_columns].

    Returns:
        int64 or float32 [num_steps], the decisions.
    """
    tf = import_tensorflow()
    action = tf.saved_model.load(str(folder)).signatures[SIGNATURE]
    ignored = {name: tf.zeros([1], _training_type(tf, name)) for name in TRAINING_INPUTS}
    answers = []
    for step in range(len(next(iter(questions.values())))):
        inputs = {name: tf.constant(values[step : step + 1]) for name, values in questions.items()}
        answers.append(action(**inputs, **ignored)[decision].numpy())
    return np.concatenate(answers)


def _training_type(tf: Any, name: str) -> Any:
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
            for name in tensors.keys() & task.not_finite.keys():
                tensors[name] = tf.where(tf.math.is_finite(tensors[name]), tensors[name], task.not_finite[name])
            seen = actions.pack(ops, tensors, policy.normalisation.features)
            layers = list(zip(self.weights[::2], self.weights[1::2], strict=True))
            found = logits(layers, actions.encode(ops, seen, policy.normalisation), ops)
            if seen.legal is not None:
                found = tf.where(seen.legal, found, found.dtype.min)
            return {task.decision: tf.cast(actions.greedy(ops, found), tf.as_dtype(actions.dtype))}

    return PolicyModule()


def _make_reproducible(folder: Path) -> None:
    """Write the graph in canonical order and drop the fingerprint, which holds a random identifier."""
    from tensorflow.core.protobuf.saved_model_pb2 import SavedModel

    model = SavedModel()
    model.ParseFromString((folder / "saved_model.pb").read_bytes())
    write_bytes(folder / "saved_model.pb", model.SerializeToString(deterministic=True))
    (folder / "fingerprint.pb").unlink(missing_ok=True)
