"""From Parquet rows to comparisons of modules and of functions."""

import math
from dataclasses import replace

import pyarrow as pa
import pytest

from mlgo.base.artifacts import FUNCTIONS, MODULES, RESULTS, SCORES
from mlgo.compare.inference import Bootstrap, Tally
from mlgo.compare.modules import (
    BEST,
    count_truncated,
    failures,
    function_rows,
    measured_functions,
    measured_modules,
    module_scopes,
    module_scores,
    policy_scores,
    ratios,
    standouts,
)
from mlgo.compare.scores import ComparisonRow, ScoreMatrix, by_contender, by_language, compare, corrected
from mlgo.errors import ArtifactError
from mlgo.objects.measures import get_measure
from mlgo.objects.measures.built_in import SPILL_COST
from mlgo.objects.remarks import SpillCosts
from mlgo.report.metrics import metrics
from mlgo.report.pages import PLAIN
from mlgo.report.render import _function_scatter, _standout_table
from tests.compare.conftest import result_row

BOOTSTRAP = Bootstrap(200, 0.95, 0)


def table(world) -> ScoreMatrix:
    tables = [(world.results, RESULTS), (world.scores, SCORES), (world.modules, MODULES)]
    return measured_modules(*(pa.Table.from_pylist(rows, schema) for rows, schema in tables))


def split_rows(measured: ScoreMatrix, names: list[str]) -> list[ComparisonRow]:
    return by_contender(compare(measured.only(names), module_scopes, BOOTSTRAP, count=count_truncated))


def project_rows(measured: ScoreMatrix, names: list[str]) -> list[ComparisonRow]:
    return compare(measured.only(names), ScoreMatrix.by_project, BOOTSTRAP)


def test_policies_and_references_stand_side_by_side(world):
    measured = table(world)
    assert measured.policies == ["bc-s0", "es-s0"]
    assert measured.references == ["echo", "never", "random"]
    assert measured.asked.sum() == 5 * 24  # 4 projects of 6 modules; validation was not evaluated
    assert measured.splits == ["test", "train"]


def test_split_rows_cover_scopes(world):
    rows = split_rows(table(world), ["es-s0"])
    assert [(row.split, row.scope) for row in rows] == [
        (split, scope) for split in ("test", "train") for scope in ("all", "c++", "c", "unshared")
    ]
    counts = {row.scope: row.by("text_bytes").num_compared for row in rows if row.split == "test"}
    assert counts == {"all": 12, "c": 6, "c++": 6, "unshared": 10}
    assert rows[0].by("text_bytes").geomean.value == pytest.approx(0.05, abs=1e-3)
    assert set(rows[0].comparisons) == {"text_bytes", "exec_bytes", "dedup_bytes"}


def test_references_are_compared_with_the_heuristic(world):
    rows = split_rows(table(world), ["echo", "never", "random"])
    gains = {row.name: row.by("text_bytes").total.value for row in rows if row.split == "test" and row.scope == "all"}
    assert gains == {"echo": 0.0, "never": pytest.approx(-0.2), "random": pytest.approx(-0.5)}


def test_a_learner_with_several_seeds_has_a_row_of_its_own(world):
    assert not [row for row in split_rows(table(world), ["bc-s0", "es-s0"]) if len(row.contender.seeds) > 1]
    again = [{**row, "seed": 1} for row in world.results if row["policy"] == "es"]
    for row in again:
        row["text_bytes"] = row["baseline_text_bytes"]
    world.results += reversed(again)  # modules in another order
    rows = split_rows(table(world), ["bc-s0", "es-s0", "es-s1"])
    rows = [row for row in rows if len(row.contender.seeds) > 1]
    assert [(row.name, row.split, row.scope) for row in rows] == [
        ("es-mean", split, scope) for split in ("test", "train") for scope in ("all", "c++", "c", "unshared")
    ]
    found = rows[0].by("text_bytes")
    assert found.geomean.value == pytest.approx(1 - 0.95**0.5, abs=1e-3)
    assert (found.num_compared, found.items, found.projects) == (12, (12, 0, 0), (2, 0, 0))
    assert (found.geomean.low, found.geomean.high) == (0.0, pytest.approx(0.05, abs=1e-3))


def test_what_is_claimed_is_tested_and_nothing_else(world):
    world.results += [{**row, "seed": 1} for row in world.results if row["policy"] == "es"]
    rows = split_rows(table(world), ["bc-s0", "es-s0", "es-s1", "never"])
    whole = {row.name: row for row in rows if (row.split, row.scope) == ("test", "all")}
    assert {name for name, row in whole.items() if row.claim} == {"bc-s0", "es-mean"}
    rows = corrected([six_projects(row) for row in whole.values()], lambda row: row.split)
    tests = {row.name: (one.num_tests, one.corrected_p) for row in rows if (one := row.by("text_bytes"))}
    assert tests == {"bc-s0": (2, 0.5), "es-mean": (2, 0.5), "es-s0": (0, None), "es-s1": (0, None), "never": (0, None)}


def six_projects(row: ComparisonRow) -> ComparisonRow:
    """The same row as if it were about six projects, with a p-value of a quarter."""
    one = replace(row.by("text_bytes"), projects=Tally(6, 0, 0), p=0.25, corrected_p=0.25)
    return replace(row, comparisons={"text_bytes": one})


def test_project_rows_start_with_test(world):
    rows = project_rows(table(world), ["bc-s0", "es-s0"])
    assert [row.scope for row in rows][::2] == ["drill", "easel", "anvil", "bellows"]
    assert [row.name for row in rows[:2]] == ["bc-s0", "es-s0"]
    assert rows[0].by("text_bytes").items == (3, 0, 3)
    assert rows[0].by("text_bytes").finding == "no verdict: 1 project, six are needed"


