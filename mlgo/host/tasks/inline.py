"""Inlining for size and for speed.

Data sheet (LLVM 17 to 22; llvm/lib/Analysis/MLInlineAdvisor.cpp, InlineModelFeatureMaps.h):

- Question: should this call be replaced by the callee's body? Asked bottom-up over the call graph, once per call
  that may but need not be inlined; inlining makes new questions.
- Observation: 35 (LLVM 17, 18) or 38 (19 and newer) scalars, int64.
- Answer: ``inlining_decision``, int64 [1]; non-zero inlines. Every value is legal.
- Context: one for the whole module, the empty string.
- Score: size of the object in bytes, lower is better; see mlgo/objects/measures/built_in.py.
- Early end: when the module's IR exceeds ``-ml-advisor-size-increase-threshold`` times its first size, nothing
  more is asked and nothing more is inlined. Seen only in the remark ``ForceStop`` of the pass ``inline-ml``.

Inlining for speed differs in three points:

- Level: -O2 or -O3. Functions have no attributes ``optsize`` and ``minsize``, so LLVM's own inliner has a threshold of
  225 units of cost, not of 5 (``llvm/lib/Analysis/InlineCost.cpp``), and its answers differ.
- Module: a whole program with ``main``, all of its sources merged, see mlgo/corpus/link_time.py.
- Score: instructions that the program executes, lower is better. A program that prints something else, does not end,
  or has more text than its bound is a failed compile.
"""

from dataclasses import replace
from functools import partial
from typing import Any

import numpy as np

from mlgo.host.actions import Binary
from mlgo.host.tasks import task
from mlgo.objects.measures.built_in import INSTRUCTIONS, TEXT

# One call that may be inlined.
_PROBE = """\
define internal i32 @callee(i32 %x) minsize optsize {
  %y = mul i32 %x, 3
  ret i32 %y
}
define i32 @caller(i32 %x) minsize optsize {
  %y = call i32 @callee(i32 %x)
  ret i32 %y
}
"""


def coin(rng: np.random.Generator, features: Any, share: float) -> bool:
    """Yes with a fixed probability."""
    return rng.random() < share


def random_inliner(setting: task.Setting) -> task.RandomAdvisor:
    """Inlines with a fixed probability, independently at each question."""
    return task.RandomAdvisor(partial(coin, share=setting.inline_share), setting.seed, setting.stream)


INLINE_SIZE = task.Task(
    name="inline-size",
    title="Inlining policies against the built-in heuristic",
    about_references="<em>echo</em> gives the heuristic's own answers, so its gain is what a perfect copy would get: "
    "where it is not 0, asking itself changes the code. <em>never</em> inlines nothing it is asked about, "
    "<em>random</em> answers at random; both, where they were scored, show that the questions matter.",
    mode_flags=("-enable-ml-inliner=release",),
    channel_option="-inliner-interactive-channel-base=",
    decision="inlining_decision",
    model="InlinerSizeModel",
    measure=TEXT,
    probe=_PROBE,
    actions=Binary(),
    references=task.References(
        traced="echo",
        is_heuristic=True,
        advisors={
            "echo": lambda setting: task.EchoAdvisor(setting.default_feature),
            "never": lambda setting: task.ConstantAdvisor(0),
            "random": random_inliner,
        },
        passive=task.ConstantAdvisor(0),
    ),
    default=task.DefaultDecision(("-inliner-interactive-include-default",), "inlining_default"),
    growth_stop=task.GrowthStop(
        "-ml-advisor-size-increase-threshold=",
        task.Remark(("-Rpass-missed=inline-ml",), b"module size grew too much"),
    ),
    embeds=True,
    done_remark=task.Remark(("-Rpass=inline",), b"[-Rpass=inline"),  # of the passes inline and inline-ml
)


INLINE_SPEED = replace(
    INLINE_SIZE,
    name="inline-speed",
    title="Inlining policies for speed against the built-in heuristic",
    measure=INSTRUCTIONS,
    probe=INLINE_SIZE.probe.replace(" minsize optsize", ""),
)
