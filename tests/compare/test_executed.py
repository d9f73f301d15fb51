"""Programs that ran: changes and rank correlations by hand."""

import pytest

from mlgo.base.artifacts import PROGRAMS, write_rows
from mlgo.compare.programs import EXECUTED, executed_gain, read_programs
from mlgo.errors import ArtifactError


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


@pytest.fixture
def read(tmp_path):
    def go(rows):
        write_rows(tmp_path / "programs.parquet", rows, PROGRAMS, {})
        return read_programs(tmp_path / "programs.parquet")

    return go


def test_gains_by_hand(read):
    found = {(row.scope, row.name): {name: executed_gain(row, name) for name in EXECUTED} for row in read(ROWS).rows}
    # With 1 added to costs: 5 / 10, and 1 / 1.
    assert found["a", "good"]["spill_cost"] == pytest.approx(0.5)
    assert found["b", "good"]["spill_cost"] == pytest.approx(0.0)
    assert found["all", "good"]["spill_cost"] == pytest.approx(1 - (0.5 * 1.0) ** 0.5)
    assert found["all", "bad"]["instructions"] == pytest.approx(1 - (1.1 * 0.5) ** 0.5)
    assert found["all", "good"]["accesses"] == pytest.approx(1 - (0.9 * 0.8) ** 0.5)
    assert found["all", "good"]["text_bytes"] == pytest.approx(0.0)


def test_rank_correlations_by_hand(read):
    mean, a, b = read(ROWS).correlations
    assert (a.scope, a.number, *a.by_pair.values()) == ("a", 3, 1.0, 1.0)
    # Ranks of b: costs 1.5 1.5 3, instructions 2.5 2.5 1: exactly the other way round. Accesses 2 1 3: 0.5 * sqrt(3).
    assert b.by_pair["spill_cost", "instructions"] == pytest.approx(-1.0)
    assert b.by_pair["spill_cost", "accesses"] == pytest.approx(0.5 * 3**0.5)
    assert (mean.scope, mean.by_pair["spill_cost", "instructions"]) == ("mean", pytest.approx(0.0))


def test_what_went_wrong_is_named(read):
    broken = row("b", "bad", 3.0, None, None, writes=None, right=None, failure="program", message="ended by signal 11")
    programs = read([*ROWS[:4], {**ROWS[4], "right": False}, broken])
    assert programs.wrong == [("b", "good", "printed something else"), ("b", "bad", "ended by signal 11")]
    assert executed_gain(next(row for row in programs.rows if row.name == "bad"), "instructions") is None
    assert programs.correlations[2].by_pair["spill_cost", "instructions"] is None  # two contenders are too few


def test_without_the_heuristic(read):
    with pytest.raises(ArtifactError, match="no run under the heuristic"):
        read(ROWS[1:])
