"""Features become numbers between 0 and 1, by the kind of each."""

from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from mlgo.errors import PolicyError
from mlgo.jit.state import JIT_COLUMNS, FeatureColumn, columns_for, inputs_of


def test_flags_are_0_or_1():
    assert FeatureColumn("f", "flag")(np.array([0, 1, -3])).tolist() == [[0], [1], [1]]


def test_a_category_is_one_hot_and_type_0_is_not_taken_for_the_last():
    found = FeatureColumn("type", "category", 7)(np.array([0, 1, 6]))
    assert found.argmax(axis=1).tolist() == [0, 1, 6]
    assert found.sum(axis=1).tolist() == [1, 1, 1]


def test_a_category_beyond_the_last_known_is_other():
    assert FeatureColumn("type", "category", 7)(np.array([7, -1])).argmax(axis=1).tolist() == [0, 0]


def test_counts_are_logarithmic_and_end_at_their_cap():
    found = FeatureColumn("c", "count", 99)(np.array([0, 9, 99, 1000, -5]))[:, 0]
    assert found.tolist() == pytest.approx([0.0, 0.5, 1.0, 1.0, 0.0])  # log10(1 + x) / 2


def test_a_negative_weight_is_an_overflow():
    found = FeatureColumn("w", "weight", 99)(np.array([-2147483648, 9]))[:, 0]
    assert found.tolist() == pytest.approx([1.0, 0.5])


def test_unknown_features_are_counts():
    (column,) = columns_for(["new_in_net12"])
    assert column.kind == "count"


def test_the_jits_19_features_become_25_inputs():
    # 7 types, 7 flags, 11 numbers
    assert sum(len(column.inputs) for column in JIT_COLUMNS.values()) == 7 + 7 + 11
    assert len(JIT_COLUMNS) == 19


def test_columns_are_found_by_name_whatever_their_order():
    columns = columns_for(["const", "has_call"])
    assert inputs_of(columns, ("has_call", "const"), np.array([[1, 0]])).tolist() == [[0, 1]]


def test_a_missing_feature_is_named():
    with pytest.raises(PolicyError, match="does not tell cost_ex"):
        inputs_of([JIT_COLUMNS["cost_ex"]], ("type",), np.zeros((1, 1), np.int64))


@given(st.sampled_from(sorted(JIT_COLUMNS)), st.lists(st.integers(-(2**31), 2**31 - 1), max_size=5))
def test_inputs_stay_between_0_and_1(name, values):
    found = JIT_COLUMNS[name](np.array(values, np.int64))
    assert found.dtype == np.float32
    assert found.shape == (len(values), len(JIT_COLUMNS[name].inputs))
    assert np.all((found >= 0) & (found <= 1))


def test_every_feature_is_in_its_data_sheet():
    sheet = Path("docs/jit-cse.md").read_text().partition("**Features of `mlgo/JitCse-v0`**")[2].partition("\n## ")[0]
    assert [name for name in JIT_COLUMNS if f"`{name}`" not in sheet] == []
