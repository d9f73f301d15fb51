"""A policy that chooses columns as the SavedModel that LLVM's build compiles ahead of time.

Contract as in saved_model.py, and llvm/lib/CodeGen/MLRegAllocEvictAdvisor.cpp: a feature of columns is an input of
shape [1, num_columns], int64 or float as the compiler has it, ``progress`` one of shape [1]; output ``index_to_evict``,
int64 [1].
"""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa

from mlgo.core.artifacts import trace_features
from mlgo.core.errors import PolicyError
from mlgo.export.parity import Parity
from mlgo.export.saved_model import SIGNATURE, TRAINING_INPUTS, normalised, save_signature, weight_variables
from mlgo.learn.tensorflow import import_tensorflow
from mlgo.policy.column_policy import ColumnPolicy
from mlgo.policy.policy import ROUNDING
from mlgo.policy.vocabulary import columns_of
from mlgo.tasks.regalloc_evict import DENSITY, DENSITY_OF_UNSPILLABLE, MASK


def export_column_model(policy: ColumnPolicy, decision: str, trace: pa.Table, folder: Path) -> None:
    """Write a SavedModel; the same policy gives the same bytes.

    Args:
        policy: what to export.
        decision: name of the output.
        trace: recorded questions; tells types and shapes of the inputs.
        folder: replaced.

    Raises:
        ArtifactError: the folder cannot be written.
    """
    tf = import_tensorflow()
    types = trace_features(trace)
    names = (MASK, *policy.normalisation.features)
    specs = {name: _tensor_spec(tf, name, types[name]) for name in names}
    save_signature(tf, _column_module(tf, policy, decision, list(specs)), list(specs.values()), folder)


def run_column_model(folder: Path, decision: str, questions: Mapping[str, np.ndarray]) -> np.ndarray:
    """Ask an exported model, one question at a time as a compiler does.

    Args:
        folder: the SavedModel.
        decision: name of the output.
        questions: by feature, [num_steps] or [num_steps, num_columns].

    Returns:
        int64 [num_steps], the chosen columns.
    """
    tf = import_tensorflow()
    action = tf.saved_model.load(str(folder)).signatures[SIGNATURE]
    ignored = {name: tf.zeros([1], tf.int32 if name == "step_type" else tf.float32) for name in TRAINING_INPUTS}
    num_steps = len(next(iter(questions.values())))
    answers = []
    for step in range(num_steps):
        inputs = {name: tf.constant(values[step : step + 1]) for name, values in questions.items()}
        answers.append(int(action(**inputs, **ignored)[decision][0]))
    return np.array(answers, np.int64)


def recorded_questions(trace: pa.Table, policy: ColumnPolicy) -> dict[str, np.ndarray]:
    """What the model is asked in a trace: mask and features by name, [num_steps] or [num_steps, num_columns]."""
    types = trace_features(trace)
    return {
        name: columns_of(trace, name) if pa.types.is_fixed_size_list(types[name]) else trace[name].to_numpy()
        for name in (MASK, *policy.normalisation.features)
    }


def compare_columns(policy: ColumnPolicy, questions: Mapping[str, np.ndarray], chosen: np.ndarray) -> Parity:
    """Compare an exported model's columns, int64 [num_steps], with the policy's.

    Raises:
        PolicyError: nothing to compare, or they differ: the export must not be used.
    """
    legal = questions[MASK] != 0
    stacked = [np.broadcast_to(_as_columns(questions[name]), legal.shape) for name in policy.normalisation.features]
    scores = policy.scores(np.stack(stacked, axis=2).astype(np.float32), legal)
    if np.isnan(scores).any():
        raise PolicyError("the policy's output is not a number; train it again")
    best = scores.max(axis=1)
    taken = np.take_along_axis(scores, chosen[:, None], axis=1)[:, 0]
    clear = (np.sort(scores, axis=1)[:, -2] < best - ROUNDING * (1.0 + np.abs(best))) & (legal.sum(axis=1) > 1)
    if not clear.any():
        raise PolicyError("no recorded question has a clear decision; parity cannot be shown")
    wrong = clear & (taken < best)
    if wrong.any():
        raise PolicyError(f"the exported model differs from the policy in {int(wrong.sum())} of {len(wrong)} decisions")
    return Parity(len(wrong), int((~clear).sum()), 0, None)


def _as_columns(values: np.ndarray) -> np.ndarray:
    return values if values.ndim == 2 else values[:, None]


def _tensor_spec(tf: Any, name: str, kind: pa.DataType) -> Any:
    if pa.types.is_fixed_size_list(kind):
        return tf.TensorSpec((1, kind.list_size), tf.as_dtype(kind.value_type.to_pandas_dtype()), name=name)
    return tf.TensorSpec((1,), tf.as_dtype(kind.to_pandas_dtype()), name=name)


def _column_module(tf: Any, policy: ColumnPolicy, decision: str, names: list[str]) -> Any:
    class ColumnModule(tf.Module):
        def __init__(self) -> None:
            super().__init__()
            self.weights = weight_variables(tf, policy)

        def action(self, *observation: Any) -> dict[str, Any]:
            tensors = dict(zip(names, observation[: len(names)], strict=True))
            legal = tensors[MASK] != 0
            raw = [self._in_columns(tensors[name], name, legal) for name in policy.normalisation.features]
            values = normalised(tf, tf.stack(raw, axis=2), policy.normalisation)
            last = tf.one_hot([legal.shape[1] - 1], legal.shape[1])[:, :, None]  # see column_policy.column_inputs
            values = tf.concat([values, values * last, last], axis=2)
            for matrix, bias in zip(self.weights[:-2:2], self.weights[1:-2:2], strict=True):
                values = tf.nn.relu(values @ matrix + bias)
            scores = (values @ self.weights[-2] + self.weights[-1])[:, :, 0]
            return {decision: tf.argmax(tf.where(legal, scores, scores.dtype.min), axis=1, output_type=tf.int64)}

        @staticmethod
        def _in_columns(tensor: Any, name: str, legal: Any) -> Any:
            values = tf.cast(tensor, tf.float32)
            if name == DENSITY:
                values = tf.where(tf.math.is_nan(values), DENSITY_OF_UNSPILLABLE, values)
            return values if len(values.shape) == 2 else tf.repeat(values[:, None], legal.shape[1], axis=1)

    return ColumnModule()
