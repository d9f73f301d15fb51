"""Bytes of linked files by what training has seen of them, by hand."""

import pyarrow as pa
import pytest

from mlgo.base.artifacts import SHIPPED_SIZES
from mlgo.compare.inference import Bootstrap
from mlgo.compare.scores import Contender
from mlgo.report.pages import HTML
from mlgo.report.seen_code import bytes_of_kinds, compare_seen, kind_rows, seen_by_program
from tests.compare.conftest import shipped_rows

BOOTSTRAP = Bootstrap(200, 0.95, 0)
ES = Contender.named("es-s0")


def kinds(unseen, near, exact, standard):
    """Code and a tenth of it as unwind entries."""
    by_name = {"unseen": unseen, "near": near, "exact": exact, "standard": standard, "bindings": 0}
    return [{"kind": name, "text": text, "unwind": text // 10} for name, text in by_name.items()]


def program(project, name, contender, text, of_kinds):
    plain, folded = shipped_rows(project, name, contender, text)
    return [plain | {"kinds": of_kinds}, folded | {"kinds": None}]


@pytest.fixture
def shipped() -> pa.Table:
    """Of program ``old`` training has seen two thirds of its own code, of ``new`` nothing, of ``none`` it is not known.

    Under the policy, ``old`` loses 100 of its unseen bytes and gains 40 of the standard library.
    """
    rows = [
        *program("a", "old", "heuristic", 1_000, kinds(300, 200, 400, 100)),
        *program("a", "old", "es-s0", 940, kinds(200, 200, 400, 140)),
        *program("b", "new", "heuristic", 2_000, kinds(1_900, 0, 0, 50)),
        *program("b", "new", "es-s0", 1_900, kinds(1_800, 0, 0, 50)),
        *program("c", "none", "heuristic", 500, None),
        *program("c", "none", "es-s0", 400, None),
    ]
    return pa.Table.from_pylist(rows, SHIPPED_SIZES)


def test_bytes_of_a_file_add_up_to_its_total(shipped):
    row = shipped.to_pylist()[0]
    # 1,000 bytes of text, 1,000 of constants, 100 of unwind tables; functions are all text and all unwind tables.
    own = {"unseen": 330, "near": 220, "exact": 440}
    assert bytes_of_kinds(row) == {**own, "standard": 110, "bindings": 0, "rest": 1_000}
    assert sum(bytes_of_kinds(row).values()) == row["total"] == 2_100
    assert bytes_of_kinds(row | {"kinds": None}) == bytes_of_kinds(row | {"total": None}) == {}


def test_shares_of_programs(shipped):
    assert seen_by_program(shipped) == {("a", "old"): 660 / 990, ("b", "new"): 0.0}
    (unlike,) = compare_seen(shipped, [ES], BOOTSTRAP).unlike
    assert (unlike.by("total").num_compared, unlike.by("total").baseline_sum) == (1, 3_200)  # new


def test_parts_add_up_to_the_whole_gain(shipped):
    rows = {row.kind: row for row in kind_rows(shipped, [ES])}
    assert {(row.policy, row.split, row.whole) for row in rows.values()} == {("es-s0", "test", 2_100 + 3_200)}
    assert (rows["unseen"].baseline, rows["unseen"].under_policy) == (330 + 2_090, 220 + 1_980)
    assert (rows["standard"].baseline, rows["standard"].under_policy) == (110 + 55, 154 + 55)
    assert rows["unseen"].gain == pytest.approx(220 / 5_300)
    assert rows["standard"].gain == pytest.approx(-44 / 5_300)
    # 66 of 2,100 bytes and 110 of 3,200: what the files lose.
    assert sum(row.gain for row in rows.values()) == pytest.approx((66 + 110) / 5_300)
    assert sum(row.share for row in rows.values()) == pytest.approx(1.0)


def test_tables_and_metrics(shipped):
    seen = compare_seen(shipped, [ES], BOOTSTRAP)
    assert seen.by_kind.cells(HTML)[0][:2] == ["es-s0", "the project's own code, not seen"]
    assert [row.kind for row in seen.kinds] == ["unseen", "near", "exact", "standard", "bindings", "rest"]
    (unlike,) = seen.totals.cells(HTML)
    assert unlike[2] == "1"
    found = seen.metrics()
    assert found["unlike"]["test"]["es-s0"]["total_gain_percent"] == pytest.approx(100 * 110 / 3_200, abs=1e-4)
    assert found["programs"] == {"a/old": 660 / 990, "b/new": 0.0}
    assert sum(row["gain_percent"] for row in found["kinds"]) == pytest.approx(100 * 176 / 5_300)


def test_nothing_is_known(shipped):
    rows = [row | {"kinds": None} for row in shipped.to_pylist()]
    seen = compare_seen(pa.Table.from_pylist(rows, SHIPPED_SIZES), [ES], BOOTSTRAP)
    assert (seen.kinds, seen.programs, seen.unlike) == ([], {}, [])
    empty = compare_seen(SHIPPED_SIZES.empty_table(), [ES], BOOTSTRAP)
    assert (empty.kinds, empty.programs, empty.unlike) == ([], {}, [])
