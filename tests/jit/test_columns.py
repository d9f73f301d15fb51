"""Features become numbers between 0 and 1, by the kind of each."""

from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from mlgo.errors import PolicyError
from mlgo.jit.outcome import parse_metrics
from mlgo.jit.state import JIT_COLUMNS, FeatureColumn, columns_for, inputs_of
from tests.jit.conftest import GOLDEN

OTHER, LAST = np.eye(7)[[0, 6]].tolist()


@pytest.mark.parametrize(
    ("column", "values", "inputs"),
    [
        (FeatureColumn("f", "flag"), [0, 1, -3], [[0], [1], [1]]),
        (FeatureColumn("type", "category", 7), [0, 6, 7, -1], [OTHER, LAST, OTHER, OTHER]),
        # log10(1 + x) / 2
        (FeatureColumn("c", "count", 99), [0, 9, 99, 1000, -5], [[0.0], [0.5], [1.0], [1.0], [0.0]]),
        (FeatureColumn("w", "weight", 99), [-2147483648, 9], [[1.0], [0.5]]),  # a negative weight is an overflow
    ],
    ids=lambda value: getattr(value, "kind", None),
)
def test_a_feature_becomes_inputs_by_its_kind(column, values, inputs):
    np.testing.assert_allclose(column(np.array(values)), inputs, rtol=1e-6)


def test_unknown_features_are_counts():
    (column,) = columns_for(["new_in_net12"])
    assert column.kind == "count"


def test_features_of_later_versions_are_taken_by_their_names():
    """One renamed, others added, all in another order, and words about the method before them."""
    later = ("use_wt_cnt_x100", "enreg_count_simd", "depth")
    names = (*reversed([name for name in JIT_COLUMNS if name != "use_wt_cnt"]), *later)
    row = ",".join("1" if name in ("viable", "depth") else "0" for name in names)
    words = f"num cse 0 num cand 1 methodFeatureNames m,n method,4,5 featureNames {','.join(names)} features #1,{row}"
    line = GOLDEN["lines"][0]["line"].replace("num cse 1 num cand 2 Standard CSE Heuristic seq 1,0", words)
    metrics = parse_metrics(line)
    assert metrics.feature_names == names
    table = np.array(metrics.candidates)
    assert inputs_of(columns_for(["viable", "type"]), names, table).tolist() == [[1.0, *OTHER]]
    inputs = inputs_of(columns_for(names), names, table)
    assert inputs.shape == (1, 25 - 1 + len(later))
    np.testing.assert_allclose(inputs[0, -3:], [0.0, 0.0, np.log(2.0) / np.log1p(1 << 20)], rtol=1e-6)


def test_the_jits_19_features_become_25_inputs():
    # 7 types, 7 flags, 11 numbers
    assert sum(len(column.inputs) for column in JIT_COLUMNS.values()) == 7 + 7 + 11
    assert len(JIT_COLUMNS) == 19


def test_columns_are_found_by_name_whatever_their_order():
    columns = columns_for(["const", "has_call"])
    assert inputs_of(columns, ("has_call", "const"), np.array([[1, 0]])).tolist() == [[0, 1]]
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
