"""The compiler's own remarks: what register allocation cost each function, and which calls were asked about.

**Costs of functions**: spills, reloads and copies.

With ``-fsave-optimization-record`` LLVM writes a stream of YAML documents, one for each function with any such cost
(``SpillReloadCopies``, loops included) and one for each of its loops (``LoopSpillReloadCopies``, counted again there)::

    --- !Missed
    Pass:            regalloc
    Name:            SpillReloadCopies
    Function:        main
    Args:
      - NumReloads:      '2'
      - String:          ' reloads '
      - TotalReloadsCost: '1.125000e+00'
    ...

A cost is a sum over the blocks of a function: block frequency relative to the entry, times the number of instructions.
Where a profile says how often the function was entered, ``Hotness`` stands before the arguments, and costs are read
times that: so many spills, reloads and copies were executed.
Source: ``computeStats`` and ``reportStats`` in llvm/lib/CodeGen/RegAllocGreedy.cpp. The stream is always written by
the same code of LLVM, so it is read here as text: a YAML parser takes some hundred times as long.

**Calls.** The inliner's advisor writes one document for each question, in the order of the questions, however it was
answered (``MLInlineAdvice`` in llvm/lib/Analysis/MLInlineAdvisor.cpp). It names the caller and the callee::

    --- !Passed
    Pass:            inline-ml
    Name:            InliningSuccess
    Function:        caller
    Args:
      - Callee:          callee
    ...

Once the module has grown too much, nothing is asked any more, and the remark ``ForceStop`` of each further call names
its caller alone. Calls of ``always_inline`` functions that become direct between two questions are reported as
well. They are recognised by what they repeat.
"""

import re
from collections import defaultdict
from collections.abc import Sequence
from typing import NamedTuple

from mlgo.errors import RemarkError

CALL_OPTIONS = ("-fsave-optimization-record=yaml", "-foptimization-record-passes=inline-ml")
"""Options of clang that make it write the calls that are asked about; ``-foptimization-record-file=`` says where."""

_COST_OPTIONS = ("-fsave-optimization-record=yaml", "-foptimization-record-passes=regalloc")
_WITH_ENTRIES = "-fdiagnostics-show-hotness"
_HAS_PROFILE = b"ProfileSummary"  # name of the flag that LLVM gives to such a module, in bitcode and in text


class SpillCosts(NamedTuple):
    """Costs of one function.

    Counts are instructions, costs are instructions weighted by block frequency, under a profile times the entries.
    Folded ones are done by an instruction that is there anyway and takes its operand from memory.
    """

    function: str
    num_spills: int = 0
    spills_cost: float = 0.0
    num_folded_spills: int = 0
    folded_spills_cost: float = 0.0
    num_reloads: int = 0
    reloads_cost: float = 0.0
    num_folded_reloads: int = 0
    folded_reloads_cost: float = 0.0
    num_free_reloads: int = 0
    num_copies: int = 0
    copies_cost: float = 0.0


_COSTS = (
    b"NumSpills TotalSpillsCost NumFoldedSpills TotalFoldedSpillsCost NumReloads TotalReloadsCost NumFoldedReloads "
    b"TotalFoldedReloadsCost NumZeroCostFoldedReloads NumVRCopies TotalCopiesCost"
)
_FIELDS = dict(zip(_COSTS.split(), SpillCosts._fields[1:], strict=True))
"""What LLVM calls each cost."""

_START, _END = b"--- !", b"\n...\n"
_FUNCTION_REMARK = re.compile(
    rb"\nName: +SpillReloadCopies\n(?:DebugLoc: .*\n)?Function: +(.+)\n(?:Hotness: +(\d+)\n)?"
)
_CALLER = re.compile(rb"^Function: +(.+)$", re.MULTILINE)
_CALLEE = re.compile(rb"^  - Callee: +(.+)$", re.MULTILINE)
_STOPPED = re.compile(rb"^Name: +ForceStop$", re.MULTILINE)
_FEATURE = re.compile(rb"^  - ([a-z]\w*): +(.+)$", re.MULTILINE)
_TAKEN = re.compile(rb"^  - ShouldInline: +'true'$", re.MULTILINE)
_ARGUMENT = re.compile(rb"\n  - (Num\w+|Total\w+): +'([^'\n]*)'")


