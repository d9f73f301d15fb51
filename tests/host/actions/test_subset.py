"""Choosing until the stop, by hand."""

import numpy as np

from mlgo.host.actions import Subset


def test_rows_by_hand():
    candidates = np.array([[0.1, 0.2], [0.3, 0.4]], np.float32)
    rows = Subset().rows(candidates, np.array([7.0], np.float32))
    assert np.array_equal(rows, np.array([[0.1, 0.2, 7, 0], [0.3, 0.4, 7, 0], [0, 0, 7, 1]], np.float32))
    assert rows.shape[1] == Subset().num_inputs(3)


def test_stopping_is_always_possible_where_nothing_is_left():
    left, none = np.array([True, False]), np.zeros(2, bool)
    assert Subset().legal(left).tolist() == [True, False, True]
    assert Subset().legal(left, stop=False).tolist() == [True, False, False]
    assert Subset().legal(none, stop=False).tolist() == [False, False, True]
