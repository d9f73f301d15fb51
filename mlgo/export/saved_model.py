"""A policy as the SavedModel that LLVM's build compiles ahead of time.

Contract (llvm/cmake/modules/TensorFlowCompile.cmake, llvm/include/llvm/Analysis/ReleaseModeModelRunner.h): tag
``serve``, signature ``action``, inputs by feature name (int64 [1]) plus ``discount`` and ``reward`` (float [1]) and
``step_type`` (int32 [1]), output ``inlining_decision`` (int64 [1]).
"""

import os
import shutil
from pathlib import Path
from typing import Any

import numpy as np

from mlgo.core.errors import ArtifactError
from mlgo.core.files import write_bytes
from mlgo.learn.tensorflow import import_tensorflow
from mlgo.policy.features import CLIP, Normalisation
from mlgo.policy.network_policy import NetworkPolicy
from mlgo.policy.policy import Policy

SIGNATURE = "action"
TRAINING_INPUTS = ("discount", "reward", "step_type")
"""Inputs that LLVM's training mode feeds besides the features; the model ignores them."""


def export_saved_model(policy: NetworkPolicy, decision: str, folder: Path) -> None:
    """Write a SavedModel; the same policy gives the same bytes.

    Args:
        policy: what to export.
        decision: name of the output.
        folder: replaced.

    Raises:
        ArtifactError: the folder cannot be written.
    """
    tf = import_tensorflow()
    specs = [tf.TensorSpec((1,), tf.int64, name=name) for name in policy.normalisation.features]
    save_signature(tf, _policy_module(tf, policy, decision), specs, folder)


def save_signature(tf: Any, module: Any, specs: list[Any], folder: Path) -> None:
    """Write a module whose ``action`` takes the features, and what LLVM's training mode feeds, as a SavedModel.

    Args:
        tf: TensorFlow.
        module: a ``tf.Module``.
        specs: of the features.
        folder: replaced.

    Raises:
        ArtifactError: the folder cannot be written.
    """
    ignored = [
        tf.TensorSpec((1,), tf.int32 if name == "step_type" else tf.float32, name=name) for name in TRAINING_INPUTS
    ]
    signature = tf.function(module.action, autograph=False).get_concrete_function(*specs, *ignored)
    temporary = folder.with_name(f".{folder.name}.{os.getpid()}.tmp")
    try:
        shutil.rmtree(temporary, ignore_errors=True)
        tf.saved_model.save(module, str(temporary), signatures={SIGNATURE: signature})
        _make_reproducible(temporary)
        shutil.rmtree(folder, ignore_errors=True)
        temporary.rename(folder)
    except (OSError, tf.errors.OpError) as error:
        why = getattr(error, "strerror", None) or getattr(error, "message", None) or error
        raise ArtifactError(f"cannot write {folder}: {why}") from error
    finally:
        shutil.rmtree(temporary, ignore_errors=True)


def run_saved_model(folder: Path, features: tuple[str, ...], decision: str, observations: np.ndarray) -> np.ndarray:
    """Ask an exported model, one question at a time as a compiler does.

    Args:
        folder: the SavedModel.
        features: names of the columns.
        decision: name of the output.
        observations: int64 [num_steps, num_features].

    Returns:
        int64 [num_steps], the decisions.
    """
    tf = import_tensorflow()
    action = tf.saved_model.load(str(folder)).signatures[SIGNATURE]
    ignored = {name: tf.zeros([1], tf.int32 if name == "step_type" else tf.float32) for name in TRAINING_INPUTS}
    answers = []
    for row in observations:
        inputs = {name: tf.constant([value], tf.int64) for name, value in zip(features, row, strict=True)}
        answers.append(int(action(**inputs, **ignored)[decision][0]))
    return np.array(answers, np.int64)


def weight_variables(tf: Any, policy: Policy) -> list[Any]:
    """Matrix and bias of each layer in turn, as plain variables.

    A Keras model kept in the module would be saved with a second, unrestored set of them.
    """
    layers = policy.architecture.unflatten(policy.weights)
    return [tf.Variable(array, trainable=False) for layer in layers for array in layer]


def normalised(tf: Any, raw: Any, scaling: Normalisation) -> Any:
    """`Normalisation` of a float32 tensor, [..., num_features], as operations of TensorFlow."""
    values = raw if scaling.unit is None else raw / scaling.unit
    values = tf.sign(values) * tf.math.log1p(tf.abs(values))
    return tf.clip_by_value((values - scaling.centre) / scaling.scale, -CLIP, CLIP)


def _policy_module(tf: Any, policy: NetworkPolicy, decision: str) -> Any:
    features = policy.normalisation.features

    class PolicyModule(tf.Module):
        def __init__(self) -> None:
            super().__init__()
            self.weights = weight_variables(tf, policy)

        def action(self, *observation: Any) -> dict[str, Any]:
            # Packed as int64 and cast once: measurably faster after ahead-of-time compilation.
            raw = tf.cast(tf.reshape(tf.stack(observation[: len(features)]), [1, len(features)]), tf.float32)
            values = normalised(tf, raw, policy.normalisation)
            for matrix, bias in zip(self.weights[:-2:2], self.weights[1:-2:2], strict=True):
                values = tf.nn.relu(values @ matrix + bias)
            logit = (values @ self.weights[-2] + self.weights[-1])[:, 0]
            return {decision: tf.cast(logit > 0.0, tf.int64)}

    return PolicyModule()


def _make_reproducible(folder: Path) -> None:
    """Write the graph in canonical order and drop the fingerprint, which holds a random identifier."""
    from tensorflow.core.protobuf.saved_model_pb2 import SavedModel

    model = SavedModel()
    model.ParseFromString((folder / "saved_model.pb").read_bytes())
    write_bytes(folder / "saved_model.pb", model.SerializeToString(deterministic=True))
    (folder / "fingerprint.pb").unlink(missing_ok=True)
