"""Functions under several ways of allocating, by hand."""

import math

import pyarrow as pa
import pytest

from mlgo.core.artifacts import FUNCTIONS
from mlgo.core.measures.remarks import SpillCosts
from mlgo.report import figures
from mlgo.report.compare import Bootstrap
from mlgo.report.functions import BEST, collect_functions, function_rows
from mlgo.report.measured import MEASURED

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
                **{"contender": contender, "is_policy": contender == "p-s0", "project": "x", "module": module},
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
    both = pa.Table.from_pylist([*measured("p-s0"), *measured("lightest")], MEASURED)
    return collect_functions(both, table("heuristic", "lightest"), table("p-s0"))


@pytest.fixture
def rows(functions):
    return {row.contender: row for row in function_rows(functions, Bootstrap(200, 0.95, 0))}


def counts(row):
    one = row.by_function
    return one.num_modules, one.num_failed, one.wins, one.losses, one.ties


def test_functions_that_anybody_knows(functions):
    assert functions.contenders == ["p-s0", "lightest"]
    assert functions.names == ["x/a: f", "x/a: g", "x/b: h", "x/d: k"]
    assert functions.modules.tolist() == [0, 0, 1, 3]
    assert functions.baseline.tolist() == [7, 0, 3, 1]
    assert functions.costs[1].tolist() == [15, 0, 1, 0]
    assert functions.costs[0, :3].tolist() == [3, 1, 3]
    assert math.isnan(functions.costs[0, 3])


def test_policy_by_hand(rows):
    row = rows["p-s0"]
    assert counts(row) == (3, 1, 1, 1, 1)
    # Functions, with 1 added: 4 / 8, 2 / 1, 4 / 4. Modules: 5 / 8 with f and g, 4 / 4, and 1 / 1 for the one without.
    assert row.by_function.geomean == pytest.approx(0.0)
    assert row.by_module.num_modules == 3
    assert row.by_module.geomean == pytest.approx(1 - (5 / 8) ** (1 / 3))
    assert row.by_module.total == pytest.approx(1 - 10 / 13)
    # The best has 3 and 0 in a, 1 in b: 4 / 8 and 2 / 4. It saves 4 and 2, the policy 3.
    assert row.geomean_share == pytest.approx(math.log(5 / 8) / math.log(1 / 4))
    assert row.total_share == pytest.approx(3 / 6)


def test_reference_by_hand(rows):
    row = rows["lightest"]
    assert counts(row) == (4, 0, 2, 1, 1)
    # 16 / 8, 1 / 1, 2 / 4, 1 / 2.
    assert row.by_function.geomean == pytest.approx(1 - 0.5 ** (1 / 4))
    # Doubles one module, halves two of four; the best halves three.
    assert row.by_module.geomean == pytest.approx(1 - 0.5 ** (1 / 4))
    assert row.geomean_share == pytest.approx(1 / 3)
    assert row.total_share == pytest.approx((-8 + 2 + 1) / (4 + 2 + 1))


def test_best_of_all_by_hand(rows):
    assert list(rows)[-1] == BEST
    row = rows[BEST]
    assert counts(row) == (4, 0, 3, 0, 1)
    assert row.by_function.geomean == pytest.approx(1 - 0.5 ** (3 / 4))
    assert row.by_module.geomean == pytest.approx(1 - 0.5 ** (3 / 4))
    assert row.by_module.total == pytest.approx(1 - 8 / 15)
    assert (row.geomean_share, row.total_share) == (1.0, 1.0)


def test_without_functions():
    one = pa.Table.from_pylist([row for row in measured("lightest") if row["module"] == "c"], MEASURED)
    row, best = function_rows(collect_functions(one, table("heuristic"), table()), Bootstrap(200, 0.95, 0))
    assert counts(row) == counts(best) == (0, 0, 0, 0, 0)
    assert row.by_module.geomean == 0.0
    assert (row.geomean_share, row.total_share) == (None, None)


def test_figure_shows_what_differs(functions):
    (points,) = figures.function_scatter(functions, ["p-s0"], 0).data
    assert list(zip(points.text, points.x, points.y, strict=True)) == [("x/a: f", 8.0, 4.0), ("x/a: g", 1.0, 2.0)]
