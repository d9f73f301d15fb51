"""A policy as the TensorFlow Lite model that LLVM's development mode runs.

Contract (llvm/include/llvm/Analysis/ModelUnderTrainingRunner.h, llvm/lib/Analysis/TFLiteUtils.cpp,
llvm/lib/Analysis/TrainingLogger.cpp): a folder with ``model.tflite`` and ``output_spec.json``. Inputs are found by the
name ``action_<feature>:0``. What a compiler feeds besides features (`TRAINING_INPUTS`) must be there, and no input that
it does not feed. LLVM takes the position of an input for its tensor, and a name of an output that it does not find for
the first one, so both are checked here.
"""

import re
import warnings
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
import pyarrow as pa

from mlgo.base.files import read_json, write_bytes, write_folder, write_json
from mlgo.base.scratch import scratch_directory
from mlgo.deploy.export.form import Ask
from mlgo.deploy.export.questions import asked_features
from mlgo.deploy.export.saved_model import SIGNATURE, TRAINING_INPUTS, SavedModel, signature_of, type_of_training_input
from mlgo.errors import ArtifactError, PolicyError
from mlgo.host.tasks.task import get_task
from mlgo.learn.tensorflow import import_tensorflow
from mlgo.policy.policy import Policy

MODEL, OUTPUT_SPEC = "model.tflite", "output_spec.json"
_TYPES = {"int64": "int64_t", "float32": "float"}


@dataclass(frozen=True)
class TFLite:
    """The form of this module; the interpreter takes microseconds, feeding it from Python ten times as long."""

    name: ClassVar[str] = "tflite"
    max_questions: ClassVar[int | None] = 10_000

    def write(self, policy: Policy, trace: pa.Table, folder: Path) -> None:
        """See `Form.write`; the model is converted from a SavedModel, as only that keeps the names of inputs."""
        task = get_task(policy.task)
        with scratch_directory() as scratch:
            SavedModel().write(policy, trace, scratch / "saved_model")
            model = converted(scratch / "saved_model")
            output = signature_of(scratch / "saved_model").outputs[task.decision].name
        name, port = output.rsplit(":", 1)
        tensor = {"name": name, "port": int(port), "type": _TYPES[np.dtype(task.actions.dtype).name], "shape": [1]}

        def save(temporary: Path) -> None:
            write_bytes(temporary / MODEL, model)
            write_json(temporary / OUTPUT_SPEC, [{"logging_name": task.decision, "tensor_spec": tensor}])

        write_folder(folder, save)

    @contextmanager
    def opened(self, folder: Path, policy: Policy) -> Iterator[Ask]:
        """By TensorFlow Lite's interpreter, inputs by position and the output by name, as LLVM does."""
        tf = import_tensorflow()
        model = (folder / MODEL).read_bytes()
        if len(model) < (least := policy.weights.nbytes):  # a conversion leaves out variables that it does not find
            raise PolicyError(f"{MODEL} has {len(model)} bytes, its weights alone {least}; export again")
        interpreter = _interpreter(tf, model)
        inputs = _checked_inputs(interpreter, policy)
        output = _checked_output(interpreter, read_json(folder / OUTPUT_SPEC), policy)
        for name in TRAINING_INPUTS:
            interpreter.set_tensor(inputs[name], np.zeros(1, type_of_training_input(tf, name).as_numpy_dtype))

        def ask(questions: Mapping[str, np.ndarray]) -> np.ndarray:
            answers = []
            for step in range(len(next(iter(questions.values())))):
                for name, values in questions.items():
                    interpreter.set_tensor(inputs[name], values[step : step + 1])
                interpreter.invoke()
                answers.append(interpreter.get_tensor(output))
            return np.concatenate(answers)

        yield ask


def converted(saved_model: Path) -> bytes:
    """Convert a SavedModel to a graph of TensorFlow Lite's own operators alone.

    Raises:
        PolicyError: it has other operators.
        ArtifactError: it cannot be converted.
    """
    tf = import_tensorflow()
    try:
        converter = tf.lite.TFLiteConverter.from_saved_model(str(saved_model), signature_keys=[SIGNATURE])
        converter.target_spec.supported_ops = [tf.lite.OpsSet.TFLITE_BUILTINS]
        graph: bytes = converter.convert()
    except Exception as error:  # there is no list of what it may raise
        if lacking := re.findall(r"^(?:TF Select|Custom) ops: (.+)$", str(error), re.MULTILINE):
            raise PolicyError(f"TensorFlow Lite lacks operators of {saved_model}: {', '.join(lacking)}") from error
        reason = (str(error).splitlines() or [type(error).__name__])[0][:300]
        raise ArtifactError(f"TensorFlow Lite cannot convert {saved_model}: {reason}") from error
    return graph


def _interpreter(tf: Any, model: bytes) -> Any:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # that a package of its own will replace it
        interpreter = tf.lite.Interpreter(
            model_content=model,
            # ml-compiler-opt's build for LLVM leaves out the delegate that would otherwise take over.
            experimental_op_resolver_type=tf.lite.experimental.OpResolverType.BUILTIN_WITHOUT_DEFAULT_DELEGATES,
        )
    interpreter.allocate_tensors()
    return interpreter


def _checked_inputs(interpreter: Any, policy: Policy) -> dict[str, int]:
    """Tensor of each input."""
    details = interpreter.get_input_details()
    if [one["index"] for one in details] != list(range(len(details))):
        raise PolicyError(f"inputs of {MODEL} are not its first tensors, as which LLVM takes them; export again")
    found = {one["name"]: one["index"] for one in details}
    wanted = {f"{SIGNATURE}_{name}:0": name for name in (*asked_features(policy), *TRAINING_INPUTS)}
    if found.keys() != wanted.keys():
        odd = ", ".join(sorted(found.keys() ^ wanted.keys())[:5])
        raise PolicyError(f"inputs of {MODEL} are not those that LLVM feeds: {odd}; export again")
    return {wanted[name]: index for name, index in found.items()}


def _checked_output(interpreter: Any, spec: Any, policy: Policy) -> int:
    """Tensor of the decision."""
    (one,) = interpreter.get_output_details()
    wanted = spec[0]["tensor_spec"]
    name, task = f"{wanted['name']}:{wanted['port']}", get_task(policy.task)
    if one["name"] != name or spec[0]["logging_name"] != task.decision:
        raise PolicyError(f"{OUTPUT_SPEC} asks for {name}, {MODEL} has {one['name']}; export again")
    return int(one["index"])
