"""Reading dumps: two by hand with all figures worked out, and real ones cut anywhere."""

import time

import numpy as np
import pytest

from mlgo.errors import RemarkError
from mlgo.jit.gcc import compile as compiling
from mlgo.jit.gcc.compile import GccSettings
from mlgo.jit.gcc.features import FEATURES, KINDS, MODE_CLASSES
from mlgo.jit.gcc.rtl import expression_shape, read_candidates
from tests.jit.gcc.conftest import compile_file

# Entry -> 2 -> 3 -> 4 -> 3 (a loop of 3 and 4), 3 -> 5. Expression 0 is redundant in 4 and 5, and is inserted on the
# edge from 2 to 3; expression 1 is redundant in 5, inserted on the edge from the entry and at the end of 4.
DECIDED = """
;; Function ns::sum (_ZN2ns3sumEi, funcdef_no=3, decl_uid=1, cgraph_uid=2, symbol_order=3)

df_analyze called
Expression hash table (5 buckets, 2 entries)
Index 0 (hash value 2; max distance 0)
  (plus:DI (mult:DI (reg:DI 90 [ i ])
        (const_int 8 [0x8]))
    (reg/f:DI 91 [ table[i] ]))
Index 1 (hash value 0; max distance 0)
  (mem/u/c:V2DF (symbol_ref/u:DI ("*.LC(0") [flags 0x2]) [0  S16 A128])

scanning new insn with uid = 60.
deleting insn with uid = 41.
PRE: redundant insn 41 (expression 0) in bb 4, reaching reg is 95
PRE: redundant insn 51 (expression 0) in bb 5, reaching reg is 95
PRE: redundant insn 52 (expression 1) in bb 5, reaching reg is 96
PRE: edge (2,3), copy expression 0
PRE: edge (0,2), copy expression 1
PRE/HOIST: end of bb 4, insn 70, copying expression 1 to reg 96
PRE: bb 3, insn 71, copy expression 0 in insn 31 to reg 95
PRE GCSE of sum, 7 basic blocks, 300 bytes needed, 3 substs, 4 insns created

;; Function quiet (quiet, funcdef_no=4, decl_uid=1, cgraph_uid=2, symbol_order=3) (executed once)

PRE GCSE of quiet, 3 basic blocks, 300 bytes needed, 0 substs, 0 insns created
"""
BEFORE = """
;; Function ns::sum (_ZN2ns3sumEi, funcdef_no=3, decl_uid=1, cgraph_uid=2, symbol_order=3)

;; basic block 2, loop depth 0, count 1000 (estimated locally), maybe hot
;;  prev block 0, next block 3, flags: (REACHABLE, RTL)
;;  pred:       ENTRY [always]  count:1000 (estimated locally) (FALLTHRU)
;; lr  in  \t 5 [di] 7 [sp] 8 [st(1)] 20 [xmm0]
(note 1 0 20 2 [bb 2] NOTE_INSN_BASIC_BLOCK)
(insn 20 1 21 2 (set (reg/v:DI 90 [ i ])
        (reg:DI 5 di [ i ])) "a file.c":3:1 80 {*movdi_internal}
     (nil))
(call_insn/i 21 20 30 2 (call (mem:QI (symbol_ref:DI ("f"))) (const_int 0 [0])) (nil))
;;  succ:       3 [always]  count:1000 (estimated locally) (FALLTHRU)
;; lr  out \t 7 [sp] 90 91

;; basic block 3, loop depth 1, count 8500 (estimated locally), maybe hot
;;  pred:       2 [always]  count:1000 (estimated locally) (FALLTHRU)
;;              4 [always]  count:7500 (estimated locally) (DFS_BACK)
;; lr  in  \t 7 [sp] 90 91
(insn 31 21 32 3 (set (reg:DI 92)
        (plus:DI (reg:DI 90 [ i ]) (reg/f:DI 91))) (nil))
(jump_insn 32 31 41 3 (set (pc) (label_ref 5)) (nil))
;;  succ:       4 [88.2% (guessed)]  count:7500 (estimated locally)
;;              5 [11.8% (guessed)]  count:1000 (estimated locally)
;; lr  out \t 7 [sp] 90 91 92

;; basic block 4, loop depth 1, count 7500 (estimated locally), maybe hot
;;  pred:       3 [88.2% (guessed)]  count:7500 (estimated locally)
;; lr  in  \t 7 [sp] 90 91 92
(insn 41 32 51 4 (set (reg:DI 93)
        (reg:DI 92)) (nil))
;;  succ:       3 [always]  count:7500 (estimated locally)
;; lr  out \t 7 [sp] 90 91

;; basic block 5, loop depth 0, count 1000 (estimated locally), maybe hot
;;  pred:       3 [11.8% (guessed)]  count:1000 (estimated locally)
;; lr  in  \t 7 [sp] 91
(insn 51 41 52 5 (set (reg:DI 93) (reg/f:DI 91)) (nil))
(insn 52 51 0 5 (set (reg:V2DF 94) (mem/u/c:V2DF (symbol_ref/u:DI ("*.LC(0")))) (nil))
;;  succ:       EXIT [always]  count:1000 (estimated locally) (FALLTHRU)
;; lr  out \t 7 [sp]
"""
ADD, CONSTANT = KINDS.index("add"), KINDS.index("constant load")
INTEGER, VECTOR = MODE_CLASSES.index("integer"), MODE_CLASSES.index("vector")
FUNCTION = [4, 7, 1, 5, 3, 3]  # blocks, instructions, calls, pseudos 90 to 94, live in, candidates
ROWS = [
    # kind, mode; nodes, registers; loads; redundant, inserted, copied; depths; frequencies; block; function; position
    [ADD, INTEGER, 8, 5, 2, 0, 0, 2, 1, 1, 1, 0, 7500, 1000, 1000, 8500, 1, 0, 2, 3, *FUNCTION, 0],
    [ADD, INTEGER, 8, 5, 2, 0, 0, 2, 1, 1, 0, 0, 1000, 1000, 1000, 8500, 2, 0, 3, 1, *FUNCTION, 1],
    [CONSTANT, VECTOR, 16, 2, 0, 1, 1, 1, 2, 0, 0, 1, 1000, 7500, 8500, 1000, 2, 0, 3, 1, *FUNCTION, 2],
]


