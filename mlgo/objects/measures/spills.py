"""The cost of spills, reloads and copies, from the compiler's own remarks (see remarks.py)."""

from mlgo.objects.measures.base import Compiled, Measure, Words
from mlgo.objects.remarks import SpillCosts

LOAD_WEIGHT, STORE_WEIGHT, COPY_WEIGHT = 4.0, 1.0, 0.2
"""Weights of llvm/lib/CodeGen/RegAllocScore.cpp."""


def _of_function(costs: SpillCosts) -> float:
    """One figure: loads weigh 4, stores 1, copies 0.2.

    These are MLGO's weights, but MLGO's own score also counts rematerialised instructions, and loads and stores that
    are no spill code.
    """
    loads = costs.reloads_cost + costs.folded_reloads_cost
    stores = costs.spills_cost + costs.folded_spills_cost
    return LOAD_WEIGHT * loads + STORE_WEIGHT * stores + COPY_WEIGHT * costs.copies_cost


def _read(compiled: Compiled) -> float | None:
    return None if compiled.functions is None else SPILL_COST.of_functions(compiled.functions)


SPILL_COST = Measure(
    "spill_cost",
    Words(
        "spill cost",
        "Reloads weigh 4, spills 1 and copies 0.2, each times the frequency of its block relative to the entry of its "
        "function, as LLVM estimates it, summed over the module's functions. To compare two, 1 is added to both, so "
        "that modules next to without spills do not decide. It stands for time, not for size.",
        subject="Spills, reloads and copies",
        unit="cost",
        fewer="less",
        smaller="spills cost less",
        larger="spills cost more",
    ),
    quantity="spills, reloads and copies",
    meaning="spills, reloads and copies of all functions, weighted",
    read=_read,
    unit="",
    is_integer=False,
    # Many modules have next to no spills. On top comes the cost of one store that is executed once.
    offset=1.0,
    of_function=_of_function,
    of_program="spills, reloads and copies that the compiler reports",
)

MEASURES = (SPILL_COST,)
"""For the registry, see mlgo/objects/measures/__init__.py."""
