"""Known headroom by the compiles of a search."""

import numpy as np
import pyarrow as pa
import pytest

from mlgo.base.artifacts import SEARCH_COURSE, SHIPPED_SIZES
from mlgo.report.policy_page import known_gains

SEARCHED = [(0, 980), (8, 970)]


def shipped(**totals: int | None) -> pa.Table:
    """The linked file of one project under some contenders, folded and not."""
    plain = {"project": "p", "split": "test", "kind": "shared", "language": "c", "num_modules": 2, "num_foreign": 0}
    rows = [
        {**dict.fromkeys(SHIPPED_SIZES.names), **plain, "program": "x.so", "contender": who, "folded": folded}
        | {"total": total and total - 50 * folded, "failure": "" if total else "link", "message": ""}
        for who, total in totals.items()
        for folded in (False, True)
    ]
    return pa.Table.from_pylist(rows, SHIPPED_SIZES)


def course(**steps: list[tuple[int, int]]) -> pa.Table:
    rows = [
        {"project": "p", "module": module, "num_compiles": count, "total": total}
        for module, found in steps.items()
        for count, total in found
    ]
    return pa.Table.from_pylist(rows, SEARCH_COURSE)


def test_savings_of_modules_add_up():
    table = course(a=[(0, 980), (8, 970), (16, 970)], b=[(0, 980), (4, 975), (8, 940), (12, 940)])
    counts, gains = known_gains(table, shipped(**{"heuristic": 1000, "es-s0": 980, "never": 2000}), "es-s0")
    assert counts.tolist() == [0, 4, 8, 12, 16]
    np.testing.assert_allclose(gains, [0.02, 0.025, 0.07, 0.07, 0.07])


@pytest.mark.parametrize(
    ("steps", "totals"),
    [(SEARCHED, {"heuristic": 1000}), (SEARCHED, {"es-s0": 980, "heuristic": None}), ([], {"es-s0": 980})],
)
def test_nothing_is_known_of_what_was_not_measured_or_searched(steps, totals):
    counts, gains = known_gains(course(a=steps), shipped(**{"heuristic": 1000, **totals}), "es-s0")
    assert len(counts) == len(gains) == 0
