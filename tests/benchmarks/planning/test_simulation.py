"""Makespans worked out by hand, and bounds that no schedule can beat."""

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import settings as hypothesis_settings
from hypothesis import strategies as st

from benchmarks.planning.cluster import Cluster, Network, Placing, Store
from benchmarks.planning.costs import FREE, UnitCosts
from benchmarks.planning.generations import Generation, Shape, drawn
from benchmarks.planning.limits import lower_bound
from benchmarks.planning.novelty import Novelty
from benchmarks.planning.scenarios import ALL_PLACINGS
from benchmarks.planning.simulation import Course, simulate
from benchmarks.planning.workload import ModuleLoad, Workload

ARRIVAL = Placing(affinity=False, large_first=False)
LARGE_FIRST = Placing(affinity=False)


def loads(*seconds: float, **others: float) -> list[ModuleLoad]:
    return [ModuleLoad(f"m{i}", one, 100, int(1000 * one), **others) for i, one in enumerate(seconds)]


def evaluations(modules: list[ModuleLoad], *pairs: tuple[int, int], candidates: int = 1) -> Generation:
    """Pairs of module and outcome, each taking what its module takes."""
    numbers = np.array([module for module, _ in pairs], np.int64)
    outcomes = np.array([outcome for _, outcome in pairs], np.int64)
    return Generation(numbers, outcomes, np.array([modules[i].compile_s for i in numbers], float), candidates)


def once_each(modules: list[ModuleLoad]) -> Generation:
    return evaluations(modules, *((i, 0) for i in range(len(modules))))


def run(modules, costs=FREE, cluster=Cluster(2), placing=ARRIVAL, generations=None) -> Course:  # noqa: B008
    return simulate(modules, costs, cluster, placing, [generations or [once_each(modules)]])


def test_three_tasks_on_two_workers():
    assert run(loads(1.0, 2.0, 3.0)).seconds == 4.0  # 1 and then 3 beside 2
    assert run(loads(1.0, 2.0, 3.0), placing=LARGE_FIRST).seconds == 3.0  # 3 beside 2 and then 1


def test_a_generation_begins_when_the_one_before_is_over_and_learned_from():
    modules = loads(1.0, 2.0)
    costs = replace(FREE, update_s=0.5, update_candidate_s=0.25)
    two = [once_each(modules), evaluations(modules, (0, 1), (1, 1), candidates=2)]
    course = run(modules, costs, generations=two)
    assert course.ends == [[2.75, 5.75]]  # 2 + 0.5 + 0.25, then 2 + 0.5 + 0.5
    assert course.busy.learner == 1.75


def test_a_driver_that_is_slower_than_its_workers():
    modules = loads(*[0.001] * 50)
    costs = replace(FREE, driver_job_s=1.0, driver_send_share=0.5)
    course = run(modules, costs, Cluster(50))
    assert course.seconds == pytest.approx(50.0)  # all it does is to send and to receive
    assert course.busy.driver == pytest.approx(50.0)
    assert lower_bound(0.05, 0.001, 50, 50, costs.driver_task_s(), 1) == 50.0
    assert run(modules, costs, Cluster(50, drivers=5)).seconds == pytest.approx(50.0)  # one candidate has one driver


def test_several_drivers_share_the_candidates():
    modules = loads(0.001)
    generation = evaluations(modules, *((0, i) for i in range(40)), candidates=40)
    costs = replace(FREE, driver_job_s=1.0)
    assert run(modules, costs, Cluster(40), generations=[generation]).seconds == pytest.approx(40.0, abs=0.01)
    assert run(modules, costs, Cluster(40, drivers=4), generations=[generation]).seconds == pytest.approx(
        10.0, abs=0.01
    )


def test_messages_of_several_jobs():
    modules = loads(*[0.001] * 40)
    costs = replace(FREE, driver_message_s=1.0, driver_job_s=0.1)
    single = run(modules, costs, Cluster(1, most=1))
    assert single.seconds == pytest.approx(44.0 + 0.04)
    assert single.messages == 40
    several = run(modules, costs, Cluster(1, most=4))
    assert several.messages == 17  # 1 + 2 + 6 x 4, then a quarter of what waits: 3 + 2 + 2 + 6 x 1
    assert several.seconds == pytest.approx(17 + 4 + 0.04)
    assert costs.driver_task_s(10) == pytest.approx(0.2)


def test_what_a_long_compile_keeps_waiting_is_left_for_others():
    modules = loads(*[0.001] * 40, 1.0, *[0.001] * 40)
    course = run(modules, cluster=Cluster(1))
    assert course.seconds == pytest.approx(1.08)
    assert course.asked == 81
    beside = run(modules, cluster=Cluster(2))
    assert beside.seconds < 1.04  # the other has done everything else by then


def test_depth_hides_the_way_to_the_worker():
    modules = loads(1.0, 1.0, 1.0)
    network = Network(latency_s=0.5)
    assert run(modules, cluster=Cluster(1, network=network)).seconds == 6.0
    assert run(modules, cluster=Cluster(1, network=network, depth=2)).seconds == 4.0


def test_a_link_carries_one_job_after_another():
    modules = loads(1.0, 1.0, 1.0)
    costs = replace(FREE, job_bytes=10.0)
    course = run(modules, costs, Cluster(3, network=Network(bytes_per_s=10.0)))
    assert course.seconds == 4.0  # the third arrives after 3
    assert course.busy.link == 3.0


