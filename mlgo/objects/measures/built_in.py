"""Sizes of objects and linked files, executed instructions, and the cost of spills."""

from mlgo.objects.comdat import shared_text
from mlgo.objects.elf import executable_size, text_size
from mlgo.objects.measures import Compiled, Measure, Words
from mlgo.objects.remarks import SpillCosts


def _shared(compiled: Compiled) -> int | None:
    if compiled.num_copies is None:
        return None
    return shared_text(text_size(compiled.sections), compiled.groups, compiled.num_copies)


def _linked(compiled: Compiled, kind: str) -> int | None:
    return None if compiled.linked is None else compiled.linked[kind]


EXEC = Measure(
    "exec_bytes",
    Words("executable sections", "Sections that hold instructions, in bytes."),
    quantity="executable sections",
    meaning="executable sections of the object",
    read=lambda compiled: executable_size(compiled.sections),
)

TEXT = Measure(
    "text_bytes",
    Words("text", "What the Berkeley format of size calls text: code and read-only data of the object file, in bytes."),
    quantity="Berkeley text",
    meaning="Berkeley text of the object",
    read=lambda compiled: text_size(compiled.sections),
    of_program="Berkeley text of its objects",
)

SHARED_TEXT = Measure(
    "dedup_bytes",
    Words(
        "text by shares",
        "Text in which a function or template instance that several modules of the project hold a copy of counts one "
        "part in as many modules as hold it under the heuristic. A linker keeps one copy.",
    ),
    quantity="Berkeley text by shares",
    quantity_of_baseline="text by shares",
    meaning="Berkeley text by shares, see COPIES",
    read=_shared,
    needs_copies=True,
)

LINKED = Measure(
    "linked_bytes",
    Words(
        "total",
        "Code, constants and unwind tables of the linked file, in bytes, where all of its sources are one module; "
        "folded, and without unwind tables, if the record of what ships says so.",
    ),
    quantity="the linked file",
    meaning="code, constants and unwind tables of the linked file; null for modules that are no linked file",
    read=lambda compiled: _linked(compiled, "total"),
    of_link=True,
)

LINKED_CODE = Measure(
    "linked_code",
    Words("code", "Executable sections of the linked file, in bytes, where all of its sources are one module."),
    quantity="code of the linked file",
    meaning="executable sections of the linked file; null for modules that are no linked file",
    read=lambda compiled: _linked(compiled, "text"),
    of_link=True,
)

INSTRUCTIONS = Measure(
    "instructions",
    Words(
        "executed instructions",
        "Instructions that the linked program executes from its start to its end, C library included, as valgrind "
        "counts them. A program that prints something else, does not end or becomes too large is a failed compile.",
        subject="Executed instructions",
        unit="instructions",
        smaller="programs execute fewer instructions",
        larger="programs execute more instructions",
    ),
    quantity="executed instructions",
    meaning="instructions that the program executes; null for modules that are no program, or were not run",
    read=lambda compiled: compiled.instructions,
    unit="",
    of_run=True,
)


def _of_function(costs: SpillCosts) -> float:
    """Loads weigh 4, stores 1, copies 0.2, as in llvm/lib/CodeGen/RegAllocScore.cpp."""
    loads = costs.reloads_cost + costs.folded_reloads_cost
    stores = costs.spills_cost + costs.folded_spills_cost
    return 4.0 * loads + 1.0 * stores + 0.2 * costs.copies_cost


def _read(compiled: Compiled) -> float | None:
    return None if compiled.functions is None else SPILL_COST.of_functions(compiled.functions)


SPILL_COST = Measure(
    "spill_cost",
    Words(
        "spill cost",
        "Reloads weigh 4, spills 1 and copies 0.2, each times the frequency of its block relative to the entry of its "
        "function, as LLVM estimates it, and under a profile times the entries, so as often as it was executed, summed "
        "over the module's functions. To compare two, 1 is added to both, so "
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

MEASURES = (EXEC, TEXT, SHARED_TEXT, LINKED, LINKED_CODE, INSTRUCTIONS, SPILL_COST)
"""In the order of their columns."""
