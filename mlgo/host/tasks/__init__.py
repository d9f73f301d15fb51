"""Decisions of clang that learnt policies take: inlining, for size and for speed, and two of register allocation.

Each is a file: what is asked, what an answer may be, which rules it is held against, how the result is scored.
"""

PROBLEMS = {
    "inline-size": "mlgo.host.tasks.inline:INLINE_SIZE",
    "inline-speed": "mlgo.host.tasks.inline:INLINE_SPEED",
    "regalloc-evict": "mlgo.host.tasks.evict:REGALLOC_EVICT",
    "regalloc-priority": "mlgo.host.tasks.priority:REGALLOC_PRIORITY",
}
"""See mlgo/base/registry.py."""
