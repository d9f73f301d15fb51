"""Shares of the known headroom, worked out by hand."""

import pyarrow as pa
import pytest

from mlgo.base.artifacts import HEADROOM, RESULTS, write_rows
from mlgo.errors import ArtifactError
from mlgo.report.headroom_page import BEST, headroom_rows, read_headroom, render_headroom
from tests.compare.conftest import result_row

MODULES = {("p", "one"): "c", ("p", "two"): "c++", ("q", "three"): "c++"}
SIZES = {
    # heuristic 1000 + 2000 + 400; best known 900 + 1500 + 400
    "heuristic": (1000, 2000, 400),
    "never": (1100, 1900, 800),
    "always": (900, None, 600),
    "search": (950, 1500, 400),
}
SETTINGS = {"splits": ["test"], "max_questions": 200, "budget": 60}


def search_rows():
    return [
        {"project": project, "module": module, "language": language, "split": "test", "variant": variant}
        | {"exec_bytes": sizes[at], "text_bytes": sizes[at], "num_compiles": 1}
        | {"failure": "timeout" if sizes[at] is None else "", "message": ""}
        for at, ((project, module), language) in enumerate(MODULES.items())
        for variant, sizes in SIZES.items()
    ]


def result_rows(*sizes, policy="es", modules=tuple(MODULES)):
    both = ("exec_bytes", "text_bytes")
    return [
        result_row(*key, dict.fromkeys(both, size), dict.fromkeys(both, 7), policy, failure="" if size else "exit")
        for key, size in zip(modules, sizes, strict=True)
    ]


def rows_of(*results):
    searched, evaluated = pa.Table.from_pylist(search_rows(), HEADROOM), pa.Table.from_pylist(list(results), RESULTS)
    return headroom_rows(searched, evaluated, "text_bytes")


def shares(*results):
    """Comparisons by scope and contender."""
    return {(row.scope, row.name): row.only for row in rows_of(*results)}


def test_shares_by_hand():
    rows = rows_of(*result_rows(1000, 1750, 500))
    assert {row.name for row in rows if row.contender.is_policy} == {"es-s0"}
    found = shares(*result_rows(1000, 1750, 500))
    best, policy = found["all", BEST], found["all", "es-s0"]
    assert (best.baseline_sum, best.policy_sum, best.total_share) == (3400, 2800, 1.0)
    assert best.total.value == pytest.approx(600 / 3400)
    assert best.geomean.value == pytest.approx(1 - (2400 / 3000 * 1.0) ** (1 / 2))  # p and q
    assert (policy.policy_sum, policy.best_sum) == (3250, 2800)
    assert policy.total_share == pytest.approx(150 / 600)
    assert policy.total.value == pytest.approx(150 / 3400)
    assert policy.geomean.value == pytest.approx(1 - (2750 / 3000 * 1.25) ** (1 / 2))
    assert found["c", "es-s0"].total_share == 0.0
    assert found["c++", "es-s0"].total_share == pytest.approx((2400 - 2250) / (2400 - 1900))
    assert found["p", "es-s0"].total_share == pytest.approx(250 / 600)
    assert found["q", "es-s0"].total_share is None  # nothing smaller than the heuristic is known there
    assert found["q", "es-s0"].total.value == -0.25
    assert list(dict.fromkeys(scope for scope, _ in found)) == ["all", "c", "c++", "p", "q"]
    assert [name for scope, name in found if scope == "all"] == ["never", "always", "search", "es-s0", BEST]


def test_a_failed_compile_is_left_out_on_both_sides():
    always = shares()["all", "always"]
    assert (always.num_compared, always.baseline_sum, always.policy_sum, always.best_sum) == (2, 1400, 1500, 1300)
    policy = shares(*result_rows(950, None, 400))["all", "es-s0"]
    assert (policy.num_compared, policy.baseline_sum, policy.best_sum) == (2, 1400, 1300)
    assert policy.total_share == 0.5


def test_a_policy_that_beats_the_search_is_the_best_known():
    found = shares(*result_rows(700, 1500, 400), *result_rows(1000, 2000, 400, policy="bc"))
    assert found["all", BEST].policy_sum == 2600
    assert found["all", "es-s0"].total_share == 1.0
    assert found["all", "bc-s0"].total_share == 0.0
    assert found["all", "search"].total_share == pytest.approx(550 / 800)


def test_the_last_policy_can_be_the_best_known_too():
    found = shares(*result_rows(1000, 2000, 400, policy="bc"), *result_rows(700, 1500, 400))
    assert found["all", BEST].policy_sum == 2600
    assert found["all", "es-s0"].total_share == 1.0


def test_modules_that_were_not_searched_do_not_count():
    others = result_rows(1, policy="es", modules=[("p", "four")])
    assert ("all", "es-s0") not in shares(*others)
    found = shares(*others, *result_rows(950, modules=[("p", "one")]))
    assert (found["all", "es-s0"].num_compared, found["all", "es-s0"].total_share) == (1, 0.5)


def test_files(tmp_path):
    headroom, results = tmp_path / "headroom.parquet", tmp_path / "results.parquet"
    with pytest.raises(ArtifactError, match=r"headroom\.parquet is missing; make it with: make headroom"):
        read_headroom(headroom, results, "text_bytes")
    write_rows(headroom, search_rows(), HEADROOM, {})
    assert "es-s0" not in {row.name for row in read_headroom(headroom, results, "text_bytes")}
    write_rows(results, result_rows(1000, 1750, 500), RESULTS, {})
    assert "es-s0" in {row.name for row in read_headroom(headroom, results, "exec_bytes")}
    write_rows(headroom, [], HEADROOM, {})
    with pytest.raises(ArtifactError, match="holds no module"):
        read_headroom(headroom, results, "text_bytes")


def test_page():
    rows = rows_of(*result_rows(1000, 1750, 500))
    page = render_headroom(rows, "text_bytes", SETTINGS)
    assert page == render_headroom(rows, "text_bytes", SETTINGS)
    assert "<h2>C++</h2>" in page
    assert "+25.00\N{NO-BREAK SPACE}%" in page  # the share
    assert "How small 3 modules" in page
