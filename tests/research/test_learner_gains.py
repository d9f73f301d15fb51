"""Gains by size of module, from made-up results: classes and totals by hand."""

import pyarrow as pa
import pytest

from mlgo.base.artifacts import RESULTS
from mlgo.compare.inference import POINTS_ONLY
from mlgo.errors import ArtifactError
from mlgo.research.learner_gains import BOUNDS, compare_by_size
from tests.compare.conftest import result_row


def results(*rows, split="validation"):
    """Rows of (learner, seed, module, bytes under the heuristic, bytes under the policy)."""
    return pa.Table.from_pylist(
        [
            result_row("bellows", module, {"text_bytes": text}, {"text_bytes": before}, learner, seed, split=split)
            for learner, seed, module, before, text in rows
        ],
        RESULTS,
    )


def test_totals_by_class_over_all_seeds():
    sizes = {  # under the heuristic, under each seed; a bound belongs to the class below it
        **{"tiny.c": (1_000, 900, 800), "small.c": (1_001, 1_001, 1_001)},
        **{"large.c": (100_000, 150_000, 50_000), "huge.c": (100_001, 200_002, 100_001)},
    }
    table = results(*(("es", seed, name, one[0], one[1 + seed]) for seed in (0, 1) for name, one in sizes.items()))
    rows = compare_by_size(table, None, "text_bytes", POINTS_ONLY)
    found = {row.scope: row.by("text_bytes").total.value for row in rows}
    assert list(found) == ["up to 1,000", "1,001 to 3,000", "30,001 to 100,000", "over 100,000"]
    assert list(found.values()) == pytest.approx([0.15, 0.0, 0.0, -0.5])


def test_classes_hold_every_module_once():
    sizes = sorted({0, 1, *(bound + step for bound in BOUNDS for step in (-1, 0, 1)), 10**9})
    table = results(*(("es", 0, f"{size}.c", size, size) for size in sizes))
    rows = compare_by_size(table, "validation", "text_bytes", POINTS_ONLY)
    assert sum(row.by("text_bytes").num_compared for row in rows) == len(sizes)


def test_learners_stand_side_by_side_without_single_seeds_and_classes_are_those_of_text():
    table = results(*((learner, seed, "a.c", 500, 400) for learner in ("bc", "es") for seed in (0, 1)))
    rows = compare_by_size(table, None, "text_bytes", POINTS_ONLY)
    assert [(row.contender.learner, row.contender.seeds) for row in rows] == [("bc", (0, 1)), ("es", (0, 1))]
    table = results(("es", 0, "a.c", 5_000, 4_000)).to_pylist()
    table[0] |= {"spill_cost": 300.0, "baseline_spill_cost": 400.0}
    (row,) = compare_by_size(pa.Table.from_pylist(table, RESULTS), None, "spill_cost", POINTS_ONLY)
    assert row.scope == "3,001 to 10,000"  # by text, not by the cost
    assert list(row.comparisons) == ["spill_cost"]


def test_what_the_evaluation_does_not_hold():
    table = results(("es", 0, "a.c", 500, 400))
    with pytest.raises(ArtifactError, match="nothing about the test split; add test to evaluate"):
        compare_by_size(table, "test", "text_bytes", POINTS_ONLY)
    with pytest.raises(ArtifactError, match="knows nothing of spill_cost"):
        compare_by_size(table, None, "spill_cost", POINTS_ONLY)
