"""Whole projects: gains, totals and rank correlations by hand."""

import math

import pyarrow as pa
import pytest

from mlgo.base.artifacts import LINKED, PROJECT_MEASURES
from mlgo.compare.inference import Bootstrap
from mlgo.compare.measured import Contender, Measured
from mlgo.compare.projects import (
    link_failures,
    measured_projects,
    project_gains,
    project_rows,
    rank_correlations,
    total_rows,
)
from mlgo.report.metrics import correlation_metrics, headline_metrics, metrics

BOOTSTRAP = Bootstrap(200, 0.95, 0)


def table(rows: list[dict]) -> pa.Table:
    return pa.Table.from_pylist(rows, LINKED)


def measured(rows: list[dict], *policies: str) -> Measured:
    return measured_projects(table(rows), [Contender.named(name) for name in policies])


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
    projects = measured(rows_of("heuristic", HEURISTIC) + rows_of("es-s0", POLICY), "es-s0")
    by_scope = {one.scope: one for one in rank_correlations(projects)}
    assert list(by_scope) == ["es-s0, test projects", "es-s0, all evaluated projects"]
    found = by_scope["es-s0, test projects"]
    assert found.number == 4
    assert found.by_pair == {
        ("object", "deduplicated"): pytest.approx(0.8),  # 1 - 6 (1 + 1) / (4 * 15)
        ("object", "linked"): pytest.approx(-1.0),
        ("deduplicated", "linked"): pytest.approx(-0.8),
        ("object", "folded"): None,  # all equal
    }
    told = correlation_metrics(rank_correlations(projects))["es-s0, test projects"]
    assert told == {"gains": 4, "object_deduplicated": 0.8, "object_linked": -1.0, "deduplicated_linked": -0.8}


def test_policies_are_also_correlated_together():
    rows = rows_of("heuristic", HEURISTIC) + rows_of("bc-s0", HEURISTIC) + rows_of("es-s0", POLICY)
    by_scope = {one.scope: one for one in rank_correlations(measured(rows, "bc-s0", "es-s0"))}
    assert by_scope["all policies, test projects"].number == 8
    assert by_scope["bc-s0, test projects"].by_pair["object", "linked"] is None
    # Ranks of objects: 2.5 four times, 8 7 6 5; linked: 2.5 four times, 5 6 7 8. Sum of products of deviations from
    # 4.5: 4 * 4 + (3.5 * 0.5 + 2.5 * 1.5) * 2 = 27; of squares: 4 * 4 + 3.5^2 + 2.5^2 + 1.5^2 + 0.5^2 = 37.
    assert by_scope["all policies, test projects"].by_pair["object", "linked"] == pytest.approx(27 / 37)


def test_two_projects_have_no_rank_correlation():
    few = {name: POLICY[name] for name in ("a", "b")}
    projects = measured(rows_of("heuristic", HEURISTIC) + rows_of("es-s0", few), "es-s0")
    assert [one.number for one in rank_correlations(projects)] == [2, 2]
    assert set(rank_correlations(projects)[0].by_pair.values()) == {None}


def test_totals_by_hand():
    heuristic = {"a": (1000, 900, 800, 700), "b": (3000, 2700, 2400, 2100)}
    policy = {"a": (900, 855, 792, 700), "b": (3000, 2700, 2400, 2142)}
    projects = measured(rows_of("heuristic", heuristic) + rows_of("es-s0", policy), "es-s0")
    assert project_gains(projects)["object"].tolist() == [[pytest.approx(0.1), 0.0]]
    (total,) = total_rows(projects, BOOTSTRAP)
    expected = {"object": 100 / 4000, "deduplicated": 45 / 3600, "linked": 8 / 3200, "folded": -42 / 2800}
    for measure, gain in expected.items():
        assert total.by(measure).total.value == pytest.approx(gain)
    linked = total.by("linked")
    # Of two projects a quarter of the resamples holds only one or only the other: the interval spans both gains.
    assert (linked.total.low, linked.total.high) == (0.0, pytest.approx(0.01))
    assert linked.finding == "no verdict: 2 projects, six are needed"
    found = metrics([], [total])["test"]["es-s0"]
    assert found["object_total_gain_percent"] == 2.5
    assert found["folded_total_gain_percent"] == -1.5
    assert found["linked_total_high_percent"] == 1.0
    assert (found["projects"], found["projects_failed"]) == (2, 0)
    assert headline_metrics([], "text_bytes", [total]) == {
        "test": {"es": {"linked_gain_percent": 0.25, "linked_low_percent": 0.0, "linked_high_percent": 1.0}}
    }


def test_a_project_with_an_unknown_size_is_in_no_total():
    policy = {**POLICY, "b": (970, 960, None, None)}
    rows = rows_of("heuristic", HEURISTIC) + rows_of("es-s0", policy)
    projects = measured(rows, "es-s0")
    assert project_gains(projects)["object"][0, 1] == pytest.approx(0.03)
    assert math.isnan(project_gains(projects)["linked"][0, 1])
    (total,) = total_rows(projects, BOOTSTRAP)
    for comparison in total.comparisons.values():
        assert (comparison.num_compared, comparison.num_failed) == (3, 1)
    assert total.by("object").total.value == pytest.approx((40 + 20 + 10) / 3000)
    assert rank_correlations(projects)[0].number == 3
    assert [(row["project"], row["measure"]) for row in link_failures(table(rows))] == [
        ("b", "linked"),
        ("b", "folded"),
    ]


def test_splits_are_apart():
    rows = rows_of("heuristic", HEURISTIC) + rows_of("es-s0", POLICY)
    rows += rows_of("heuristic", {"t": (10, 10, 10, 10)}, "train") + rows_of("es-s0", {"t": (9, 9, 9, 9)}, "train")
    projects = measured(rows, "es-s0")
    assert [(one.split, one.by("object").num_compared) for one in total_rows(projects, BOOTSTRAP)] == [
        ("test", 4),
        ("train", 1),
    ]
    assert [one.number for one in rank_correlations(projects)] == [4, 5]
    assert (
        "linked_low_percent" not in headline_metrics([], "text_bytes", total_rows(projects, BOOTSTRAP))["train"]["es"]
    )


def test_single_projects_by_hand():
    heuristic = {"a": (1000, 900, 800, 700), "b": (3000, 2700, 2400, 2100)}
    policy = {"a": (900, 855, 792, 700), "b": (3000, 2700, None, None)}
    projects = measured(rows_of("heuristic", heuristic) + rows_of("es-s0", policy), "es-s0")
    a, b = project_rows(projects, "test")
    assert [a.by(measure).total.value for measure in PROJECT_MEASURES] == [
        pytest.approx(gain) for gain in (0.1, 0.05, 0.01, 0.0)
    ]
    assert (a.scope, a.counts, a.by("linked").total.low) == ("a", {"modules": 3}, None)
    assert (b.by("object").total.value, b.by("linked").total.value) == (0.0, None)


def test_folding_is_measured_by_itself():
    """Were "folded" the linked size, or the other way round, one of these would fail."""
    policy = dict.fromkeys(HEURISTIC, (1000, 1000, 990, 950))
    (total,) = total_rows(measured(rows_of("heuristic", HEURISTIC) + rows_of("es-s0", policy), "es-s0"), BOOTSTRAP)
    assert (total.by("linked").total.value, total.by("folded").total.value) == (
        pytest.approx(0.01),
        pytest.approx(0.05),
    )
