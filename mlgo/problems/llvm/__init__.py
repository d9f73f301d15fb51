"""Decisions of clang that learnt policies take: inlining, for size and for speed, and two of register allocation.

Each is a file: what is asked, what an answer may be, which rules it is held against, how the result is scored.
"""

PROBLEMS = {
    "inline-size": "mlgo.problems.llvm.inline:INLINE_SIZE",
    "inline-speed": "mlgo.problems.llvm.speed:INLINE_SPEED",
    "regalloc-evict": "mlgo.problems.llvm.evict:REGALLOC_EVICT",
    "regalloc-priority": "mlgo.problems.llvm.priority:REGALLOC_PRIORITY",
}
"""See mlgo/core/problems.py."""
