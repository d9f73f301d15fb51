"""The best choice: found by trying all of them, or by climbing."""

from itertools import combinations

import pytest

from mlgo.jit.labels import find_label
from tests.jit.additive import AdditiveCompiler


def find(compiler, max_exhaustive=9, max_trials=64):
    return find_label(compiler, "u", max_exhaustive, max_trials, seed=0)


def test_all_subsets_are_tried_and_the_best_is_exact():
    # effects -4, +4, -1: the best is to take the first and the third, 100 - 5
    compiler = AdditiveCompiler({"u": [(5, 1), (1, 5), (3, 2)]})
    found = find(compiler)
    assert (found.best.requested, found.best.score) == ((0, 2), 95.0)
    assert found.exhaustive
    assert found.num_tried == 2**3 + 1  # and the heuristic
    assert len(set(compiler.compiles)) == len(compiler.compiles)
    effects = {place: (one.mean_change, one.num_pairs) for place, one in found.effects.items()}
    assert effects == {0: (-4.0, 4), 1: (4.0, 4), 2: (-1.0, 4)}  # means over pairs that differ in one candidate


def test_climbing_finds_the_same_where_effects_add_up():
    effects = [(5, 1), (1, 5), (3, 2), (2, 9), (7, 1)]
    found = find(AdditiveCompiler({"u": effects}), max_exhaustive=2)
    assert (set(found.best.requested), found.best.score) == ({0, 2, 4}, 100 - 4 - 1 - 6)
    assert not found.exhaustive


@pytest.mark.parametrize(("effects", "max_trials", "num_tried"), [([(1, 0)] * 12, 10, 11), ([(1, 0), (0, 1)], 1000, 5)])
def test_climbing_ends_after_its_trials_or_when_all_subsets_are_known(effects, max_trials, num_tried):
    assert find(AdditiveCompiler({"u": effects}), max_exhaustive=0, max_trials=max_trials).num_tried == num_tried


@pytest.mark.parametrize("max_exhaustive", [9, 0])
def test_of_equal_choices_the_smallest_is_taken(max_exhaustive):
    assert find(AdditiveCompiler({"u": [(2, 2), (3, 3)]}), max_exhaustive).best.requested == ()


def test_choices_that_fail_are_counted_and_passed_over():
    found = find(AdditiveCompiler({"u": [(5, 1), (5, 1)]}, failing=frozenset({("u", (0, 1))})))
    assert (found.best.requested, found.num_failed) == ((0,), 1)


def test_a_unit_that_does_not_compile_has_no_label():
    assert find(AdditiveCompiler({"u": [(5, 1)]}, failing=frozenset({("u", ())}))) is None


def test_only_viable_candidates_are_tried():
    found = find(AdditiveCompiler({"u": [(5, 1), (9, 1)]}, not_viable=frozenset({("u", 1)})))
    assert found.num_tried == 2 + 1
    assert found.best.requested == (0,)


def test_choices_that_fail_are_no_pairs():
    compiler = AdditiveCompiler({"u": [(5, 1), (5, 1)]}, failing=frozenset({("u", (0,)), ("u", (0, 1))}))
    effects = find(compiler).effects
    assert (effects[1].mean_change, effects[1].num_pairs) == (-4.0, 1)
    assert effects[0].num_pairs == 0
    assert effects[0].mean_change != effects[0].mean_change


@pytest.mark.parametrize(("max_exhaustive", "num_tried"), [(9, 1 + 64 + 1), (0, 1 + 10 + 1)])
def test_a_unit_that_keeps_failing_is_given_up(max_exhaustive, num_tried):
    choices = {choice for size in range(1, 8) for choice in combinations(range(7), size)}
    compiler = AdditiveCompiler({"u": [(1, 0)] * 7}, failing=frozenset(("u", choice) for choice in choices))
    found = find(compiler, max_exhaustive)
    # Of 127 choices, the first 64; or 10 that a climb has met. The heuristic's own compile is well.
    assert (found.num_tried, found.num_failed, found.exhaustive) == (num_tried, num_tried - 2, False)
    assert found.best.score == 99.0
