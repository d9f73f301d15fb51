"""Hashes of functions: equal up to numbering within a module, and only that."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from mlgo.corpus.build import ir_of
from mlgo.corpus.functions import SKETCH, Function, Reader, hash_functions, sketches

MODULE = b"""; ModuleID = 'a.bc'
source_filename = "a.c"
target triple = "x86_64-unknown-linux-gnu"

@.str = private unnamed_addr constant [2 x i8] c"a\\00", align 1

; Function Attrs: nounwind
define i32 @first(i32 noundef %0) #0 {
  %2 = alloca i32, align 4
  store i32 %0, ptr %2, align 4, !tbaa !5
  %3 = load i32, ptr %2, align 4, !tbaa !5
  %4 = call i32 @puts(ptr noundef @.str) #2
  br label %5

5:                                                ; preds = %1
  ret i32 %3
}

declare i32 @puts(ptr) #1

define void @second() {
  ret void
}
"""


def body_hashes(ir: bytes) -> list[int]:
    return hash_functions(ir).function_hashes.tolist()


def test_instructions_are_counted_by_hand():
    bodies = hash_functions(MODULE)
    assert sorted(bodies.function_sizes.tolist()) == [1, 6]
    assert bodies.function_hashes.dtype == np.uint64
    assert bodies.function_sizes.dtype == np.int32
    assert bodies.function_hashes.tolist() == sorted(bodies.function_hashes.tolist())
    alone = hash_functions(MODULE[MODULE.index(b"define void") :])
    sizes = dict(zip(bodies.function_hashes, bodies.function_sizes, strict=True))
    assert sizes[alone.function_hashes[0]] == 1  # sizes are in hash order
    nothing = hash_functions(b"@x = global i32 0\n")
    assert (len(nothing.function_hashes), len(nothing.function_sizes), len(nothing.ir_sha256)) == (0, 0, 64)
    lines = (
        b"define i32 @f(i32 %0) {\n  switch i32 %0, label %4 [\n    i32 1, label %2\n    i32 2, label %3\n  ]\n\n"
        b"2:                                                ; preds = %1\n  ret i32 5\n\n"
        b"3:\n  ret i32 6\n\n4:\n  ret i32 7\n}\n"
    )
    assert hash_functions(lines).function_sizes.tolist() == [4]  # one switch, three ret


@pytest.mark.parametrize(
    ("old", "new", "same"),
    [
        (b"!tbaa !5", b"!tbaa !77", True),
        (b"@.str)", b"@.str.12)", True),
        (b"#2", b"#9", True),
        (b"@first", b"@renamed", True),
        (b"a.c", b"other.c", True),
        (b"ret i32 %3", b"ret i32 %4", False),
        (b"ret i32 %3", b"ret i32 7", False),
        (b"load i32", b"load volatile i32", False),
        (b"@puts(ptr noundef", b"@fputs(ptr noundef", False),
        (b"align 4, !tbaa !5\n  %3", b"align 8, !tbaa !5\n  %3", False),
    ],
)
def test_numbering_does_not_matter_and_changes_do(old, new, same):
    assert old in MODULE
    assert (body_hashes(MODULE.replace(old, new)) == body_hashes(MODULE)) == same


def test_names_of_modules_are_not_hashed_but_all_else_is_and_so_are_names_of_functions():
    renamed = MODULE.replace(b"a.bc", b"b.bc").replace(b'"a.c"', b'"b.c"')
    assert hash_functions(renamed).ir_sha256 == hash_functions(MODULE).ir_sha256
    assert hash_functions(MODULE.replace(b'c"a\\00"', b'c"b\\00"')).ir_sha256 != hash_functions(MODULE).ir_sha256
    ir = b"define void @f() {\n  call void @%b()\n  ret void\n}\n"
    assert body_hashes(ir % b"anon_open") != body_hashes(ir % b"anon_close")  # not as private constants are


SHARED = """
struct pair { int a; int b; };
static int helper(struct pair *p, int k) { puts("shared"); return p->a * k + p->b; }
int entry(int x) { struct pair p = {x, CONSTANT}; static const char *t[] = {"u", "v"}; puts(t[x & 1]);
                   for (int i = 0; i < x; i++) p.a += i; return helper(&p, x); }
