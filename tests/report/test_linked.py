"""Whole projects: gains, totals and rank correlations by hand."""

import pyarrow as pa
import pytest

from mlgo.core.artifacts import LINKED, PROJECT_MEASURES
from mlgo.report.compare import Bootstrap, verdict
from mlgo.report.linked import link_failures, project_gains, rank_correlations, total_gains
from mlgo.report.metrics import correlation_metrics, headline_linked_metrics, linked_metrics

BOOTSTRAP = Bootstrap(200, 0.95, 0)


def table(rows: list[dict]) -> pa.Table:
    return pa.Table.from_pylist(rows, LINKED)


def rows_of(contender: str, sizes: dict[str, tuple[int | None, ...]], split: str = "test") -> list[dict]:
    """Rows of projects with a size for each measure; None is a failed link."""
    return [
        {
            "project": project,
            "split": split,
            "contender": contender,
            "measure": measure,
            "bytes": size,
            "num_modules": 3,
            "failure": "" if size is not None else "link",
            "message": "" if size is not None else "no",
        }
        for project, values in sizes.items()
        for measure, size in zip(PROJECT_MEASURES, values, strict=True)
    ]


HEURISTIC = dict.fromkeys(("a", "b", "c", "d"), (1000, 1000, 1000, 1000))
# Gains in permille: objects 40 30 20 10, without copies 30 40 20 10, linked 10 20 30 40, folded all 5.
POLICY = {
    "a": (960, 970, 990, 995),
    "b": (970, 960, 980, 995),
    "c": (980, 980, 970, 995),
    "d": (990, 990, 960, 995),
}


def test_rank_correlations_by_hand():
    gains = project_gains(table(rows_of("heuristic", HEURISTIC) + rows_of("es-s0", POLICY)), ["es-s0"])
    by_scope = {one.scope: one for one in rank_correlations(gains)}
    assert list(by_scope) == ["es-s0, test projects", "es-s0, all evaluated projects"]
    found = by_scope["es-s0, test projects"]
    assert found.num_gains == 4
    assert found.by_pair == {
        ("object", "deduplicated"): pytest.approx(0.8),  # 1 - 6 (1 + 1) / (4 * 15)
        ("object", "linked"): pytest.approx(-1.0),
        ("deduplicated", "linked"): pytest.approx(-0.8),
        ("object", "folded"): None,  # all equal
    }
    metrics = correlation_metrics(rank_correlations(gains))["es-s0, test projects"]
    assert metrics == {"gains": 4, "object_deduplicated": 0.8, "object_linked": -1.0, "deduplicated_linked": -0.8}


def test_policies_are_also_correlated_together():
    rows = rows_of("heuristic", HEURISTIC) + rows_of("bc-s0", HEURISTIC) + rows_of("es-s0", POLICY)
    by_scope = {one.scope: one for one in rank_correlations(project_gains(table(rows), ["bc-s0", "es-s0"]))}
    assert by_scope["all policies, test projects"].num_gains == 8
    assert by_scope["bc-s0, test projects"].by_pair["object", "linked"] is None
    # Ranks of objects: 2.5 four times, 8 7 6 5; linked: 2.5 four times, 5 6 7 8. Sum of products of deviations from
    # 4.5: 4 * 4 + (3.5 * 0.5 + 2.5 * 1.5) * 2 = 27; of squares: 4 * 4 + 3.5^2 + 2.5^2 + 1.5^2 + 0.5^2 = 37.
    assert by_scope["all policies, test projects"].by_pair["object", "linked"] == pytest.approx(27 / 37)


def test_two_projects_have_no_rank_correlation():
    few = {name: POLICY[name] for name in ("a", "b")}
    gains = project_gains(table(rows_of("heuristic", HEURISTIC) + rows_of("es-s0", few)), ["es-s0"])
    assert [one.num_gains for one in rank_correlations(gains)] == [2, 2]
    assert set(rank_correlations(gains)[0].by_pair.values()) == {None}


def test_totals_by_hand():
    heuristic = {"a": (1000, 900, 800, 700), "b": (3000, 2700, 2400, 2100)}
    policy = {"a": (900, 855, 792, 700), "b": (3000, 2700, 2400, 2142)}
    gains = project_gains(table(rows_of("heuristic", heuristic) + rows_of("es-s0", policy)), ["es-s0"])
    assert [one.gain("object") for one in gains] == [pytest.approx(0.1), 0.0]
    (total,) = total_gains(gains, BOOTSTRAP)
    expected = {"object": 100 / 4000, "deduplicated": 45 / 3600, "linked": 8 / 3200, "folded": -42 / 2800}
    for measure, gain in expected.items():
        assert total.by_measure[measure].total == pytest.approx(gain)
    linked = total.by_measure["linked"]
    # Of two projects a quarter of the resamples holds only one or only the other: the interval spans both gains.
    assert (linked.total_low, linked.total_high) == (0.0, pytest.approx(0.01))
    assert verdict(linked) == "no difference shown"
    metrics = linked_metrics([total])["test"]["es-s0"]
    assert metrics["object_total_gain_percent"] == 2.5
    assert metrics["folded_total_gain_percent"] == -1.5
    assert metrics["linked_total_high_percent"] == 1.0
    assert (metrics["projects"], metrics["projects_failed"]) == (2, 0)
    assert headline_linked_metrics([total]) == {
        "test": {"es": {"linked_gain_percent": 0.25, "linked_low_percent": 0.0, "linked_high_percent": 1.0}}
    }


def test_a_project_with_an_unknown_size_is_in_no_total():
    policy = {**POLICY, "b": (970, 960, None, None)}
    linked = table(rows_of("heuristic", HEURISTIC) + rows_of("es-s0", policy))
    gains = project_gains(linked, ["es-s0"])
    assert gains[1].gain("object") == pytest.approx(0.03)
    assert gains[1].gain("linked") is None
    (total,) = total_gains(gains, BOOTSTRAP)
    for comparison in total.by_measure.values():
        assert (comparison.num_modules, comparison.num_failed) == (3, 1)
    assert total.by_measure["object"].total == pytest.approx((40 + 20 + 10) / 3000)
    assert rank_correlations(gains)[0].num_gains == 3
    assert [(row["project"], row["measure"]) for row in link_failures(linked)] == [("b", "linked"), ("b", "folded")]


def test_splits_are_apart():
    rows = rows_of("heuristic", HEURISTIC) + rows_of("es-s0", POLICY)
    rows += rows_of("heuristic", {"t": (10, 10, 10, 10)}, "train") + rows_of("es-s0", {"t": (9, 9, 9, 9)}, "train")
    gains = project_gains(table(rows), ["es-s0"])
    assert [(one.split, one.by_measure["object"].num_modules) for one in total_gains(gains, BOOTSTRAP)] == [
        ("test", 4),
        ("train", 1),
    ]
    assert [one.num_gains for one in rank_correlations(gains)] == [4, 5]
    assert "linked_low_percent" not in headline_linked_metrics(total_gains(gains, BOOTSTRAP))["train"]["es"]
