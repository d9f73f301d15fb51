"""Forms that TensorFlow makes of a policy: a SavedModel, a graph of TensorFlow Lite, and objects compiled of it.

A policy as the SavedModel that LLVM's build compiles ahead of time.

Contract (llvm/cmake/modules/TensorFlowCompile.cmake, llvm/include/llvm/Analysis/ReleaseModeModelRunner.h, and for
register allocation llvm/lib/CodeGen/MLRegAllocEvictAdvisor.cpp and gen-regalloc-priority-test-model.py): tag ``serve``,
signature ``action``; an input for each feature, of shape [1] or [1, num_columns] and of the type that the compiler
sends, plus ``discount`` and ``reward`` (float [1]) and ``step_type`` (int32 [1]); one output, named as the task's
decision, of shape [1], int64 or float. The build of LLVM 22 has no place for a model of priorities yet.

A policy as the TensorFlow Lite model that LLVM's development mode runs.

Contract (llvm/include/llvm/Analysis/ModelUnderTrainingRunner.h, llvm/lib/Analysis/TFLiteUtils.cpp,
llvm/lib/Analysis/TrainingLogger.cpp): a folder with ``model.tflite`` and ``output_spec.json``. Inputs are found by the
name ``action_<feature>:0``. What a compiler feeds besides features (`TRAINING_INPUTS`) must be there, and no input that
it does not feed. LLVM takes the position of an input for its tensor, and a name of an output that it does not find for
the first one, so both are checked here.

A policy as the header and the object that TensorFlow compiles of it ahead of time.

Contract: what llvm/cmake/modules/TensorFlowCompile.cmake makes of a SavedModel with ``saved_model_cli``, or takes ready
made by ``LLVM_OVERRIDE_MODEL_HEADER_<CLASS>`` and ``LLVM_OVERRIDE_MODEL_OBJECT_<CLASS>``. Since 2.20 TensorFlow writes
weights into an object of their own, which that file leaves out of the link, so both are made one here. The runtime
needs Abseil, which the wheel has only in ``libtensorflow_framework``.
"""

import platform
import re
import shutil
import sys
import warnings
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa

from mlgo.base.files import read_json, write_bytes, write_json
from mlgo.base.packages import require
from mlgo.base.scratch import scratch_directory
from mlgo.base.types import C_TYPES
from mlgo.deploy.export import form
from mlgo.errors import ArtifactError, PolicyError
from mlgo.host.tasks.task import get_task
from mlgo.host.toolchain import find_linker
from mlgo.learn.tensorflow import import_tensorflow
from mlgo.policy.network import logits
from mlgo.policy.policy import Policy

SIGNATURE = "action"
TRAINING_INPUTS: Mapping[str, type] = {"discount": np.float32, "reward": np.float32, "step_type": np.int32}
"""Inputs that LLVM's training mode feeds besides the features, and their types; the model ignores them."""


class SavedModel(form.Form):
    """TensorFlow takes a millisecond for one question."""

    name = "saved_model"
    max_questions = form.PARITY_QUESTIONS

    def save(self, policy: Policy, trace: pa.Table, folder: Path) -> None:
        tf = import_tensorflow()
        specs = [tf.TensorSpec(spec.shape, spec.dtype, name=spec.name) for spec in form.model_inputs(policy, trace)]
        specs += [tf.TensorSpec((1,), dtype, name=name) for name, dtype in TRAINING_INPUTS.items()]
        module = _module(tf, policy)
        signature = tf.function(module.action, autograph=False).get_concrete_function(*specs)
        try:
            tf.saved_model.save(module, str(folder), signatures={SIGNATURE: signature})
        except tf.errors.OpError as error:
            raise OSError(error.message or str(error)) from error
        # The graph in canonical order, and no fingerprint, which holds a random identifier.
        write_bytes(folder / "saved_model.pb", read_saved_model(folder).SerializeToString(deterministic=True))
        (folder / "fingerprint.pb").unlink(missing_ok=True)

    @contextmanager
    def opened(self, folder: Path, policy: Policy) -> Iterator[form.Ask]:
        """By TensorFlow, a tensor for each feature."""
        tf, decision = import_tensorflow(), get_task(policy.task).decision
        loaded = tf.saved_model.load(str(folder))  # goes with the last reference to it, and its function with it
        action = loaded.signatures[SIGNATURE]
        ignored = {name: tf.zeros([1], dtype) for name, dtype in TRAINING_INPUTS.items()}

        def answer(row: Mapping[str, np.ndarray]) -> np.ndarray:
            tensors = {name: tf.constant(values) for name, values in row.items()}
            return np.asarray(action(**tensors, **ignored)[decision])

        yield form.row_by_row(answer)