"""


@pytest.fixture
def hashes(bitcode, front_end):
    return lambda text, language="c": hash_functions(ir_of(front_end, bitcode(text, language)))


def test_the_same_function_in_two_real_modules(hashes):
    shared = "int puts(const char *);\n" + SHARED.replace("CONSTANT", "41")
    before = """
    double other(double *p, long n) { double s = 0; for (long i = 0; i < n; i++) s += p[i]; return s; }
    int puts(const char *); void noise(void) { puts("one"); puts("two"); puts("three"); }
    static struct { int q; } box; int peek(void) { return box.q; }
    """
    alone, again, together = hashes(shared), hashes(shared), hashes(before + shared)
    assert (alone.ir_sha256, alone.function_hashes.tolist()) == (again.ir_sha256, again.function_hashes.tolist())
    assert len(alone.function_hashes) == 2
    assert len(together.function_hashes) == 5
    assert set(alone.function_hashes.tolist()) < set(together.function_hashes.tolist())
    assert alone.ir_sha256 != together.ir_sha256
    changed = hashes(shared.replace("41", "42"))
    helper = set(alone.function_hashes.tolist()) & set(changed.function_hashes.tolist())
    assert len(helper) == 1  # it is the same, entry is not


def test_numbered_template_types_do_not_matter(hashes):
    box = "namespace n { template <class T> struct Box { T a, b; T sum() const { return a + b; } }; }\n"
    use = "int entry(int x) { n::Box<short> s; s.a = x; s.b = 2; return s.sum() + (int)sizeof(n::Box<short>); }\n"
    noise = "long other(long x) { n::Box<long> l; l.a = x; l.b = 3; return l.sum(); }\n"
    alone, together = hashes(box + use, "c++"), hashes(box + noise + use, "c++")
    assert set(alone.function_hashes.tolist()) < set(together.function_hashes.tolist())


REGISTERS = [f"%{number}" for number in range(4)]
VALUES = [*REGISTERS, *map(str, range(-2, 40))]
INSTRUCTIONS = st.sampled_from(
    ["add nsw i32", "mul i32", "xor i32", "icmp eq i32", "store i32", "sdiv i32", "and i32", "shl i32", "or i32"]
)
OPERANDS = st.tuples(st.sampled_from(VALUES), st.sampled_from(VALUES))
BODIES = st.lists(st.tuples(INSTRUCTIONS, OPERANDS, st.integers(1, 9)), min_size=1, max_size=60)


def text_of(bodies, register=lambda name: name, constant=lambda text: text, metadata=lambda number: number):
    text = []
    for number, body in enumerate(bodies):
        lines = [
            f"  {register(f'%{at + 4}')} = {what} "
            + ", ".join(register(one) if one.startswith("%") else constant(one) for one in operands)
            + f", !tbaa !{metadata(tag)}"
            for at, (what, operands, tag) in enumerate(body)
        ]
        text += [f"define i32 @f{number}() #0 {{", *lines, f"  ret i32 {constant('0')}", "}", ""]
    return "\n".join(text).encode()


def read(ir: bytes):
    return {one.name: one for one in Reader().functions(ir)}


@given(st.lists(BODIES, min_size=1, max_size=4), st.randoms(use_true_random=False))
def test_names_of_registers_and_numbers_of_metadata_change_nothing(bodies, random):
    names = {f"%{number}": f"%v{number}.{random.randrange(1000)}" for number in range(100)}
    before, after = read(text_of(bodies)), read(text_of(bodies, names.get, metadata=lambda tag: 7 * tag + 300))
    for name, one in before.items():
        assert (one.body, one.size) == (after[name].body, after[name].size)
        assert np.array_equal(one.words, after[name].words)


@given(st.lists(BODIES, min_size=1, max_size=4), st.integers(1, 1000))
def test_constants_change_the_hash_but_not_the_words(bodies, added):
    before, after = read(text_of(bodies)), read(text_of(bodies, constant=lambda text: str(int(text) + added)))
    for name, one in before.items():
        assert one.body != after[name].body  # at least the returned constant is another one
        assert np.array_equal(one.words, after[name].words)


@given(st.lists(BODIES, min_size=2, max_size=5), st.randoms(use_true_random=False))
def test_the_order_of_functions_changes_nothing(bodies, random):
    parts = text_of(bodies).split(b"define")[1:]
    random.shuffle(parts)
    shuffled, plain = b"define" + b"define".join(parts), text_of(bodies)
    found, expected = ({name: one.body for name, one in read(ir).items()} for ir in (shuffled, plain))
    assert found == expected
    assert body_hashes(shuffled) == body_hashes(plain)


@given(BODIES, st.data())
def test_another_opcode_is_another_hash(body, data):
    at = data.draw(st.integers(0, len(body) - 1))
    what, operands, tag = body[at]
    other = data.draw(INSTRUCTIONS.filter(lambda one: one != what))
    changed = [*body[:at], (other, operands, tag), *body[at + 1 :]]
    (one,), (two,) = read(text_of([body])).values(), read(text_of([changed])).values()
    assert one.body != two.body
    assert not np.array_equal(one.words, two.words)


@given(BODIES, st.data())
def test_another_flow_of_values_is_another_hash(body, data):
    """Swapping the operands of an instruction changes the hash, although each register keeps its place in the text."""
    at = data.draw(st.integers(0, len(body) - 1))
    what, (left, right), tag = body[at]
    changed = [*body[:at], (what, (right, left), tag), *body[at + 1 :]]
    (one,), (two,) = read(text_of([body])).values(), read(text_of([changed])).values()
    renamed = left.startswith("%") and right.startswith("%")  # both first used here: the same up to their names
    assert (one.body == two.body) == (left == right) or renamed
    if left.startswith("%") == right.startswith("%"):
        assert np.array_equal(one.words, two.words)


def test_words_of_a_body_by_hand():
    one = b"  %2 = load i32, ptr %0, align 4\n  store i32 7, ptr @x, align 4\n  ret void\n"
    same = b"  %b = load i32, ptr %a, align 16\n  store i32 -1, ptr @table, align 4\n  ret void\n"
    other = b"  %2 = load i64, ptr %0, align 4\n  store i32 7, ptr @x, align 4\n  ret void\n"
    first, second, third = (
        read(b"define void @f(ptr %0) {\n" + body + b"}\n")["f"].words.tolist() for body in (one, same, other)
    )
    assert len(first) == 3
    assert first == second
    assert [a == b for a, b in zip(first, third, strict=True)] == [False, True, True]


def test_labels_are_registers():
    blocks = b"A:  ; preds = %1\n  ret void\n\nB:\n  ret void\n}\n"
    ir = b"define void @f(i1 %0) {\n  br i1 %0, label %A, label %B\n\n" + blocks
    assert body_hashes(ir) == body_hashes(ir.replace(b"A", b"2").replace(b"B", b"3").replace(b"%1", b"%7"))
    assert body_hashes(ir) != body_hashes(ir.replace(b"label %A, label %B", b"label %B, label %B"))


@given(st.integers(0, 60), st.integers(0, 60), st.integers(1, 60))
def test_sketches_estimate_the_share_of_common_sequences(before, after, common):
    """Bodies of lines that are all different: their sequences of three lines are known."""

    def function(words):
        return Function("f", 0, len(words), np.array(words, np.uint64) * np.uint64(0x9E3779B97F4A7C15))

    middle = range(1000, 1000 + common + 20)
    one = function([*range(before), *middle])
    two = function([*middle, *range(2000, 2000 + after)])
    sets = [{tuple(words[at : at + 3]) for at in range(len(words) - 2)} for words in (one.words, two.words)]
    jaccard = len(sets[0] & sets[1]) / len(sets[0] | sets[1])
    first, second = sketches([one, two])
    assert abs((first == second).mean() - jaccard) < 5 * 0.5 / SKETCH**0.5  # five standard errors at the most
