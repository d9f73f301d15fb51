"""Hashes of functions: equal up to numbering within a module, and only that."""

import numpy as np
import pytest

from mlgo.corpus.functions import hash_functions

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
    return hash_functions(ir).hashes.tolist()


def test_counts_by_hand():
    bodies = hash_functions(MODULE)
    assert sorted(bodies.sizes.tolist()) == [1, 6]
    assert bodies.hashes.dtype == np.uint64
    assert bodies.sizes.dtype == np.int32
    assert bodies.hashes.tolist() == sorted(bodies.hashes.tolist())
    alone = hash_functions(MODULE[MODULE.index(b"define void") :])
    assert bodies.sizes.tolist()[bodies.hashes.tolist().index(alone.hashes[0])] == 1  # sizes are in hash order


def test_a_module_without_functions():
    bodies = hash_functions(b"@x = global i32 0\n")
    assert len(bodies.hashes) == len(bodies.sizes) == 0
    assert len(bodies.module_hash) == 64


@pytest.mark.parametrize(
    ("old", "new"),
    [
        (b"!tbaa !5", b"!tbaa !77"),
        (b"@.str)", b"@.str.12)"),
        (b"#2", b"#9"),
        (b"@first", b"@renamed"),
        (b"a.c", b"other.c"),
    ],
)
def test_numbering_does_not_matter(old, new):
    assert old in MODULE
    assert body_hashes(MODULE.replace(old, new)) == body_hashes(MODULE)


@pytest.mark.parametrize(
    ("old", "new"),
    [
        (b"ret i32 %3", b"ret i32 %4"),
        (b"ret i32 %3", b"ret i32 7"),
        (b"load i32", b"load volatile i32"),
        (b"@puts(ptr noundef", b"@fputs(ptr noundef"),
        (b"align 4, !tbaa !5\n  %3", b"align 8, !tbaa !5\n  %3"),
    ],
)
def test_changes_matter(old, new):
    assert old in MODULE
    assert body_hashes(MODULE.replace(old, new)) != body_hashes(MODULE)


def test_the_modules_own_name_is_not_hashed_but_all_else_is():
    renamed = MODULE.replace(b"a.bc", b"b.bc").replace(b'"a.c"', b'"b.c"')
    assert hash_functions(renamed).module_hash == hash_functions(MODULE).module_hash
    assert hash_functions(MODULE.replace(b'c"a\\00"', b'c"b\\00"')).module_hash != hash_functions(MODULE).module_hash


def test_user_functions_that_begin_like_private_constants_are_not_the_same():
    ir = b"define void @f() {\n  call void @%b()\n  ret void\n}\n"
    assert body_hashes(ir % b"anon_open") != body_hashes(ir % b"anon_close")


def test_instructions_are_counted_not_lines():
    ir = (
        b"define i32 @f(i32 %0) {\n  switch i32 %0, label %4 [\n    i32 1, label %2\n    i32 2, label %3\n  ]\n\n"
        b"2:                                                ; preds = %1\n  ret i32 5\n\n"
        b"3:\n  ret i32 6\n\n4:\n  ret i32 7\n}\n"
    )
    assert hash_functions(ir).sizes.tolist() == [4]  # one switch, three ret


SHARED = """
struct pair { int a; int b; };
static int helper(struct pair *p, int k) { puts("shared"); return p->a * k + p->b; }
int entry(int x) { struct pair p = {x, CONSTANT}; static const char *t[] = {"u", "v"}; puts(t[x & 1]);
                   for (int i = 0; i < x; i++) p.a += i; return helper(&p, x); }
"""


@pytest.fixture
def hashes(bitcode, front_end, tmp_path):
    def go(text: str, language: str = "c"):
        front_end.print_ir(bitcode(text, language), tmp_path / "m.ll")
        return hash_functions((tmp_path / "m.ll").read_bytes())

    return go


def test_the_same_function_in_two_real_modules(hashes):
    shared = "int puts(const char *);\n" + SHARED.replace("CONSTANT", "41")
    before = """
    double other(double *p, long n) { double s = 0; for (long i = 0; i < n; i++) s += p[i]; return s; }
    int puts(const char *); void noise(void) { puts("one"); puts("two"); puts("three"); }
    static struct { int q; } box; int peek(void) { return box.q; }
    """
    alone, together = hashes(shared), hashes(before + shared)
    assert len(alone.hashes) == 2
    assert len(together.hashes) == 5
    assert set(alone.hashes.tolist()) < set(together.hashes.tolist())
    assert alone.module_hash != together.module_hash
    changed = hashes(shared.replace("41", "42"))
    assert len(set(alone.hashes.tolist()) & set(changed.hashes.tolist())) == 1  # helper is the same, entry is not


def test_numbered_template_types_do_not_matter(hashes):
    box = "namespace n { template <class T> struct Box { T a, b; T sum() const { return a + b; } }; }\n"
    use = "int entry(int x) { n::Box<short> s; s.a = x; s.b = 2; return s.sum() + (int)sizeof(n::Box<short>); }\n"
    noise = "long other(long x) { n::Box<long> l; l.a = x; l.b = 3; return l.sum(); }\n"
    alone, together = hashes(box + use, "c++"), hashes(box + noise + use, "c++")
    assert set(alone.hashes.tolist()) < set(together.hashes.tolist())


def test_hashing_twice_gives_the_same(hashes):
    first, second = (hashes("int f(int x) { return x + 1; }") for _ in range(2))
    assert first.module_hash == second.module_hash
    assert first.hashes.tolist() == second.hashes.tolist()
