"""A SavedModel as a graph of TensorFlow Lite, and what TensorFlow itself answers to some questions.

This module imports TensorFlow and is a program of its own, which `importing` runs. So what goes wrong in TensorFlow,
which ends processes and writes to stderr, stays there.

Contract of a model for LLVM (exporter compiler_opt/rl/policy_saver.py of google/ml-compiler-opt, and in LLVM
llvm/lib/Analysis/models/gen-inline-oz-test-model.py, gen-regalloc-eviction-test-model.py and
gen-regalloc-priority-test-model.py): tag ``serve``, signature ``action``; inputs are named as features, or as what only
training feeds; an output is named as the decision. Shapes may be [], [1], [33] or [1, 33].
"""

import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from mlgo.base.files import read_array, read_json, write_bytes, write_json
from mlgo.base.seeding import generator
from mlgo.base.types import DTYPES, TensorSpec
from mlgo.deploy.export.tensorflow_forms import SIGNATURE, TRAINING_INPUTS, converted
from mlgo.errors import ArtifactError, MlgoError, PolicyError
from mlgo.host.tasks.task import Task, all_tasks, get_task
from mlgo.learn.tensorflow import import_tensorflow

UNFED = (*TRAINING_INPUTS, "inlining_default")
"""Inputs that are zero: what only training feeds. The last one is the compiler's own decision, no policy's business."""

NUM_QUESTIONS = 200

_TAG = "serve"
_RESULT, _GRAPH, _ANSWERS = "result.json", "model.tflite", "answers.npy"


@dataclass(frozen=True)
class Converted:
    """A SavedModel converted, without TensorFlow."""

    task: str  # name of the problem that it decides
    features: tuple[str, ...]  # its inputs but for `UNFED`
    graph: bytes  # flatbuffer of TensorFlow Lite
    questions: dict[str, np.ndarray]  # drawn ones, by feature, [NUM_QUESTIONS, num_elements]
    answers: np.ndarray  # of TensorFlow to them, int64 or float32 [NUM_QUESTIONS]


@dataclass(frozen=True)
class _Signature:
    inputs: dict[str, TensorSpec]
    outputs: dict[str, TensorSpec]


def convert(saved_model: Path, task: str, folder: Path) -> None:
    """Write into a folder what `read_converted` reads."""
    tf = import_tensorflow()
    signature = _read_signature(tf, saved_model)
    problem = _problem_of(signature, task)
    features = _features_of(signature, problem)
    questions = drawn_questions(problem, [signature.inputs[name] for name in features])
    write_bytes(folder / _GRAPH, converted(saved_model))
    np.save(folder / _ANSWERS, _asked(tf, saved_model, signature, problem, questions))
    for number, name in enumerate(features):
        np.save(folder / f"{number}.npy", questions[name])
    write_json(folder / _RESULT, {"task": problem.name, "features": features})


def read_converted(folder: Path) -> Converted:
    """Read what `convert` has written."""
    result = read_json(folder / _RESULT)
    if "refused" in result:
        raise PolicyError(result["refused"])
    features = tuple(result["features"])
    questions = {name: read_array(folder / f"{number}.npy") for number, name in enumerate(features)}
    return Converted(result["task"], features, (folder / _GRAPH).read_bytes(), questions, read_array(folder / _ANSWERS))


def drawn_questions(task: Task, inputs: list[TensorSpec]) -> dict[str, np.ndarray]:
    """Draw questions of all magnitudes: whole numbers up to 2^20 in size, others between 0 and 1.

    Of actions, half are legal, and always the last.

    Returns:
        By input, of its dtype, [NUM_QUESTIONS, num_elements].
    """
    rng, questions = generator(0, "import"), {}
    for spec in inputs:
        shape = (NUM_QUESTIONS, spec.num_elements)
        if spec.name in task.actions.needed:
            values = np.floor(rng.uniform(0, 2, shape))
            values[:, -1] = 1
        elif spec.dtype.kind == "f":
            values = rng.random(shape)
        else:
            values = np.floor(np.exp2(rng.uniform(0, 20, shape))) * rng.choice([-1, 0, 1], shape, p=[0.2, 0.2, 0.6])
        questions[spec.name] = values.astype(spec.dtype)
    return questions


