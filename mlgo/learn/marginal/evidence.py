"""From compiles to equations about single decisions, both on disk, so that memory does not grow with what is known.

A call with features x that is inlined makes its caller grow by g(x), and changes the size by s(x) through its share in
the disappearance of the callee. For compile k of module m

    size(m, k) = c(m) + sum of g(x) + s(x) over the inlined questions of k

c(m) is unknown and cancels when both sides are centred within the module. Where a compile tells its functions, each
function gives two equations more. For a function f that the object has, and one that any compile of the module has:

    size(f, k) = c(f) + sum of g(x) over the inlined questions of k whose caller is f
    -size(f) if f is gone in k, else 0  =  d(f) + sum of s(x) over the inlined questions of k whose callee is f

with the mean of f's known sizes as size(f), see `mlgo.learn.base.side_by_side`. So one compile says something about
each function, where a candidate's reward says one thing about a vector of weights.

The files have no name: they are gone with the process, however it ends. A resumed training asks for its compiles again.
They are read by position and not mapped into memory, where pages that were read would count as the process's own.
"""

import os
import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from mlgo.base.scratch import Closing
from mlgo.evaluate.episodes import Inlined
from mlgo.host.session import CallAttribution
from mlgo.learn.base import side_by_side

_CREDIT = (np.uint64, np.float32, np.int32, np.int32)
"""Types of the fields of `CallAttribution`."""


class ArrayFile(Closing):
    """Arrays one after another in a file: one thread appends, any number may read what was appended."""

    def __init__(self, folder: Path) -> None:
        folder.mkdir(parents=True, exist_ok=True)
        self.folder, self.num_bytes = folder, 0
        self._file = tempfile.TemporaryFile(dir=folder)  # noqa: SIM115  (closed with this object)

    def append(self, *arrays: np.ndarray) -> int:
        """Append arrays without a gap; returns where the first begins, in bytes. Raises OSError on a full disk."""
        begin = self.num_bytes
        self.num_bytes += self._file.write(b"".join(array.tobytes() for array in arrays))
        self._file.flush()
        return begin

    def read(self, begin: int, *shapes: tuple[Any, tuple[int, ...]]) -> list[np.ndarray]:
        """Read arrays of these dtypes and shapes that were appended one after another."""
        found = []
        for dtype, shape in shapes:
            array = np.empty(shape, dtype)
            data = array.reshape(-1).view(np.uint8).data
            begin += len(data)
            while data:  # one call gives 2 GB at most
                num_bytes = os.preadv(self._file.fileno(), [data], begin - len(data))
                assert num_bytes, "what was appended ends early"
                data = data[num_bytes:]
            found.append(array)
        return found

    def close(self) -> None:
        self._file.close()


@dataclass(frozen=True, slots=True)
class CompileRef:
    """A compile in a `CompileFile`: its inputs begin at byte ``begin``; -1 functions if it tells nothing of them."""

    module: str
    score: float
    answers: bytes
    begin: int
    num_inlined: int
    num_functions: int

    @property
    def has_functions(self) -> bool:
        """Whether it tells its functions."""
        return self.num_functions >= 0


class CompileFile(ArrayFile):
    """Compiles, each with what it inlined: other questions stand in no equation."""

    def __init__(self, folder: Path, num_features: int) -> None:
        super().__init__(folder)
        self.num_features = num_features

    def store(self, one: Inlined) -> CompileRef:
        """Append a compile."""
        credit = () if one.credit is None else one.credit
        stored = [array.astype(dtype) for array, dtype in zip(credit, _CREDIT, strict=bool(credit))]
        num_functions = len(stored[0]) if stored else -1
        begin = self.append(one.inputs, *stored)
        return CompileRef(one.module, one.score, one.answers, begin, len(one.inputs), num_functions)

    def credit(self, one: CompileRef) -> CallAttribution | None:
        """Functions of a compile, see `Inlined.credit`."""
        if not one.has_functions:
            return None
        begin = one.begin + np.dtype(np.float16).itemsize * one.num_inlined * self.num_features
        functions, inlined = (one.num_functions,), (one.num_inlined,)
        shapes = zip(_CREDIT, (functions, functions, inlined, inlined), strict=True)
        return CallAttribution(*self.read(begin, *shapes))

    def inputs(self, compiles: Sequence[CompileRef]) -> np.ndarray:
        """Inputs of the inlined questions of compiles, one after another, float16 [num_inlined, num_features]."""
        parts = [np.zeros((0, self.num_features), np.float16)]
        for one in compiles:
            parts += self.read(one.begin, (np.float16, (one.num_inlined, self.num_features)))
        return np.concatenate(parts)


@dataclass(frozen=True)
class Evidence:
    """Compiles of one module that differ in their answers."""

    baseline: float
    compiles: tuple[CompileRef, ...]

    def add(self, one: CompileRef) -> "Evidence":
        """The evidence with one more compile; the same answers again add nothing, unless they tell functions anew."""
        same = [known for known in self.compiles if known.answers == one.answers]
        if any(known.has_functions or not one.has_functions for known in same):
            return self
        return Evidence(self.baseline, (*(known for known in self.compiles if known.answers != one.answers), one))


