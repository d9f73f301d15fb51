"""A policy of a SavedModel that was trained elsewhere.

TensorFlow ends processes and writes to stderr when something goes wrong. So it converts the model and answers some
questions in a process of its own, which runs this module as a program.

Contract of a model for LLVM (exporter compiler_opt/rl/policy_saver.py of google/ml-compiler-opt, and in LLVM
llvm/lib/Analysis/models/gen-inline-oz-test-model.py, gen-regalloc-eviction-test-model.py and
gen-regalloc-priority-test-model.py): tag ``serve``, signature ``action``; inputs are named as features, or as what only
training feeds; an output is named as the decision. Shapes may be [], [1], [33] or [1, 33].
"""

import re
import sys
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import chain
from pathlib import Path
from typing import Any

import numpy as np

from mlgo.base.artifacts import provenance
from mlgo.base.files import content_hash, file_sha256, read_json, write_bytes, write_json
from mlgo.base.packages import require
from mlgo.base.scratch import scratch_directory
from mlgo.base.seeding import generator
from mlgo.base.types import DTYPES, TensorSpec
from mlgo.deploy.export.tensorflow_forms import SIGNATURE, TRAINING_INPUTS, converted, read_saved_model
from mlgo.errors import ArtifactError, MlgoError, PolicyError
from mlgo.host.command_line import words
from mlgo.host.process import Child
from mlgo.host.tasks.task import Task, all_tasks, get_task
from mlgo.learn.tensorflow import import_tensorflow
from mlgo.policy.imported import ImportedPolicy, import_interpreter

UNFED = (*TRAINING_INPUTS, "inlining_default")
"""Inputs that are zero: what only training feeds. The last one is the compiler's own decision, no policy's business."""

NUM_QUESTIONS = 200

TIMEOUT_S = 120.0
"""Of TensorFlow; it takes about 5 s."""
_MAX_MEMORY_BYTES = 16 << 30
"""Address space; it takes about 3 GB on 2 cores."""

_MAX_DIFFERING = 0.01
"""Share of drawn questions. Sums are rounded otherwise in TensorFlow Lite, so a close call may go the other way."""
_SLACK = 1e-4
"""By which answers that are continuous may differ, as a share."""

_TAG = "serve"
_RESULT, _GRAPH, _ASKED = "result.json", "model.tflite", "asked.npz"


@dataclass(frozen=True)
class Converted:
    """A SavedModel converted, without TensorFlow."""

    task: str  # name of the problem that it decides
    features: tuple[str, ...]  # its inputs but for `UNFED`
    graph: bytes  # flatbuffer of TensorFlow Lite
    questions: dict[str, np.ndarray]  # drawn ones, by feature, [NUM_QUESTIONS, num_elements]
    answers: np.ndarray  # of TensorFlow to them, int64 or float32 [NUM_QUESTIONS]


@dataclass(frozen=True)
class ConversionCheck:
    """A graph compared with the model that it was made of."""

    questions: int  # drawn ones, asked of both
    differing: int  # of them, those with different answers
    distinct: int  # different answers of the model


def check_importable(saved_model: Path) -> None:
    """Refuse what cannot be imported at all, before anything long begins."""
    if strange := [path for path in saved_model.rglob("*") if not (path.is_file() or path.is_dir())]:
        raise ArtifactError(f"{strange[0]} is no file; a SavedModel consists of files and folders")
    if not (saved_model / "saved_model.pb").is_file():
        raise ArtifactError(f"{saved_model} holds no saved_model.pb; give the folder of a SavedModel")
    require("mlgo import", "train", "import")
    import_interpreter()


def convert_apart(saved_model: Path, task: str) -> Converted:
    """Run `convert` in a process of its own."""
    with scratch_directory() as folder:
        command = [sys.executable, "-P", "-m", "mlgo.deploy.import_model", str(saved_model), task, str(folder)]
        run = Child(command, max_memory_bytes=_MAX_MEMORY_BYTES).finish(TIMEOUT_S)
        if run.returncode is None:
            raise ArtifactError(f"TensorFlow did not convert {saved_model} within {TIMEOUT_S:g} s")
        if run.returncode != 0:
            last = run.stderr.strip().splitlines()[-1:]
            raise ArtifactError(f"TensorFlow ended with status {run.returncode} over {saved_model}: {''.join(last)}")
        return read_converted(folder)


def read_converted(folder: Path) -> Converted:
    """Read what `convert` has written."""
    result = read_json(folder / _RESULT)
    if "refused" in result:
        raise PolicyError(result["refused"])
    features = tuple(result["features"])
    with np.load(folder / _ASKED) as arrays:
        answers, *questions = arrays.values()
    graph = (folder / _GRAPH).read_bytes()
    return Converted(result["task"], features, graph, dict(zip(features, questions, strict=True)), answers)


