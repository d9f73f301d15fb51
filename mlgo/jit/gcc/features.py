"""Features of partial redundancies that `mlgo.jit.gcc.rtl` reads from GCC's dump."""

from typing import Final

from mlgo.jit.choices.columns import Column

KINDS: Final = (
    "other",  # 0
    "load",  # 1: of memory, also widened
    "constant load",  # 2: of the constant pool, also widened
    "add",  # 3: plus, minus, neg
    "multiply",  # 4
    "divide",  # 5: also remainders and square roots
    "shift",  # 6: also rotations
    "convert",  # 7: between modes
    "compare",  # 8: also minima and maxima
    "logical",  # 9
)
"""Kinds of expressions by number, whatever the machine."""

MODE_CLASSES: Final = ("other", "integer", "float", "vector")
"""Classes of machine modes by number."""

_MANY, _FREQUENCY = 1000, 1_000_000

GCC_COLUMNS: Final = {
    column.name: column
    for column in (
        Column("kind", "category", len(KINDS)),  # index in KINDS
        Column("mode_class", "category", len(MODE_CLASSES)),  # index in MODE_CLASSES
        Column("mode_bytes", "count", 64),  # bytes of the value; 0 when the mode is unknown
        Column("num_nodes", "count", 32),  # RTL nodes of the expression, operands included
        Column("num_registers", "count", 8),  # of these, registers
        Column("is_load", "flag"),  # it reads memory
        Column("is_constant_load", "flag"),  # it reads the constant pool
        Column("num_redundant", "count", 32),  # eliminations of this expression in the function
        Column("num_insertions", "count", 32),  # edges on which it is computed anew for them
        Column("num_copies", "count", 32),  # computations that stay and are copied for them
        Column("loop_depth", "count", 5),  # loops around the elimination
        Column("insertion_loop_depth", "count", 5),  # most loops around the source of such an edge; 0 without an edge
        # Executions of the elimination's block per 1000 calls of the function, as GCC estimates.
        Column("frequency", "count", _FREQUENCY),
        Column("insertion_frequency", "count", _FREQUENCY),  # of the edge that is executed most
        Column("insertions_frequency", "count", _FREQUENCY),  # of all edges together
        Column("expression_frequency", "count", _FREQUENCY),  # of all eliminations of the expression together
        Column("block_insns", "count", _MANY),  # instructions in the elimination's block
        Column("block_calls", "count", 32),  # calls among these
        Column("block_pseudos", "count", _MANY),  # pseudo-registers that the block names
        Column("block_live_in", "count", _MANY),  # pseudo-registers that are live into the block
        Column("function_blocks", "count", 10 * _MANY),
        Column("function_insns", "count", 100 * _MANY),
        Column("function_calls", "count", _MANY),
        Column("function_pseudos", "count", 10 * _MANY),
        Column("function_live_in", "count", _MANY),  # largest block_live_in of the function
        Column("function_candidates", "count", 64),  # eliminations in the function
        Column("position", "count", 64),  # of this one among them, from 0
    )
}
"""How they enter a network, by name."""

FEATURES: Final = tuple(GCC_COLUMNS)
"""Columns of `rtl.Candidates.features`."""
