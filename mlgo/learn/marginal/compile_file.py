"""Compiles on disk, as far as a fit reads them, so that memory does not grow with what is known.

The files have no name: they are gone with the process, however it ends. A resumed training asks for its compiles again.
They are read by position and not mapped into memory, where pages that were read would count as the process's own.
"""

import os
import tempfile
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import Any, Self

import numpy as np

from mlgo.evaluate.episodes import Inlined
from mlgo.host.session import CallAttribution
from mlgo.objects.measures import relative_reward

_CREDIT = (np.uint64, np.float32, np.int32, np.int32)
"""Types of the fields of `CallAttribution`."""


class ArrayFile:
    """Arrays one after another in a file. One thread appends; any number may read what was appended.

    Args:
        folder: on a disk with room; made if it is missing.
    """

    def __init__(self, folder: Path) -> None:
        folder.mkdir(parents=True, exist_ok=True)
        self.folder, self._end = folder, 0
        self._file = tempfile.TemporaryFile(dir=folder, buffering=0)  # noqa: SIM115  (closed with this object)

    @property
    def num_bytes(self) -> int:
        """Size of the file."""
        return self._end

    def append(self, *arrays: np.ndarray) -> int:
        """Append arrays without a gap; returns where the first begins, in bytes.

        Raises:
            OSError: the disk is full.
        """
        begin, data = self._end, memoryview(b"".join(array.tobytes() for array in arrays))
        while data:
            written = os.pwrite(self._file.fileno(), data, self._end)
            self._end += written
            data = data[written:]
        return begin

    def read(self, begin: int, *shapes: tuple[Any, tuple[int, ...]]) -> list[np.ndarray]:
        """Read arrays that were appended one after another.

        Args:
            begin: where the first begins, in bytes.
            shapes: dtype and shape of each.
        """
        sizes = [np.dtype(dtype).itemsize * int(np.prod(shape)) for dtype, shape in shapes]
        data, start, found = _read_all(self._file.fileno(), sum(sizes), begin), 0, []
        for (dtype, shape), size in zip(shapes, sizes, strict=True):
            found.append(np.frombuffer(data, dtype, int(np.prod(shape)), start).reshape(shape))
            start += size
        return found

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._file.close()


def _read_all(descriptor: int, size: int, begin: int) -> bytes:
    parts = []
    while size:  # one call gives 2 GB at most
        part = os.pread(descriptor, size, begin)
        assert part, "what was appended ends early"
        parts.append(part)
        size, begin = size - len(part), begin + len(part)
    return parts[0] if len(parts) == 1 else b"".join(parts)


@dataclass(frozen=True, slots=True)
class CompileRef:
    """A compile in a `CompileFile`.

    Attributes:
        begin: where its arrays begin, in bytes.
        num_functions: functions that it tells of; -1 if it tells nothing of functions.
    """

    module: str
    score: float
    answers: bytes
    begin: int
    num_inlined: int
    num_functions: int

    @property
    def told(self) -> bool:
        """Whether it tells of its functions."""
        return self.num_functions >= 0

    def reward(self, baseline: float) -> float:
        """Relative reward, given the module's score under the heuristic; see `relative_reward`."""
        return float(relative_reward(np.array(self.score), np.array(baseline)))


StoreCompile = Callable[[Inlined], CompileRef]


class CompileFile(ArrayFile):
    """Compiles, each with what it inlined: other questions stand in no equation.

    Args:
        folder: see `ArrayFile`.
        num_features: width of the inputs.
    """

    def __init__(self, folder: Path, num_features: int) -> None:
        super().__init__(folder)
        self.num_features = num_features

    def keep(self, one: Inlined) -> CompileRef:
        """Append a compile."""
        credit = one.credit
        told = () if credit is None else (credit.names, credit.sizes, credit.callers, credit.callees)
        stored = [array.astype(dtype) for array, dtype in zip(told, _CREDIT, strict=bool(told))]
        begin = self.append(*stored, one.inputs)
        num_functions = -1 if credit is None else len(credit.names)
        return CompileRef(one.module, one.score, one.answers, begin, len(one.inputs), num_functions)

    def credit(self, one: CompileRef) -> CallAttribution | None:
        """What a compile tells of functions, see `Inlined.credit`."""
        return CallAttribution(*self.read(one.begin, *_credit_shapes(one))) if one.told else None

    def inputs(self, compiles: Sequence[CompileRef]) -> np.ndarray:
        """Inputs of the inlined questions of compiles, one after another, float16 [num_inlined, num_features]."""
        parts = [np.zeros((0, self.num_features), np.float16)]
        for one in compiles:
            begin = one.begin + sum(np.dtype(dtype).itemsize * shape[0] for dtype, shape in _credit_shapes(one))
            parts += self.read(begin, (np.float16, (one.num_inlined, self.num_features)))
        return np.concatenate(parts)


def _credit_shapes(one: CompileRef) -> list[tuple[Any, tuple[int, ...]]]:
    """Arrays of a `CallAttribution` in the order of its fields."""
    if not one.told:
        return []
    functions, inlined = (one.num_functions,), (one.num_inlined,)
    return list(zip(_CREDIT, (functions, functions, inlined, inlined), strict=True))
