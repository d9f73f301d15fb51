"""Features of partial redundancies that `mlgo.problems.gcc.rtl` reads from GCC's dump."""

from mlgo.problems.gcc.rtl import KINDS, MODE_CLASSES
from mlgo.problems.subset.columns import Column

_MANY, _FREQUENCY = 1000, 1_000_000

GCC_COLUMNS = {
    column.name: column
    for column in (
        Column("kind", "category", len(KINDS)),
        Column("mode_class", "category", len(MODE_CLASSES)),
        Column("mode_bytes", "count", 64),
        Column("num_nodes", "count", 32),
        Column("num_registers", "count", 8),
        Column("is_load", "flag"),
        Column("is_constant_load", "flag"),
        Column("num_redundant", "count", 32),
        Column("num_insertions", "count", 32),
        Column("num_copies", "count", 32),
        Column("loop_depth", "count", 5),
        Column("insertion_loop_depth", "count", 5),
        Column("frequency", "count", _FREQUENCY),
        Column("insertion_frequency", "count", _FREQUENCY),
        Column("insertions_frequency", "count", _FREQUENCY),
        Column("expression_frequency", "count", _FREQUENCY),
        Column("block_insns", "count", _MANY),
        Column("block_calls", "count", 32),
        Column("block_pseudos", "count", _MANY),
        Column("block_live_in", "count", _MANY),
        Column("function_blocks", "count", 10 * _MANY),
        Column("function_insns", "count", 100 * _MANY),
        Column("function_calls", "count", _MANY),
        Column("function_pseudos", "count", 10 * _MANY),
        Column("function_live_in", "count", _MANY),
        Column("function_candidates", "count", 64),
        Column("position", "count", 64),
    )
}
"""By name."""
