"""The perceptron as a flat vector."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.linalg import block_diag

from mlgo.errors import PolicyError
from mlgo.policy.network import Architecture, flatten, logits

widths = st.lists(st.integers(1, 6), min_size=1, max_size=4).map(lambda hidden: (*hidden, 1))


def test_layout_by_hand():
    architecture = Architecture((2, 3, 1))
    assert architecture.shapes == [(2, 3), (3, 1)]
    assert architecture.num_params == 2 * 3 + 3 + 3 + 1
    assert architecture.layer_slices() == [slice(0, 9), slice(9, 13)]
    (first, bias), (last, final) = architecture.unflatten(np.arange(13, dtype=np.float32))
    assert first.tolist() == [[0, 1, 2], [3, 4, 5]]
    assert bias.tolist() == [6, 7, 8]
    assert last.tolist() == [[9], [10], [11]]
    assert final.tolist() == [12]
    for size in (0, 12, 14):
        with pytest.raises(PolicyError, match=f"{size} weights where layers .* need 13"):
            architecture.unflatten(np.zeros(size, np.float32))


def test_forward_pass_by_hand():
    layers = [
        (np.array([[1, -1, 2], [0, 1, -1]], np.float32), np.array([0, 0.5, -1], np.float32)),
        (np.array([[1], [2], [-1]], np.float32), np.array([0.25], np.float32)),
    ]
    # Input (1, 2): hidden (1, 1.5, -1) -> ReLU (1, 1.5, 0) -> 1 + 3 + 0.25
    # Input (3, 0): hidden (3, -2.5, 5) -> ReLU (3, 0, 5) -> 3 - 5 + 0.25
    inputs = np.array([[1, 2], [3, 0]], np.float32)
    assert logits(layers, inputs).tolist() == [4.25, -1.75]
    assert float(logits(layers, inputs[0])) == 4.25
    assert inputs.tolist() == [[1, 2], [3, 0]]


def test_groups_by_hand():
    architecture = Architecture((1, 4, 2, 1), groups=2)
    assert architecture.shapes == [(1, 4), (2, 2, 1), (2, 1)]
    assert architecture.num_params == (4 + 4) + (2 * 2 + 2) + (2 + 1)
    weights = np.array([1, 2, 3, 4, 0, 0, 0, -10, 1, 10, 100, 1000, 0, 5, 1, 2, 0.5], np.float32)
    # Input 2: units 2, 4 | 6, 8 - 10 -> 0. Second layer: 2 + 40 | 600 + 5. Output 42 + 1210 + 0.5.
    assert logits(architecture.unflatten(weights), np.array([[2], [0]], np.float32)).tolist() == [1252.5, 10.5]
    assert float(logits(architecture.unflatten(weights), np.array([2], np.float32))) == 1252.5
    with pytest.raises(PolicyError, match=r"16 weights where layers \(1, 4, 2, 1\) in 2 groups need 17"):
        architecture.unflatten(weights[1:])


@pytest.mark.parametrize(("units", "groups"), [(3, 2), (2, 4), (4, 0), (4, -2)])
def test_groups_that_do_not_divide(units, groups):
    with pytest.raises(PolicyError, match=f"hidden layers of .* do not divide into {groups} groups"):
        Architecture((2, 12, units, 1), groups)


@given(widths, st.integers(1, 3), st.integers(0, 2**32))
def test_groups_are_a_matrix_with_zeros_between_them(layer_widths, groups, seed):
    first, *hidden, last = layer_widths
    architecture = Architecture((first, *(groups * units for units in hidden), last), groups)
    rng = np.random.default_rng(seed)
    layers = architecture.unflatten(rng.standard_normal(architecture.num_params).astype(np.float32))
    inputs = rng.standard_normal((3, 2, first)).astype(np.float32)
    dense = [(matrix if matrix.ndim == 2 else block_diag(*matrix), bias) for matrix, bias in layers]
    assert logits(layers, inputs) == pytest.approx(logits(dense, inputs), abs=1e-4)
    ungrouped, weights = architecture.ungrouped(flatten(layers))
    assert ungrouped == Architecture(architecture.widths)
    assert np.array_equal(weights, flatten(dense))


@given(widths, st.integers(0, 2**32))
def test_unflatten_then_flatten(layer_widths, seed):
    architecture = Architecture(layer_widths)
    vector = np.random.default_rng(seed).standard_normal(architecture.num_params).astype(np.float32)
    assert np.array_equal(flatten(architecture.unflatten(vector)), vector)
    parts = architecture.layer_slices()
    assert parts[0].start == 0 if parts else True
    assert [part.stop for part in parts[:-1]] == [part.start for part in parts[1:]]
