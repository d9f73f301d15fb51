"""The logit of one observation in C: a few microseconds where NumPy takes some tens, to the same bit.

Where the logit alone decides, C answers the compiler, too, without a turn of Python for each question. The code is
compiled once by the compiler of the ziglang wheel, and kept; networks are its data. Where that cannot be had, NumPy
goes on.
"""

import ctypes
import logging
from collections.abc import Callable
from dataclasses import dataclass
from functools import cache
from hashlib import sha256
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from mlgo.base.files import content_hash, read_input, write_bytes
from mlgo.base.scratch import make_private, scratch_directory, shared_folder
from mlgo.errors import MlgoError, ToolchainError
from mlgo.host.process import Child, without_folders
from mlgo.host.tasks.task import Answered
from mlgo.host.toolchain import find_linker, zig_environment
from mlgo.policy.exact import ExactNetwork
from mlgo.policy.features import CLIP

_SOURCE = Path(__file__).with_name("logit.c")
# Python has loaded a C library; zig would first build one. Wider vectors of newer processors gain nothing.
_FLAGS = ("-std=c17", "-shared", "-fPIC", "-nostdlib", "-O3", "-ffp-contract=off", "-mcpu=baseline")
_TIMEOUT_S = 60.0
_WIDEST = 1 << 12  # layers are on the stack
_BUFFER = 1 << 16  # bytes
_NO, _YES = (np.int64(answer).tobytes() for answer in (0, 1))
_log = logging.getLogger(__name__)


class _Library(NamedTuple):
    """Functions of C."""

    logit: Any
    spans: Any
    answer: Any


class NativeLogit:
    """Maps a raw observation to its logit; `native_logit` makes it."""

    def __init__(
        self, library: _Library, sizes: np.ndarray, numbers: np.ndarray, numpy: Callable[[bytes], Any]
    ) -> None:
        self._library, self._numpy, self._kept = library, numpy, (sizes, numbers)
        self._network = sizes.ctypes.data, numbers.ctypes.data
        library.spans(*self._network)

    def __call__(self, payload: bytes) -> np.float32:
        found = self._library.logit(payload, *self._network)
        return np.float32(found) if found == found else self._numpy(payload)

    def answer(self, width: int, questions: int, answers: int, due: int, most: int) -> Answered:
        """See `DirectResponder`; observations have ``width`` bytes."""
        read, seen = np.empty(_BUFFER, np.uint8), np.empty(most * width, np.uint8)
        given, rest = np.empty(most, np.int64), np.empty(2, np.int32)
        into = read.ctypes.data, len(read), seen.ctypes.data, given.ctypes.data, rest.ctypes.data
        count = self._library.answer(questions, answers, *self._network, due, most, width, *into)
        return Answered(seen[: count * width].tobytes(), given[:count].tobytes(), read[slice(*rest)].tobytes())


@dataclass(frozen=True)
class NativeResponder:
    """Answers 1 where a logit is above 0, else 0."""

    logit: NativeLogit
    width: int  # bytes of an observation

    def __call__(self, payload: bytes) -> bytes:
        return _YES if self.logit(payload) > 0.0 else _NO

    def answer(self, questions: int, answers: int, due: int, most: int) -> Answered:
        """See `DirectResponder`."""
        return self.logit.answer(self.width, questions, answers, due, most)


def native_logit(network: ExactNetwork) -> NativeLogit | None:
    """What `ExactNetwork.logit` does, in C; None where that cannot be had."""
    shapes = np.array([(1, *matrix.shape)[-3:] for matrix, _ in network.layers], np.int32)
    widest = int((shapes[:, :1] * shapes[:, 1:]).max())
    parts = [np.array(CLIP), network.scales, *(part for layer in network.layers for part in layer)]
    numbers = np.concatenate([part.ravel() for part in parts], dtype=np.float32)
    fits = shapes[0, 1] == len(network.columns) and widest <= _WIDEST and np.isfinite(numbers).all()
    if not fits or (library := _library()) is None:
        return None
    head = [len(network.columns), len(shapes), widest], network.columns
    room = [np.zeros(3 + 2 * groups * inputs, np.int32) for groups, inputs, _ in shapes.tolist()]
    for shape, part in zip(shapes, room, strict=True):
        part[:3] = shape
    sizes = np.concatenate([*head, *room], dtype=np.int32)
    return NativeLogit(library, sizes, numbers, network.logit)


@cache
def _library() -> _Library | None:
    """The functions; None where they cannot be had."""
    try:
        path = str(_compiled())
        held, free = ctypes.PyDLL(path), ctypes.CDLL(path)  # while C waits for the compiler, other threads go on
        found = _Library(held.mlgo_logit, held.mlgo_spans, free.mlgo_answer)
    except (OSError, AttributeError, MlgoError) as error:
        _log.info("networks answer by NumPy, which is slower: %s", error)
        return None
    number, address = ctypes.c_int, ctypes.c_void_p
    network, into = (address, address), (address, number, address, address, address)
    found.logit.argtypes, found.logit.restype = (ctypes.c_char_p, *network), ctypes.c_float
    found.spans.argtypes, found.spans.restype = network, None
    found.answer.argtypes = (number, number, *network, ctypes.c_int64, number, number, *into)
    return found


def _compiled() -> Path:
    """The library, made unless it is there whole: loading a part of one would kill the process."""
    compiler, source, folder = find_linker(), read_input(_SOURCE).decode(), shared_folder().absolute() / "native"
    status = compiler.stat()
    library = folder / f"{content_hash([source, *_FLAGS, str(compiler), status.st_size, status.st_mtime_ns])}.so"
    folder.parent.mkdir(parents=True, exist_ok=True)
    if not make_private(folder):
        raise ToolchainError(f"{folder} is a link, of another user or open to others")
    content = read_input(library) if library.exists() else b""
    if sha256(content[:-32]).digest() != content[-32:]:
        with scratch_directory() as scratch:
            command = [str(compiler), "cc", *_FLAGS, str(_SOURCE), "-o", str(scratch / "logit.so")]
            run = Child(command, env=zig_environment(scratch)).finish(_TIMEOUT_S)
            if run.returncode != 0:
                raise ToolchainError(f"{_SOURCE.name} does not compile: {without_folders(run.stderr.strip())[:300]}")
            content = read_input(scratch / "logit.so")
        write_bytes(library, content + sha256(content).digest())
    return library
