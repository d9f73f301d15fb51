"""Bodies that were seen in training: two small projects compiled by the real compiler, and random sketches."""

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from mlgo.base.artifacts import BODIES
from mlgo.corpus.functions import SKETCH
from mlgo.corpus.seen import (
    EXACT,
    KINDS,
    LEAST_SIMILARITY,
    NEAR,
    UNSEEN,
    SeenBodies,
    project_bodies,
    seen_share,
    shares,
)
from mlgo.corpus.store import Module
from mlgo.errors import CompilerExit

WALK = """
struct point { int x; long y; }; int puts(const char *);
long walk(struct point *p, int n) {
  long sum = 3;
  for (int i = 0; i < n; i++) { if (p[i].x > LIMIT) puts("far"); sum += p[i].y * 5; }
  return sum;
}
int half(int x) { return x / 2; }
"""
OTHER = """
int third(int x) { return x / 3; }
int other(int *p, int n) { while (n-- > 0 && p[n]) p[n] ^= p[n - 1] >> 2; return n ? p[0] : p[1]; }
"""
RENAMED = WALK.replace("walk", "go").replace("puts", "print").replace("point", "place").replace("sum", "total")
TRAINED, TESTED = RENAMED.replace("LIMIT", "17"), WALK.replace("LIMIT", "5") + OTHER


@pytest.fixture
def bodies(bitcode, front_end, tmp_path):
    def make(project, *texts, language="c"):
        modules = [Module(project, f"{number}", language, "test", text) for number, text in enumerate(texts)]
        paths = {one.key: bitcode(text, language) for one, text in zip(modules, texts, strict=True)}
        return project_bodies(front_end.print_ir, modules, paths, tmp_path / "kept")

    return make


def test_kinds_by_hand(bodies):
    tested = bodies("tested", TESTED)
    assert tested["function"].to_pylist() == ["walk", "half", "third", "other"]
    seen = SeenBodies.of(bodies("trained", TRAINED))
    kinds = seen.kinds(tested)
    # walk differs in a constant and in names, half is the same; third differs in a constant, but is too short.
    assert [KINDS[kind] for kind in kinds] == [NEAR, EXACT, UNSEEN, UNSEEN]
    assert bodies("trained", TRAINED)["sketch"][0] == tested["sketch"][0]
    assert bodies("variable", WALK.replace("LIMIT", "n"))["sketch"][0] != tested["sketch"][0]
    assert tested["sketch"].is_valid().to_pylist() == [True, False, False, True]
    sizes = dict(zip(tested["function"].to_pylist(), tested["instructions"].to_pylist(), strict=True))
    # int half(int x): alloca, store, load, sdiv, ret.
    assert (sizes["half"], sizes["third"]) == (5, 5)
    total = shares(tested, kinds)
    assert total == {UNSEEN: 5 + sizes["other"], NEAR: sizes["walk"], EXACT: 5, "standard": 0, "bindings": 0}
    assert seen_share(total) == (5 + sizes["walk"]) / sum(total.values())
    longest = [(one["function"], one["like"]) for one in seen.longest(tested, kinds, 9)]
    assert longest == [("walk", "trained/0: go"), ("half", "short")]


def test_a_project_has_seen_itself_and_nothing_has_seen_an_empty_one(bodies):
    own = bodies("own", TESTED)
    assert seen_share(shares(own, SeenBodies.of(own).kinds(own))) == 1.0
    nothing = own.slice(0, 0)
    assert seen_share(shares(own, SeenBodies.of(nothing).kinds(own))) == 0.0
    assert seen_share(shares(nothing, SeenBodies.of(own).kinds(nothing))) == 0.0


def test_of_copies_one_counts(bodies):
    twice = bodies("twice", "inline int f(int x) { return x / 2; } int g(int x) { return f(x); }", language="c++")
    text = "inline int f(int x) { return x / 2; } int %s(int x) { return f(x); }"
    two = bodies("twice", text % "g", text % "h", language="c++")
    assert (twice.num_rows, two.num_rows) == (2, 4)
    assert shares(two, np.zeros(4, np.int8))[UNSEEN] == 5 + 2 * 5  # f once; g and h: alloca, store, load, call, ret


def test_the_standard_library_is_a_family_of_its_own(bodies):
    text = """namespace std { inline namespace __1 { template <class T> struct box {
      T held; T get() const { return held + LAST; } }; } }
    int use(int x) { std::box<int> b{x}; return b.get(); }"""
    one, two = (bodies("p", text.replace("LAST", last), language="c++") for last in ("1", "2"))
    kinds = SeenBodies.of(one).kinds(two)
    assert two["function"].to_pylist() == ["_Z3usei", "_ZNKSt3__13boxIiE3getEv"]
    assert [KINDS[kind] for kind in kinds] == [EXACT, "standard"]


def test_bodies_are_kept(bodies, tmp_path):
    first = bodies("p", TESTED)
    (kept,) = (tmp_path / "kept").iterdir()
    assert bodies("p", TESTED).equals(first)
    bodies("p", TRAINED)
    assert len(list((tmp_path / "kept").iterdir())) == 2
    kept.write_bytes(b"damaged")
    assert bodies("p", TESTED).equals(first)
    assert first.schema == BODIES.remove_metadata()


def test_a_module_that_is_no_bitcode_is_refused_and_not_kept(front_end, tmp_path):
    (tmp_path / "m.bc").write_bytes(b"BC\xc0\xdenothing")
    with pytest.raises(CompilerExit):
        project_bodies(front_end.print_ir, [Module("p", "m", "c", "", "0")], {"p/m": tmp_path / "m.bc"}, tmp_path / "k")
    assert not (tmp_path / "k").exists()


def table(sketches):
    columns = {"project": "p", "module": "m", "family": "own", "instructions": 20}
    rows = [
        columns | {"function": f"f{number}", "body": number, "sketch": np.array(sketch, "<u4").tobytes()}
        for number, sketch in enumerate(sketches)
    ]
    return pa.Table.from_pylist(rows, schema=BODIES.remove_metadata())


@given(st.integers(0, SKETCH), st.integers(0, 2**32 - 1), st.integers(0, 4))
def test_the_search_finds_what_is_similar_and_nothing_else(equal, seed, noise):
    """What it finds is similar enough; pairs that share three fourths are found."""
    random = np.random.default_rng(seed)
    known = random.integers(0, 1 << 32, (noise + 1, SKETCH), np.uint32)
    query = known[:1].copy()
    query[0, random.permutation(SKETCH)[equal:]] ^= np.uint32(1)
    seen = SeenBodies.of(table(known))
    (found,) = seen.nearest(query)
    if found >= 0:
        assert (seen.sketches[found] == query).mean() >= LEAST_SIMILARITY
        assert seen.places[found] == "p/m: f0"
    assert found >= 0 or equal < 0.75 * SKETCH
    assert found < 0 or equal >= LEAST_SIMILARITY * SKETCH
