"""Branches as bytes: the records of a tree's file.

A file is a sequence of records, each ``magic (4) | payload length (u32) | CRC-32 of the payload (u32) | payload``, all
little-endian. The first payload is 16 random bytes and the header line of the compiler's stream; each further one is a
branch, compressed by zlib:

    node i64 | answer i64 | num_new u32 | exec_bytes i64 | text_bytes i64 | dedup_bytes i64 | truncated u8
    | object sha256 (32) | answers i64 [num_new]
    | observations u8 [payload_bytes, num_new], differences along num_new modulo 256

``dedup_bytes`` is -1 where it is not known.
Observations are stored column by column as differences, because consecutive questions of a module are alike.
"""

import struct
import zlib
from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from mlgo.replay.tree import Branch, Leaf

_MAGIC = b"MLT2"
_FRAME = struct.Struct("<4sII")
FRAME_BYTES = _FRAME.size
"""Bytes of a record before its payload."""

_FIXED = struct.Struct("<qqIqqqB32s")
_UNKNOWN = -1
_LEVEL = 3


@dataclass(frozen=True)
class Record:
    """One intact record.

    Attributes:
        payload: its content.
        end: offset of the byte after it.
    """

    payload: bytes
    end: int


def frame(payload: bytes) -> bytes:
    """Wrap a payload as a record."""
    return _FRAME.pack(_MAGIC, len(payload), zlib.crc32(payload)) + payload


def read_records(data: bytes, offset: int = 0) -> Iterator[Record]:
    """Yield intact records from ``offset`` on; stop at the first that is cut short or damaged."""
    while offset + _FRAME.size <= len(data):
        magic, length, checksum = _FRAME.unpack_from(data, offset)
        start = offset + _FRAME.size
        payload = data[start : start + length]
        if magic != _MAGIC or len(payload) != length or zlib.crc32(payload) != checksum:
            return
        offset = start + length
        yield Record(payload, offset)


def is_cut_short(data: bytes, offset: int) -> bool:
    """Whether what follows ``offset`` can be the beginning of a record whose writer was killed."""
    rest = data[offset:]
    if len(rest) < _FRAME.size:
        return _MAGIC.startswith(rest[:4])
    magic, length, _ = _FRAME.unpack_from(rest)
    return magic == _MAGIC and len(rest) < _FRAME.size + length


def encode_branch(branch: Branch) -> bytes:
    """Payload of a branch."""
    leaf = branch.leaf
    fixed = _FIXED.pack(
        branch.node,
        branch.answer,
        len(branch.answers),
        leaf.exec_bytes,
        leaf.text_bytes,
        _UNKNOWN if leaf.dedup_bytes is None else leaf.dedup_bytes,
        leaf.truncated,
        bytes.fromhex(leaf.object_sha256),
    )
    differences = np.diff(branch.observations, axis=0, prepend=np.uint8(0))  # modulo 256
    return zlib.compress(fixed + branch.answers.astype("<i8").tobytes() + differences.T.tobytes(), _LEVEL)


def decode_branch(payload: bytes, payload_bytes: int) -> Branch:
    """Read a branch back; ``payload_bytes`` is the size of one observation."""
    data = zlib.decompress(payload)
    node, answer, num_new, exec_bytes, text_bytes, dedup_bytes, truncated, digest = _FIXED.unpack_from(data)
    answers = np.frombuffer(data, "<i8", num_new, _FIXED.size).astype(np.int64)
    columns = np.frombuffer(data, np.uint8, num_new * payload_bytes, _FIXED.size + answers.nbytes)
    observations = np.cumsum(columns.reshape(payload_bytes, num_new), axis=1, dtype=np.uint8).T
    leaf = Leaf(exec_bytes, text_bytes, None if dedup_bytes == _UNKNOWN else dedup_bytes, digest.hex(), bool(truncated))
    return Branch(node, answer, np.ascontiguousarray(observations), answers, leaf)