def policy_of(converted: Converted, saved_model: Path) -> ImportedPolicy:
    files = sorted(path for path in saved_model.rglob("*") if path.is_file())
    hashes = [[str(path.relative_to(saved_model)), file_sha256(path)] for path in files]
    origin = provenance(algorithm="import", model=saved_model.resolve().name, model_hash=content_hash(hashes))
    return ImportedPolicy(converted.task, converted.features, converted.graph, origin)


def compare_answers(policy: ImportedPolicy, converted: Converted) -> ConversionCheck:
    """Ask the graph what TensorFlow was asked."""
    found, wanted = policy.answers(converted.questions), converted.answers
    if policy.actions.yes_or_no:
        wanted = (wanted != 0).astype(wanted.dtype)
    is_real = wanted.dtype.kind == "f"
    equal = np.isclose(found, wanted, rtol=_SLACK, atol=0.0, equal_nan=True) if is_real else found == wanted
    differing = int((~equal).sum())
    if differing > _MAX_DIFFERING * len(wanted):
        raise PolicyError(
            f"the converted model answers {differing} of {len(wanted)} questions otherwise than TensorFlow runs it; "
            "a model that draws its answers cannot be imported, one with Keras inside may have lost its weights when "
            "it was saved"
        )
    return ConversionCheck(len(wanted), differing, len(np.unique(wanted)))


# What follows runs in the process of TensorFlow.


def convert(saved_model: Path, task: str, folder: Path) -> None:
    """Write into a folder what `read_converted` reads."""
    tf = import_tensorflow()
    model = _read(saved_model)
    inputs, outputs = _read_signature(tf, saved_model, model)
    problem, features = _problem_of(outputs, task), sorted(inputs.keys() - set(UNFED))
    if not features:
        raise PolicyError(f"the model has no features among its inputs, only {_listed(inputs)}")
    if missing := [name for name in problem.actions.needed if name not in features]:
        raise PolicyError(f"the model lacks the input {_listed(missing)}, which tells what answers are legal")
    questions = drawn_questions(problem, [inputs[name] for name in features])
    with scratch_directory() as copy:
        write_computing(model, saved_model, copy)
        try:
            write_bytes(folder / _GRAPH, converted(copy))
            answers = _asked(tf, copy, inputs, problem, questions)
        except MlgoError as error:
            raise type(error)(str(error).replace(str(copy), str(saved_model))) from error
    np.savez(folder / _ASKED, answers, *questions.values())
    write_json(folder / _RESULT, {"task": problem.name, "features": features})


