"""What two dumps of GCC tell about each elimination that its pass for partial redundancies on RTL performed.

The first is the pass's own (``-fdump-rtl-pre-details``, written by gcc/gcse.cc), one part for each function::

    ;; Function power (power, funcdef_no=4, ...)
    Expression hash table (15 buckets, 10 entries)
    Index 2 (hash value 10; max distance 0)
      (plus:DI (reg:DI 82 [ ivtmp.43 ])
        (const_int 4 [0x4]))
    ...
    PRE: redundant insn 114 (expression 2) in bb 25, reaching reg is 140
    PRE: edge (6,9), copy expression 2
    PRE: bb 8, insn 365, copy expression 2 in insn 53 to reg 140
    PRE GCSE of power, 55 basic blocks, 10080 bytes needed, 13 substs, 9 insns created

Numbers of blocks are those before the pass, which then renumbers them. So blocks are read from the dump of the pass
before, constant propagation (``-fdump-rtl-cprop1-blocks-details``), which shows them as they are when it has ended::

    ;; basic block 4, loop depth 1, count 906139993 (estimated locally), maybe hot
    ;;  pred:       3 [94.5% (guessed)]  count:906139993 (estimated locally)
    ;; lr  in         6 [bp] 7 [sp] 84 92
    (insn 21 20 22 4 (set ...

So all figures describe the function as it is when the pass decides. The dumps are read as text, a function at a time,
in time linear in their length.
"""

import re
from collections import Counter as Multiset
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np

from mlgo.errors import RemarkError
from mlgo.jit.gcc.counters import DUMP_LINE
from mlgo.jit.gcc.features import FEATURES, KINDS, MODE_CLASSES

_OPERATORS: Final = {
    "add": "plus minus neg ss_plus us_plus ss_minus us_minus",
    "multiply": "mult fma smul_highpart umul_highpart",
    "divide": "div udiv mod umod sqrt",
    "shift": "ashift ashiftrt lshiftrt rotate rotatert",
    "convert": "sign_extend zero_extend truncate float_extend float_truncate float fix unsigned_float unsigned_fix"
    " subreg vec_duplicate vec_concat vec_select ss_truncate us_truncate",
    "compare": "compare eq ne lt le gt ge ltu leu gtu geu unordered ordered uneq unlt unle ungt unge ltgt"
    " smin smax umin umax if_then_else",
    "logical": "and ior xor not",
}
_KIND: Final = {name: KINDS.index(kind) for kind, names in _OPERATORS.items() for name in names.split()}
_WIDENING: Final = ("sign_extend", "zero_extend", "float_extend")
_INTEGER_BYTES: Final = {"BI": 1, "QI": 1, "HI": 2, "SI": 4, "DI": 8, "TI": 16, "OI": 32, "XI": 64}
_FLOAT_BYTES: Final = {"HF": 2, "BF": 2, "SF": 4, "DF": 8, "XF": 16, "TF": 16}
_LARGEST_FREQUENCY: Final = 10**9
_ENTRY: Final = 0
"""Number of the entry block, which the dump names instead of printing it."""

