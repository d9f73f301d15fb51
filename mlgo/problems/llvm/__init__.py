"""Decisions of clang that learnt policies take: inlining, and two of register allocation."""

PROBLEMS = {
    "inline-size": "mlgo.tasks.inline_size:INLINE_SIZE",
    "regalloc-evict": "mlgo.tasks.regalloc_evict:REGALLOC_EVICT",
    "regalloc-priority": "mlgo.tasks.regalloc_priority:REGALLOC_PRIORITY",
}
"""See mlgo/core/problems.py."""
