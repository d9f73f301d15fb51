"""A policy as TOSA, the operators of MLIR from which newer builds of LLVM make C++ of their own.

Contract (llvm/cmake/modules/MLGOLower.cmake, llvm/include/llvm/Analysis/EmitCModelRunner.h, both newer than LLVM 22): a
file for ``LLVM_MLGO_MODELS="flag,path,type"`` with one function, whose arguments carry the features' names as
``tf_saved_model.index_path`` and whose result is the decision. Every input is optional for LLVM, so there are those of
the policy and no others. Operators are written as in TOSA 1.0, as tosa-converter-for-tflite 2026.2 prints them.

The arithmetic stands here no second time: policies compute with a `TosaGraph` as they do with ``numpy`` and
``keras.ops``, and each operation leaves a line.

The check runs a module by NumPy, each operator as the specification of TOSA 1.0 defines it. It reads nothing but the
text, and refuses what is not exactly as declared: an unknown operator, inputs of unequal rank where the specification
asks for equal ones, a result of another type.
"""

import json
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa

from mlgo.base.files import write_text
from mlgo.deploy.export.form import Ask, Form, asked_features, model_inputs, row_by_row
from mlgo.errors import PolicyError
from mlgo.host.tasks.task import get_task
from mlgo.policy.network import logits
from mlgo.policy.policy import Policy


class Tosa(Form):
    """The form of this module; the check asks it by NumPy, as no package has a compiler for it."""

    name = "tosa"
    max_questions = 1000

    def save(self, policy: Policy, trace: pa.Table, folder: Path) -> None:
        write_text(folder / f"{get_task(policy.task).model}.mlir", tosa_text(policy, trace))

    @contextmanager
    def opened(self, folder: Path, policy: Policy) -> Iterator[Ask]:
        """Read again, and run by NumPy."""
        task = get_task(policy.task)
        program = parse_tosa((folder / f"{task.model}.mlir").read_text())
        if (set(program.arguments), program.decision) != (set(asked_features(policy)), task.decision):
            raise PolicyError(f"the module is about {program.decision} of other features; export again")
        yield row_by_row(program.run)


def tosa_text(policy: Policy, trace: pa.Table) -> str:
    """The module; the same policy gives the same text."""
    graph, task, actions = TosaGraph(), get_task(policy.task), policy.actions
    inputs = {spec.name: graph.argument(spec.dtype.name, spec.shape) for spec in model_inputs(policy, trace)}
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


def _index_path(name: str) -> str:
    return f'{{tf_saved_model.index_path = ["{name}"]}}'


_KINDS = {"int64": "i64", "float32": "f32", "bool": "i1", "int8": "i8"}
_MOST_IN_DECIMALS = 8


