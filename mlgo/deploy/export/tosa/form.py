"""A policy as TOSA, the operators of MLIR from which newer builds of LLVM make C++ of their own.

Contract (llvm/cmake/modules/MLGOLower.cmake, llvm/include/llvm/Analysis/EmitCModelRunner.h, both newer than LLVM 22): a
file for ``LLVM_MLGO_MODELS="flag,path,type"`` with one function, whose arguments carry the features' names as
``tf_saved_model.index_path`` and whose result is the decision. Every input is optional for LLVM, so there are those of
the policy and no others. Operators are written as in TOSA 1.0, as tosa-converter-for-tflite 2026.2 prints them.

The arithmetic stands here no second time: policies compute with a `Graph` as they do with ``numpy`` and ``keras.ops``,
and each operation leaves a line.
"""

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import ClassVar

import numpy as np
import pyarrow as pa

from mlgo.base.artifacts import trace_features
from mlgo.base.files import write_folder, write_text
from mlgo.deploy.export.form import Ask
from mlgo.deploy.export.questions import asked_features
from mlgo.deploy.export.tosa.graph import Graph
from mlgo.deploy.export.tosa.interpreter import parse_tosa
from mlgo.errors import PolicyError
from mlgo.host.tasks.task import get_task
from mlgo.policy.network import logits
from mlgo.policy.policy import Policy


@dataclass(frozen=True)
class Tosa:
    """The form of this module; the check asks it by NumPy, as no package has a compiler for it."""

    name: ClassVar[str] = "tosa"
    max_questions: ClassVar[int | None] = 1000

    def write(self, policy: Policy, trace: pa.Table, folder: Path) -> None:
        """See `Form.write`."""
        name, text = f"{get_task(policy.task).model}.mlir", tosa_text(policy, trace)
        write_folder(folder, lambda temporary: write_text(temporary / name, text))

    @contextmanager
    def opened(self, folder: Path, policy: Policy) -> Iterator[Ask]:
        """Read again and run by `interpreter`."""
        task = get_task(policy.task)
        program = parse_tosa((folder / f"{task.model}.mlir").read_text())
        if (set(program.arguments), program.decision) != (set(asked_features(policy)), task.decision):
            raise PolicyError(f"the module is about {program.decision} of other features; export again")

        def ask(questions: Mapping[str, np.ndarray]) -> np.ndarray:
            steps = range(len(next(iter(questions.values()))))
            rows = ({name: values[step : step + 1] for name, values in questions.items()} for step in steps)
            return np.concatenate([program.run(row) for row in rows])

        yield ask


def tosa_text(policy: Policy, trace: pa.Table) -> str:
    """The module; the same policy gives the same text.

    Args:
        policy: what to export.
        trace: recorded questions; tells types and sizes of the inputs.
    """
    graph, task, actions = Graph(), get_task(policy.task), policy.actions
    inputs = {name: graph.argument(*kind) for name, kind in _types(policy, trace).items()}
    tensors = dict(inputs)
    for name in filter(tensors.__contains__, task.not_finite):
        tensors[name] = graph.finite(tensors[name], task.not_finite[name])
    seen = actions.pack(graph, tensors, policy.normalisation.features)
    found = logits(policy.layers, actions.encode(graph, seen, policy.normalisation), graph)
    if seen.legal is not None:
        found = graph.where(seen.legal, found, np.finfo(np.float32).min)
    decision = graph.array(actions.greedy(graph, found), actions.dtype)
    arguments = [f"{one.name}: {one.type} {_index_path(name)}" for name, one in inputs.items()]
    head = f"  func.func @main({', '.join(arguments)}) -> ({decision.type} {_index_path(task.decision)}) {{"
    return "\n".join(["module {", head, *graph.lines, f"    return {decision.name} : {decision.type}", "  }", "}", ""])


def _types(policy: Policy, trace: pa.Table) -> dict[str, tuple[str, tuple[int, ...]]]:
    """Dtype and shape of each input."""
    types = trace_features(trace)
    return {name: _dtype_and_shape(types[name]) for name in asked_features(policy)}


def _dtype_and_shape(kind: pa.DataType) -> tuple[str, tuple[int, ...]]:
    if pa.types.is_fixed_size_list(kind):
        return np.dtype(kind.value_type.to_pandas_dtype()).name, (1, kind.list_size)
    return np.dtype(kind.to_pandas_dtype()).name, (1,)


def _index_path(name: str) -> str:
    return f'{{tf_saved_model.index_path = ["{name}"]}}'
