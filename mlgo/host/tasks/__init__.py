"""Decisions of clang that learnt policies take: inlining, for size and for speed, and two of register allocation.

Each says what is asked, what an answer may be, which rules it is held against, how the result is scored.
"""

PROBLEMS = {
    "inline-size": "mlgo.host.tasks.inline:INLINE_SIZE",
    "inline-speed": "mlgo.host.tasks.inline:INLINE_SPEED",
    "regalloc-evict": "mlgo.host.tasks.regalloc:REGALLOC_EVICT",
    "regalloc-priority": "mlgo.host.tasks.regalloc:REGALLOC_PRIORITY",
}
"""See mlgo/base/registry.py."""