class TosaGraph:
    """Lines of a function so far, and the functions of ``numpy`` that policies call, by their names."""

    def __init__(self) -> None:
        self.lines: list[str] = []
        self._num_arguments = 0
        self._constants: dict[str, Tensor] = {}

    def argument(self, dtype: str, shape: tuple[int, ...]) -> "Tensor":
        """The next input."""
        self._num_arguments += 1
        return Tensor(self, f"%arg{self._num_arguments - 1}", dtype, shape)

    def add(
        self, operator: str, inputs: Sequence["Tensor"], dtype: str, shape: Sequence[int], properties: str = ""
    ) -> "Tensor":
        """Write an operation, in the form that all versions of MLIR read, and give its result."""
        found = Tensor(self, f"%{len(self.lines)}", dtype, tuple(shape))
        names, types = ", ".join(one.name for one in inputs), ", ".join(one.type for one in inputs)
        properties = f" <{{{properties}}}>" if properties else ""
        self.lines.append(f'    {found.name} = "tosa.{operator}"({names}){properties} : ({types}) -> {found.type}')
        return found

    def constant(self, values: np.ndarray) -> "Tensor":
        """Numbers [...] of any shape."""
        kind = _type(values.dtype.name, values.shape)
        return self._once("const", values.dtype.name, values.shape, f"dense<{_dense(values)}> : {kind}")

    def shape(self, numbers: Sequence[int]) -> "Tensor":
        """Numbers that stand for a shape or for places."""
        text = f"dense<{list(numbers)}> : tensor<{len(numbers)}xindex>"
        return self._once("const_shape", "shape", (len(numbers),), text)

    def _once(self, operator: str, dtype: str, shape: tuple[int, ...], values: str) -> "Tensor":
        if values not in self._constants:  # the type in the text tells shapes from numbers
            self._constants[values] = self.add(operator, [], dtype, shape, f"values = {values}")
        return self._constants[values]

    def elementwise(
        self, operator: str, values: Sequence[Any], dtype: str = "", extra: Sequence["Tensor"] = ()
    ) -> "Tensor":
        """An operation on numbers at the same places."""
        (*_, like) = [value for value in values if isinstance(value, Tensor)]
        rank = max(np.ndim(value) for value in values)  # TOSA stretches axes of length 1, and adds none
        inputs = []
        for value in values:
            shape = (1,) * (rank - np.ndim(value)) + np.shape(value)
            if isinstance(value, Tensor):
                inputs.append(self.reshape(value, shape))
            else:
                kind = bool if np.asarray(value).dtype == bool else like.dtype
                inputs.append(self.constant(np.asarray(value, kind).reshape(shape)))
        shape = np.broadcast_shapes(*(one.shape for one in inputs))
        return self.add(operator, [*inputs, *extra], dtype or like.dtype, shape)

    # What policies call, with the names and meanings of NumPy.

    def array(self, value: "Tensor", dtype: Any) -> "Tensor":
        name = np.dtype(dtype).name
        return value if value.dtype == name else self.add("cast", [value], name, value.shape)

    def reshape(self, value: "Tensor", shape: Sequence[int]) -> "Tensor":
        """The same numbers in another shape; one axis may be -1, what is left."""
        shape = np.empty(value.shape).reshape(shape).shape
        return value if value.shape == shape else self.add("reshape", [value, self.shape(shape)], value.dtype, shape)

    def swapaxes(self, value: "Tensor", one: int, other: int) -> "Tensor":
        """Two axes in each other's place."""
        order = list(range(value.ndim))
        order[one], order[other] = other, one
        shape = [value.shape[axis] for axis in order]
        return self.add("transpose", [value], value.dtype, shape, f"perms = array<i32: {', '.join(map(str, order))}>")

    def matmul(self, rows: "Tensor", matrices: np.ndarray) -> "Tensor":
        """Products of [num, rows, inputs] with a matrix each, [num, inputs, outputs]."""
        zero = self.constant(np.zeros(1, np.float32))
        shape = (*rows.shape[:-1], matrices.shape[-1])
        return self.add("matmul", [rows, self.constant(matrices), zero, zero], "float32", shape)

    def stack(self, values: Sequence["Tensor"], axis: int = -1) -> "Tensor":
        """Tensors side by side along a new last axis."""
        assert axis == -1
        return self.concatenate([value[..., None] for value in values])

    def concatenate(self, values: Sequence[Any], axis: int = -1) -> "Tensor":
        """Tensors side by side along the last axis."""
        assert axis == -1
        (like, *_) = [value for value in values if isinstance(value, Tensor)]
        parts = [one if isinstance(one, Tensor) else self.constant(np.asarray(one, like.dtype)) for one in values]
        if len(parts) == 1:
            return parts[0]
        shape = (*like.shape[:-1], sum(one.shape[-1] for one in parts))
        return self.add("concat", parts, like.dtype, shape, f"axis = {like.ndim - 1} : i32")

    def broadcast_to(self, value: Any, shape: Sequence[int]) -> Any:
        """The same numbers again and again."""
        if not isinstance(value, Tensor):
            return np.broadcast_to(value, shape)
        nothing = np.full(shape, -0.0, np.float32)  # added to any number, 0 and -0 included, it changes nothing
        return value if value.shape == tuple(shape) else value + nothing

    def where(self, condition: Any, yes: Any, no: Any) -> "Tensor":
        """One of two numbers at each place."""
        return self.elementwise("select", [condition, yes, no])

    def finite(self, value: "Tensor", other: np.float32) -> "Tensor":
        """The other number where one is infinite or not a number: then it is not 0 away from itself."""
        return self.where(value - value == 0.0, value, other)

    def abs(self, value: "Tensor") -> "Tensor":
        return self.add("abs", [value], value.dtype, value.shape)

    def log1p(self, value: "Tensor") -> "Tensor":
        # TOSA has no operator for it that would keep what is far below 1.
        return self.add("log", [value + 1.0], value.dtype, value.shape)

    def sign(self, value: "Tensor") -> "Tensor":
        zeros = self.zeros_like(value)
        return self.where(value > zeros, 1.0, self.where(zeros > value, -1.0, zeros))

    def maximum(self, value: "Tensor", least: float) -> "Tensor":
        return self.elementwise("maximum", [value, least])

    def minimum(self, value: "Tensor", most: float) -> "Tensor":
        return self.elementwise("minimum", [value, most])

    def clip(self, value: "Tensor", least: float, most: float) -> "Tensor":
        return self.maximum(self.minimum(value, most), least)

    def zeros_like(self, value: "Tensor") -> "Tensor":
        return self.constant(np.zeros(value.shape, value.dtype))

    def argmax(self, value: "Tensor", axis: int = -1) -> "Tensor":
        """Place of the first of the largest numbers along the last axis."""
        assert axis == -1
        return self.add("argmax", [value], "int64", value.shape[:-1], f"axis = {value.ndim - 1} : i32")


