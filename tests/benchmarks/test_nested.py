"""What sharing workers can gain, worked out by hand, and a small run in both ways."""

import pytest

from benchmarks import nested
from benchmarks.nested import Sharing, Work, bench_nested, bound, idle_seconds
from tests.pool.clusters import needs_ray

T2, T4 = 2.0, 4.0
"""A generation on dedicated workers, for two and four experiments: on all of them, it takes one second."""


@pytest.mark.parametrize(
    ("experiments", "generation_s", "idle_of", "share", "idle_s", "gain"),
    [
        (2, T2, "dedicated", 0.0, 0.0, 1.0),  # 2 / max(2, 1)
        (2, T2, "dedicated", 0.5, 2.0, 4 / 3),  # (2 + 2) / max(2, 1 + 2)
        (2, T2, "alone", 0.5, 1.0, 3 / 2),  # (2 + 1) / max(2, 1 + 1)
        (2, T2, "sharing", 0.5, 1.0, 3 / 2),  # 1 of 2 seconds
        (2, T2, "sharing", 0.25, 0.5, 5 / 4),  # 0.5 of 2 seconds, in which both get their work done
        (2, T2, "alone", 0.75, 3.0, 5 / 4),  # (2 + 3) / (1 + 3)
        (4, T4, "dedicated", 0.5, 4.0, 8 / 5),  # (4 + 4) / max(4, 1 + 4)
        (4, T4, "alone", 0.5, 1.0, 5 / 4),  # (4 + 1) / max(4, 1 + 1)
        (4, T4, "sharing", 0.5, 2.0, 3 / 2),  # (4 + 2) / max(4, 1 + 2)
        (4, T4, "sharing", 0.8, 4.0, 8 / 5),  # 4 of 5 seconds; the workers idle, too
    ],
)
def test_idle_times_and_bounds(experiments, generation_s, idle_of, share, idle_s, gain):
    assert idle_seconds(generation_s, experiments, idle_of, share) == pytest.approx(idle_s)
    assert bound(generation_s, experiments, idle_s) == pytest.approx(gain)


@pytest.mark.slow
@needs_ray
@pytest.mark.timeout(600)
def test_both_ways_do_the_same_work(leaves_nothing):
    work = Work("wait", nested._make_waiter, (0.05,) * 6)
    with leaves_nothing(descriptors=False):
        (gain,) = bench_nested(work, 2, 2, [("alone", 0.5)], 1.0, 1, Sharing())
    assert (gain.experiments, gain.workers, gain.work, gain.jobs, gain.rounds) == (2, 2, "wait", 6, 1)
    assert gain.idle_s >= 0.15  # six times 0.05 s on one worker, half of that on two
    assert 1.1 < gain.bound <= 1.5
    assert 0.0 < gain.dedicated_per_s <= 2 * 6 / 0.45 * 1.05
    assert 0.0 < gain.shared_per_s <= 2 * 6 / 0.3 * 1.05  # two workers cannot do more
    assert gain.ratio == pytest.approx(gain.shared_per_s / gain.dedicated_per_s, rel=0.01)
    assert gain.dedicated_processor_ms > 0
    assert gain.shared_processor_ms > 0
