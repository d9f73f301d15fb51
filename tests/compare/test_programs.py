"""Programs: linked files as they ship, and what they execute, by hand."""

import pyarrow as pa
import pyarrow.compute as pc
import pytest

from mlgo.compare.inference import Bootstrap
from mlgo.compare.programs import (
    EXECUTED,
    FIGURES,
    executed_gain,
    measured_programs,
    program_rows,
    ship_failures,
    shipped_totals,
)
from mlgo.compare.scores import Contender
from mlgo.errors import ArtifactError
from mlgo.report.metrics import headline_metrics, shipped_metrics
from mlgo.report.pages import HTML
from mlgo.report.ships import compare_shipped
from tests.compare.conftest import read_ran, shipped_rows, shipped_table

BOOTSTRAP = Bootstrap(200, 0.95, 0)
ES = Contender.named("es-s0")


@pytest.fixture
def shipped() -> pa.Table:
    """Two programs of one project, one of another; es-s0 makes text 10 % smaller, the same, and 10 % larger."""
    return shipped_table(
        *(shipped_rows("a", name, "heuristic", 1_000) for name in ("one", "two")),
        shipped_rows("b", "three", "heuristic", 2_000),
        shipped_rows("a", "one", "es-s0", 900),
        shipped_rows("a", "two", "es-s0", 1_000),
        shipped_rows("b", "three", "es-s0", 2_200),
    )


def test_each_program_by_hand(shipped):
    rows = program_rows(measured_programs(shipped, [ES]))
    assert [(row.scope, row.counts["project"], row.counts["num_modules"]) for row in rows] == [
        ("a/one", "a", 4),
        ("a/two", "a", 4),
        ("b/three", "b", 4),
    ]
    one = rows[0]
    assert list(one.comparisons) == list(FIGURES)
    gains = {name: one.by(name).total.value for name in FIGURES}
    shares = {"text": 0.1, "read_only": 0.0, "unwind": 0.1, "total": 110 / 2_100, "compressed": 0.1}
    # Folded 900 + 90 + 1,000 before and 800 + 80 + 1,000 after; code and constants 2,000 before and 1,900 after.
    assert gains == pytest.approx({**shares, "folded": 110 / 1_990, "without_unwind": 100 / 2_000})
    assert (one.by("total").baseline_sum, one.by("total").policy_sum) == (2_100, 1_990)


def test_totals_resample_projects(shipped):
    (row,) = shipped_totals(measured_programs(shipped, [ES]), BOOTSTRAP)
    text = row.by("text")
    assert (text.num_compared, text.num_projects) == (3, 2)
    assert text.total.value == pytest.approx(1 - 4_100 / 4_000)
    # Both programs of a, or that of b twice: 1 - 1,900 / 2,000 and 1 - 2,200 / 2,000.
    assert (text.total.low, text.total.high) == pytest.approx((-0.1, 0.05))


def test_metrics(shipped):
    totals = shipped_totals(measured_programs(shipped, [ES]), BOOTSTRAP)
    figures = shipped_metrics(totals)["test"]["es-s0"]
    assert (figures["programs"], figures["programs_failed"], figures["projects"]) == (3, 0, 2)
    assert (figures["text_bytes"], figures["text_baseline_bytes"]) == (4_100, 4_000)
    assert (figures["text_gain_percent"], figures["read_only_gain_percent"]) == (-2.5, 0.0)
    headline = headline_metrics([], "text_bytes", totals)["test"]["es"]
    assert headline["shipped_gain_percent"] == pytest.approx(-100 * 110 / 7_400, abs=1e-4)


def test_a_program_that_fails_has_a_reason_and_no_part_in_totals(shipped):
    rows = [row for row in shipped.to_pylist() if (row["program"], row["contender"]) != ("three", "es-s0")]
    found = compare_shipped(shipped_table(rows, shipped_rows("b", "three", "es-s0", None)), [ES], BOOTSTRAP)
    (failure,) = found.failures
    assert (failure["program"], failure["contender"], failure["message"]) == ("three", "es-s0", "no: x.o")
    (total,) = found.totals
    assert (total.by("text").num_compared, total.by("text").num_failed) == (2, 1)
    assert [row[1:3] for row in found.table.cells(HTML)] == [
        ["a", "one"],
        ["a", "two"],
        ["in total", "2 programs of 1 project"],
    ]


def test_a_failure_under_the_heuristic(shipped):
    rows = [row for row in shipped.to_pylist() if (row["program"], row["contender"]) != ("one", "heuristic")]
    broken = shipped_table(rows, shipped_rows("a", "one", "heuristic", None))
    assert [row["contender"] for row in ship_failures(broken)] == ["heuristic"]
    (total,) = shipped_totals(measured_programs(broken, [ES]), BOOTSTRAP)
    assert (total.by("text").num_compared, total.by("text").num_failed) == (2, 1)