def test_all_figures_by_hand():
    found = read_candidates(DECIDED, BEFORE, 3)
    names = [(one.function, one.insn, one.expression, one.block) for one in found.candidates]
    assert names == [("_ZN2ns3sumEi", 41, 0, 4), ("_ZN2ns3sumEi", 51, 0, 5), ("_ZN2ns3sumEi", 52, 1, 5)]
    address = "(plus:DI (mult:DI (reg:DI 90 [ i ]) (const_int 8 [0x8])) (reg/f:DI 91 [ table[i] ]))"
    assert found.candidates[0].rtl == address
    assert found.features.dtype == np.int64
    for row, expected in zip(found.features.tolist(), ROWS, strict=True):
        assert dict(zip(FEATURES, row, strict=True)) == dict(zip(FEATURES, expected, strict=True))


@pytest.mark.parametrize(
    ("rtl", "kind", "mode", "nodes", "registers", "loads"),
    [
        ("(mem:SI (reg:DI 82 [ x ]) [1 *_3(D)+0 S4 A32])", "load", ("integer", 4), 2, 1, (1, 0)),
        ("(zero_extend:SI (mem:QI (reg:DI 82) [0 a[i_1]+0 S1 A8]))", "load", ("integer", 4), 3, 1, (1, 0)),
        ('(float_extend:DF (mem/u/c:SF (symbol_ref/u:DI ("*.LC1"))))', "constant load", ("float", 8), 3, 0, (1, 1)),
        ('(mem/c:DF (symbol_ref:DI ("table") [flags 0x2] <var_decl # table>))', "load", ("float", 8), 2, 0, (1, 0)),
        ("(sign_extend:DI (reg/v:SI 111 [ at ]))", "convert", ("integer", 8), 2, 1, (0, 0)),
        ("(minus:V4SF (reg:V4SF 1) (reg:V4SF 2))", "add", ("vector", 16), 3, 2, (0, 0)),
        ("(mult:DF (reg:DF 1) (mem:DF (reg:DI 2)))", "multiply", ("float", 8), 4, 2, (1, 0)),
        ("(umod:SI (reg:SI 1) (reg:SI 2))", "divide", ("integer", 4), 3, 2, (0, 0)),
        ("(ashift:SI (reg:SI 1) (const_int 2 [0x2]))", "shift", ("integer", 4), 3, 1, (0, 0)),
        ("(xor:TI (reg:TI 1) (not:TI (reg:TI 2)))", "logical", ("integer", 16), 4, 2, (0, 0)),
        ("(compare:CCZ (reg:SI 1) (const_int 2 [0x2]))", "compare", ("other", 0), 3, 1, (0, 0)),
        ("(unspec:DI [ (reg:DI 1 [ a ]) (reg:DI 2) ] UNSPEC_X)", "other", ("integer", 8), 3, 2, (0, 0)),
    ],
)
def test_shapes_of_expressions(rtl, kind, mode, nodes, registers, loads):
    numbers = KINDS.index(kind), MODE_CLASSES.index(mode[0]), mode[1]
    assert expression_shape(rtl) == [*numbers, nodes, registers, *loads]


