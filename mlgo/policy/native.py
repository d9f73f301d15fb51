"""The logit of one observation in C: a few microseconds where NumPy takes some tens, to the same bit.

The code is compiled once by the compiler of the ziglang wheel, and kept; networks are its data. Where that cannot be
had, NumPy goes on.
"""

import ctypes
import logging
from collections.abc import Callable
from functools import cache
from hashlib import sha256
from pathlib import Path
from typing import Any

import numpy as np

from mlgo.base.files import content_hash, read_input, write_bytes
from mlgo.base.scratch import make_private, scratch_directory, shared_folder
from mlgo.errors import MlgoError, ToolchainError
from mlgo.host.process import Child, without_folders
from mlgo.host.toolchain import find_linker, zig_environment
from mlgo.policy.exact import ExactNetwork
from mlgo.policy.features import CLIP

_SOURCE = Path(__file__).with_name("logit.c")
# Python has loaded a C library; zig would first build one. Wider vectors of newer processors gain nothing.
_FLAGS = ("-std=c17", "-shared", "-fPIC", "-nostdlib", "-O3", "-ffp-contract=off", "-mcpu=baseline")
_TIMEOUT_S = 60.0
_WIDEST = 1 << 12  # layers are on the stack
_log = logging.getLogger(__name__)


def native_logit(network: ExactNetwork) -> Callable[[bytes], np.float32] | None:
    """What `ExactNetwork.logit` does, in C; None where that cannot be had."""
    shapes = np.array([(1, *matrix.shape)[-3:] for matrix, _ in network.layers], np.int32)
    widest = int((shapes[:, :1] * shapes[:, 1:]).max())
    parts = [np.array(CLIP), network.scales, *(part for layer in network.layers for part in layer)]
    numbers = np.concatenate([part.ravel() for part in parts], dtype=np.float32)
    fits = shapes[0, 1] == len(network.columns) and widest <= _WIDEST and np.isfinite(numbers).all()
    if not fits or (library := _library()) is None:
        return None
    head = [len(network.columns), len(shapes), widest], network.columns
    with_spans = [[*shape, *(0,) * (2 * shape[0] * shape[1])] for shape in shapes.tolist()]
    sizes = np.concatenate([*head, *with_spans], dtype=np.int32)
    at, data = (one.ctypes.data_as(ctypes.c_void_p) for one in (sizes, numbers))
    library.mlgo_spans(at, data)
    function, in_numpy, float32 = library.mlgo_logit, network.logit, np.float32

    def logit(payload: bytes) -> np.float32:
        found = function(payload, at, data)
        return float32(found) if found == found else in_numpy(payload)

    return logit


@cache
def _library() -> Any:
    """The functions of C; None where they cannot be had."""
    try:
        library = ctypes.PyDLL(str(_compiled()))
        logit, spans = library.mlgo_logit, library.mlgo_spans
    except (OSError, AttributeError, MlgoError) as error:
        _log.info("networks answer by NumPy, which is slower: %s", error)
        return None
    logit.argtypes, logit.restype = (ctypes.c_char_p, ctypes.c_void_p, ctypes.c_void_p), ctypes.c_float
    spans.argtypes, spans.restype = (ctypes.c_void_p, ctypes.c_void_p), None
    return library


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
