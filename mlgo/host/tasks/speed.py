"""Inlining for speed.

Data sheet: as of inlining for size (mlgo/host/tasks/inline.py), but

- Level: -O2 or -O3. Functions have no attributes ``optsize`` and ``minsize``, so LLVM's own inliner has a threshold of
  225 units of cost, not of 5 (``llvm/lib/Analysis/InlineCost.cpp``), and its answers differ.
- Module: a whole program with ``main``, all of its sources merged, see mlgo/corpus/whole_program.py.
- Score: instructions that the program executes, lower is better; see mlgo/objects/measures/speed.py. A program that
  prints something else, does not end, or has more text than its bound is a failed compile.
"""

from dataclasses import replace

from mlgo.host.tasks.inline import INLINE_SIZE
from mlgo.objects.measures.speed import INSTRUCTIONS

INLINE_SPEED = replace(
    INLINE_SIZE,
    name="inline-speed",
    title="Inlining policies for speed against the built-in heuristic",
    measure=INSTRUCTIONS,
    probe=INLINE_SIZE.probe.replace(" minsize optsize", ""),
)
