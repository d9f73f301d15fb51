"""Functions under several ways of allocating, by hand."""

import math

import pyarrow as pa
import pytest

from mlgo.base.artifacts import FUNCTIONS
from mlgo.compare.inference import Bootstrap
from mlgo.compare.modules import BEST, function_rows, measured_functions, module_scores
from mlgo.objects.measures.built_in import SPILL_COST
from mlgo.objects.remarks import SpillCosts
from mlgo.report.render import _function_scatter

# Cost by module, function and contender. Nothing is known of d under the policy, whose compile failed. Nobody was asked
# about c, and it costs nothing. The last is no test module.
COSTS = {
    "a": {"f": {"heuristic": 7, "p-s0": 3, "lightest": 15}, "g": {"p-s0": 1, "lightest": 0}},
    "b": {"h": {"heuristic": 3, "p-s0": 3, "lightest": 1}},
    "c": {},
    "d": {"k": {"heuristic": 1}},
    "elsewhere": {"f": {"heuristic": 100, "p-s0": 1, "lightest": 1}},
}


def measured(contender):
    rows = []
    for module, functions in COSTS.items():
        cost = sum(float(by.get(contender, 0)) for by in functions.values())
        failed = (module, contender) == ("d", "p-s0")
        rows.append(
            {
                **{"contender": contender, "project": "x", "module": module, "language": "c"},
                **dict.fromkeys(("num_questions", "num_inlined", "truncated", "failure", "message")),
                **{"split": "train" if module == "elsewhere" else "test", "spill_cost": None if failed else cost},
                "baseline_spill_cost": sum(float(by.get("heuristic", 0)) for by in functions.values()),
            }
        )
    return rows


def table(*advisors):
    rows = [
        {
            **{"project": "x", "module": module, "advisor": advisor, "num_questions": 1},
            **SpillCosts(name, spills_cost=float(by[advisor]))._asdict(),  # a spill weighs 1
        }
        for advisor in advisors
        for module, functions in COSTS.items()
        for name, by in functions.items()
        if advisor in by
    ]
    return pa.Table.from_pylist(rows, FUNCTIONS)


@pytest.fixture
def functions():
    both = module_scores(pa.Table.from_pylist([*measured("p-s0"), *measured("lightest")]), ["spill_cost"])
    return both, measured_functions(both, SPILL_COST, table("heuristic", "lightest"), table("p-s0"))


@pytest.fixture
def rows(functions):
    modules, measured = functions
    return by_name(function_rows(measured, modules, SPILL_COST, Bootstrap(200, 0.95, 0)))


def by_name(rows):
    """Comparisons by function and by module, by contender."""
    return {one.name: (one.by("spill_cost"), whole.by("spill_cost")) for one, whole in rows}


def counts(row):
    one, _ = row
    return one.num_compared, one.num_failed, one.items.smaller, one.items.larger, one.items.equal


def test_functions_that_anybody_knows(functions):
    _, functions = functions
    assert [one.name for one in functions.contenders] == ["p-s0", "lightest", BEST]
    assert functions.keys == ["x/a: f", "x/a: g", "x/b: h", "x/d: k"]
    assert functions.items["number"].tolist() == [0, 0, 1, 3]
    assert functions.items["cost"].tolist() == [7, 0, 3, 1]
    costs = functions.details["cost"]
    assert costs[1].tolist() == [15, 0, 1, 0]
    assert costs[0, :3].tolist() == [3, 1, 3]
    assert math.isnan(costs[0, 3])
    assert costs[2].tolist() == [3, 0, 1, 0]


def test_policy_by_hand(rows):
    row = rows["p-s0"]
    assert counts(row) == (3, 1, 1, 1, 1)
    # Functions, with 1 added: 4 / 8, 2 / 1, 4 / 4. Modules: 5 / 8 with f and g, 4 / 4, and 1 / 1 for the one without.
    assert row[0].total.value == pytest.approx(1 - 10 / 13)
    assert (row[1].num_compared, row[1].num_projects) == (3, 1)
    assert row[1].geomean.value == pytest.approx(1 - 10 / 13)  # of a single project it is the total
    assert row[1].total.value == pytest.approx(1 - 10 / 13)
    # The best has 3 and 0 in a, 1 in b: 4 / 8, 2 / 4 and 1 / 1. It saves 4 and 2, the policy 3.
    assert row[1].geomean_share == pytest.approx(math.log(10 / 13) / math.log(7 / 13))
    assert row[1].total_share == pytest.approx(3 / 6)


def test_reference_by_hand(rows):
    row = rows["lightest"]
    assert counts(row) == (4, 0, 2, 1, 1)
    # 16 / 8, 1 / 1, 2 / 4, 1 / 2: doubles one module, halves two of four; the best halves three.
    assert row[0].total.value == row[1].total.value == pytest.approx(1 - 20 / 15)
    assert row[1].geomean_share == pytest.approx(math.log(20 / 15) / math.log(8 / 15))
    assert row[1].total_share == pytest.approx((-8 + 2 + 1) / (4 + 2 + 1))


def test_best_of_all_by_hand(rows):
    assert list(rows)[-1] == BEST
    row = rows[BEST]
    assert counts(row) == (4, 0, 3, 0, 1)
    assert row[0].total.value == pytest.approx(1 - 8 / 15)
    assert row[1].total.value == pytest.approx(1 - 8 / 15)
    assert (row[1].geomean_share, row[1].total_share) == (1.0, 1.0)


def test_without_functions():
    one = module_scores(
        pa.Table.from_pylist([row for row in measured("lightest") if row["module"] == "c"]), ["spill_cost"]
    )
    functions = measured_functions(one, SPILL_COST, table("heuristic"), table())
    row, best = by_name(function_rows(functions, one, SPILL_COST, Bootstrap(200, 0.95, 0))).values()
    assert counts(row) == counts(best) == (0, 0, 0, 0, 0)
    assert row[1].geomean.value == 0.0
    assert (row[1].geomean_share, row[1].total_share) == (None, None)


def test_figure_shows_what_differs(functions):
    (points,) = _function_scatter(functions[1], ["p-s0"], 0).data
    assert list(zip(points.text, points.x, points.y, strict=True)) == [("x/a: f", 8.0, 4.0), ("x/a: g", 1.0, 2.0)]
