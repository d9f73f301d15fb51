"""A policy that gives priorities as a SavedModel, the form that LLVM's build compiles ahead of time.

Contract as in saved_model.py, and llvm/lib/Analysis/models/gen-regalloc-priority-test-model.py: an input of shape [1]
for each feature, of the type that the compiler sends; output ``priority``, float [1]. The build of LLVM 22 has no place
for such a model yet.
"""

from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa

from mlgo.core.artifacts import trace_features
from mlgo.core.errors import PolicyError
from mlgo.export.parity import Parity
from mlgo.export.saved_model import SIGNATURE, TRAINING_INPUTS, normalised, save_signature, weight_variables
from mlgo.learn.tensorflow import import_tensorflow
from mlgo.policy.policy import ROUNDING
from mlgo.policy.priority_policy import PriorityPolicy, priority_of
from mlgo.tasks.regalloc_priority import (
    MAX_PRIORITY,
    NUM_STAGES,
    STAGE,
    WEIGHT,
    WEIGHT_OF_UNSPILLABLE,
)


def export_priority_model(policy: PriorityPolicy, decision: str, trace: pa.Table, folder: Path) -> None:
    """Write a SavedModel; the same policy gives the same bytes.

    Args:
        policy: what to export.
        decision: name of the output.
        trace: recorded questions; tells the types of the inputs.
        folder: replaced.

    Raises:
        ArtifactError: the folder cannot be written.
    """
    tf = import_tensorflow()
    types, names = trace_features(trace), policy.normalisation.features
    specs = [tf.TensorSpec((1,), tf.as_dtype(types[name].to_pandas_dtype()), name=name) for name in names]
    save_signature(tf, _priority_module(tf, policy, decision), specs, folder)


def run_priority_model(folder: Path, decision: str, questions: dict[str, np.ndarray]) -> np.ndarray:
    """Ask an exported model, one question at a time as a compiler does.

    Args:
        folder: the SavedModel.
        decision: name of the output.
        questions: by feature, [num_steps].

    Returns:
        float32 [num_steps], the priorities.
    """
    tf = import_tensorflow()
    action = tf.saved_model.load(str(folder)).signatures[SIGNATURE]
    ignored = {name: tf.zeros([1], tf.int32 if name == "step_type" else tf.float32) for name in TRAINING_INPUTS}
    answers = []
    for step in range(len(next(iter(questions.values())))):
        inputs = {name: tf.constant(values[step : step + 1]) for name, values in questions.items()}
        answers.append(float(action(**inputs, **ignored)[decision][0]))
    return np.array(answers, np.float32)


def recorded_ranges(trace: pa.Table, policy: PriorityPolicy) -> dict[str, np.ndarray]:
    """What the model is asked in a trace, by feature, [num_steps]."""
    return {name: trace[name].to_numpy() for name in policy.normalisation.features}


def compare_priorities(policy: PriorityPolicy, questions: dict[str, np.ndarray], priorities: np.ndarray) -> Parity:
    """Compare an exported model's priorities, float32 [num_steps], with the policy's.

    Raises:
        PolicyError: nothing to compare, or they differ by more than rounding: the export must not be used.
    """
    columns = [questions[name].astype(np.float32) for name in policy.normalisation.features]
    outputs = policy.outputs(np.stack(columns, axis=1))
    if not np.isfinite(outputs).all():
        raise PolicyError("the policy's output is not a number; train it again")
    if len(np.unique(outputs)) < 2:
        raise PolicyError("the policy gives all recorded questions the same priority; parity cannot be shown")
    slack = ROUNDING * (1.0 + np.abs(outputs))
    wrong = (priorities < priority_of(outputs - slack)) | (priorities > priority_of(outputs + slack))
    if wrong.any():
        raise PolicyError(f"the exported model differs from the policy in {int(wrong.sum())} of {len(wrong)} decisions")
    return Parity(len(wrong), 0, 0, None)


def _priority_module(tf: Any, policy: PriorityPolicy, decision: str) -> Any:
    names = policy.normalisation.features

    class PriorityModule(tf.Module):
        def __init__(self) -> None:
            super().__init__()
            self.weights = weight_variables(tf, policy)

        def action(self, *observation: Any) -> dict[str, Any]:
            tensors = dict(zip(names, observation[: len(names)], strict=True))
            raw = {name: self._finite(tf.cast(tensor, tf.float32), name) for name, tensor in tensors.items()}
            values = normalised(tf, tf.stack([raw[name] for name in names], axis=1), policy.normalisation)
            own = tf.where([name == STAGE for name in names], 1.0, values)  # see priority_policy.range_inputs
            stage = tf.one_hot(tf.clip_by_value(tensors[STAGE], 0, NUM_STAGES - 1), NUM_STAGES)
            inputs = tf.reshape(stage[:, :, None] * own[:, None, :], [1, NUM_STAGES * len(names)])
            unspillable = raw[WEIGHT] >= WEIGHT_OF_UNSPILLABLE if WEIGHT in raw else tf.constant([False])
            values = tf.concat([inputs, tf.cast(unspillable, tf.float32)[:, None]], axis=1)
            for matrix, bias in zip(self.weights[:-2:2], self.weights[1:-2:2], strict=True):
                values = tf.nn.relu(values @ matrix + bias)
            output = (values @ self.weights[-2] + self.weights[-1])[:, 0]
            half = MAX_PRIORITY / 2.0
            return {decision: half + half * (output / (1.0 + tf.abs(output)))}

        @staticmethod
        def _finite(values: Any, name: str) -> Any:
            return tf.where(tf.math.is_finite(values), values, WEIGHT_OF_UNSPILLABLE) if name == WEIGHT else values

    return PriorityModule()