_FUNCTION = re.compile(r"^;; Function .*\((\S+), funcdef_no=\d+", re.MULTILINE)
_EXPRESSION = re.compile(r"^Index (\d+) \(hash value \d+; max distance \d+\)\n((?: .*\n)+)", re.MULTILINE)
_REDUNDANT = re.compile(rf"^{DUMP_LINE}(\d+) \(expression (\d+)\) in bb (\d+), reaching reg is \d+$", re.MULTILINE)
_EDGE = re.compile(r"^PRE: edge \((\d+),(\d+)\), copy expression (\d+)$", re.MULTILINE)
_BLOCK_END = re.compile(r"^PRE/HOIST: end of bb (\d+), insn \d+, copying expression (\d+) to reg \d+$", re.MULTILINE)
_COPY = re.compile(r"^PRE: bb \d+, insn \d+, copy expression (\d+) in insn \d+ to reg \d+$", re.MULTILINE)
_DONE = re.compile(
    r"^PRE GCSE of .*, \d+ basic blocks, \d+ bytes needed, (\d+) substs, \d+ insns created$", re.MULTILINE
)
_BLOCK = re.compile(r"^;; basic block (?=\d+, )", re.MULTILINE)
_BLOCK_HEAD = re.compile(r"(\d+), loop depth (\d+)(?:, count (\d+))?")
_PREDECESSORS = re.compile(r"^;;  pred:(.*\n(?:;;   {3,}.*\n)*)", re.MULTILINE)
_SUCCESSORS = re.compile(r"^;;  succ:(.*\n(?:;;   {3,}.*\n)*)(?=;; lr  out)", re.MULTILINE)
_SUCCESSOR = re.compile(r"^(?:;;)? +(\d+) ", re.MULTILINE)
_PREDECESSOR = re.compile(r"^(?:;;)? +(ENTRY|\d+)\b(?:.*?\bcount:(\d+))?", re.MULTILINE)
_LIVE_IN = re.compile(r"^;; lr  in(.*)$", re.MULTILINE)
_HARD = re.compile(r"\d+ \[[^\]]*\]")
_INSN = re.compile(r"^\((call_insn|insn|jump_insn)[^ ]* (\d+) ", re.MULTILINE)
_PSEUDO = re.compile(r"\(reg[^: ]*:\w+ (\d+)(?: \[|\))")
_TOKEN = re.compile(r'"(?:[^"\\]|\\.)*"|[\[\]()]|[^\[\]()"\s]+')


@dataclass(frozen=True)
class Candidate:
    """One elimination that the pass can perform or not.

    Attributes:
        function: assembler name.
        insn: number of the redundant instruction in the function.
        expression: number of what it computes in the function.
        block: number of its block.
        rtl: the expression, on one line.
    """

    function: str
    insn: int
    expression: int
    block: int
    rtl: str


@dataclass(frozen=True)
class Candidates:
    """Eliminations of a translation unit in the order of the debug counter.

    Attributes:
        candidates: position i has the counter's value i + 1.
        features: int64 [num_candidates, num_features], columns as in `FEATURES`.
    """

    candidates: tuple[Candidate, ...]
    features: np.ndarray


def read_candidates(decided: str, before: str, num_performed: int) -> Candidates:
    """Read what a compile performed.

    Args:
        decided: the whole dump of the pass for a translation unit.
        before: the whole dump of the pass before.
        num_performed: eliminations that were allowed, to know that the dumps are whole.

    Returns:
        The eliminations that were performed. All figures count only these, so only those of a compile in which nothing
        was denied describe the choice.

    Raises:
        RemarkError: cut short, or no such dumps.
    """
    blocks = dict(_functions(before))
    candidates: list[Candidate] = []
    rows: list[list[int]] = []
    for name, text in _functions(decided):
        if DUMP_LINE not in text:
            continue
        function = _Function(name, text, blocks.get(name, ""))
        candidates += function.candidates
        rows += function.rows()
    if len(candidates) != num_performed:
        raise RemarkError(
            f"the compiler's dump names {len(candidates)} eliminations where {num_performed} were performed: it is cut "
            "short, or of another compile or release"
        )
    return Candidates(tuple(candidates), np.array(rows, np.int64).reshape(len(rows), len(FEATURES)))


def _functions(dump: str) -> Iterator[tuple[str, str]]:
    """Assembler name and text of each function of a dump."""
    starts = list(_FUNCTION.finditer(dump))
    bounds = [*(start.start() for start in starts), len(dump)]
    for start, end in zip(starts, bounds[1:], strict=True):
        yield start[1], dump[start.end() : end]


