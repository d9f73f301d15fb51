"""Work in processes: the same results on any number of them, and nothing compiled twice."""

import os
import signal
from dataclasses import dataclass

import numpy as np
import pytest

from mlgo.cse.columns import columns_for
from mlgo.cse.jobs import CompileJob, FollowJob, GreedyJob, LabelJob, SampleJob
from mlgo.cse.memory import RememberingCompiler
from mlgo.cse.policy import ChoicePolicy
from mlgo.cse.pool import CsePool
from mlgo.cse.problem import Compiled, CseCompiler, Failed
from mlgo.cse.state import Observer
from tests.cse.additive import COLUMNS, AdditiveCompiler, AdditiveSpec

SPEC = AdditiveSpec({f"u{i}": ((5, 1), (1, 5), (i, 2)) for i in range(6)})
OBSERVER = Observer(columns_for(["benefit", "cost"], COLUMNS), 4)
POLICY = ChoicePolicy.fresh("gcc-pre", OBSERVER, [3], np.random.default_rng(0))


def jobs():
    weights = np.random.default_rng(1).normal(size=(5, POLICY.architecture.num_params)).astype(np.float32)
    for i in range(6):
        yield CompileJob(f"u{i}", ((), None, (0,)))
        yield GreedyJob(f"u{i}", POLICY, weights)
        yield SampleJob(f"u{i}", POLICY, 4, 0, ("test",))
        yield LabelJob(f"u{i}", 9, 64, 0)
        yield FollowJob(f"u{i}", POLICY, (0, 2), 3, 0)


def test_results_do_not_depend_on_the_number_of_workers():
    found = []
    for workers in (1, 2):
        with CsePool(SPEC, workers) as pool:
            found.append(pool.map(list(jobs())))
            if workers == 1:  # two may find out the same at the same time
                assert pool.num_compiled == 6 * (2**3 + 1)  # labels try all subsets, and the heuristic
    assert all(plain(a) == plain(b) for a, b in zip(*found, strict=True))


def plain(value):
    """Something that can be compared."""
    if isinstance(value, np.ndarray):
        return value.tolist()
    if isinstance(value, list | tuple):
        return [plain(one) for one in value]
    if hasattr(value, "__dataclass_fields__"):
        return {name: plain(getattr(value, name)) for name in value.__dataclass_fields__}
    return value


def test_what_one_job_found_out_is_known_to_the_next():
    with CsePool(SPEC, 1) as pool:
        pool.map([LabelJob("u0", 9, 64, 0)])
        before = pool.num_compiled
        (outcomes,) = pool.map([CompileJob("u0", ((2, 0), None))])
        assert pool.num_compiled == before
        assert outcomes[0].score == 100 - 4 + 2


def test_choices_are_followed_in_other_orders_that_end_alike():
    compiler = RememberingCompiler(SPEC.open())
    episodes = FollowJob("u5", POLICY, (0, 2), 10, 0)(compiler)
    assert sorted(one.actions.tolist() for one in episodes) == [[0, 2, 4], [2, 0, 4]]
    assert {one.outcome.score for one in episodes} == {100 - 4 - 3}


def test_following_nothing_is_to_stop_at_once():
    (episode,) = FollowJob("u0", POLICY, (), 5, 0)(SPEC.open())
    assert episode.actions.tolist() == [4]


@dataclass(frozen=True)
class DyingJob:
    unit: str

    def __call__(self, compiler: CseCompiler) -> None:
        os.kill(os.getpid(), signal.SIGKILL)


def test_a_worker_that_dies_loses_its_job_only():
    with CsePool(SPEC, 1) as pool:
        lost, (kept,) = pool.map([DyingJob("u0"), CompileJob("u1", ((),))])
        assert lost is None
        assert isinstance(kept, Compiled)


class Hasty(AdditiveCompiler):
    """Fails the first time, for want of time."""

    def compile(self, unit, decisions):
        first = not self.compiles
        outcome = super().compile(unit, decisions)
        return Failed("timeout", "too slow") if first else outcome


@dataclass(frozen=True)
class HastySpec:
    def open(self) -> Hasty:
        return Hasty(SPEC.effects)


def test_a_deadline_that_was_missed_is_no_knowledge():
    with CsePool(HastySpec(), 1) as pool:
        (first,), (second,) = pool.map([CompileJob("u0", ((),)), CompileJob("u0", ((),))])
    assert isinstance(first, Failed)
    assert isinstance(second, Compiled)


@pytest.mark.parametrize(("ordered", "compiles"), [(False, 1), (True, 2)])
def test_orders_are_one_where_they_do_not_matter(ordered, compiles):
    inner = AdditiveCompiler({"u": [(1, 0), (2, 0)]}, ordered=ordered)
    compiler = RememberingCompiler(inner)
    compiler.compile("u", (0, 1))
    compiler.compile("u", (1, 0))
    assert (len(inner.compiles), compiler.num_asked) == (compiles, 2)
