"""A policy as the header and the object that TensorFlow compiles of it ahead of time.

Contract: what llvm/cmake/modules/TensorFlowCompile.cmake makes of a SavedModel with ``saved_model_cli``, or takes ready
made by ``LLVM_OVERRIDE_MODEL_HEADER_<CLASS>`` and ``LLVM_OVERRIDE_MODEL_OBJECT_<CLASS>``. Since 2.20 TensorFlow writes
weights into an object of their own, which that file leaves out of the link, so both are made one here. The runtime
needs Abseil, which the wheel has in ``libtensorflow_framework`` alone.
"""

import platform
import shutil
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path
from typing import ClassVar

import pyarrow as pa

from mlgo.base.files import write_folder
from mlgo.base.scratch import scratch_directory
from mlgo.deploy.export.form import Ask
from mlgo.deploy.export.harness import ASK, Harness, build_harness, run_tool
from mlgo.deploy.export.saved_model import SIGNATURE, SavedModel
from mlgo.errors import ToolchainError
from mlgo.host.tasks.task import get_task
from mlgo.host.toolchain import find_linker
from mlgo.policy.policy import Policy

_RUNTIME = (
    "tensorflow/compiler/tf2xla/xla_compiled_cpu_function.cc",
    "tensorflow/compiler/tf2xla/allocator.cc",
    "xla/executable_run_options.cc",
    "xla/backends/cpu/runtime/rng_state_lib.cc",
    "xla/backends/cpu/runtime/dot_lib_f32.cc",  # products of matrices that are too large to be written out
)
"""What a network needs of the runtime's 20 sources; some of the others take minutes to compile."""

_COMPILE = ("-std=c++17", "-O2", "-g0", "-w", "-fno-sanitize=all", "-mcpu=baseline")


@dataclass(frozen=True)
class AheadOfTime:
    """The form of this module.

    The compile takes some seconds, that of the runtime for the first check a minute. Of one policy the object has the
    same bytes each time; the header may name inputs in another order.
    """

    name: ClassVar[str] = "aot"
    max_questions: ClassVar[int | None] = None

    def write(self, policy: Policy, trace: pa.Table, folder: Path) -> None:
        """See `Form.write`; also raises as `harness.run_tool`."""
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
            run_tool([*tool, *(word for option in options.items() for word in option)], cwd=scratch)

            def save(temporary: Path) -> None:
                shutil.copy(scratch / f"{model}.h", temporary)
                objects = [str(scratch / f"{model}{part}.o") for part in ("", "_constants")]
                run_tool([str(find_linker()), "ld.lld", "-r", "-o", str(temporary / f"{model}.o"), *objects])

            write_folder(folder, save)

    @contextmanager
    def opened(self, folder: Path, policy: Policy) -> Iterator[Ask]:
        """Linked with TensorFlow's runtime by the toolchain's own compiler."""
        with self.harness(folder, policy) as harness:
            yield lambda questions: harness.ask(questions)[0]

    @contextmanager
    def harness(self, folder: Path, policy: Policy) -> Iterator[Harness]:
        """The same, for measurements of time; raises as `build_harness`."""
        task, tensorflow = get_task(policy.task), _tensorflow()
        compiler = [str(find_linker()), "c++", *_COMPILE, f"-I{tensorflow / 'include'}"]
        with scratch_directory() as scratch:
            objects = [str(folder / f"{task.model}.o")]
            for source in _RUNTIME:  # one by one, and without the model's folder: zig knows them the next time
                objects.append(str(scratch / f"{Path(source).stem}.o"))
                path = tensorflow / "xla_aot_runtime_src" / source
                run_tool([*compiler, "-c", str(path), "-o", objects[-1]])
            library = [str(tensorflow / "libtensorflow_framework.so.2"), f"-Wl,-rpath,{tensorflow}"]
            with build_harness(task, [*compiler, f"-I{folder}", str(ASK), *objects, *library]) as harness:
                yield harness


def _tensorflow() -> Path:
    """Folder of the package, which is not imported."""
    spec = find_spec("tensorflow")
    if spec is None or spec.origin is None:
        raise ToolchainError("TensorFlow is not installed; run make setup")
    return Path(spec.origin).parent