def _module(tf: Any, policy: Policy) -> Any:
    from keras import ops

    names, actions, task = form.asked_features(policy), policy.actions, get_task(policy.task)

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


def read_saved_model(folder: Path) -> Any:
    """The protocol buffer ``SavedModel`` of a folder."""
    from tensorflow.core.protobuf import saved_model_pb2

    model = saved_model_pb2.SavedModel()
    model.ParseFromString((folder / "saved_model.pb").read_bytes())
    return model


MODEL, OUTPUT_SPEC = "model.tflite", "output_spec.json"


class TFLite(form.Form):
    """The interpreter takes microseconds, feeding it from Python ten times as long."""

    name = "tflite"
    max_questions = 10_000

    def save(self, policy: Policy, trace: pa.Table, folder: Path) -> None:
        """See `Form.save`; the model is converted from a SavedModel, as only that keeps the names of inputs."""
        task = get_task(policy.task)
        with scratch_directory() as scratch:
            SavedModel().save(policy, trace, scratch)
            write_bytes(folder / MODEL, converted(scratch))
            signature = read_saved_model(scratch).meta_graphs[0].signature_def[SIGNATURE]
        name, port = signature.outputs[task.decision].name.rsplit(":", 1)
        tensor = {"name": name, "port": int(port), "type": C_TYPES[np.dtype(task.actions.dtype)], "shape": [1]}
        write_json(folder / OUTPUT_SPEC, [{"logging_name": task.decision, "tensor_spec": tensor}])

    @contextmanager
    def opened(self, folder: Path, policy: Policy) -> Iterator[form.Ask]:
        """By TensorFlow Lite's interpreter, inputs by position and the output by name, as LLVM does."""
        model = (folder / MODEL).read_bytes()
        if len(model) < (least := policy.weights.nbytes):  # a conversion leaves out variables that it does not find
            raise PolicyError(f"{MODEL} has {len(model)} bytes, its weights alone {least}; export again")
        interpreter = _interpreter(import_tensorflow(), model)
        inputs, output = _checked_tensors(interpreter, read_json(folder / OUTPUT_SPEC), policy)
        for name, dtype in TRAINING_INPUTS.items():
            interpreter.set_tensor(inputs[name], np.zeros(1, dtype))

        def answer(row: Mapping[str, np.ndarray]) -> np.ndarray:
            for name, values in row.items():
                interpreter.set_tensor(inputs[name], values)
            interpreter.invoke()
            return np.asarray(interpreter.get_tensor(output))

        yield form.row_by_row(answer)


def converted(saved_model: Path) -> bytes:
    """Convert a SavedModel to a graph of nothing but TensorFlow Lite's own operators."""
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


