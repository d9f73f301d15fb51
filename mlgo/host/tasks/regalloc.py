"""Register allocation: eviction and priority.

Data sheet of eviction (LLVM 17 to 22; llvm/lib/CodeGen/MLRegAllocEvictAdvisor.cpp and .h, RegAllocGreedy.cpp):

- Question: a virtual register V found no free register. Which register shall be freed for it, or shall V itself wait,
  to be split or spilled? Asked whenever the greedy allocator looks for something to evict.
- Observation: 20 rows with a number for each column, int64 or float, and the scalar ``progress``. All columns but the
  last are registers, in V's order of preference; the last is V itself. 33 columns in LLVM 17 to 22; the header tells.
- Answer: ``index_to_evict``, int64 [1], a column whose ``mask`` is 1. Any other crashes the compiler or reads outside
  of an array, so it must never be sent.
- ``mask`` of the last column is 0 where V must have a register. Columns that are not legal are zero in all rows.
- Float rows but ``progress`` are divided by their maximum over the columns. An interval that cannot be spilled has
  infinite weight, so ``use_def_density`` is NaN there, by which 1 is meant, as newer sources of LLVM write it.
- Context: one for each function, its symbol, also for those that ask nothing.
- Score: cost of spills, reloads and copies, lower is better; see mlgo/objects/measures/built_in.py.
- The built-in decision is not told. LLVM 17 to 19 let two registers evict each other for ever.

Data sheet of priority (LLVM 17 to 22; llvm/lib/CodeGen/MLRegAllocPriorityAdvisor.cpp, RegAllocGreedy.cpp):

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
from mlgo.host.actions import Categorical, Scalar
from mlgo.host.log import Header
from mlgo.host.tasks.task import ConstantAdvisor, Guard, RandomAdvisor, References, RuleAdvisor, Task
from mlgo.objects.measures.built_in import SPILL_COST

_SMALL = 2.0**-16
"""Unit of features that are mostly far below 1, where a signed logarithm would hardly tell one from another."""


# Eviction.

MASK = "mask"
"""Feature that tells which columns are legal."""

DENSITY = "use_def_density"
"""Feature that is not a number where an interval cannot be spilled."""

BROKEN_HINTS = "nr_broken_hints"
"""Feature that counts the occupants that would lose the register they want."""

DENSITY_OF_UNSPILLABLE = np.float32(1.0)

UNITS_OF_SHARES = dict.fromkeys(
    f"""
    {DENSITY} nr_defs_and_uses weighed_reads_by_max weighed_writes_by_max weighed_read_writes_by_max
    weighed_indvars_by_max hint_weights_by_max start_bb_freq_by_max end_bb_freq_by_max hottest_bb_freq_by_max
    liverange_size""".split(),
    _SMALL,
)
"""Shares of the largest column. Where one occupant lives in a hot loop all others are near 0: by the logarithm, a
hundredth differs from a thousandth as much as from a tenth."""


def _probe() -> str:
    """A function that keeps more values alive over a store than x86-64 or AArch64 have free registers for."""
    values = range(40)
    loads = [f"  %p{i} = getelementptr i64, ptr %p, i64 {i}\n  %v{i} = load volatile i64, ptr %p{i}" for i in values]
    stores = [f"  store volatile i64 %v{i}, ptr %p{i}" for i in reversed(values)]
    return "define void @f(ptr %p) {\n" + "\n".join([*loads, *stores]) + "\n  ret void\n}\n"


class EvictionGuard(Guard):
    """Replaces columns that are not legal by the last one that is, and densities that are no numbers by 1."""

    def __init__(self, header: Header) -> None:
        mask, density = (header.features[header.index(name)] for name in (MASK, DENSITY))
        if mask.dtype != np.int64 or density.dtype != np.float32 or mask.shape != density.shape:
            raise ProtocolError(f"{MASK} and {DENSITY} are not of the types of register eviction")
        super().__init__(header, DENSITY, DENSITY_OF_UNSPILLABLE)
        self._mask = header.offset(MASK)

    def answer(self, payload: bytes, advice: bytes) -> bytes:
        """A legal column."""
        column = int.from_bytes(advice, "little", signed=True)
        mask = np.frombuffer(payload, np.int64, self._count, self._mask)
        if 0 <= column < self._count and mask[column]:
            return advice
        self.num_repaired_answers += 1
        return int(np.flatnonzero(mask)[-1]).to_bytes(len(advice), "little")


def lightest(columns: Any) -> np.ndarray:
    """Evicts what is lighter than the value that asks; nothing where nothing is.

    Of the legal columns whose heaviest range is lighter, it takes those that break the fewest hints, of these the
    lightest, of equal ones the first. So does LLVM's own eviction (``EvictionCost``, ``shouldEvict``,
    llvm/lib/CodeGen/RegAllocEvictionAdvisor.cpp), but for what it knows of hints, splits and cascades.

    Args:
        columns: features by name, each [num, num_columns].

    Returns:
        int64 [num].
    """
    legal, weights = columns[MASK] != 0, columns[DENSITY].astype(np.float32)
    own = np.where(legal[:, -1:], weights[:, -1:], np.inf)  # illegal there: it must have a register
    lighter = legal & (weights < own)
    hints = np.where(lighter, columns[BROKEN_HINTS].astype(np.float32), np.inf)
    best = lighter & (hints == hints.min(axis=1, keepdims=True))
    columns_of_best = np.where(best, weights, np.inf).argmin(axis=1)
    return np.where(lighter.any(axis=1), columns_of_best, legal.shape[1] - 1)


def first_legal(columns: Any) -> np.ndarray:
    """The register that comes first in the allocation order, int64 [num]."""
    return np.asarray(columns[MASK] != 0).argmax(axis=1)


def last_legal(columns: Any) -> np.ndarray:
    """Evicts nothing where it may: the last legal column, int64 [num]."""
    legal = columns[MASK] != 0
    return legal.shape[1] - 1 - np.asarray(legal)[:, ::-1].argmax(axis=1)


def any_legal(rng: np.random.Generator, columns: Any) -> Any:
    """Each legal column with the same probability."""
    return rng.choice(np.flatnonzero(columns[MASK]))


LIGHTEST = RuleAdvisor((MASK, DENSITY, BROKEN_HINTS), lightest)
FIRST_LEGAL, LAST_LEGAL = RuleAdvisor((MASK,), first_legal), RuleAdvisor((MASK,), last_legal)

REGALLOC_EVICT = Task(
    name="regalloc-evict",
    title="Register eviction policies against the built-in allocator",
    about_references="<em>lightest</em> evicts only what is lighter than the value itself, and there what breaks the "
    "fewest hints; that comes close to the built-in rule; policies start from a clone of it. <em>first</em> takes the "
    "first register that may be taken, <em>random</em> any; both show that the questions matter.",
    mode_flags=("-regalloc-enable-advisor=release",),
    channel_option="-regalloc-evict-interactive-channel-base=",
    decision="index_to_evict",
    model="RegAllocEvictModel",
    measure=SPILL_COST,
    probe=_probe(),
    actions=Categorical(MASK),
    references=References(
        traced="lightest",
        is_heuristic=False,
        advisors={
            "lightest": lambda setting: LIGHTEST,
            "first": lambda setting: FIRST_LEGAL,
            "random": lambda setting: RandomAdvisor(any_legal, setting.seed, setting.stream, (MASK,)),
        },
        passive=LAST_LEGAL,
    ),
    guard=EvictionGuard,
    in_code_generation=True,
    units=UNITS_OF_SHARES,
    not_finite={DENSITY: DENSITY_OF_UNSPILLABLE},
)


# Priority.

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

PRIORITIES = Scalar(MAX_PRIORITY, STAGE, NUM_STAGES, (WEIGHT, WEIGHT_OF_UNSPILLABLE))
"""Every stage has a function of its own; the threshold tells what cannot be spilled."""

_LONG = np.float32(7.0)
"""Logarithm of a long range, in slots; twice that is far beyond the longest."""


class PriorityGuard(Guard):
    """Keeps answers within what LLVM can turn into an integer, and weights finite."""

    def __init__(self, header: Header) -> None:
        weight, advice = header.features[header.index(WEIGHT)], header.advice
        if advice is None or not weight.num_elements == advice.num_elements == 1:
            raise ProtocolError(f"{WEIGHT} and answer are not of the shapes of register priority")
        if not weight.dtype == advice.dtype == np.float32:
            raise ProtocolError(f"{WEIGHT} and answer are not of the types of register priority")
        super().__init__(header, WEIGHT, WEIGHT_OF_UNSPILLABLE)

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
    references=References(
        traced="longest",
        is_heuristic=False,
        advisors={
            "longest": lambda setting: LONGEST,
            "equal": lambda setting: ConstantAdvisor(0),
            "random": lambda setting: RandomAdvisor(any_priority, setting.seed, setting.stream),
        },
        passive=ConstantAdvisor(0),
    ),
    guard=PriorityGuard,
    in_code_generation=True,
    units={WEIGHT: _SMALL},
    not_finite={WEIGHT: WEIGHT_OF_UNSPILLABLE},
)
