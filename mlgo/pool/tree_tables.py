"""Response trees as tables: every known compile, question by question."""

from collections.abc import Sequence

import numpy as np
import pyarrow as pa

from mlgo.base.artifacts import feature_array, score_type
from mlgo.objects.measures import MEASURES
from mlgo.pool.module_trees import ModuleTrees
from mlgo.pool.response_tree import AnyLeaf, ModuleLeaf


def compiles_table(module_sha256: str, trees: ModuleTrees) -> pa.Table:
    """All compiles of one module that asked something: module, compile, step, answer, the result, the features.

    ``compile`` is unique over the modules of one key. Where functions are decided one by one, each known way of
    deciding one is a compile, with the function as ``context``, and its result is what the function costs. No column
    has nulls.
    """
    header = trees.header
    known = [
        (context, tree, walk)
        for context, tree in zip(trees.contexts, trees.by_context, strict=True)
        for walk in tree.compiles()
    ]
    results = _results([walk.leaf for *_, walk in known if walk.leaf is not None], trees.whole is not None)
    lengths = np.array([len(walk.nodes) for *_, walk in known], np.int64)
    base = int(module_sha256[:8], 16) << 32
    compiles = {
        "module_sha256": pa.repeat(module_sha256, len(known)),
        **({} if trees.whole is not None else {"context": pa.array([context for context, *_ in known], pa.string())}),
        "compile": pa.array(base + np.arange(len(known), dtype=np.uint64)),
    }
    rows = pa.array(np.repeat(np.arange(len(known)), lengths))
    payloads = [
        np.zeros((0, header.payload_bytes), np.uint8),
        *(tree.observations_at(walk.nodes) for _, tree, walk in known),
    ]
    observations = np.concatenate(payloads)
    table = pa.table(
        {
            **{name: column.take(rows) for name, column in compiles.items()},
            "step": pa.array(np.concatenate([np.zeros(0, np.int32), *(np.arange(n, dtype=np.int32) for n in lengths)])),
            "answer": pa.array(np.concatenate([np.zeros(0, np.int64), *(walk.answers for *_, walk in known)])),
            **{name: column.take(rows) for name, column in results.items()},
            **{spec.name: feature_array(spec, observations, header.offset(spec.name)) for spec in header.features},
        }
    )
    return table.cast(pa.schema([field.with_nullable(False) for field in table.schema]))


def _results(leaves: Sequence[AnyLeaf], is_whole: bool) -> dict[str, pa.Array]:
    """Columns with a value for each compile, of modules that are decided as a whole or of single functions."""
    columns = {
        name: pa.array([leaf.score(name) for leaf in leaves], score_type(measure))
        for name, measure in MEASURES.items()
        if (measure.is_of_object if is_whole else measure.is_by_function)
    }
    if is_whole:
        truncated = [isinstance(leaf, ModuleLeaf) and leaf.truncated for leaf in leaves]
        columns["truncated"] = pa.array(truncated, pa.bool_())
    return columns
