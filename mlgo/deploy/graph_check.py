"""A SavedModel of others that can do nothing but compute; TensorFlow runs parts of a graph as soon as it loads it."""

import re
from collections.abc import Collection
from itertools import chain
from pathlib import Path
from typing import Any

from mlgo.base.files import write_bytes
from mlgo.errors import PolicyError
from mlgo.host.command_line import words

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

    Args:
        model: its protocol buffer; operators that save are gone afterwards.

    Raises:
        PolicyError: an operator could do something else than compute.
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
