"""Work in processes: the same results on any number of them, and nothing compiled twice."""

import os
import signal
from dataclasses import dataclass
from functools import partial

import numpy as np
import pytest

from mlgo.jit.baseline import EligibleUnit, names_of
from mlgo.jit.cache import CachedCompiler
from mlgo.jit.compiler import ChoiceCompiler, compile_each
from mlgo.jit.labels import find_label
from mlgo.jit.outcome import CompiledUnit, Failed
from mlgo.jit.policy import ChoicePolicy, demonstrated, greedy, sampled
from mlgo.jit.pool import ChoicePool
from mlgo.learn.choices import rewards_of
from tests.jit.additive import OBSERVER, AdditiveCompiler, AdditiveSpec

SPEC = AdditiveSpec({f"u{i}": ((5, 1), (1, 5), (i, 2)) for i in range(6)})
POLICY = ChoicePolicy.fresh("jit-cse", OBSERVER, [3], np.random.default_rng(0))
LABELS = partial(find_label, max_exhaustive=9, max_trials=64, seed=0)


def works():
    weights = np.random.default_rng(1).normal(size=(5, POLICY.architecture.num_params)).astype(np.float32)
    yield compile_each
    yield partial(greedy, policy=POLICY, weights=weights)
    yield partial(sampled, policy=POLICY, num_episodes=4, seed=0, names=("test",))
    yield LABELS
    yield partial(demonstrated, policy=POLICY, choices=dict.fromkeys(SPEC.effects, (0, 2)), num_orders=3, seed=0)


def test_results_do_not_depend_on_the_number_of_workers():
    found, compiled = [], []
    for workers in (1, 2):
        with ChoicePool(SPEC, workers) as pool:
            found.append([pool.map(work, list(SPEC.effects)) for work in works()])
            assert pool.num_asked > pool.num_compiled >= 6 * (2**3 + 1)  # labels try all subsets, and the heuristic
            compiled.append(pool.num_compiled)
    assert plain(found[0]) == plain(found[1])
    assert compiled[0] == compiled[1]


def plain(value):
    """Something that can be compared."""
    if isinstance(value, np.ndarray):
        return value.tolist()
    if isinstance(value, list | tuple):
        return [plain(one) for one in value]
    if isinstance(value, dict):
        return [(name, plain(one)) for name, one in value.items()]
    if hasattr(value, "__dataclass_fields__"):
        return {name: plain(getattr(value, name)) for name in value.__dataclass_fields__}
    return value


def test_what_one_job_found_out_is_known_to_the_next():
    with ChoicePool(SPEC, 1) as pool:
        pool.map(LABELS, ["u0"])
        before = pool.num_compiled
        none, heuristic = pool.map(compile_each, ["u0"])["u0"]
        assert pool.num_compiled == before
        assert (none.score, heuristic.score) == (100, 96)


def test_choices_are_followed_in_other_orders_that_end_alike():
    episodes = demonstrated(CachedCompiler(SPEC.open()), "u5", POLICY, {"u5": (0, 2)}, 10, 0)
    assert sorted(one.actions.tolist() for one in episodes) == [[0, 2, 4], [2, 0, 4]]
    assert {one.outcome.score for one in episodes} == {100 - 4 - 3}
    (episode,) = demonstrated(SPEC.open(), "u0", POLICY, {"u0": ()}, 5, 0)
    assert episode.actions.tolist() == [4]  # to follow nothing is to stop at once


def die_at_the_first(compiler: ChoiceCompiler, unit: str) -> list:
    if unit == "u0":
        os.kill(os.getpid(), signal.SIGKILL)
    return compile_each(compiler, unit)


def test_a_worker_that_dies_loses_its_unit_only():
    with ChoicePool(SPEC, 1) as pool:
        found = pool.map(die_at_the_first, ["u0", "u1"])
        assert list(found) == ["u1"]
        assert isinstance(found["u1"][0], CompiledUnit)


@dataclass
class Hasty(AdditiveCompiler):
    """Fails the first time."""

    kind: str = ""

    def outcome(self, unit, decisions):
        first = not self.compiles
        outcome = super().outcome(unit, decisions)
        return Failed(self.kind, "not this time") if first else outcome


@dataclass(frozen=True)
class HastySpec(AdditiveSpec):
    kind: str = ""

    def open(self) -> Hasty:
        return Hasty(self.effects, kind=self.kind)


@pytest.mark.parametrize("kind", ["timeout", "quarantined"])
def test_what_may_come_out_otherwise_is_no_knowledge(kind):
    with ChoicePool(HastySpec(SPEC.effects, kind=kind), 1) as pool:
        first, second = (pool.map(compile_each, ["u0"])["u0"][0] for _ in range(2))
    assert isinstance(first, Failed)
    assert isinstance(second, CompiledUnit)


def test_another_order_is_another_compile():
    inner = AdditiveCompiler({"u": [(1, 0), (2, 0)]})
    compiler = CachedCompiler(inner)
    for decisions in ((0, 1), (1, 0), (0, 1)):
        compiler.outcome("u", decisions)
    assert (len(inner.compiles), compiler.num_asked) == (2, 3)


def test_gains_of_weights_and_what_a_failed_compile_counts():
    units = [EligibleUnit(f"u{i}", "train", 3, none=100.0, heuristic=96.0, heuristic_choice=(0,)) for i in range(2)]
    failing = AdditiveSpec(SPEC.effects, frozenset({("u1", (0, 1, 2))}))
    equal = np.zeros((1, POLICY.architecture.num_params), np.float32)
    with ChoicePool(failing, 1) as pool:
        outcomes = pool.map(partial(greedy, policy=POLICY, weights=equal), names_of(units))
    # All actions are equal, so the candidates are taken in order: 100 - 4 + 4 + 2 for u0, and all of u1 fails.
    assert rewards_of(units[0], outcomes["u0"]).tolist() == pytest.approx([1 - 102 / 96])
    assert np.isnan(rewards_of(units[1], outcomes["u1"])).tolist() == [True]