def _elementwise(operator: str, dtype: str = "") -> Callable[["Tensor", Any], "Tensor"]:
    return lambda one, other: one.graph.elementwise(operator, [one, other], dtype)


@dataclass(frozen=True, eq=False)
class Tensor:
    """A value in a function, which computes as an array of NumPy does."""

    __array_ufunc__ = None  # numbers of NumPy on the left leave the operation to this class

    graph: TosaGraph  # function that it belongs to
    name: str  # in the text
    dtype: str  # of its numbers, as NumPy calls it; `shape` for what stands for one
    shape: tuple[int, ...]  # [...]

    @property
    def ndim(self) -> int:
        return len(self.shape)

    @cached_property
    def type(self) -> str:
        """As MLIR writes it."""
        return _type(self.dtype, self.shape)

    __add__ = __radd__ = _elementwise("add")
    __sub__ = _elementwise("sub")
    __gt__ = _elementwise("greater", "bool")
    __ge__ = _elementwise("greater_equal", "bool")

    def __mul__(self, other: Any) -> "Tensor":
        no_shift = self.graph.constant(np.zeros(1, np.int8))  # of integers alone
        return self.graph.elementwise("mul", [self, other], extra=[no_shift])

    __rmul__ = __mul__

    def __truediv__(self, other: Any) -> "Tensor":
        """There is no division of floats: by the reciprocal, exact for powers of two."""
        if isinstance(other, Tensor):
            return self * self.graph.add("reciprocal", [other], other.dtype, other.shape)
        return self * (np.float32(1.0) / np.asarray(other, np.float32))

    def __eq__(self, other: object) -> "Tensor":  # type: ignore[override]
        return self.graph.elementwise("equal", [self, other], "bool")

    def __ne__(self, other: object) -> "Tensor":  # type: ignore[override]
        return self.graph.add("logical_not", [self == other], "bool", self.shape)

    def __matmul__(self, matrix: np.ndarray) -> "Tensor":
        """With a matrix [inputs, outputs]: a convolution over one place for each row, as converters write it."""
        num_inputs, num_outputs = matrix.shape
        graph, num_rows = self.graph, int(np.prod(self.shape[:-1]))
        kernel = graph.constant(np.ascontiguousarray(matrix.T, np.float32).reshape(num_outputs, 1, 1, num_inputs))
        zero, bias = (graph.constant(np.zeros(size, np.float32)) for size in (1, num_outputs))
        rows = graph.reshape(self, (num_rows, 1, 1, num_inputs))
        one, none = "array<i64: 1, 1>", "array<i64: 0, 0, 0, 0>"
        properties = f"acc_type = f32, dilation = {one}, pad = {none}, stride = {one}"
        found = graph.add(
            "conv2d", [rows, kernel, bias, zero, zero], "float32", (num_rows, 1, 1, num_outputs), properties
        )
        return graph.reshape(found, (*self.shape[:-1], num_outputs))

    def __getitem__(self, key: Any) -> "Tensor":
        """``[..., None]``, ``[..., i]`` and what is made of them; the axes behind the dots only."""
        axes = [one for one in key[1:] if one is not None]
        start, size, part = [0] * self.ndim, list(self.shape), self
        for axis, one in enumerate(axes, self.ndim - len(axes)):
            if isinstance(one, slice):
                assert one == slice(None)
            else:
                start[axis], size[axis] = int(one), 1
        if size != list(self.shape):
            part = self.graph.add("slice", [self, self.graph.shape(start), self.graph.shape(size)], self.dtype, size)
        return self.graph.reshape(part, np.empty(self.shape)[key].shape)


def _type(dtype: str, shape: Sequence[int]) -> str:
    return f"!tosa.shape<{shape[0]}>" if dtype == "shape" else f"tensor<{'x'.join([*map(str, shape), _KINDS[dtype]])}>"


