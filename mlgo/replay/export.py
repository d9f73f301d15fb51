"""Decision trees as tables: every known compile, question by question."""

from collections.abc import Iterable

import numpy as np
import pyarrow as pa

from mlgo.replay.tree import DecisionTree
from mlgo.wire.log import Header

_FIXED = {
    "module_sha256": pa.string(),
    "compile": pa.uint64(),
    "step": pa.int32(),
    "answer": pa.int64(),
    "exec_bytes": pa.int64(),
    "text_bytes": pa.int64(),
    "truncated": pa.bool_(),
}


def compiles_schema(columns: Iterable[str]) -> pa.Schema:
    """Schema of the export: module, number of the compile, step, answer, the compile's result, the features."""
    return pa.schema([pa.field(name, _FIXED.get(name, pa.int64()), nullable=False) for name in columns])


def compiles_table(module_sha256: str, header: Header, tree: DecisionTree) -> pa.Table:
    """All compiles of one tree that asked something; ``compile`` is unique over the modules of one key."""
    walks = [walk for walk in tree.compiles() if walk.leaf is not None]
    nodes = np.concatenate([np.zeros(0, np.int64), *(walk.nodes for walk in walks)])
    lengths = np.array([len(walk.nodes) for walk in walks], np.int64)
    base = int(module_sha256[:8], 16) << 32
    leaves = [walk.leaf for walk in walks if walk.leaf is not None]
    columns = {
        "module_sha256": pa.repeat(module_sha256, len(nodes)),
        "compile": np.repeat(base + np.arange(len(walks), dtype=np.uint64), lengths),
        "step": np.concatenate([np.zeros(0, np.int32), *(np.arange(n, dtype=np.int32) for n in lengths)]),
        "answer": np.concatenate([np.zeros(0, np.int64), *(walk.answers for walk in walks)]),
        "exec_bytes": np.repeat(np.array([leaf.exec_bytes for leaf in leaves], np.int64), lengths),
        "text_bytes": np.repeat(np.array([leaf.text_bytes for leaf in leaves], np.int64), lengths),
        "truncated": np.repeat(np.array([leaf.truncated for leaf in leaves], bool), lengths),
    }
    observations = header.scalars(np.ascontiguousarray(tree.observations[nodes]).tobytes())
    features = {spec.name: observations[:, i] for i, spec in enumerate(header.features)}
    table = pa.table({**columns, **features})
    return table.cast(compiles_schema(table.column_names))