def cost_options(module: bytes) -> tuple[str, ...]:
    """The same for the costs of a module's functions, with their entries where a profile tells them.

    Without a profile, asking for entries takes 2 % of a compile, and tells nothing.
    """
    return (*_COST_OPTIONS, _WITH_ENTRIES) if _HAS_PROFILE in module else _COST_OPTIONS


def read_spill_costs(data: bytes) -> list[SpillCosts]:
    """Functions with a cost, in the order of a stream of remarks; it is empty when no function costs anything."""
    found = [(one, match) for one in _documents(data) if (match := _FUNCTION_REMARK.search(one))]
    return [_costs(match[1], float(match[2] or 1), one) for one, match in found]


def read_calls(data: bytes, num_questions: int) -> list[tuple[bytes, bytes]]:
    """Caller and callee of each question about inlining, in their order; the stream is empty when nothing was asked."""
    remarks = [one for one in _documents(data) if not _STOPPED.search(one)]
    calls = _END.join(remarks)
    callers, callees = _CALLER.findall(calls), _CALLEE.findall(calls)
    if not len(callers) == len(callees) == len(remarks):
        raise RemarkError("a remark of the inliner names no caller or no callee")
    mandatory = _mandatory(remarks, callees) if len(remarks) > num_questions else set()
    if len(remarks) - len(mandatory) != num_questions:
        raise RemarkError(f"the compiler asked {num_questions} questions and reported {len(remarks)} calls")
    named = enumerate(zip(callers, callees, strict=True))
    return [(_bare(caller), _bare(callee)) for i, (caller, callee) in named if i not in mandatory]


def _mandatory(remarks: Sequence[bytes], callees: Sequence[bytes]) -> set[int]:
    """Remarks about calls that must be inlined, by number: nobody was asked about them."""
    found, others, last = defaultdict[bytes, list[int]](list), set[bytes](), -1
    features = [_FEATURE.findall(one) for one in remarks]
    for number, callee in enumerate(callees):
        is_repeated = last >= 0 and features[number] == features[last] and callee != callees[last]
        if is_repeated and _TAKEN.search(remarks[number]):
            found[callee].append(number)
        else:
            others.add(callee)
            last = number
    return {number for callee, numbers in found.items() if callee not in others for number in numbers}


def _documents(data: bytes) -> list[bytes]:
    """The documents of a stream, without their end marks; none of an empty one."""
    if not data:
        return []
    if not data.startswith(_START) or not data.endswith(_END):
        raise RemarkError("the compiler's remarks are cut short or not YAML")
    return data.split(_END)[:-1]


def _costs(function: bytes, entries: float, document: bytes) -> SpillCosts:
    values: dict[str, float] = {}
    for name, text in _ARGUMENT.findall(document):
        if name not in _FIELDS:
            raise RemarkError(f"the compiler's remarks have an unknown cost {name.decode()}")
        try:
            values[_FIELDS[name]] = int(text) if name.startswith(b"Num") else float(text) * entries
        except ValueError:
            raise RemarkError(f"the compiler's remarks give {text[:40]!r} as {name.decode()}") from None
    return SpillCosts(_bare(function).decode(errors="backslashreplace"), **values)  # type: ignore[arg-type]


def _bare(scalar: bytes) -> bytes:
    """A YAML scalar as LLVM writes function names: plain, or in single quotes that are doubled inside."""
    return scalar[1:-1].replace(b"''", b"'") if scalar.startswith(b"'") else scalar