@dataclass(frozen=True)
class _Block:
    """A block before the pass; executions are GCC's counts, of no unit, 0 where it gives none."""

    loop_depth: int
    count: int
    predecessors: dict[str, int]
    successors: frozenset[int]
    insns: frozenset[int]
    num_calls: int
    num_live_in: int
    pseudos: frozenset[str]

    @classmethod
    def read(cls, head: re.Match[str], text: str, after: str) -> "_Block":
        """Parse the text from one block's number to the next block; its successors are given apart."""
        edges, live_in, insns = _PREDECESSORS.search(text), _LIVE_IN.search(text), _INSN.findall(text)
        return cls(
            loop_depth=int(head[2]),
            count=int(head[3] or 0),
            predecessors={name: int(count or 0) for name, count in _PREDECESSOR.findall(edges[1] if edges else "")},
            successors=frozenset(map(int, _SUCCESSOR.findall(after))),
            insns=frozenset(int(number) for _, number in insns),
            num_calls=sum(kind == "call_insn" for kind, _ in insns),
            num_live_in=len(_HARD.sub("", live_in[1]).split()) if live_in else 0,
            pseudos=frozenset(_PSEUDO.findall(text)),
        )


class _Function:
    """The parts of the two dumps about one function with eliminations."""

    def __init__(self, name: str, decided: str, before: str) -> None:
        done = _DONE.search(decided)
        if done is None:
            raise RemarkError(f"the compiler's dump of {name} is cut short before the end of the pass")
        decided = decided[: done.start()]
        expressions = {int(number): " ".join(rtl.split()) for number, rtl in _EXPRESSION.findall(decided)}
        self.candidates = [
            Candidate(name, int(insn), int(expression), int(block), expressions.get(int(expression), ""))
            for insn, expression, block in _REDUNDANT.findall(decided)
        ]
        self._name, self._blocks = name, dict(_blocks(before))
        # Each block can be reached, so if any is missing, so is the successor of one that is there.
        for number in set().union(*(block.successors for block in self._blocks.values())):
            self._block(number)
        self._edges: dict[int, list[tuple[int, int | None]]] = {}
        for a, b, expression in _EDGE.findall(decided):
            self._edges.setdefault(int(expression), []).append((int(a), int(b)))
        # On an edge where nothing can be inserted, it goes to the end of the edge's source.
        for a, expression in _BLOCK_END.findall(decided):
            self._edges.setdefault(int(expression), []).append((int(a), None))
        self._copies = Multiset(int(expression) for expression in _COPY.findall(decided))
        if len(self.candidates) != int(done[1]) or not all(candidate.rtl for candidate in self.candidates):
            raise RemarkError(f"the compiler's dump of {name} contradicts itself, or is of another release")
        for candidate in self.candidates:
            if candidate.insn not in self._block(candidate.block).insns:
                raise self._cut_short(f"no instruction {candidate.insn} in block {candidate.block}")
        self._entry_count = max(block.predecessors.get("ENTRY", 0) for block in self._blocks.values())

    def rows(self) -> Iterator[list[int]]:
        """Features of each elimination, in order."""
        blocks = self._blocks.values()
        redundant = Multiset(candidate.expression for candidate in self.candidates)
        shapes = {candidate.expression: expression_shape(candidate.rtl) for candidate in self.candidates}
        insertions = {expression: self._insertions(expression) for expression in redundant}
        total: Multiset[int] = Multiset()
        for candidate in self.candidates:
            total[candidate.expression] += self._frequency(self._block(candidate.block).count)
        whole = [
            len(blocks),
            sum(len(block.insns) for block in blocks),
            sum(block.num_calls for block in blocks),
            len(frozenset().union(*(block.pseudos for block in blocks))),
            max(block.num_live_in for block in blocks),
            len(self.candidates),
        ]
        for position, candidate in enumerate(self.candidates):
            expression, block = candidate.expression, self._block(candidate.block)
            depths, frequencies = insertions[expression]
            yield [
                *shapes[expression],
                redundant[expression],
                len(frequencies),
                self._copies[expression],
                block.loop_depth,
                max(depths, default=0),
                self._frequency(block.count),
                max(frequencies, default=0),
                min(sum(frequencies), _LARGEST_FREQUENCY),
                min(total[expression], _LARGEST_FREQUENCY),
                len(block.insns),
                block.num_calls,
                len(block.pseudos),
                block.num_live_in,
                *whole,
                position,
            ]

    def _insertions(self, expression: int) -> tuple[list[int], list[int]]:
        """Loop depths of the sources, and frequencies, of the edges on which an expression is inserted."""
        edges = self._edges.get(expression, [])
        depths = [self._block(a).loop_depth if a != _ENTRY else 0 for a, _ in edges]
        return depths, [self._frequency(self._edge_count(a, b)) for a, b in edges]

    def _edge_count(self, a: int, b: int | None) -> int:
        if b is None:
            return self._block(a).count
        count = self._block(b).predecessors.get("ENTRY" if a == _ENTRY else str(a))
        if count is None:
            raise self._cut_short(f"no edge from {a} to {b}")
        return count

    def _block(self, number: int) -> _Block:
        block = self._blocks.get(number)
        if block is None:
            raise self._cut_short(f"no block {number}")
        return block

    def _cut_short(self, found: str) -> RemarkError:
        return RemarkError(
            f"the compiler's dump of the blocks of {self._name} has {found}: it is cut short, or of another compile or "
            "release"
        )

    def _frequency(self, count: int) -> int:
        """Executions per 1000 calls of the function, rounded; 0 where GCC expects no call."""
        entry = self._entry_count
        return min((1000 * count + entry // 2) // entry, _LARGEST_FREQUENCY) if entry else 0


def _blocks(text: str) -> Iterator[tuple[int, _Block]]:
    for part in _BLOCK.split(text)[1:]:
        head, after = _BLOCK_HEAD.match(part), _SUCCESSORS.search(part)
        if head is not None and after is not None:  # else it is cut short
            yield int(head[1]), _Block.read(head, part, after[1])


def expression_shape(rtl: str) -> list[int]:
    """The first seven features, which an expression has by itself.

    Args:
        rtl: as GCC prints it. What stands in brackets after an operand is a comment or an attribute; in brackets right
            after the name of a node stands a vector of operands.
    """
    heads: list[str] = []
    attributes, before = 0, ""
    for token in _TOKEN.findall(rtl):
        if attributes:
            attributes += (token == "[") - (token == "]")
        elif token == "[" and (not heads or before != heads[-1]):
            attributes = 1
        elif before == "(" and token[0] not in '()[]"':
            heads.append(token)
        before = token
    names = [head.split(":")[0].split("/") for head in heads]
    codes = [name[0] for name in names]
    is_load = "mem" in codes
    # A symbol with the flag /u is an address in the constant pool (CONSTANT_POOL_ADDRESS_P in gcc/rtl.h).
    is_constant = is_load and any(name[0] == "symbol_ref" and "u" in name[1:] for name in names)
    return [
        _kind(codes, is_constant),
        *_mode(heads[0].partition(":")[2] if heads else ""),
        len(heads),
        codes.count("reg"),
        int(is_load),
        int(is_constant),
    ]


def _kind(codes: Sequence[str], is_constant_load: bool) -> int:
    if not codes:
        return 0
    outer = codes[1] if codes[0] in _WIDENING and len(codes) > 1 else codes[0]
    if outer == "mem":
        return KINDS.index("constant load" if is_constant_load else "load")
    return _KIND.get(codes[0], 0)


def _mode(mode: str) -> tuple[int, int]:
    """Class and bytes of a machine mode, such as ``SI``, ``DF`` or ``V4SF``."""
    vector = re.fullmatch(r"V(\d+)(\w+)", mode)
    if vector is not None:
        return MODE_CLASSES.index("vector"), int(vector[1]) * _mode(vector[2])[1]
    if mode in _INTEGER_BYTES:
        return MODE_CLASSES.index("integer"), _INTEGER_BYTES[mode]
    if mode in _FLOAT_BYTES:
        return MODE_CLASSES.index("float"), _FLOAT_BYTES[mode]
    return 0, 0
