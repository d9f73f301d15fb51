"""Debug counters of GCC: a switch in front of each single transformation of a pass.

A pass asks ``dbg_cnt (name)`` before each transformation. The counter goes up by one, and the answer is whether its
value lies in one of the intervals of ``-fdbg-cnt=name:1-3:7-7`` (gcc/dbgcnt.cc). Without the option the answer is
always yes. The option is meant for finding the transformation that breaks a program, so any choice gives right code.

A policy needs more than a switch: value n must mean the same transformation whatever was decided before. Only
``pre_insn`` was found to fulfil that. Figures are of GCC 12.2 on the 24 sources of data/sample: how many of those that
use a counter reach another total when every value, or a random half, is denied.

| Counter          | Level | Sources | Values | Total changes (all, half denied) | Offered |
|------------------|-------|---------|--------|----------------------------------|---------|
| `pre_insn`       | -O2   | 21      | 228    | 0, 0                             | yes     |
| `hoist_insn`     | -Os   | 19      | 151    | 12, 7                            | no      |
| `treepre_insert` | -O2   | 24      | 2579   | 22, 22                           | no      |
| `gcse2_delete`   | -O3   | 5       | 10     | 0, 0                             | no      |

- ``pre_insn`` (``pre_delete`` in gcc/gcse.cc): the pass solves its data flow for a function, and then asks for each
  redundant computation. What is denied stays as it is, and changes no later question. In 441 compiles of the 57 sources
  of data/sample and data/programs under random choices exactly the chosen ones were performed, by function, instruction
  and expression; with all allowed one by one the object is GCC's own, byte for byte.
- ``hoist_insn`` (``hoist_code``, same file): what is denied in a block is asked again in a block that dominates it, so
  later numbers shift. One value in four hoists nothing, and the dump has no line for it.
- ``treepre_insert`` (gcc/tree-ssa-pre.cc): an insertion that is denied is asked again in the next iteration.
- ``gcse2_delete`` (gcc/postreload-gcse.cc): the numbers hold, but the pass runs at -O3 only, finds nearly nothing, and
  its dump shows what was deleted, not what was asked.
"""

import re
from collections.abc import Iterable
from typing import Final

from mlgo.errors import RemarkError

COUNTER: Final = "pre_insn"
"""The counter whose values keep their meaning, as in ``-fdbg-cnt``."""

DUMP: Final = "-fdump-rtl-pre-details"
"""Option that makes GCC write what the pass did, without ``=FILE``."""

DUMP_BEFORE: Final = "-fdump-rtl-cprop1-blocks-details"
"""The same for the last pass before, which shows what is decided about."""

DUMP_LINE: Final = "PRE: redundant insn "
"""Text that starts the dump's line for each value at which the elimination was performed."""

_ROW = re.compile(r"^ +(\w+) +(\d+) +(?:unset|\[.*)$", re.MULTILINE)


def intervals(numbers: Iterable[int]) -> str:
    """Closed intervals that hold exactly these values of a counter, as ``-fdbg-cnt=name:`` takes them.

    Args:
        numbers: values from 1, in any order; none denies all.

    Returns:
        Ascending intervals without overlap, such as ``1-3:7-7``. A counter never has the value of ``0-0``.

    Raises:
        ValueError: a value below 1.
    """
    found: list[list[int]] = []
    for number in sorted(set(numbers)):
        if number < 1:
            raise ValueError(f"debug counters start at 1, not at {number}")
        if found and found[-1][1] == number - 1:
            found[-1][1] = number
        else:
            found.append([number, number])
    return ":".join(f"{first}-{last}" for first, last in found or [[0, 0]])


def read_counts(stderr: str) -> dict[str, int]:
    """Final value of each counter, from the table that ``-fdbg-cnt-list`` prints when the compile ends.

    Raises:
        RemarkError: there is no such table.
    """
    counts = {name: int(value) for name, value in _ROW.findall(stderr)}
    if not counts:
        raise RemarkError("the compiler ended well but printed no table of its debug counters")
    return counts
