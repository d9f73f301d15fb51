"""What compiles add to the trees of a module, as bytes: the records of its file.

See `mlgo.pool.records` for their frame. The first payload is, compressed by zlib, the header line of the stream
and the names of the contexts as one line of JSON. Each further one is what a compile has added, compressed by zlib:

    num_branches u32 | length of the leaves u32 | leaves, as JSON
    | tree u32 [num_branches] | node i64 [num_branches] | answer i64 [num_branches] | num_new u32 [num_branches]
    | answers i64 [sum of num_new] | observations u8 [payload_bytes, sum of num_new], differences modulo 256

A leaf is an object with the sizes and other fields of a `tree.ModuleLeaf`, or a list of the costs in a
`tree.FunctionLeaf`, without names.
Observations are stored column by column as differences along the questions, because consecutive ones are alike.
"""

import json
import math
import struct
from collections.abc import Sequence
from typing import Any

import numpy as np

from mlgo.host.log import Header, parse_header, write_header
from mlgo.objects.measures import MEASURES, SIZES, Measure
from mlgo.objects.remarks import SpillCosts
from mlgo.pool.records import packed, unpacked
from mlgo.pool.trees.module import WHOLE_MODULE, Growth
from mlgo.pool.trees.tree import AnyLeaf, Branch, FunctionLeaf, ModuleLeaf

RECORDS_VERSION = 3
"""Of this format. It is part of a tree's key, so trees of another version are left alone, and pruned in time."""

MAGIC = b"MLT%d" % RECORDS_VERSION
"""With which each record of such a file begins."""

_LENGTHS = struct.Struct("<II")
MAX_CONTEXTS = 1 << 17
"""Contexts that a file may have. No module has so many functions."""


def encode_beginning(header: Header, contexts: Sequence[str]) -> bytes:
    """Payload of a file's first record."""
    return packed(write_header(header) + json.dumps(contexts).encode())


def decode_beginning(payload: bytes) -> tuple[Header, list[str]]:
    """Header and contexts of a file's first record; raises one of `MALFORMED`."""
    line, _, names = unpacked(payload).partition(b"\n")
    header, contexts = parse_header(line), json.loads(names)
    if header.advice is None:
        raise ValueError("a header without advice")
    if not isinstance(contexts, list) or not all(isinstance(name, str) for name in contexts):
        raise ValueError("contexts that are no list of names")
    if not 0 < len(contexts) <= MAX_CONTEXTS or len(set(contexts)) != len(contexts):
        raise ValueError("contexts that are none, too many, or named twice")
    return header, contexts


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
    return packed(b"".join(parts))


def decode_growth(payload: bytes, payload_bytes: int, contexts: Sequence[str]) -> list[Growth]:
    """Read it back; raises one of `MALFORMED`. Whether the branches fit the trees is seen when they are added."""
    data = unpacked(payload)
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
    if offset != len(data) or len(leaves) != count:
        raise ValueError(f"{len(data)} bytes and {len(leaves)} leaves, where {offset} and {count} are announced")
    observations = np.ascontiguousarray(np.cumsum(columns, axis=1, dtype=np.uint8).T)
    is_whole = tuple(contexts) == WHOLE_MODULE
    return [
        Growth(
            int(trees[i]),
            Branch(
                int(nodes[i]),
                int(given[i]),
                observations[start:end],
                answers[start:end],
                _leaf(leaves[i]) if is_whole else _function_leaf(leaves[i], contexts[int(trees[i])]),
            ),
        )
        for i, (start, end) in enumerate(zip(ends - lengths, ends, strict=True))
    ]


def _plain(leaf: AnyLeaf) -> Any:
    if isinstance(leaf, ModuleLeaf):
        return {**leaf.scores, "object_sha256": leaf.object_sha256, "truncated": leaf.truncated}
    return [one[1:] for one in leaf.spills]


def _leaf(record: Any) -> ModuleLeaf:
    leaf = ModuleLeaf({name: record.pop(name) for name in SIZES}, record.pop("object_sha256"), record.pop("truncated"))
    are_sizes = all(_is_size(MEASURES[name], size) for name, size in leaf.scores.items())
    if record or not are_sizes or type(leaf.object_sha256) is not str or type(leaf.truncated) is not bool:
        raise ValueError(f"a leaf with other values than a compile has: {leaf} {record}"[:250])
    return leaf


def _is_size(measure: Measure, size: Any) -> bool:
    if size is None:
        return measure.needs_copies or measure.of_run
    return type(size) is (int if measure.is_integer else float) and 0 <= size < 1 << 63


def _function_leaf(record: Any, context: str) -> FunctionLeaf:
    if not isinstance(record, list):
        raise ValueError(f"a leaf of a function that is no list: {str(record)[:200]}")
    for cost in (cost for costs in record for cost in costs):
        if type(cost) not in (int, float) or not math.isfinite(cost) or cost < 0:
            raise ValueError(f"a cost that is no number from 0 on: {str(cost)[:200]}")
    return FunctionLeaf(tuple(SpillCosts(context, *costs) for costs in record))