def _dense(values: np.ndarray) -> str:
    """Numbers as MLIR reads them; many as their bytes, from the lowest."""
    if values.dtype != bool and values.size > _MOST_IN_DECIMALS:
        return f'"0x{np.ascontiguousarray(values, values.dtype.newbyteorder("<")).tobytes().hex().upper()}"'
    return _nested(values.reshape(()) if values.size == 1 else values)


def _nested(values: Any) -> str:
    """Literals that are exactly these numbers."""
    if values.ndim:
        return f"[{', '.join(map(_nested, values))}]"
    if values.dtype == bool:
        return str(bool(values)).lower()
    return f"{values:.8e}" if values.dtype.kind == "f" else str(int(values))


_OPERATION = re.compile(
    r'    (?P<name>%\d+) = "tosa\.(?P<operator>\w+)"\((?P<inputs>[^()]*)\)(?: <\{(?P<properties>.*)\}>)?'
    r" : \((?P<types>[^()]*)\) -> (?P<type>\S+)"
)
_FUNCTION = re.compile(r"  func\.func @main\((?P<arguments>.*)\) -> \((?P<result>.*)\) \{")
_ARGUMENT = re.compile(r'(?:%arg\d+: )?(?P<type>\S+) \{tf_saved_model\.index_path = \["(?P<name>\w+)"\]\}')
_RETURN = re.compile(r"    return (?P<name>%\d+) : (?P<type>\S+)")
_TENSOR = re.compile(r"tensor<((?:\d+x)*)(i64|i8|i1|f32|index)>")
_VALUES = re.compile(r"values = dense<(?P<values>.*)> : (?P<type>\S+)")
_DTYPES = {kind: dtype for dtype, kind in _KINDS.items()} | {"index": "int64"}


Operation = re.Match[str]
"""A line of the function: name and type of the result, operator, names of the inputs, properties."""


@dataclass(frozen=True)
class TosaProgram:
    """A function, ready to run."""

    arguments: Mapping[str, str]  # type of each input by its feature, in order
    decision: str  # name of the result
    constants: Mapping[str, np.ndarray]  # values that do not depend on inputs
    operations: Sequence[Operation]  # all others in order
    result: str  # name of the value that is returned

    def run(self, question: Mapping[str, np.ndarray]) -> np.ndarray:
        """Answer one question."""
        values = dict(self.constants)
        for number, (feature, kind) in enumerate(self.arguments.items()):
            if feature not in question:
                raise PolicyError(f"the module asks for {feature}, which the question does not have")
            values[f"%arg{number}"] = _checked(question[feature], kind, feature)
        for one in self.operations:
            values[one["name"]] = _checked(_run(one, [values[name] for name in _inputs(one)]), one["type"], one["name"])
        return values[self.result]


def parse_tosa(text: str) -> TosaProgram:
    """Read a module with one function."""
    arguments: dict[str, str] = {}
    decision = result = ""
    constants: dict[str, np.ndarray] = {}
    operations: list[Operation] = []
    known: set[str] = set()
    for number, line in enumerate(text.splitlines(), 1):
        if line in ("module {", "  }", "}"):
            continue
        if head := _FUNCTION.fullmatch(line):
            arguments = {one["name"]: one["type"] for one in _ARGUMENT.finditer(head["arguments"])}
            decision = "".join(one["name"] for one in _ARGUMENT.finditer(head["result"]))
            known = {f"%arg{place}" for place in range(len(arguments))}
        elif end := _RETURN.fullmatch(line):
            result = end["name"]
        elif (
            (operation := _OPERATION.fullmatch(line))
            and operation["operator"] in {*_ELEMENTWISE, *_OPERATORS, *_CONSTANTS}
            and known.issuperset(_inputs(operation))
        ):
            known.add(operation["name"])
            if operation["operator"] in _CONSTANTS:
                constants[operation["name"]] = _constant(operation)
            else:
                operations.append(operation)
        else:
            raise PolicyError(f"line {number} of the module is not understood: {line.strip()[:120]}")
    if result not in known or not decision:
        raise PolicyError("the module returns no decision")
    return TosaProgram(arguments, decision, constants, operations, result)


def _inputs(one: Operation) -> list[str]:
    return one["inputs"].split(", ") if one["inputs"] else []


