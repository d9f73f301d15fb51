"""Eviction in register allocation.

Data sheet (LLVM 17 to 22; llvm/lib/CodeGen/MLRegAllocEvictAdvisor.cpp and .h, RegAllocGreedy.cpp):

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
"""

from typing import Any

import numpy as np

from mlgo.errors import ProtocolError
from mlgo.host.actions import Categorical
from mlgo.host.log import Header
from mlgo.host.tasks.advisors import RandomAdvisor, RuleAdvisor
from mlgo.host.tasks.task import References, Task
from mlgo.objects.measures.built_in import SPILL_COST

MASK = "mask"
"""Feature that tells which columns are legal."""

DENSITY = "use_def_density"
"""Feature that is not a number where an interval cannot be spilled."""

BROKEN_HINTS = "nr_broken_hints"
"""Feature that counts the occupants that would lose the register they want."""

DENSITY_OF_UNSPILLABLE = np.float32(1.0)

UNITS = dict.fromkeys(
    [
        DENSITY,
        "nr_defs_and_uses",
        "weighed_reads_by_max",
        "weighed_writes_by_max",
        "weighed_read_writes_by_max",
        "weighed_indvars_by_max",
        "hint_weights_by_max",
        "start_bb_freq_by_max",
        "end_bb_freq_by_max",
        "hottest_bb_freq_by_max",
        "liverange_size",
    ],
    2.0**-16,
)
"""Shares of the largest column. Where one occupant lives in a hot loop all others are near 0, and must still be told
apart: by the logarithm, so that a hundredth differs from a thousandth as much as from a tenth."""

_NUM_VALUES = 20


def _probe() -> str:
    """A function that keeps more values alive over a store than x86-64 or AArch64 have free registers for."""
    values = range(_NUM_VALUES * 2)
    loads = [f"  %p{i} = getelementptr i64, ptr %p, i64 {i}\n  %v{i} = load volatile i64, ptr %p{i}" for i in values]
    stores = [f"  store volatile i64 %v{i}, ptr %p{i}" for i in reversed(values)]
    return "define void @f(ptr %p) {\n" + "\n".join([*loads, *stores]) + "\n  ret void\n}\n"


class EvictionGuard:
    """Replaces columns that are not legal by the last one that is, and densities that are no numbers by 1.

    Args:
        header: what the compiler sends.

    Raises:
        ProtocolError: the compiler does not send mask and densities, column by column.
    """

    def __init__(self, header: Header) -> None:
        mask, density = (header.features[header.index(name)] for name in (MASK, DENSITY))
        if mask.dtype != np.int64 or density.dtype != np.float32 or mask.shape != density.shape:
            raise ProtocolError(f"{MASK} and {DENSITY} are not of the types of register eviction")
        self._num_columns = mask.num_elements
        self._mask, self._density = header.offset(MASK), header.offset(DENSITY)
        self.num_repaired_answers = self.num_repaired_observations = 0

    def observation(self, payload: bytes) -> bytes:
        """Density 1 for intervals that cannot be spilled."""
        density = np.frombuffer(payload, np.float32, self._num_columns, self._density)
        unspillable = np.isnan(density)
        if not unspillable.any():
            return payload
        self.num_repaired_observations += 1
        repaired = np.where(unspillable, DENSITY_OF_UNSPILLABLE, density)
        return payload[: self._density] + repaired.tobytes() + payload[self._density + repaired.nbytes :]

    def answer(self, payload: bytes, advice: bytes) -> bytes:
        """A legal column."""
        column = int.from_bytes(advice, "little", signed=True)
        mask = np.frombuffer(payload, np.int64, self._num_columns, self._mask)
        if 0 <= column < self._num_columns and mask[column]:
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

REFERENCES = References(
    traced="lightest",
    is_heuristic=False,
    advisors={
        "lightest": lambda setting: LIGHTEST,
        "first": lambda setting: FIRST_LEGAL,
        "random": lambda setting: RandomAdvisor(any_legal, setting.seed, setting.stream, (MASK,)),
    },
    passive=LAST_LEGAL,
)

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
    references=REFERENCES,
    guard=EvictionGuard,
    in_code_generation=True,
    units=UNITS,
    not_finite={DENSITY: DENSITY_OF_UNSPILLABLE},
)
