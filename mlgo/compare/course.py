"""How the known headroom of linked files grows with the compiles of a search."""

from collections import defaultdict

import numpy as np
import pyarrow as pa

from mlgo.compare.measured import Contender
from mlgo.compare.shipped import measured_programs


def known_gains(course: pa.Table, shipped: pa.Table, policy: str) -> tuple[np.ndarray, np.ndarray]:
    """What is known to be possible after so many compiles of each module.

    Modules are searched by themselves, so what they save is added up. That is exact where each program is one module.

    Args:
        course: ``artifacts.SEARCH_COURSE``.
        shipped: ``artifacts.SHIPPED_SIZES`` of the same evaluation.
        policy: contender that the search goes on from.

    Returns:
        Numbers of compiles, int64 [num_steps], from 0, which is the policy; gains over the heuristic in total, float64
        [num_steps]. Empty where nothing was searched or measured.
    """
    measured = measured_programs(shipped, [Contender.named(policy)])
    if not course.num_rows or not measured.keys:
        return np.empty(0, np.int64), np.empty(0)
    totals, baseline = measured.scores["total"][0], measured.baseline["total"]
    both = np.isfinite(totals) & np.isfinite(baseline)
    if not both.any():
        return np.empty(0, np.int64), np.empty(0)
    steps = defaultdict[int, int](int)
    before: dict[tuple[str, str], int] = {}
    for row in course.to_pylist():
        key = row["project"], row["module"]
        steps[row["num_compiles"]] += before.get(key, row["total"]) - row["total"]
        before[key] = row["total"]
    counts = np.array(sorted(steps), np.int64)
    saved = np.cumsum([steps[count] for count in counts.tolist()])
    return counts, 1.0 - (totals[both].sum() - saved) / baseline[both].sum()