def _read_signature(tf: Any, folder: Path) -> _Signature:
    from tensorflow.core.protobuf.saved_model_pb2 import SavedModel

    model = SavedModel()
    try:
        model.ParseFromString((folder / "saved_model.pb").read_bytes())
    except Exception as error:  # of protobuf, or of the file
        raise ArtifactError(f"{folder / 'saved_model.pb'} cannot be read ({_first_line(error)})") from error
    tags = [sorted(graph.meta_info_def.tags) for graph in model.meta_graphs]
    serving = [graph for graph in model.meta_graphs if _TAG in graph.meta_info_def.tags]
    if not serving:
        raise PolicyError(f"{folder} has no graph with the tag {_TAG!r}, only with {_listed(map('+'.join, tags))}")
    found = serving[0].signature_def
    if SIGNATURE not in found:
        raise PolicyError(f"{folder} has no signature {SIGNATURE!r}, only {_listed(found)}")
    parts = found[SIGNATURE].inputs, found[SIGNATURE].outputs
    inputs, outputs = ({name: _spec(tf, name, info) for name, info in part.items()} for part in parts)
    return _Signature(inputs, outputs)


def _spec(tf: Any, name: str, info: Any) -> TensorSpec:
    dtype, shape = tf.as_dtype(info.dtype), info.tensor_shape
    if dtype.name not in {known.name for known in DTYPES.values()}:
        raise PolicyError(f"{name!r} is of type {dtype.name}, which no compiler sends or takes")
    lengths = [dim.size for dim in shape.dim]
    if lengths and lengths[0] == -1:
        lengths[0] = 1  # any number of questions at a time: one
    if shape.unknown_rank or any(length < 1 for length in lengths):
        raise PolicyError(f"{name!r} has no fixed shape; save the model for one question at a time")
    return TensorSpec(name, np.dtype(dtype.as_numpy_dtype), tuple(lengths))


def _problem_of(signature: _Signature, task: str) -> Task:
    decisions: dict[str, Task] = {}
    for one in [get_task(task)] if task else all_tasks():
        decisions.setdefault(one.decision, one)  # of tasks that share a decision, the first
    found = [decisions[name] for name in signature.outputs if name in decisions]
    if not found:
        wanted = " or ".join(decisions)
        raise PolicyError(f"the model has no output {wanted}, only {_listed(signature.outputs)}")
    if len(found) > 1:
        raise PolicyError(f"the model decides for {_listed(one.name for one in found)}; give --task NAME")
    answer = signature.outputs[found[0].decision]
    if answer.dtype != found[0].actions.dtype or answer.num_elements != 1:
        wanted = np.dtype(found[0].actions.dtype).name
        raise PolicyError(f"output {answer.name!r} is {answer.dtype} {list(answer.shape)}, not one {wanted}")
    return found[0]


def _features_of(signature: _Signature, task: Task) -> list[str]:
    features = sorted(signature.inputs.keys() - set(UNFED))
    if not features:
        raise PolicyError(f"the model has no features among its inputs, only {_listed(signature.inputs)}")
    if missing := [name for name in task.actions.needed if name not in features]:
        raise PolicyError(f"the model lacks the input {_listed(missing)}, which tells what answers are legal")
    return features


def _asked(tf: Any, folder: Path, signature: _Signature, task: Task, questions: dict[str, np.ndarray]) -> np.ndarray:
    """Answers of the model in TensorFlow, [NUM_QUESTIONS]."""
    try:
        action = tf.saved_model.load(str(folder), tags=[_TAG]).signatures[SIGNATURE]
        shapes = {name: spec.shape for name, spec in signature.inputs.items()}
        unfed = {
            name: tf.zeros(spec.shape, spec.dtype) for name, spec in signature.inputs.items() if name not in questions
        }
        answers = []
        for step in range(NUM_QUESTIONS):
            fed = {name: tf.constant(values[step].reshape(shapes[name])) for name, values in questions.items()}
            answers.append(action(**fed, **unfed)[task.decision].numpy().item())
    except Exception as error:  # TensorFlow's own, and those of what it calls
        raise ArtifactError(f"TensorFlow cannot run {folder}: {_first_line(error)}") from error
    return np.array(answers, task.actions.dtype)


def _listed(names: Any) -> str:
    return ", ".join(sorted(names)) or "none"


def _first_line(error: Exception) -> str:
    return (str(error).strip() or type(error).__name__).splitlines()[0][:300]


def main() -> None:
    """Convert as the arguments say; what is refused is a result, too."""
    saved_model, task, folder = sys.argv[1:]
    try:
        convert(Path(saved_model), task, Path(folder))
    except MlgoError as error:
        write_json(Path(folder) / _RESULT, {"refused": str(error)})


if __name__ == "__main__":
    main()