def test_failures_are_counted_and_listed(world):
    row = next(row for row in world.results if row["policy"] == "es" and row["split"] == "test")
    row.update(text_bytes=None, exec_bytes=None, dedup_bytes=None, num_questions=None, num_inlined=None, truncated=None)
    row.update(failure="timeout", message="no end")
    measured = table(world)
    found = split_rows(measured, ["es-s0"])[0].by("text_bytes")
    assert (found.num_compared, found.num_failed) == (11, 1)
    assert [(one["contender"], one["failure"]) for one in failures(measured)] == [("es-s0", "timeout")]


def test_a_failed_heuristic_leaves_the_references_out(world):
    for row in world.scores:
        if row["project"] == "drill" and row["advisor"] == "heuristic":
            row.update(text_bytes=None, exec_bytes=None, dedup_bytes=None, failure="exit")
    for row in world.results:
        if row["project"] == "drill":
            row.update(baseline_text_bytes=None, baseline_exec_bytes=None, baseline_dedup_bytes=None)
    row = split_rows(table(world), ["never"])[0]
    assert (row.by("text_bytes").num_compared, row.by("text_bytes").num_failed) == (6, 6)


def test_truncated_modules_are_counted(world):
    for row in world.scores:
        if row["advisor"] == "random" and row["project"] == "easel":
            row["truncated"] = True
    rows = split_rows(table(world), ["random"])
    assert {row.split: row.counts["truncated"] for row in rows if row.scope == "all"} == {"test": 6, "train": 0}


def test_standouts_are_ordered(world):
    row = next(row for row in world.results if row["policy"] == "bc" and row["project"] == "drill")
    row["text_bytes"] = 3 * row["baseline_text_bytes"]
    measured = table(world)
    worst, best = standouts(measured, "bc-s0", "test", "text_bytes", 4)
    assert (measured.keys[worst[0][0]], worst[0][1]) == (f"drill/{row['module']}", pytest.approx(3.0))
    grown, shrunk = ([ratio for _, ratio in some] for some in (worst, best))
    assert (grown, shrunk) == (sorted(grown, reverse=True), sorted(shrunk))
    assert len(worst) == len(best) == 4
    assert all(ratio < 1.0 for ratio in shrunk)
    shown = _standout_table(measured, "bc-s0", get_measure("text_bytes"), worst, inlining=True).cells(PLAIN)
    assert shown[0][:2] == [row["module"], "drill"]
    assert shown[0][-2:] == ["9", "3"]  # questions, and calls inlined


def test_ratios_are_ascending(world):
    measured = table(world)
    found = ratios(measured, "bc-s0", "test", "text_bytes")
    assert len(found) == 12
    assert [ratio for _, ratio in found] == sorted(ratio for _, ratio in found)
    assert all(measured.keys[item].startswith(("drill/", "easel/")) for item, _ in found)


def test_no_test_module_is_an_error(world):
    world.results = [row for row in world.results if row["split"] != "test"]
    with pytest.raises(ArtifactError, match=r"no test module.*evaluate\.splits"):
        table(world)


def test_a_module_of_another_corpus_is_an_error(world):
    world.results[0]["module"] = "elsewhere.c"
    with pytest.raises(ArtifactError, match=r"elsewhere\.c"):
        table(world)


def test_an_interval_over_projects_knows_that_modules_of_one_project_are_alike():
    """Three modules of one project gain a tenth each, one of another nothing: of 2 projects each may be drawn twice."""
    sizes = [{"text_bytes": 1000 - 100 * (project == "a")} for project in "aaab"]
    rows = [result_row("aaab"[i], f"{i}.c", one, {"text_bytes": 1000}) for i, one in enumerate(sizes)]
    whole, *_ = compare(policy_scores(pa.Table.from_pylist(rows), ["text_bytes"]), by_language, BOOTSTRAP)
    one = whole.by("text_bytes")
    assert (one.num_compared, one.num_projects, one.projects, one.items) == (4, 2, (1, 1, 0), (3, 1, 0))
    assert one.total == pytest.approx((0.075, 0.0, 0.1))
    assert one.geomean == pytest.approx((1 - 0.9**0.5, 0.0, 0.1))
    known = metrics([whole])["test"]["es-s0"]
    assert (known["text_geomean_low_percent"], known["text_total_high_percent"]) == (0.0, 10.0)
    assert (known["text_projects"], known["text_worst_project"], known["text_worst_project_percent"]) == (2, "b", 0.0)


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


def costs_of(*advisors):
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
    return both, measured_functions(both, SPILL_COST, costs_of("heuristic", "lightest"), costs_of("p-s0"))


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
    functions = measured_functions(one, SPILL_COST, costs_of("heuristic"), costs_of())
    row, best = by_name(function_rows(functions, one, SPILL_COST, Bootstrap(200, 0.95, 0))).values()
    assert counts(row) == counts(best) == (0, 0, 0, 0, 0)
    assert row[1].geomean.value == 0.0
    assert (row[1].geomean_share, row[1].total_share) == (None, None)


def test_figure_shows_what_differs(functions):
    (points,) = _function_scatter(functions[1], ["p-s0"], 0).data
    assert list(zip(points["text"], points["x"], points["y"], strict=True)) == [
        ("x/a: f", 8.0, 4.0),
        ("x/a: g", 1.0, 2.0),
    ]
