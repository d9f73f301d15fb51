"""Hashes of modules and of function bodies, from textual IR.

Two bodies count as the same when their instructions are the same up to what numbering within a module decides:
metadata and attribute-group numbers, numbered private constants and numbered type names.
"""

import hashlib
import re
from dataclasses import dataclass

import numpy as np

_DEFINITION = re.compile(rb"^define [^\n]*\{\n(.*?)^\}", re.MULTILINE | re.DOTALL)
_PRIVATE = re.compile(rb"@(\.str|__const|switch\.table|constinit|anon)(?:\.[\w.]*)?(?![\w.$-])")
_TYPE_NUMBER = re.compile(
    rb'(%(?:"(?:struct|class|union)\.[^"\n]*?|(?:struct|class|union)\.[\w.$]*?))\.\d+(?="|[^\w.$"])'
)
_INSTRUCTION = re.compile(rb"^  [^ \]]", re.MULTILINE)
_METADATA = re.compile(rb"(?:, )?![\w.]+ !\d+|![0-9]+| #\d+")
_MODULE_NAME = re.compile(rb"^(?:; ModuleID = |source_filename = )[^\n]*\n", re.MULTILINE)


@dataclass(frozen=True)
class FunctionBodies:
    """All function bodies of a module.

    Attributes:
        module_hash: hash of the whole IR without the module's name, hexadecimal.
        hashes: uint64 [num_functions], ascending.
        sizes: int32 [num_functions], instructions of each body, in the order of ``hashes``.
    """

    module_hash: str
    hashes: np.ndarray
    sizes: np.ndarray


def hash_functions(ir: bytes) -> FunctionBodies:
    """Hash a module printed as textual IR before optimization."""
    hashes, sizes = [], []
    for match in _DEFINITION.finditer(ir):
        body = normalise_body(match[1])
        hashes.append(int.from_bytes(hashlib.blake2b(body, digest_size=8).digest(), "little"))
        sizes.append(len(_INSTRUCTION.findall(body)))
    order = np.argsort(np.array(hashes, np.uint64), kind="stable")
    return FunctionBodies(
        hashlib.sha256(_MODULE_NAME.sub(b"", ir)).hexdigest(),
        np.array(hashes, np.uint64)[order],
        np.array(sizes, np.int32)[order],
    )


def normalise_body(body: bytes) -> bytes:
    """Remove from a function body what only numbering within the module decides."""
    body = _METADATA.sub(b"", body)
    body = _PRIVATE.sub(rb"@\1", body)
    return _TYPE_NUMBER.sub(rb"\1", body)
