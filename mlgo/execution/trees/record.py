"""What compiles add to the trees of a module, as bytes: the records of its file.

A file is a sequence of records, each ``magic (4) | payload length (u32) | CRC-32 of the payload (u32) | payload``, all
little-endian. The first payload is 16 random bytes and, compressed by zlib, the header line of the compiler's stream
and the contexts' names as one line of JSON. Each further one is what a compile has added, compressed by zlib:

    num_branches u32 | length of the leaves u32 | leaves, as JSON
    | tree u32 [num_branches] | node i64 [num_branches] | answer i64 [num_branches] | num_new u32 [num_branches]
    | answers i64 [sum of num_new] | observations u8 [payload_bytes, sum of num_new], differences modulo 256

A leaf is an object with the fields of `tree.Leaf`, or a list of the costs in a `tree.FunctionLeaf`, without names.
Observations are stored column by column as differences along the questions, because consecutive ones are alike.
"""

import json
import struct
import zlib
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np

from mlgo.core.measures.remarks import SpillCosts
from mlgo.execution.trees.forest import Growth
from mlgo.execution.trees.tree import AnyLeaf, Branch, FunctionLeaf, Leaf
from mlgo.wire.log import Header, parse_header, write_header

RECORDS_VERSION = 3
"""Of this format. It is part of a tree's key, so trees of another version are left alone, and pruned in time."""

NONCE_BYTES = 16
"""Random bytes that tell a file from one of the same name that was made anew."""

_MAGIC = b"MLT%d" % RECORDS_VERSION
_FRAME = struct.Struct("<4sII")
FRAME_BYTES = _FRAME.size
"""Bytes of a record before its payload."""

_LENGTHS = struct.Struct("<II")
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


def encode_beginning(nonce: bytes, header: Header, contexts: Sequence[str]) -> bytes:
    """Payload of a file's first record."""
    return nonce + zlib.compress(write_header(header) + json.dumps(contexts).encode(), _LEVEL)


def decode_beginning(payload: bytes) -> tuple[Header, list[str]]:
    """Header and contexts of a file's first record."""
    header, _, contexts = zlib.decompress(payload[NONCE_BYTES:]).partition(b"\n")
    return parse_header(header), json.loads(contexts)


def encode_growth(growth: Sequence[Growth]) -> bytes:
    """Payload of what a compile has added; at least one branch."""
    branches = [one.branch for one in growth]
    leaves = json.dumps([_plain(branch.leaf) for branch in branches], separators=(",", ":")).encode()
    observations = np.concatenate([branch.observations for branch in branches])
    differences = np.diff(observations, axis=0, prepend=np.uint8(0))  # modulo 256
    parts = [
        _LENGTHS.pack(len(branches), len(leaves)),
        leaves,
        np.array([one.tree for one in growth], "<u4").tobytes(),
        np.array([branch.node for branch in branches], "<i8").tobytes(),
        np.array([branch.answer for branch in branches], "<i8").tobytes(),
        np.array([len(branch.answers) for branch in branches], "<u4").tobytes(),
        np.concatenate([branch.answers for branch in branches]).astype("<i8").tobytes(),
        differences.T.tobytes(),
    ]
    return zlib.compress(b"".join(parts), _LEVEL)


def decode_growth(payload: bytes, payload_bytes: int, contexts: Sequence[str]) -> list[Growth]:
    """Read it back.

    Args:
        payload: as `encode_growth` made it.
        payload_bytes: size of one observation.
        contexts: names, by number of the tree.
    """
    data = zlib.decompress(payload)
    count, offset = _LENGTHS.unpack_from(data)[0], _LENGTHS.size

    def take(dtype: str, length: int) -> np.ndarray:
        nonlocal offset
        found = np.frombuffer(data, dtype, length, offset)
        offset += found.nbytes
        return found

    leaves = json.loads(take("u1", _LENGTHS.unpack_from(data)[1]).tobytes())
    trees, nodes, given, lengths = take("<u4", count), take("<i8", count), take("<i8", count), take("<u4", count)
    ends = np.cumsum(lengths, dtype=np.int64)
    num_new = int(ends[-1])
    answers = take("<i8", num_new).astype(np.int64)
    columns = take("u1", num_new * payload_bytes).reshape(payload_bytes, num_new)
    observations = np.ascontiguousarray(np.cumsum(columns, axis=1, dtype=np.uint8).T)
    return [
        Growth(
            int(trees[i]),
            Branch(int(nodes[i]), int(given[i]), observations[start:end], answers[start:end], _leaf(leaves[i], name)),
        )
        for i, (start, end) in enumerate(zip(ends - lengths, ends, strict=True))
        for name in [contexts[int(trees[i])]]
    ]


def _plain(leaf: AnyLeaf) -> Any:
    return asdict(leaf) if isinstance(leaf, Leaf) else [one[1:] for one in leaf.spills]


def _leaf(record: Any, context: str) -> AnyLeaf:
    if isinstance(record, dict):
        return Leaf(**record)
    return FunctionLeaf(tuple(SpillCosts(context, *costs) for costs in record))