def test_an_outcome_that_is_known_is_not_compiled():
    modules = loads(1.0)
    costs = replace(FREE, recall_s=0.25)
    generation = evaluations(modules, (0, 0), (0, 1), (0, 0))
    course = run(loads(1.0, leaf_bytes=8.0), costs, Cluster(1), generations=[generation])
    assert (course.asked, course.compiled, course.repeated) == (3, 2, 0)
    assert course.seconds == 2.5  # the first finds no tree at all


def test_workers_that_meet_the_same_outcome_at_once_both_compile_it():
    modules = loads(1.0, leaf_bytes=8.0)
    generation = evaluations(modules, (0, 0), (0, 0), (0, 0))
    course = run(modules, cluster=Cluster(2), generations=[generation])
    assert (course.compiled, course.repeated) == (2, 1)


def test_a_lock_is_held_by_one_at_a_time():
    modules = loads(1.0, leaf_bytes=8.0)
    generation = evaluations(modules, (0, 0), (0, 1), (0, 2))
    course = run(modules, replace(FREE, keep_s=0.5), Cluster(3), generations=[generation])
    assert course.seconds == 2.5
    assert (course.busy.waiting, course.busy.lock) == (1.5, 1.5)  # 0.5 and 1


def test_trees_are_read_once_and_then_what_was_added():
    modules = loads(1.0, tree_bytes=100.0, leaf_bytes=10.0)
    generation = evaluations(modules, (0, 0), (0, 1))
    course = run(modules, replace(FREE, load_byte_s=0.01), Cluster(1), generations=[generation])
    assert course.seconds == 3.0  # 1 to load, and nobody else adds anything
    assert (course.cold, course.read_bytes) == (1, 100.0)
    both = run(modules, replace(FREE, load_byte_s=0.01), Cluster(2), generations=[generation])
    assert both.seconds == 2.1  # the second to get the lock reads what the first has added
    assert (both.cold, both.read_bytes) == (2, 210.0)


def test_a_file_server_that_is_slow():
    modules = loads(1.0)
    store = Store(operation_s=0.125, operations_per_s=8.0, recall_operations=2, keep_operations=4)
    course = run(modules, cluster=Cluster(1, store=store))
    assert course.seconds == 2.5  # 2 operations: 0.25 + 0.25; 4 operations: 0.5 + 0.5
    assert (course.busy.server, course.busy.waiting) == (0.75, 1.5)


def test_affinity_keeps_modules_apart_and_stealing_shares_them():
    modules = loads(1.0, leaf_bytes=8.0)
    generation = evaluations(modules, *((0, i) for i in range(4)))
    alone = run(modules, placing=Placing(stealing=False), generations=[generation])
    assert (alone.seconds, alone.stolen) == (4.0, 0)
    shared = run(modules, placing=Placing(), generations=[generation])
    assert (shared.seconds, shared.stolen) == (2.0, 2)


def test_two_trainings_that_idle_half_of_their_time_share_one_worker():
    modules = loads(1.0)
    costs = replace(FREE, update_s=1.0)
    each = [[evaluations(modules, (0, i)) for i in range(10)] for _ in range(2)]
    alone = simulate(modules, costs, Cluster(1), Placing(), each[:1])
    assert (alone.seconds, alone.busy.compiling) == (20.0, 10.0)
    both = simulate(modules, costs, Cluster(1), Placing(), each)
    assert both.ends[0][-1] == 20.0
    assert (both.seconds, both.busy.compiling) == (21.0, 20.0)  # the second is one compile behind, no more


def test_what_waits_is_bounded():
    modules = loads(3.0, 1.0, 1.0, 9.0)
    cluster = Cluster(1, lookahead=2, most=1)
    course = run(modules, cluster=cluster, placing=LARGE_FIRST)
    assert course.seconds == 14.0
    two = run(modules, cluster=Cluster(2, lookahead=2, most=1), placing=LARGE_FIRST)
    assert two.seconds == 10.0  # 9 is not seen before the first 1 is over
    assert run(modules, cluster=Cluster(2), placing=LARGE_FIRST).seconds == 9.0


COSTS = UnitCosts(1e-4, 2e-4, 0.5, 3e3, 1e3, 1e-4, 1e-6, 1e-8, 5e-4, 1e-8, 1e-3, 1e-5)


@hypothesis_settings(max_examples=25)
@given(
    seconds=st.lists(st.floats(0.01, 5.0), min_size=1, max_size=6),
    cores=st.integers(1, 12),
    drivers=st.integers(1, 3),
    most=st.integers(1, 3),
    depth=st.integers(1, 2),
    candidates=st.integers(1, 8),
    placing=st.sampled_from(ALL_PLACINGS),
    seed=st.integers(0, 5),
)
def test_nothing_beats_the_lower_bound(seconds, cores, drivers, most, depth, candidates, placing, seed):
    modules = loads(*seconds, leaf_bytes=100.0)
    workload = Workload(tuple(modules), 0.1, (Novelty(0.5, 2.0),) * len(modules))
    (generation,) = drawn(workload, Shape(candidates, len(modules), 1), seed)
    cluster = Cluster(cores, drivers=drivers, most=most, depth=depth)
    course = simulate(modules, COSTS, cluster, placing, [[generation]])
    num = candidates * len(modules)
    assert course.asked == num
    assert len(set(zip(generation.modules, generation.outcomes, strict=True))) <= course.compiled <= num
    least = lower_bound(course.busy.worker, min(generation.seconds), cores, num, COSTS.driver_task_s(most), drivers)
    assert course.seconds >= least * (1 - 1e-9)
    assert course.busy.worker + course.busy.waiting <= course.seconds * cores * (1 + 1e-9)
    assert course.busy.driver <= course.seconds * drivers * (1 + 1e-9)
    again = simulate(modules, COSTS, cluster, placing, [[generation]])
    assert again == course
