"""What may be chosen next, and what is seen of it."""

from dataclasses import replace

import numpy as np

from mlgo.jit.outcome import Candidates
from mlgo.jit.state import RECORD, Choice
from tests.jit.additive import OBSERVER, AdditiveCompiler

COMPILER = AdditiveCompiler({"u": [(5, 1), (1, 5), (3, 3)]}, not_viable=frozenset({("u", 2)}))


def choice() -> Choice:
    none = COMPILER.outcome("u", ())
    return Choice(none, none)


def test_what_is_chosen_or_not_viable_cannot_be_chosen():
    assert choice().can_apply().tolist() == [True, True, False]
    assert choice().choosing(1).can_apply().tolist() == [True, False, False]


def test_the_mask_has_a_place_for_the_stop():
    assert OBSERVER.allowed(choice()).tolist() == [True, True, False, False, True]
    assert OBSERVER.allowed(choice(), stop=False).tolist() == [True, True, False, False, False]
    # Stopping is allowed when nothing else is.
    assert OBSERVER.allowed(choice().choosing(0).choosing(1), stop=False).tolist() == [False] * 4 + [True]


def test_rows_below_the_candidates_are_zero():
    rows = OBSERVER.candidates(choice())
    assert rows.shape == (4, 3)
    assert rows[:, 0].tolist() == [1, 1, 0, 0]
    assert not rows[3].any()


def test_a_compiler_with_nothing_left_to_choose_may_name_no_features():
    # As the JIT does after its last candidate: the line of metrics then has neither names nor rows.
    nothing = Candidates((), np.zeros((0, 0), np.int64), np.zeros(0, bool))
    assert not OBSERVER.candidates(replace(choice(), latest=replace(choice().none, candidates=nothing))).any()


def test_columns_of_hold_candidate_record_and_stop():
    rows = OBSERVER.columns_of(choice())
    assert rows.shape == (5, 3 + len(RECORD) + 1)
    assert rows[:, -1].tolist() == [0, 0, 0, 0, 1]
    assert np.array_equal(rows[4, 3:-1], choice().record())
    assert not rows[4, :3].any()


def test_the_record_counts_in_shares_of_64():
    record = dict(zip(RECORD, choice().choosing(0).record().tolist(), strict=True))
    assert record["num_candidates"] == 3 / 64
    assert record["num_viable"] == 2 / 64
    assert record["num_chosen"] == 1 / 64
