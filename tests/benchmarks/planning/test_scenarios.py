"""Scenarios: shares, limits, and trainings side by side."""

import numpy as np
import pytest

from benchmarks.planning.cluster import Cluster, Network, Placing, Store
from benchmarks.planning.costs import FREE, UnitCosts
from benchmarks.planning.generations import Shape
from benchmarks.planning.limits import limits, lower_bound
from benchmarks.planning.novelty import Novelty
from benchmarks.planning.scenarios import ALL_PLACINGS, Scenario, nested, placings, relieved, run_all, run_scenario
from benchmarks.planning.simulation import Busy, Course
from benchmarks.planning.validation import Seen, compare
from benchmarks.planning.workload import ModuleLoad, Workload
from tests.benchmarks.planning.measured import COSTS, WORKLOAD

ONE_SECOND = Workload((ModuleLoad("a", 1.0, 1, 1, 0.0, 10.0),), 0.0, (Novelty(0.0, 1e12),))  # all outcomes are new


def costs(**others: float) -> UnitCosts:
    return UnitCosts(**{**vars(FREE), **others})


def test_shares_of_the_time():
    result = run_scenario(ONE_SECOND, costs(update_s=1.0), Scenario(Cluster(2), Placing(), Shape(4, 1, 2)))
    assert result.generation_s == result.first_s == 3.0  # 4 compiles on 2 workers, then the learner
    assert result.utilisation == result.compiling == pytest.approx(4 / 6)
    assert (result.hit_share, result.waiting, result.driver) == (0.0, 0.0, 0.0)
    assert result.busiest == "workers"


def test_trainings_apart_and_together():
    apart = Scenario(Cluster(2), Placing(), Shape(4, 1, 3), trainings=2, shared=False)
    together = Scenario(Cluster(2), Placing(), Shape(4, 1, 3), trainings=2)
    found = [run_scenario(ONE_SECOND, costs(update_s=4.0), one) for one in (apart, together)]
    assert found[0].generation_s == 8.0  # 4 compiles on one worker, then 4 s of learning: half idle
    assert found[0].utilisation == 0.5
    # All 8 compiles of a round on 2 workers, in turn, take 4 s, and nothing is gained by sharing what is synchronous.
    assert found[1].first_s == pytest.approx(8.0, abs=0.5)


def test_the_driver_is_named_where_it_is_the_limit():
    scenario = Scenario(Cluster(100), Placing(), Shape(100, 5, 2))
    result = run_scenario(WORKLOAD, costs(driver_job_s=0.1), scenario)
    assert result.busiest == "driver"
    assert result.driver > 0.99
    assert result.limits[0].part == "driver"
    assert result.limits[0].per_s == 10.0
    record = result.record()
    assert record["busiest"] == "driver"
    assert [one["part"] for one in record["limits"]] == ["driver"]  # what costs nothing has no limit


def test_limits_by_hand():
    course = Course(
        [[1.0]], asked=1000, messages=100, compiled=100, read_bytes=5e6, busy=Busy(compiling=190.0, recalling=10.0)
    )
    cluster = Cluster(
        1000,
        drivers=2,
        network=Network(bytes_per_s=1e6),
        store=Store(operation_s=0.01, operations_per_s=580.0, bytes_per_s=1e6, recall_operations=5, keep_operations=8),
    )
    found = {
        one.part: one
        for one in limits(
            course, costs(driver_message_s=0.01, driver_job_s=0.001, job_bytes=2e3, keep_s=0.02), cluster, 50
        )
    }
    assert found["driver"].per_s == pytest.approx(1000.0)  # 2 / (0.001 + 0.001)
    assert found["driver"].cores == pytest.approx(200.0)  # 0.2 s each
    assert found["network"].per_s == pytest.approx(1000.0)
    assert found["store: operations"].per_s == pytest.approx(100.0)  # 580 / (5 + 0.1 * 8)
    assert found["store: bytes"].per_s == pytest.approx(200.0)  # 5,000 bytes each
    assert found["store: locks"].per_s == pytest.approx(5000.0)  # 50 / (0.1 * (0.02 + 0.08))


def test_lower_bound():
    assert lower_bound(10.0, 3.0, 2, 5, 0.1, 1) == 5.0
    assert lower_bound(10.0, 8.0, 2, 5, 0.1, 1) == 8.0
    assert lower_bound(10.0, 8.0, 2, 200, 0.1, 2) == 10.0


def test_combinations():
    clusters, shapes = [Cluster(4), Cluster(8)], [Shape(2, 2)]
    assert [str(one.placing) for one in placings(clusters[:1], shapes, 0)] == [
        "arrival order",
        "large first",
        "affinity + large first",
        "affinity + stealing",
        "affinity + stealing + large first",
    ]
    assert len(list(placings(clusters, shapes, 0))) == 2 * len(ALL_PLACINGS)
    assert [(one.trainings, one.thinks_s, one.shared) for one in nested(clusters[:1], shapes, [2], [None, 3.0], 0)] == [
        (2, None, False),
        (2, None, True),
        (2, 3.0, False),
        (2, 3.0, True),
    ]
    assert [(one.cluster.drivers, one.cluster.most) for one in relieved(clusters[:1], shapes, [(1, 8), (4, 1)], 0)] == [
        (1, 8),
        (4, 1),
    ]


def test_many_at_once_give_what_each_gives_alone():
    scenarios = list(placings([Cluster(3)], [Shape(6, 5, 2)], 0))
    assert run_all(WORKLOAD, COSTS, scenarios, 2) == [run_scenario(WORKLOAD, COSTS, one) for one in scenarios]


def test_a_real_run_beside_its_simulation():
    modules = (ModuleLoad("a", 1.0, 1, 10, 0.0, 10.0), ModuleLoad("b", 2.0, 1, 20, 0.0, 10.0))
    one = Seen(np.array([0, 1, 0, 1]), np.array([0, 0, 0, 1]), np.array([1.0, 2.0, 0.0, 3.0]), 2, 6.0)
    two = Seen(np.array([0, 1, 0, 1]), np.array([0, 1, 0, 1]), np.array([0.0, 0.0, 0.0, 0.0]), 2, 0.5)
    found = compare([one, two], 1, modules, costs(update_s=0.25), None, np.array([1.0, 2.0]))
    assert found.measured_s == 6.5
    assert found.replayed_s == 6.5  # 1 + 2 + 3 + 0.25, then 0.25
    assert found.replayed_error == pytest.approx((0.25 / 6 + 0.25 / 0.5) / 2)
    assert (found.compiled, found.replayed_compiled) == (3, 3)
    assert found.slowdown == pytest.approx(6 / 5)
    assert np.isnan(found.drawn_s)
    drawn = compare(
        [one, two], 1, modules, costs(), Workload(modules, 0.0, (Novelty(0.0, 1e-12),) * 2), np.array([1.0, 2.0])
    )
    assert (drawn.drawn_s, drawn.drawn_worker_s, drawn.drawn_compiled) == (
        3.0,
        3.0,
        2.0,
    )  # nothing is new after the first candidate