@pytest.mark.parametrize(
    ("decided", "before", "message"),
    [
        ("", "", "names 0 eliminations where 3 were performed"),
        ("some other text\n" * 100, BEFORE, "names 0 eliminations"),
        (DECIDED.replace("3 substs", "2 substs"), BEFORE, "contradicts itself"),
        (DECIDED.replace("Index 1 ", "Index 7 "), BEFORE, "contradicts itself"),
        (DECIDED.replace("PRE GCSE of sum", "PRE of sum"), BEFORE, "cut short before the end of the pass"),
        (DECIDED.replace("insn 41 (", "insn 49 ("), BEFORE, "no instruction 49 in block 4"),
        (DECIDED.replace("edge (2,3)", "edge (2,4)"), BEFORE, "no edge from 2 to 4"),
        (DECIDED.replace("end of bb 4", "end of bb 9"), BEFORE, "no block 9"),
        (DECIDED, "", "no block 4"),
        (DECIDED, BEFORE.replace(";; basic block 3,", ";; basic 3,"), "no block 3"),
        (DECIDED, BEFORE[: BEFORE.rindex(";;  succ")], "no block 5"),
    ],
)
def test_foreign_and_broken_dumps(decided, before, message):
    with pytest.raises(RemarkError, match=message):
        read_candidates(decided, before, 3)


@pytest.fixture
def dumps(gcc, example, monkeypatch):
    """The two dumps of the example, as GCC wrote them."""
    found = []

    def keep(decided, before, num_performed):
        found.extend((decided, before))
        return read_candidates(decided, before, num_performed)

    monkeypatch.setattr(compiling, "read_candidates", keep)
    compile_file(gcc, example, "c", None, GccSettings(), want_candidates=True)
    return found


def test_real_dumps_cut_anywhere(dumps):
    """Nothing is read wrongly: either it is an error, or what is lost did not matter."""
    decided, before = dumps
    whole, num_errors = read_candidates(decided, before, 3), 0
    cuts = [(decided[:end], before) for end in range(0, len(decided), 97)]
    cuts += [(decided, before[:end]) for end in range(0, len(before), 97)]
    for cut in cuts:
        try:
            found = read_candidates(*cut, 3)
        except RemarkError:
            num_errors += 1
        else:
            assert found.candidates == whole.candidates
            assert np.array_equal(found.features, whole.features)
    assert num_errors > len(cuts) / 4


def test_the_time_grows_with_the_length():
    def seconds(copies):
        names = [f"f{number}" for number in range(copies)]
        decided = "".join(DECIDED.replace("_ZN2ns3sumEi", name) for name in names)
        before = "".join(BEFORE.replace("_ZN2ns3sumEi", name) for name in names)
        start = time.process_time()
        assert len(read_candidates(decided, before, 3 * copies).candidates) == 3 * copies
        return time.process_time() - start

    short = min(seconds(250) for _ in range(3))
    assert min(seconds(1000) for _ in range(3)) < 8 * short  # 4 times the length
