"""Priority in register allocation.

Data sheet (LLVM 17 to 22; llvm/lib/CodeGen/MLRegAllocPriorityAdvisor.cpp, RegAllocGreedy.cpp):

- Question: a live range joins the queue of the greedy allocator. How early is it its turn? Asked whenever one joins, so
  again for what has been evicted and for the parts of what has been split.
- Observation: ``li_size``, int64 [1], length of the range in slots, 16 to an instruction; ``stage``, int64 [1], what
  the allocator will try next, see `NUM_STAGES`; ``weight``, float [1], weighted uses and definitions by length.
- Answer: ``priority``, float [1], larger is earlier; of equal ones the range of the lower number.
  LLVM turns it into an unsigned integer of 32 bits, whose value is undefined for what does not fit.
- A range that cannot be spilled has infinite weight.
- Context: one for each function, its symbol, also for those that ask nothing.
- Score: cost of spills, reloads and copies, lower is better; see mlgo/objects/measures/built_in.py.
- The built-in decision is not told. It also knows register classes, hints, and where a range begins.
"""

from typing import Any

import numpy as np

from mlgo.errors import ProtocolError
from mlgo.host.actions import Scalar
from mlgo.host.log import Header
from mlgo.host.tasks.advisors import ConstantAdvisor, RandomAdvisor, RuleAdvisor
from mlgo.host.tasks.task import References, Task
from mlgo.objects.measures.built_in import SPILL_COST

SIZE, STAGE, WEIGHT = "li_size", "stage", "weight"
"""Features."""

NUM_STAGES = 7
"""Stages of llvm/lib/CodeGen/RegAllocEvictionAdvisor.h: 0 new, 1 assign, 2 split, 3 split again, 4 spill, 5 done; older
releases have one for memory before the last."""

SPLIT = 2
"""Stage of a range that could not be allocated right away, and is to be split."""

MAX_PRIORITY = np.float32(1 << 24)
"""Answers are between 0 and this; float32 holds all integers up to it."""

WEIGHT_OF_UNSPILLABLE = np.float32(1e6)
"""In place of infinity. The largest of 620,000 weights of what can be spilled was 1e5."""

UNITS = {WEIGHT: 2.0**-16}
"""Most weights are far below 1, where a signed logarithm would hardly tell one from another."""

PRIORITIES = Scalar(MAX_PRIORITY, STAGE, NUM_STAGES, (WEIGHT, WEIGHT_OF_UNSPILLABLE))
"""Every stage has a function of its own; the threshold tells what cannot be spilled."""

_LONG = np.float32(7.0)
"""Logarithm of a long range, in slots; twice that is far beyond the longest."""


class PriorityGuard:
    """Keeps answers within what LLVM can turn into an integer, and weights finite.

    Args:
        header: what the compiler sends.

    Raises:
        ProtocolError: the compiler does not send a weight, or does not ask for a single float.
    """

    def __init__(self, header: Header) -> None:
        weight, advice = header.features[header.index(WEIGHT)], header.advice
        if advice is None or not weight.num_elements == advice.num_elements == 1:
            raise ProtocolError(f"{WEIGHT} and answer are not of the shapes of register priority")
        if not weight.dtype == advice.dtype == np.float32:
            raise ProtocolError(f"{WEIGHT} and answer are not of the types of register priority")
        self._weight = slice(header.offset(WEIGHT), header.offset(WEIGHT) + weight.num_bytes)
        self.num_repaired_answers = self.num_repaired_observations = 0

    def observation(self, payload: bytes) -> bytes:
        """A finite weight."""
        weight = np.frombuffer(payload[self._weight], np.float32)[0]
        if np.isfinite(weight):
            return payload
        self.num_repaired_observations += 1
        return payload[: self._weight.start] + WEIGHT_OF_UNSPILLABLE.tobytes() + payload[self._weight.stop :]

    def answer(self, payload: bytes, advice: bytes) -> bytes:
        """A number between 0 and `MAX_PRIORITY`."""
        priority = np.frombuffer(advice, np.float32)[0]
        if 0.0 <= priority <= MAX_PRIORITY:
            return advice
        self.num_repaired_answers += 1
        return (MAX_PRIORITY if priority > 0.0 else np.float32(0.0)).tobytes()


def longest(ranges: Any) -> np.ndarray:
    """Longer ranges first, those that are to be split after all others.

    That is LLVM's own order (``DefaultPriorityAdvisor`` in llvm/lib/CodeGen/RegAllocGreedy.cpp) without what the
    question does not tell: there, ranges within one block come after the others, in the order of their instructions,
    and ranges with a hint before those without.

    Args:
        ranges: features by name, each [num].

    Returns:
        float32 [num].
    """
    last = np.float32(2.0) * (ranges[STAGE] == SPLIT)
    priorities: np.ndarray = PRIORITIES.greedy(
        np, np.log1p(ranges[SIZE].astype(np.float32)) / _LONG - np.float32(1.0) - last
    )
    return priorities


def any_priority(rng: np.random.Generator, ranges: Any) -> np.float32:
    """A priority from 0 to `MAX_PRIORITY`."""
    return rng.random(dtype=np.float32) * MAX_PRIORITY


LONGEST = RuleAdvisor((SIZE, STAGE), longest, np.float32)

REFERENCES = References(
    traced="longest",
    is_heuristic=False,
    advisors={
        "longest": lambda setting: LONGEST,
        "equal": lambda setting: ConstantAdvisor(0),
        "random": lambda setting: RandomAdvisor(any_priority, setting.seed, setting.stream),
    },
    passive=ConstantAdvisor(0),
)

REGALLOC_PRIORITY = Task(
    name="regalloc-priority",
    title="Register priority policies against the built-in allocator",
    about_references="<em>longest</em> takes longer live ranges first and those to be split last, the simple rule that "
    "comes closest to the built-in one; policies start from a clone of it. <em>equal</em> takes them in the order of "
    "their numbers, <em>random</em> in any; both show that the questions matter.",
    mode_flags=("-regalloc-enable-priority-advisor=release",),
    channel_option="-regalloc-priority-interactive-channel-base=",
    decision="priority",
    model="RegAllocPriorityModel",
    measure=SPILL_COST,
    probe="define i64 @f(i64 %x, i64 %y) {\n  %z = mul i64 %x, %y\n  ret i64 %z\n}\n",
    actions=PRIORITIES,
    references=REFERENCES,
    guard=PriorityGuard,
    in_code_generation=True,
    units=UNITS,
    not_finite={WEIGHT: WEIGHT_OF_UNSPILLABLE},
)