def _run(one: Operation, inputs: list[np.ndarray]) -> np.ndarray:
    try:
        with np.errstate(all="ignore"):
            if one["operator"] not in _ELEMENTWISE:
                return np.asarray(_OPERATORS[one["operator"]](one, *inputs))
            values = inputs[: 3 if one["operator"] == "select" else 2]  # a product has a shift, too
            if len({value.ndim for value in values}) > 1:
                raise PolicyError(f"{one['name']}: inputs of tosa.{one['operator']} have unequal rank")
            return np.asarray(_ELEMENTWISE[one["operator"]](*values))
    except (ValueError, TypeError, IndexError) as error:
        raise PolicyError(f"{one['name']}: tosa.{one['operator']} cannot take its inputs: {error}") from error


def _conv2d(one: Operation, rows: np.ndarray, kernel: np.ndarray, bias: np.ndarray, *zeros: np.ndarray) -> np.ndarray:
    """Of single places, [num_rows, 1, 1, inputs] with [outputs, 1, 1, inputs]."""
    if rows.shape[1:3] != (1, 1) or kernel.shape[1:3] != (1, 1) or any(zero.any() for zero in zeros):
        raise PolicyError(f"{one['name']}: not a convolution over single places")
    return rows @ kernel[:, 0, 0].T + bias


def _matmul(one: Operation, rows: np.ndarray, matrices: np.ndarray, *zeros: np.ndarray) -> np.ndarray:
    """[num, rows, inputs] with [num, inputs, outputs]."""
    if rows.ndim != 3 or matrices.ndim != 3 or any(zero.any() for zero in zeros):
        raise PolicyError(f"{one['name']}: not a product of as many matrices")
    return rows @ matrices


def _axes(one: Operation) -> list[int]:
    found = re.fullmatch(r"axis = (\d+) : i32|perms = array<i32: ([\d, ]+)>", one["properties"] or "")
    if found is None:
        raise PolicyError(f"{one['name']}: tosa.{one['operator']} names no axis")
    return [int(axis) for axis in (found[1] or found[2]).split(", ")]


_CONSTANTS = ("const", "const_shape")
_ELEMENTWISE: dict[str, Callable[..., Any]] = {
    "add": np.add,
    "sub": np.subtract,
    "mul": np.multiply,
    "minimum": np.minimum,
    "maximum": np.maximum,
    "greater": np.greater,
    "greater_equal": np.greater_equal,
    "equal": np.equal,
    "select": np.where,
}
"""Operators on numbers at the same places."""

_OPERATORS: dict[str, Callable[..., Any]] = {
    "abs": lambda one, x: np.abs(x),
    "log": lambda one, x: np.log(x),
    "reciprocal": lambda one, x: np.float32(1.0) / x,
    "logical_not": lambda one, x: ~x,
    "cast": lambda one, x: x.astype(_parsed(one["type"])[0]),
    "reshape": lambda one, x, shape: x.reshape(shape),
    "slice": lambda one, x, start, size: x[tuple(map(slice, start, start + size))],
    "concat": lambda one, *parts: np.concatenate(parts, _axes(one)[0]),
    "argmax": lambda one, x: x.argmax(*_axes(one)),
    "conv2d": _conv2d,
    "matmul": _matmul,
    "transpose": lambda one, x: x.transpose(_axes(one)),
}


def _constant(one: Operation) -> np.ndarray:
    found = _VALUES.fullmatch(one["properties"] or "")
    if found is None:
        raise PolicyError(f"{one['name']} is no constant")
    (dtype, shape), text = _parsed(found["type"]), found["values"]
    try:
        if text.startswith('"0x'):
            numbers = np.frombuffer(bytes.fromhex(text[3:-1]), np.dtype(dtype).newbyteorder("<")).astype(dtype)
        else:
            numbers = np.array(listed := json.loads(text), dtype)
            if (kind := np.array(listed).dtype).kind != numbers.dtype.kind:
                raise ValueError(f"they are {kind.name}")
        values = numbers.reshape(shape)
    except (ValueError, TypeError, OverflowError, RecursionError) as error:
        raise PolicyError(f"{one['name']} has other numbers than its type {found['type']} says: {error}") from error
    return values if one["operator"] == "const_shape" else _checked(values, one["type"], one["name"])


def _parsed(kind: str) -> tuple[str, tuple[int, ...]]:
    found = _TENSOR.fullmatch(kind)
    if found is None:
        raise PolicyError(f"{kind} is not the type of a tensor")
    return _DTYPES[found[2]], tuple(int(axis) for axis in found[1].split("x")[:-1])


def _checked(value: np.ndarray, kind: str, name: str) -> np.ndarray:
    if (value.dtype.name, value.shape) != _parsed(kind):
        raise PolicyError(f"{name} is {value.dtype.name} {list(value.shape)}, the text says {kind}")
    return value