def _checked_tensors(interpreter: Any, spec: Any, policy: Policy) -> tuple[dict[str, int], int]:
    """Tensor of each input, and that of the decision."""
    details = interpreter.get_input_details()
    if [one["index"] for one in details] != list(range(len(details))):
        raise PolicyError(f"inputs of {MODEL} are not its first tensors, as which LLVM takes them; export again")
    inputs = {one["name"]: one["index"] for one in details}
    wanted = {f"{SIGNATURE}_{name}:0": name for name in (*form.asked_features(policy), *TRAINING_INPUTS)}
    if inputs.keys() != wanted.keys():
        odd = ", ".join(sorted(inputs.keys() ^ wanted.keys())[:5])
        raise PolicyError(f"inputs of {MODEL} are not those that LLVM feeds: {odd}; export again")
    (output,), (asked,) = interpreter.get_output_details(), spec
    name = "{name}:{port}".format(**asked["tensor_spec"])
    if output["name"] != name or asked["logging_name"] != get_task(policy.task).decision:
        raise PolicyError(f"{OUTPUT_SPEC} asks for {name}, {MODEL} has {output['name']}; export again")
    return {wanted[name]: index for name, index in inputs.items()}, int(output["index"])


_RUNTIME = (
    "tensorflow/compiler/tf2xla/xla_compiled_cpu_function.cc",
    "tensorflow/compiler/tf2xla/allocator.cc",
    "xla/executable_run_options.cc",
    "xla/backends/cpu/runtime/rng_state_lib.cc",
    "xla/backends/cpu/runtime/dot_lib_f32.cc",  # products of matrices that are too large to be written out
)
"""Sources of the runtime that a network needs, of 20; some of the others take minutes to compile."""

_COMPILE = ("-std=c++17", "-O2", "-g0", "-w", "-fno-sanitize=all", "-mcpu=baseline")


class AheadOfTime(form.CompiledForm):
    """Objects; a compile takes some seconds, that of the runtime for the first check a minute.

    Of one policy the object has the same bytes each time; the header may name inputs in another order.
    """

    name = "aot"

    def save(self, policy: Policy, trace: pa.Table, folder: Path) -> None:
        model = get_task(policy.task).model
        with scratch_directory() as scratch:
            SavedModel().write(policy, trace, scratch / "saved_model")
            # Beside the files: the prefix becomes part of the header.
            options = {
                "--multithreading": "false",
                "--dir": "saved_model",
                "--tag_set": "serve",
                "--signature_def_key": SIGNATURE,
                "--output_prefix": f"./{model}",
                "--cpp_class": f"llvm::{model}",
                "--target_triple": f"{platform.machine()}-unknown-linux-gnu",
            }
            tool = [sys.executable, "-m", "tensorflow.python.tools.saved_model_cli", "aot_compile_cpu"]
            form.run_tool([*tool, *(word for option in options.items() for word in option)], cwd=scratch)
            shutil.copy(scratch / f"{model}.h", folder)
            objects = [str(scratch / f"{model}{part}.o") for part in ("", "_constants")]
            form.run_tool([str(find_linker()), "ld.lld", "-r", "-o", str(folder / f"{model}.o"), *objects])

    @contextmanager
    def harness(self, folder: Path, policy: Policy) -> Iterator[form.Harness]:
        """Linked with TensorFlow's runtime, which is not imported; raises as `build_harness`."""
        task, spec = get_task(policy.task), find_spec("tensorflow")
        require("the harness of TensorFlow", "train")
        assert spec is not None
        assert spec.origin is not None
        tensorflow = Path(spec.origin).parent
        compiler = [str(find_linker()), "c++", *_COMPILE, f"-I{tensorflow / 'include'}"]
        with scratch_directory() as scratch:
            objects = [str(folder / f"{task.model}.o")]
            for source in _RUNTIME:  # one by one, and without the model's folder: zig knows them the next time
                objects.append(str(scratch / f"{Path(source).stem}.o"))
                path = tensorflow / "xla_aot_runtime_src" / source
                form.run_tool([*compiler, "-c", str(path), "-o", objects[-1]])
            library = [str(tensorflow / "libtensorflow_framework.so.2"), f"-Wl,-rpath,{tensorflow}"]
            with form.build_harness(task, [*compiler, f"-I{folder}", str(form.ASK), *objects, *library]) as harness:
                yield harness