def test_a_single_program_has_no_row_in_total():
    rows = shipped_table(shipped_rows("a", "one", "heuristic", 1_000), shipped_rows("a", "one", "es-s0", 900))
    found = compare_shipped(rows, [ES], BOOTSTRAP)
    (cells,) = found.table.cells(HTML)
    assert cells[:5] == ["es-s0", "a", "one", "4", "1"]
    assert len(found.totals) == 1


def test_nothing_is_linked():
    found = compare_shipped(shipped_table(), [ES], BOOTSTRAP)
    assert (found.rows, found.failures, found.totals) == ([], [], [])


def test_the_share_of_what_a_search_knows():
    rows = shipped_table(
        *(shipped_rows("a", name, "heuristic", 1_000) for name in ("one", "two", "unsearched")),
        shipped_rows("a", "one", "es-s0", 900),
        shipped_rows("a", "two", "es-s0", 1_000),
        shipped_rows("a", "unsearched", "es-s0", 500),
        shipped_rows("a", "one", "search", 800),  # 220 bytes less, with its unwind tables; the policy has 110 of them
        shipped_rows("a", "two", "search", 1_000),
    )
    found = compare_shipped(rows, [ES], BOOTSTRAP)
    shares = {row.counts.get("program"): row.by("total").total_share for row in found.rows if row.name == "es-s0"}
    assert shares == {"one": pytest.approx(0.5), "two": None, "unsearched": None, None: pytest.approx(0.5)}
    assert "share of the known headroom" in [column.title for column in found.table.columns]
    # Only programs that the search knows count: 110 and 220 bytes of two programs of 2,100.
    (every, in_c, of_project) = found.shares.rows
    assert [row.scope for row in (every, in_c, of_project)] == ["programs", "c", "a"]
    assert every.by("total").num_compared == 2
    assert "| es-s0 | all | 2 | 4,200 | +2.62 % | +5.24 % | +50.00 % |" in found.shares.markdown()
    plain = compare_shipped(rows.filter(pc.field("contender") != "search"), [ES], BOOTSTRAP)
    assert not plain.parts
    assert "share of the known headroom" not in [column.title for column in plain.table.columns]


def row(program, contender, cost, instructions, reads, **other):
    known = {"spill_cost": cost, "instructions": instructions, "reads": reads, "writes": 0, "text_bytes": 100}
    return {"program": program, "contender": contender, **known, "right": True, "failure": "", "message": "", **other}


ROWS = [
    row("a", "heuristic", 9.0, 1000, 100),
    row("a", "good", 4.0, 900, 90),
    row("a", "bad", 19.0, 1100, 110),
    row("b", "heuristic", 0.0, 2000, 50),
    row("b", "good", 0.0, 2000, 40),
    row("b", "bad", 3.0, 1000, 60),
]


def test_gains_by_hand(tmp_path):
    found = {
        (row.scope, row.name): {name: executed_gain(row, name) for name in EXECUTED}
        for row in read_ran(tmp_path, ROWS).rows
    }
    # With 1 added to costs: 5 / 10, and 1 / 1.
    assert found["a", "good"]["spill_cost"] == pytest.approx(0.5)
    assert found["b", "good"]["spill_cost"] == pytest.approx(0.0)
    assert found["all", "good"]["spill_cost"] == pytest.approx(1 - (0.5 * 1.0) ** 0.5)
    assert found["all", "bad"]["instructions"] == pytest.approx(1 - (1.1 * 0.5) ** 0.5)
    assert found["all", "good"]["accesses"] == pytest.approx(1 - (0.9 * 0.8) ** 0.5)
    assert found["all", "good"]["text_bytes"] == pytest.approx(0.0)


def test_rank_correlations_by_hand(tmp_path):
    mean, a, b = read_ran(tmp_path, ROWS).correlations
    assert tuple(a.values()) == ("a", 3, 1.0, 1.0)
    # Ranks of b: costs 1.5 1.5 3, instructions 2.5 2.5 1: exactly the other way round. Accesses 2 1 3: 0.5 * sqrt(3).
    assert b["spill_cost_instructions"] == pytest.approx(-1.0)
    assert b["spill_cost_accesses"] == pytest.approx(0.5 * 3**0.5)
    assert (mean["program"], mean["spill_cost_instructions"]) == ("mean", pytest.approx(0.0))


def test_what_went_wrong_is_named(tmp_path):
    broken = row("b", "bad", 3.0, None, None, writes=None, right=None, failure="program", message="ended by signal 11")
    programs = read_ran(tmp_path, [*ROWS[:4], {**ROWS[4], "right": False}, broken])
    assert programs.wrong == [("b", "good", "printed something else"), ("b", "bad", "ended by signal 11")]
    assert executed_gain(next(row for row in programs.rows if row.name == "bad"), "instructions") is None
    assert programs.correlations[2]["spill_cost_instructions"] is None  # two contenders are too few


def test_without_the_heuristic(tmp_path):
    with pytest.raises(ArtifactError, match="no run under the heuristic"):
        read_ran(tmp_path, ROWS[1:])
