"""What differs where echoing the heuristic does not give the plain compile: a source that shows it."""

import pyarrow as pa
import pytest

from benchmarks.echo import examine, unreachable_calls
from mlgo.base.artifacts import SCORES
from mlgo.corpus.store import Module
from mlgo.evaluate import CompileHost
from mlgo.evaluate.baseline import Scoring, differing_code, score_references, self_test_failures
from mlgo.host.session import compile_plain
from tests.conftest import FLAGS

UNREACHABLE = """
struct item { long held[6]; };
struct row { item *begin, *end; };
struct guard {
  row &of; item *next; item *const last;
  guard(row &one) : of(one), next(one.end), last(one.end + 1) {}
  ~guard() { of.end = next; }
};
void copy(item *to, const item &from) noexcept;
inline void place(item *to, const item &from) { copy(to, from); }
inline void construct(item *to, const item &from) { place(to, from); }
void add(row &one, const item &from) { guard g(one); construct(g.next, from); ++g.next; }
"""
"""Once ``construct`` is inlined nothing throws here. Then nothing reaches the landing pad that calls the destructor."""


@pytest.fixture
def unreachable(front_end, tmp_path):
    (tmp_path / "add.cpp").write_text(UNREACHABLE)
    flags = [one for one in FLAGS["c++"] if one != "-fno-exceptions"] + ["-fexceptions"]
    front_end.compile_to_bitcode(tmp_path, "c++", flags, "add.cpp", tmp_path / "add.bc")
    return tmp_path / "add.bc"


def test_the_self_test_tells_what_differs(unreachable, toolchain, settings, task, tmp_path):
    module = Module("p", "add.cpp", "c++", "test", "")
    with CompileHost(toolchain, "inline-size", settings, 1) as host:
        found = score_references(
            host, task, toolchain.quirks, [module], {module.key: unreachable}, Scoring(False, 0.5, 0), tmp_path
        )
    (one,) = self_test_failures(pa.Table.from_pylist(found.scores, schema=SCORES.remove_metadata()))
    assert one["cause"].startswith(
        "the heuristic inlined 1 more call, unasked; the code of 1 of 1 functions differs, first of _Z3addR3rowRK4item "
        "(35 bytes and 32 bytes); text "
    )


def test_objects_of_other_formats_are_not_told_apart(bitcode, toolchain, settings, tmp_path):
    apple = type(toolchain)(toolchain.binary, True, toolchain.version, "aarch64-macos-none")
    compile_plain(apple, bitcode("int f(void) { return 1; }"), settings, object_path=tmp_path / "a.o")
    data = (tmp_path / "a.o").read_bytes()
    assert differing_code(data, data) == "which functions differ is told of ELF objects alone"


def test_what_the_heuristic_inlined_unasked_is_unreachable(unreachable, toolchain, settings):
    found = examine("add", unreachable, toolchain, settings)
    assert (found["calls_only_plain"], found["unreachable"], found["calls_only_echo"]) == (1, 1, 0)
    assert found["extra"] == ["_ZN5guardD2Ev in _Z3addR3rowRK4item"]
    assert [one["function"] for one in found["differing"]] == ["_Z3addR3rowRK4item"]
    assert found["unexplained"] == 0
    # The plain compile calls first and keeps the address, the echo computes the new end first and keeps that.
    assert "call void @_Z4copyP4itemRKS_" in found["first_difference"]["plain"]
    assert "getelementptr" in found["first_difference"]["echo"]


@pytest.mark.parametrize(
    ("body", "count"),
    [
        ("  call void @f()\n  ret void\n", 0),
        ("  ret void\n\n1:  ; No predecessors!\n  call void @f()\n  ret void\n", 1),
        ("  br label %1\n\n1:\n  call void @f()\n  ret void\n", 0),
        ("  ret void\n\n1:\n  br label %2\n\n2:\n  invoke void @f()\n          to label %1 unwind label %2\n", 1),
        ("  ret void\n\na:\n  call void @ff()\n  call void @f(ptr %x)\n  unreachable\n", 1),
    ],
)
def test_calls_that_nothing_reaches(body, count):
    assert unreachable_calls(body, "f") == count
