"""Whose jobs go first: numbers worked out by hand."""

from mlgo.pool.schedule import FairShare


def test_a_turn_lasts_until_nothing_is_asked_for():
    turns = FairShare(num_workers=2, turn_s=60.0)
    assert [turns.asks(now) for now in (1.0, 2.0, 3.0)] == [1.0, 1.0, 1.0]
    turns.ends(0.5)
    turns.ends(0.5)
    assert turns.asks(4.0) == 1.0  # one was still outstanding
    turns.ends(0.5)
    turns.ends(0.5)
    assert turns.asks(9.0) == 9.0


def test_who_has_used_all_workers_for_long_enough_goes_to_the_back_of_the_line():
    turns = FairShare(num_workers=2, turn_s=3.0)
    assert [turns.asks(float(now)) for now in range(4)] == [0.0] * 4
    turns.ends(5.9)
    assert turns.asks(5.0) == 0.0  # 5.9 of 6 seconds
    turns.ends(0.2)
    assert turns.asks(6.0) == 6.0
    turns.ends(5.9)  # counts for the new turn
    assert turns.asks(7.0) == 6.0


def test_without_turns_the_order_is_that_of_coming():
    turns = FairShare(num_workers=2, turn_s=0.0)
    assert [turns.asks(now) for now in (1.0, 2.0, 3.0)] == [1.0, 2.0, 3.0]
