"""Response trees as tables: every known compile, question by question."""

from collections.abc import Sequence

import numpy as np
import pyarrow as pa

from mlgo.base.artifacts import feature_array, score_type
from mlgo.host.log import Header
from mlgo.objects.measures import MEASURES, Measure
from mlgo.pool.module_trees import ModuleTrees
from mlgo.pool.response_tree import FunctionLeaf, ModuleLeaf, Walk


def compiles_schema(table: pa.Table) -> pa.Schema:
    """Schema of the export: the columns of a table of `compiles_table`, none of which has nulls."""
    return pa.schema([field.with_nullable(False) for field in table.schema])


def compiles_table(module_sha256: str, header: Header, trees: ModuleTrees) -> pa.Table:
    """All compiles of one module that asked something: module, compile, step, answer, the result, the features.

    ``compile`` is unique over the modules of one key. Where functions are decided one by one, each known way of
    deciding one is a compile, with the function as ``context``, and its result is what the
    function costs.
    """
    walks = [(place, walk) for place, tree in enumerate(trees.by_context) for walk in tree.compiles()]
    lengths = np.array([len(walk.nodes) for _, walk in walks], np.int64)
    base = int(module_sha256[:8], 16) << 32
    payloads = np.concatenate(
        [
            trees.by_context[0].observations[:0],
            *(trees.by_context[place].observations[walk.nodes] for place, walk in walks),
        ]
    )
    columns = {
        "module_sha256": pa.repeat(module_sha256, len(payloads)),
        **_contexts(trees, [place for place, _ in walks], lengths),
        "compile": pa.array(np.repeat(base + np.arange(len(walks), dtype=np.uint64), lengths)),
        "step": pa.array(np.concatenate([np.zeros(0, np.int32), *(np.arange(n, dtype=np.int32) for n in lengths)])),
        "answer": pa.array(np.concatenate([np.zeros(0, np.int64), *(walk.answers for _, walk in walks)])),
        **_results(trees, [walk for _, walk in walks], lengths),
        **{spec.name: feature_array(spec, payloads, header.offset(spec.name)) for spec in header.features},
    }
    return pa.table(columns)


def _contexts(trees: ModuleTrees, places: Sequence[int], lengths: np.ndarray) -> dict[str, pa.Array]:
    if trees.whole is not None:
        return {}
    rows = np.repeat(np.array(places, np.int64), lengths)
    return {"context": pa.array(trees.contexts, pa.string()).take(pa.array(rows))}


def _results(trees: ModuleTrees, walks: Sequence[Walk], lengths: np.ndarray) -> dict[str, pa.Array]:
    if trees.whole is None:
        functions = [walk.leaf.spills for walk in walks if isinstance(walk.leaf, FunctionLeaf)]
        return {
            name: _repeated([measure.of_functions(costs) for costs in functions], measure, lengths)
            for name, measure in MEASURES.items()
            if measure.is_by_function
        }
    leaves = [walk.leaf for walk in walks if isinstance(walk.leaf, ModuleLeaf)]
    return {
        **{
            name: _repeated([leaf.score(name) for leaf in leaves], measure, lengths)
            for name, measure in MEASURES.items()
            if measure.is_of_object
        },
        "truncated": pa.array(np.repeat(np.array([leaf.truncated for leaf in leaves], bool), lengths)),
    }


def _repeated(scores: Sequence[float], measure: Measure, lengths: np.ndarray) -> pa.Array:
    """One score for each question of its compile."""
    return pa.array(np.repeat(np.array(scores), lengths), score_type(measure))
