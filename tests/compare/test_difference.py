"""Two trainings side by side: gains and their difference by hand."""

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from mlgo.base.artifacts import RESULTS, SHIPPED_SIZES
from mlgo.compare.inference import Bootstrap, Gain, gains
from mlgo.errors import ArtifactError
from mlgo.report.difference import Side, compare_sides
from tests.compare.conftest import shipped_rows
from tests.research.test_scoreboard import result

BOOTSTRAP = Bootstrap(500, 0.95, 0)
PROGRAMS = {"a": 1_000, "b": 2_000}
"""Bytes of text under the heuristic; 1,000 bytes of constants and a tenth of the text as unwind tables come with it."""


def side(texts, plain=PROGRAMS, results=None):
    """Tables of es: by seed the text of each program, and by seed the size of one module, 1,000 under the heuristic."""
    rows = [row for project, text in plain.items() for row in shipped_rows(project, "app", "heuristic", text)]
    for seed, sizes in texts.items():
        for project, text in zip(plain, sizes, strict=True):
            rows += shipped_rows(project, "app", f"es-s{seed}", text)
    sizes = results or dict.fromkeys(texts, 950)
    modules = [result(f"es-s{seed}", "c", size, 0) for seed, size in sizes.items()]
    return Side.of(pa.Table.from_pylist(rows, SHIPPED_SIZES), pa.Table.from_pylist(modules, RESULTS), "es")


def test_by_hand():
    first = side({0: (900, 2_000), 1: (1_000, 1_800), 2: (1, 1)})
    second = side({0: (1_000, 2_000), 1: (1_000, 1_700)}, results={0: 1_000, 1: 900})
    lines = compare_sides(first, second, BOOTSTRAP)
    assert [line.asked for line in lines] == [
        "what ships, in total",
        "what ships, geometric mean of projects",
        "what ships of C, in total",
        "objects, in total",
        "objects, geometric mean of projects",
        "objects of C, in total",
    ]
    total, geomean, *_, objects, _, _ = lines
    # 2,100 and 3,200 bytes; a byte of text less is 1.1 bytes less
    assert total.first == pytest.approx((110 + 220) / 2 / 5_300)
    assert total.second == pytest.approx((0 + 330) / 2 / 5_300)
    assert total.gain.value == pytest.approx(0.0)
    assert total.gain.low < 0.0 < total.gain.high
    assert (total.seeds, total.ahead, total.num_items, total.num_projects) == ([0, 1], 1, 2, 2)
    logs = [np.log(1_990 / 2_100), np.log(2_980 / 3_200), np.log(2_870 / 3_200)]
    assert geomean.first == pytest.approx(-np.expm1((logs[0] + logs[1]) / 4))
    assert geomean.second == pytest.approx(-np.expm1(logs[2] / 4))
    assert geomean.gain.value == pytest.approx(geomean.first - geomean.second)
    assert (objects.first, objects.second, objects.ahead) == (pytest.approx(0.05), pytest.approx(0.05), 1)


def test_what_one_of_them_could_not_link_counts_for_neither():
    lines = compare_sides(side({0: (900, 2_000)}), side({0: (1_000, None)}), BOOTSTRAP)
    assert (lines[0].num_items, lines[0].first, lines[0].second) == (1, pytest.approx(110 / 2_100), 0.0)
    assert lines[0].gain == Gain(pytest.approx(110 / 2_100))


def test_other_seeds_and_other_heuristics_are_refused():
    with pytest.raises(ArtifactError, match=r"no seed is common to both: es has \[0\], es \[1\]"):
        compare_sides(side({0: (1, 1)}), side({1: (1, 1)}), BOOTSTRAP)
    other = side({0: (900, 2_000)}, {"a": 1_000, "b": 3_000})
    with pytest.raises(ArtifactError, match="b/app has 3,200 bytes under the heuristic in the first run and 4,300"):
        compare_sides(side({0: (900, 2_000)}), other, BOOTSTRAP)
    with pytest.raises(ArtifactError, match="no test project was measured under both"):
        compare_sides(side({0: (900,)}, {"a": 1_000}), side({0: (900,)}, {"z": 1_000}), BOOTSTRAP)


SIZES = st.integers(2, 5).flatmap(
    lambda num: st.lists(st.lists(st.integers(1, 1_000), min_size=num, max_size=num), min_size=5, max_size=5)
)


@given(SIZES)
def test_swapped_sides_turn_the_sign_and_equal_ones_differ_by_nothing(rows):
    before, first, second = np.array(rows[0], float), np.array(rows[1:3], float), np.array(rows[3:], float)
    for one, other in zip(
        gains(first, before, BOOTSTRAP, second), gains(second, before, BOOTSTRAP, first), strict=True
    ):
        assert one.low <= one.value <= one.high
        assert (other.value, other.low, other.high) == pytest.approx((-one.value, -one.high, -one.low))
    assert gains(first, before, BOOTSTRAP, first) == [Gain(0.0, 0.0, 0.0)] * 4
