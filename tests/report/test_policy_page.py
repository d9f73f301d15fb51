"""Known headroom by the compiles of a search."""

import numpy as np
import pyarrow as pa
import pytest

from mlgo.base.artifacts import SEARCH_COURSE, SHIPPED_SIZES
from mlgo.compare.inference import POINTS_ONLY
from mlgo.report.pages import PLAIN
from mlgo.report.policy_page import known_gains
from mlgo.report.ships import compare_records
from tests.compare.conftest import shipped_rows, shipped_table

SEARCHED = [(0, 980), (8, 970)]


def shipped(**totals: int | None) -> pa.Table:
    """The linked file of one project under some contenders, folded and not."""
    plain = {"project": "p", "split": "test", "kind": "shared", "language": "c", "num_modules": 2, "num_foreign": 0}
    rows = [
        {**dict.fromkeys(SHIPPED_SIZES.names), **plain, "program": "x.so", "contender": who, "folded": folded}
        | {"total": total and total - 50 * folded, "failure": "" if total else "link", "message": ""}
        for who, total in totals.items()
        for folded in (False, True)
    ]
    return pa.Table.from_pylist(rows, SHIPPED_SIZES)


def course(**steps: list[tuple[int, int]]) -> pa.Table:
    rows = [
        {"project": project, "num_compiles": count, "total": total}
        for project, found in steps.items()
        for count, total in found
    ]
    return pa.Table.from_pylist(rows, SEARCH_COURSE)


def test_savings_of_projects_add_up():
    table = course(a=[(0, 980), (8, 970), (16, 970)], b=[(0, 980), (4, 975), (8, 940), (12, 940)])
    counts, gains = known_gains(table, shipped(**{"heuristic": 1000, "es-s0": 980, "never": 2000}), "es-s0")
    assert counts.tolist() == [0, 4, 8, 12, 16]
    np.testing.assert_allclose(gains, [0.02, 0.025, 0.07, 0.07, 0.07])


@pytest.mark.parametrize(
    ("steps", "totals"),
    [(SEARCHED, {"heuristic": 1000}), (SEARCHED, {"es-s0": 980, "heuristic": None}), ([], {"es-s0": 980})],
)
def test_nothing_is_known_of_what_was_not_measured_or_searched(steps, totals):
    counts, gains = known_gains(course(a=steps), shipped(**{"heuristic": 1000, **totals}), "es-s0")
    assert len(counts) == len(gains) == 0


def test_several_ways_to_ship_in_one_table():
    whole = [shipped_rows("a", "one", "heuristic", 800), shipped_rows("b", "two", "heuristic", 1_800)]
    ways = {
        "objects": shipped_table(
            *(shipped_rows("a", "one", name, text) for name, text in (("heuristic", 1_000), ("-Os", 900))),
            *(shipped_rows("b", "two", name, text) for name, text in (("heuristic", 2_000), ("-Os", 2_100))),
            *(shipped_rows(project, program, "es-s0", 1_000) for project, program in (("a", "one"), ("b", "two"))),
        ),
        "whole": shipped_table(*whole, shipped_rows("a", "one", "es-s0", 700), shipped_rows("b", "two", "es-s0", None)),
    }
    table = compare_records({f"{one},folding=none": rows for one, rows in ways.items()}, "es-s0", POINTS_ONLY)
    cells = [[*row[:2], row[2].replace(",folding=none", ""), *row[3:7]] for row in table.cells(PLAIN)]
    assert cells == [  # with 1,000 of constants each, and unwind tables of a tenth of the code
        ["all", "1", "objects", "2,100", "0.00 %", "0.00 %", "0.00 %"],  # two is not measured as one module
        ["all", "1", "objects, -Os", "1,990", "+5.24 %", "+10.00 %", "+5.00 %"],
        ["all", "1", "whole", "1,880", "+10.48 %", "+20.00 %", "+10.00 %"],
        ["a/one", "1", "objects", "2,100", "0.00 %", "0.00 %", "0.00 %"],
        ["a/one", "1", "objects, -Os", "1,990", "+5.24 %", "+10.00 %", "+5.00 %"],
        ["a/one", "1", "whole", "1,880", "+10.48 %", "+20.00 %", "+10.00 %"],
        ["b/two", "1", "objects", "3,200", "0.00 %", "0.00 %", "0.00 %"],
        ["b/two", "1", "objects, -Os", "3,310", "-3.44 %", "-5.00 %", "-3.33 %"],
    ]
    gains = [row[7:] for row in table.cells(PLAIN)]
    assert gains[3] == ["0.00 %", "0.00 %", "0.00 %"]
    assert gains[5] == ["+5.85 %", "+12.50 %", "+5.56 %"]  # 110 of 1,880, 100 of 800, 100 of 1,800
    assert gains[1] == ["-", "-", "-"]


def test_of_ways_in_which_no_program_was_measured_together_the_programs_stay():
    ways = {
        "objects": shipped_table(*(shipped_rows("a", "one", name, 1_000) for name in ("heuristic", "es-s0"))),
        "whole": shipped_table(*(shipped_rows("a", "one", name, None) for name in ("heuristic", "es-s0"))),
    }
    assert [row[2] for row in compare_records(ways, "es-s0", POINTS_ONLY).cells(PLAIN)] == [
        "objects",
        "objects, folded",
    ]


def test_files_with_folded_functions_are_a_way_to_ship():
    sizes = {
        "heuristic": 1_000,
        "es-s0": 900,
        "-Os": 800,
    }  # of code; folding saves 100 of each, and 10 of unwind tables
    ways = {"objects": shipped_table(*(shipped_rows("a", "one", name, text) for name, text in sizes.items()))}
    cells = [[row[2], row[3], row[4], row[7]] for row in compare_records(ways, "es-s0", POINTS_ONLY).cells(PLAIN)]
    assert cells == [
        ["objects", "2,100", "0.00 %", "+5.24 %"],  # 1,990
        ["objects, -Os", "1,880", "+10.48 %", "-"],
        ["objects, folded", "1,990", "+5.24 %", "+5.53 %"],  # 1,880
        ["objects, -Os, folded", "1,770", "+15.71 %", "-"],
    ]
    ways["objects,folding=all"] = ways["objects"]  # which says better what folded files are
    labels = [row[2] for row in compare_records(ways, "es-s0", POINTS_ONLY).cells(PLAIN)]
    assert labels == [f"objects{folded}{level}" for folded in ("", ",folding=all") for level in ("", ", -Os")]
