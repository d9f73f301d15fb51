"""GCC under a policy: its debug counters choose which single eliminations a pass performs in a translation unit."""

PROBLEMS = {"gcc-pre": "mlgo.jit.gcc.problem:GCC_PRE"}
"""See mlgo/base/problems.py."""