def drawn_questions(task: Task, inputs: Sequence[TensorSpec]) -> dict[str, np.ndarray]:
    """Draw questions of all magnitudes: by input, of its dtype, [NUM_QUESTIONS, num_elements].

    Whole numbers are up to 2^20 in size, others between 0 and 1. Half of the actions are legal, and always the last.
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


def _read(folder: Path) -> Any:
    try:
        return read_saved_model(folder)
    except Exception as error:  # of protobuf, or of the file
        raise ArtifactError(f"{folder / 'saved_model.pb'} cannot be read ({_first_line(error)})") from error


def _read_signature(tf: Any, folder: Path, model: Any) -> tuple[dict[str, TensorSpec], dict[str, TensorSpec]]:
    """Inputs and outputs by name."""
    tags = [sorted(graph.meta_info_def.tags) for graph in model.meta_graphs]
    serving = [graph for graph in model.meta_graphs if _TAG in graph.meta_info_def.tags]
    if not serving:
        raise PolicyError(f"{folder} has no graph with the tag {_TAG!r}, only with {_listed(map('+'.join, tags))}")
    signatures = serving[0].signature_def
    if SIGNATURE not in signatures:
        raise PolicyError(f"{folder} has no signature {SIGNATURE!r}, only {_listed(signatures)}")
    signature = signatures[SIGNATURE]
    inputs = {name: _spec(tf, name, info) for name, info in signature.inputs.items()}
    return inputs, {name: _spec(tf, name, info) for name, info in signature.outputs.items()}


def _spec(tf: Any, name: str, info: Any) -> TensorSpec:
    dtype, shape = tf.as_dtype(info.dtype), info.tensor_shape
    if dtype.name not in {known.name for known in DTYPES.values()}:
        raise PolicyError(f"{name!r} is of type {dtype.name}, which no compiler sends or takes")
    lengths = [dim.size for dim in shape.dim]
    if lengths[:1] == [-1]:
        lengths[0] = 1  # any number of questions at a time: one
    if shape.unknown_rank or any(length < 1 for length in lengths):
        raise PolicyError(f"{name!r} has no fixed shape; save the model for one question at a time")
    return TensorSpec(name, np.dtype(dtype.as_numpy_dtype), tuple(lengths))


def _problem_of(outputs: Mapping[str, TensorSpec], task: str) -> Task:
    decisions: dict[str, Task] = {}
    for one in [get_task(task)] if task else all_tasks():
        decisions.setdefault(one.decision, one)  # of tasks that share a decision, the first
    decided = [decisions[name] for name in outputs if name in decisions]
    if not decided:
        raise PolicyError(f"the model has no output {' or '.join(decisions)}, only {_listed(outputs)}")
    if len(decided) > 1:
        raise PolicyError(f"the model decides for {_listed(one.name for one in decided)}; give --task NAME")
    answer, wanted = outputs[decided[0].decision], np.dtype(decided[0].actions.dtype)
    if answer.dtype != wanted or answer.num_elements != 1:
        raise PolicyError(f"output {answer.name!r} is {answer.dtype} {list(answer.shape)}, not one {wanted.name}")
    return decided[0]


def _asked(
    tf: Any, folder: Path, inputs: Mapping[str, TensorSpec], task: Task, questions: Mapping[str, np.ndarray]
) -> np.ndarray:
    """Answers of the model in TensorFlow, [NUM_QUESTIONS]."""
    try:
        action = tf.saved_model.load(str(folder), tags=[_TAG]).signatures[SIGNATURE]
        unfed = {name: tf.zeros(spec.shape, spec.dtype) for name, spec in inputs.items() if name not in questions}
        answers = []
        for step in range(NUM_QUESTIONS):
            fed = {name: tf.constant(values[step].reshape(inputs[name].shape)) for name, values in questions.items()}
            answers.append(action(**fed, **unfed)[task.decision].numpy().item())
    except Exception as error:  # TensorFlow's own, and those of what it calls
        raise ArtifactError(f"TensorFlow cannot run {folder}: {_first_line(error)}") from error
    return np.array(answers, task.actions.dtype)


def _listed(names: Iterable[str]) -> str:
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


# A graph that can do nothing but compute: TensorFlow runs parts of one as soon as it loads it.

_SAVING = words("MergeV2Checkpoints Save SaveSlices SaveV2")
"""What every model has for those who go on training it; it is taken out."""
_ALSO = re.compile(
    r"(Stateless)?(Case|If|While)|(Stateful)?PartitionedCall|(Ref)?Enter|Assign(Add|Sub)?VariableOp|ReadVariableOp|Empty|"
    r"Var(HandleOp|IsInitializedOp|iableShape|iableV2)|ResourceGather(Nd)?|D(estroyResourceOp|isableCopyOnRead)|RestoreV2|"
    r"(Gather|Scatter)Nd|TensorScatter(Add|Update)|TensorList\w+|EmptyTensorList|RaggedTensorToTensor|Einsum|Assert|"
    r"(AnonymousHashTable|HashTableV2|InitializeTableV2|LookupTable(Find|Import|Size)V2)|CheckNumerics|PreventGradient|"
    r"Random(Shuffle|StandardNormal|Uniform|UniformInt)|Stateful(StandardNormalV2|Uniform)|RngReadAndSkip|GuaranteeConst|"
    r"Multinomial|TruncatedNormal|StatelessRandomGetAlg|ShardedFilename|StaticRegexFullMatch|StringJoin"
)
"""Operators with a state or a text that work on memory alone, but for the reading of variables."""


def write_computing(model: Any, original: Path, copy: Path) -> None:
    """Write a SavedModel to a new folder, whose variables and assets are those of the original.

    ``model`` loses its operators that save. PolicyError where another could do something else than compute.
    """
    operators, own = set(), set()
    for graph in (one.graph_def for one in model.meta_graphs):
        own |= {function.signature.name for function in graph.library.function}
        for node in chain(graph.node, *(function.node_def for function in graph.library.function)):
            if node.op in _SAVING:
                after = [name for name in node.input if name.startswith("^")]
                node.CopyFrom(type(node)(name=node.name, op="NoOp", input=after))
            operators.add(node.op)
    refused = sorted(name for name in operators if not _computes(name, own))
    if refused:
        listed = ", ".join(map(repr, refused[:10]))
        raise PolicyError(f"{original} has operators that may touch files, or are unknown: {listed}; save it without")
    write_bytes(copy / "saved_model.pb", model.SerializeToString())
    for name in ("variables", "assets"):
        (copy / name).symlink_to((original / name).absolute())


def _computes(name: str, own: Collection[str]) -> bool:
    """Whether an operator, or function of the graph's own, only makes numbers of numbers."""
    from tensorflow.core.framework import types_pb2
    from tensorflow.python.framework import op_def_registry

    operator = op_def_registry.get(name)
    if operator is None or _ALSO.fullmatch(name):
        return operator is not None or name in own
    others = {types_pb2.DT_STRING, types_pb2.DT_RESOURCE, types_pb2.DT_VARIANT}
    texts = [one for one in operator.attr if one.type in ("string", "list(string)", "func", "list(func)", "any")]
    return not (
        operator.is_stateful
        or any(one.type in others for one in chain(operator.input_arg, operator.output_arg))
        or any(not one.HasField("allowed_values") for one in texts)
    )


if __name__ == "__main__":
    main()