class Terms(NamedTuple):
    """Sums of one output of the network, each with what it should be but for a constant of its group."""

    of: np.ndarray  # int32 [num_inlined], the sum that each inlined question belongs to; -1 for none
    values: np.ndarray  # float32 [num_sums], what is known, in bytes
    group: np.ndarray  # int32 [num_sums], sums that share a constant


@dataclass(frozen=True)
class Equations:
    """Equations of some modules, flat: one row per inlined question."""

    inputs: np.ndarray  # float16 [num_inlined, num_features], normalised features of the inlined questions
    modules: Terms  # a sum for each compile: its size. Groups are modules.
    callers: Terms  # a sum for each compile and function: its size
    callees: Terms  # a sum for each compile and function: minus its size where it is gone, else 0
    percent_per_byte: np.ndarray  # float32 [num_compiles], what one byte is in percent of the heuristic's size

    @property
    def arrays(self) -> tuple[np.ndarray, ...]:
        """All of them as one tuple for a compiled function."""
        return (self.inputs, *self.modules, *self.callers, *self.callees, self.percent_per_byte)


class OfModule(NamedTuple):
    """Equations of one module in an `EquationFile`: its sums over functions begin at byte ``begin``."""

    baseline: float
    compiles: Sequence[CompileRef]
    begin: int
    num_sums: tuple[int, int]


class EquationFile(ArrayFile):
    """Equations of modules. Inputs stay where they are, in the file of the compiles."""

    def __init__(self, compiles: CompileFile) -> None:
        super().__init__(compiles.folder)
        self._compiles = compiles

    def make(self, baseline: float, compiles: Sequence[CompileRef]) -> OfModule:
        """Make the equations of a module, of that size under the heuristic, and append them."""
        of, joined = _compile_of(compiles), side_by_side([self._compiles.credit(one) for one in compiles])
        callers = _terms(joined.callers, of, joined.sizes, joined.present)
        callees = _terms(joined.callees, of, joined.gone, joined.asked)
        begin = self.append(*callers, *callees)
        return OfModule(baseline, tuple(compiles), begin, (len(callers.values), len(callees.values)))

    def batch(self, modules: Sequence[OfModule]) -> Equations:
        """Read the equations of modules, joined."""
        return join([self._read(module) for module in modules])

    def _read(self, module: OfModule) -> Equations:
        compiles, of = module.compiles, _compile_of(module.compiles)
        shapes = [
            shape
            for num in module.num_sums
            for shape in ((np.int32, (len(of),)), (np.float32, (num,)), (np.int32, (num,)))
        ]
        arrays = self.read(module.begin, *shapes)
        scores = np.array([one.score for one in compiles], np.float32)
        return Equations(
            self._compiles.inputs(compiles),
            Terms(of, scores, np.zeros(len(compiles), np.int32)),
            Terms(*arrays[:3]),
            Terms(*arrays[3:]),
            np.full(len(compiles), 100.0 / module.baseline, np.float32),
        )


def _compile_of(compiles: Sequence[CompileRef]) -> np.ndarray:
    """Number of the compile of each inlined question, int32 [num_inlined]."""
    return np.repeat(np.arange(len(compiles), dtype=np.int32), [one.num_inlined for one in compiles])


def _terms(columns: Mapping[int, np.ndarray], compile_of: np.ndarray, values: np.ndarray, holds: np.ndarray) -> Terms:
    """Sums by compile and function, for the functions about which two compiles say different things."""
    function = np.full(len(compile_of), -1, np.int64)
    for number, of_compile in columns.items():
        function[compile_of == number] = of_compile
    counts, known = np.zeros(values.shape, np.int64), function >= 0
    np.add.at(counts, (compile_of[known], function[known]), 1)
    used = holds & (_differs(values, holds) | _differs(counts, holds))
    numbers = np.full(values.shape, -1, np.int32)
    numbers[used] = np.arange(np.count_nonzero(used))
    of = np.where(known, numbers[compile_of, function] if numbers.size else -1, -1).astype(np.int32)
    group = np.unique(np.nonzero(used)[1], return_inverse=True)[1]
    return Terms(of, values[used].astype(np.float32), group.astype(np.int32))


def _differs(values: np.ndarray, where: np.ndarray) -> np.ndarray:
    """Which columns have two values, bool [num_columns]."""
    least, most = np.where(where, values, np.inf), np.where(where, values, -np.inf)
    return least.min(axis=0, initial=np.inf) < most.max(axis=0, initial=-np.inf)


def join(parts: Sequence[Equations]) -> Equations:
    """Equations of several modules."""
    return Equations(
        np.concatenate([part.inputs for part in parts]),
        _joined([part.modules for part in parts]),
        _joined([part.callers for part in parts]),
        _joined([part.callees for part in parts]),
        np.concatenate([part.percent_per_byte for part in parts]),
    )


def _joined(parts: Sequence[Terms]) -> Terms:
    sums = np.cumsum([0, *(len(part.values) for part in parts[:-1])], dtype=np.int32)
    groups = np.cumsum([0, *(part.group.max(initial=-1) + 1 for part in parts[:-1])], dtype=np.int32)
    return Terms(
        np.concatenate([np.where(part.of >= 0, part.of + start, -1) for part, start in zip(parts, sums, strict=True)]),
        np.concatenate([part.values for part in parts]),
        np.concatenate([part.group + start for part, start in zip(parts, groups, strict=True)]),
    )
