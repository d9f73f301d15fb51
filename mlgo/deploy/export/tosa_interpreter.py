"""Runs TOSA by NumPy: the operators of which exported policies consist, as the specification of TOSA 1.0 defines them.

It reads nothing but the text, and refuses what is not exactly as declared: an unknown operator, inputs of unequal rank
where the specification asks for equal ones, a result of another type.
"""

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from mlgo.errors import PolicyError

_OPERATION = re.compile(
    r'    (?P<name>%\d+) = "tosa\.(?P<operator>\w+)"\((?P<inputs>[^()]*)\)(?: <\{(?P<properties>.*)\}>)?'
    r" : \((?P<types>[^()]*)\) -> (?P<type>\S+)"
)
_FUNCTION = re.compile(r"  func\.func @main\((?P<arguments>.*)\) -> \((?P<result>.*)\) \{")
_ARGUMENT = re.compile(r'(?:%arg\d+: )?(?P<type>\S+) \{tf_saved_model\.index_path = \["(?P<name>\w+)"\]\}')
_RETURN = re.compile(r"    return (?P<name>%\d+) : (?P<type>\S+)")
_TENSOR = re.compile(r"tensor<((?:\d+x)*)(i64|i8|i1|f32|index)>")
_VALUES = re.compile(r"values = dense<(?P<values>.*)> : (?P<type>\S+)")
_DTYPES = {"i64": "int64", "i8": "int8", "i1": "bool", "f32": "float32", "index": "int64"}
_READ: dict[str, Callable[[str], Any]] = dict.fromkeys(("int64", "int8"), int) | {
    "float32": float,
    "bool": {"true": True, "false": False}.__getitem__,
}


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
            words = re.sub(r"[\[\],]", " ", text).split()
            numbers = np.array([_READ[dtype](word) for word in words], dtype)
        values = numbers.reshape(shape)
    except (ValueError, OverflowError, KeyError) as error:
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
