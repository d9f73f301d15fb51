"""Features of candidates that a Checked .NET JIT prints: ``CSE_HeuristicRLHook`` in ``src/coreclr/jit/optcse.cpp``.

The largest counts are those seen in a collection of some 130,000 methods; weights are capped at ``exp(15)``.
"""

from mlgo.jit.choices.columns import Column

VIABLE = "viable"
"""Feature that tells whether the JIT would perform a candidate."""

_WEIGHT_CAP = 3_269_016

JIT_COLUMNS = {
    column.name: column
    for column in (
        Column("type", "category", 7),  # other, int, long, float, double, struct, SIMD
        Column(VIABLE, "flag"),
        Column("live_across_call", "flag"),
        Column("const", "flag"),
        Column("shared_const", "flag"),
        Column("make_cse", "flag"),
        Column("has_call", "flag"),
        Column("containable", "flag"),
        Column("cost_ex", "count", 80),
        Column("cost_sz", "count", 54),
        Column("use_count", "count", 567),
        Column("def_count", "count", 189),
        Column("use_wt_cnt", "weight", _WEIGHT_CAP),
        Column("def_wt_cnt", "weight", _WEIGHT_CAP),
        Column("distinct_locals", "count", 5),
        Column("local_occurrences", "count", 6),
        Column("bb_count", "count", 1000),
        Column("block_spread", "count", 1000),
        Column("enreg_count", "count", 734),
    )
}
"""By the names that the JIT prints."""
