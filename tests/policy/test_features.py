"""Vocabulary and normalisation, by hand."""

import math

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from mlgo.base.artifacts import VOCABULARY, read_table, write_table
from mlgo.errors import PolicyError, TrainingError
from mlgo.host.actions import check_features
from mlgo.policy.features import Normalisation, signed_log
from mlgo.policy.vocabulary import build_vocabulary, normalisation, recorded_values


def rows(table):
    return {row["feature"]: row for row in table.to_pylist()}


def test_vocabulary_by_hand(tmp_path):
    values = {
        "flag": np.array([0, 0, 0, 1], np.int64),
        "count": np.array([40, 10, 30, 20], np.int64),
        "same": np.array([7, 7, 7, 7], np.int64),
    }
    write_table(tmp_path / "v.parquet", build_vocabulary(values, 5), VOCABULARY, {})
    found = rows(read_table(tmp_path / "v.parquet", VOCABULARY))
    assert list(found) == ["flag", "count", "same"]
    # The quantile p is the smallest value with at least the share p of all values at or below it.
    assert found["count"]["quantiles"] == [10.0, 10.0, 20.0, 30.0, 40.0]
    assert found["flag"]["quantiles"] == [0.0, 0.0, 0.0, 0.0, 1.0]
    assert found["same"]["quantiles"] == [7.0] * 5
    assert [found[name]["num_distinct"] for name in values] == [2, 4, 1]


def test_questions_about_columns_count_where_they_are_legal():
    columns = {"mask": [[1, 0, 1], [0, 0, 1]], "size": [[10, 20, 30], [40, 50, 60]]}
    lists = {name: pa.array(values, pa.list_(pa.int64(), 3)) for name, values in columns.items()}
    trace = pa.table({"project": ["p", "p"], "step": [0, 1], **lists, "progress": [7, 8], "answer": [0, 2]})
    found = recorded_values(trace, "mask")
    assert {name: values.tolist() for name, values in found.items()} == {"size": [10, 30, 60], "progress": [7, 8]}
    plain = trace.drop_columns(["mask", "size"])
    assert {name: values.tolist() for name, values in recorded_values(plain).items()} == {"progress": [7, 8]}


@given(st.lists(st.integers(-(2**40), 2**40), min_size=1, max_size=50), st.integers(2, 60))
def test_quantiles_rise_from_the_smallest_to_the_largest_and_occur(values, num_quantiles):
    quantiles = rows(build_vocabulary({"f": np.array(values, np.int64)}, num_quantiles))["f"]["quantiles"]
    assert quantiles == sorted(quantiles)
    assert set(quantiles) <= {float(value) for value in values}
    assert (quantiles[0], quantiles[-1], len(quantiles)) == (min(values), max(values), num_quantiles)


def test_no_questions():
    for features in ({}, {"a": np.zeros(0, np.int64)}):
        with pytest.raises(TrainingError, match="no question"):
            build_vocabulary(features, 5)


def test_signed_log():
    found = signed_log(np.array([0, 1, -1, 99, -14950, 2**62]))
    expected = [0.0, math.log(2), -math.log(2), math.log(100), -math.log(14951), 62 * math.log(2)]
    assert found == pytest.approx(expected, rel=1e-4)


def test_normalisation_by_hand():
    scaling = Normalisation(("a", "b"), np.array([math.log(2), 0.0], np.float32), np.array([0.5, 2.0], np.float32))
    observations = np.array([[1, 0], [3, -1], [10**9, -(10**9)]])
    result = scaling(observations)
    assert result.dtype == np.float32
    assert observations.tolist() == [[1, 0], [3, -1], [10**9, -(10**9)]]
    expected = [[0.0, 0.0], [(math.log(4) - math.log(2)) / 0.5, -math.log(2) / 2], [5.0, -5.0]]
    assert result == pytest.approx(np.array(expected), abs=1e-5)
    assert scaling(np.array([3, -1])) == pytest.approx(np.array(expected[1]), abs=1e-5)


def test_units_by_hand():
    """A thousandth differs from a hundredth as a hundredth from a tenth, once the unit is far below all of them."""
    numbers = build_vocabulary({"share": np.array([0.001, 0.01, 0.1]), "count": np.array([1, 2, 3])}, 3)
    scaling = normalisation(numbers, {"share": 2.0**-16, "of another task": 0.5})
    assert scaling.unit.tolist() == [2.0**-16, 1.0]
    one = Normalisation(("share", "count"), np.zeros(2, np.float32), np.ones(2, np.float32), scaling.unit)
    found = one(np.array([[2.0**-16, 1.0], [3 * 2.0**-16, 3.0]], np.float32))
    assert found == pytest.approx(np.log([[2, 2], [4, 4]]), rel=1e-6)
    inputs = scaling(np.array([[0.001, 1], [0.01, 2], [0.1, 3]], np.float32))[:, 0]
    assert np.diff(inputs)[0] == pytest.approx(np.diff(inputs)[1], rel=0.01)
    assert normalisation(build_vocabulary({"count": np.array([1, 2, 3])}, 3), {"share": 0.5}).unit is None


def test_scale_from_quantiles_by_hand():
    # With 5 quantiles one is cut off at each end: 10, 20, 30 remain of "count".
    table = build_vocabulary({"count": np.array([10, 20, 30, 10**6]), "same": np.array([7, 7, 7, 7])}, 5)
    scaling = normalisation(table)
    logs = [math.log(11), math.log(21), math.log(31)]
    assert scaling.features == ("count", "same")
    assert scaling.centre == pytest.approx([np.mean(logs), math.log(8)], rel=1e-5)
    assert scaling.scale == pytest.approx([np.std(logs), 1.0], rel=1e-5)
    assert scaling.centre.dtype == scaling.scale.dtype == np.float32
    two = normalisation(build_vocabulary({"f": np.array([1, 3])}, 2))  # none is cut off
    assert two.centre == pytest.approx([(math.log(2) + math.log(4)) / 2], rel=1e-5)


def test_one_percent_of_the_quantiles_is_cut_off_at_each_end():
    table = build_vocabulary({"f": np.arange(1, 1001)}, 1001)  # 10 of 1,001
    (quantiles,) = table["quantiles"].to_pylist()
    inner = np.log1p(quantiles[10:-10])
    scaling = normalisation(table)
    assert scaling.centre == pytest.approx([inner.mean()], rel=1e-5)
    assert scaling.scale == pytest.approx([inner.std()], rel=1e-5)
    assert scaling.scale[0] < 0.99 * np.log1p(quantiles).std()


@given(st.lists(st.lists(st.integers(-(2**62), 2**62), min_size=3, max_size=3), min_size=1, max_size=20))
def test_inputs_are_finite_and_bounded(observations):
    values = np.array(observations, np.int64)
    scaling = normalisation(build_vocabulary({name: values[:, i] for i, name in enumerate("abc")}, 11))
    result = scaling(values)
    assert np.all(np.isfinite(result))
    assert np.all(np.abs(result) <= 5.0)


def test_missing_features_are_named():
    check_features(["a", "b"], ["b", "c", "a"], "the trace")
    with pytest.raises(PolicyError, match=r"the trace lacks 2 of the policy's features \(b, d\)"):
        check_features(["a", "b", "d"], ["a"], "the trace")
