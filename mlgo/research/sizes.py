"""Gains of small and of large modules: they tell what a training never met."""

from collections.abc import Iterator
from itertools import pairwise

import numpy as np
import pyarrow as pa

from mlgo.compare.evaluation import gather_modules, policy_rows
from mlgo.compare.inference import Bootstrap
from mlgo.compare.measured import Measured, Place, Row, claims, compare_all, policies_on
from mlgo.objects import measures

BOUNDS = (1_000, 3_000, 10_000, 30_000, 100_000)
"""Bytes of text under the heuristic, up to which a module belongs to a class; about equal steps of a logarithm."""

_CLASSED_BY = measures.DEFAULT.name


def compare_by_size(results: pa.Table, split: str | None, measure: str, bootstrap: Bootstrap) -> list[Row]:
    """Each learner over its seeds beside the heuristic, class by class.

    Args:
        results: ``artifacts.RESULTS``.
        split: whose modules count; None for the one that is judged.
        measure: what is compared.
        bootstrap: makes intervals.

    Returns:
        By class, the smallest modules first, then by learner; the class is the row's scope. Classes without modules are
        left out.

    Raises:
        ArtifactError: no policy was tried on the split, or nothing is known of the measure.
    """
    measured = gather_modules(list(policy_rows(results.to_pylist())))
    judged = split or measured.judged
    policies = policies_on(measured, judged, measure)
    places = [
        Place(judged, title, items)
        for title, among in _classes(policies_on(measured, judged, _CLASSED_BY))
        if (items := among & measured.where(split=judged)).any()
    ]
    return claims(compare_all(policies, places, bootstrap))


def _classes(measured: Measured) -> Iterator[tuple[str, np.ndarray]]:
    """Titles with their items, bool [num_items]."""
    number = np.digitize(measured.baseline[_CLASSED_BY] - measures.DEFAULT.offset, BOUNDS, right=True)
    yield f"up to {BOUNDS[0]:,}", number == 0
    for i, (low, high) in enumerate(pairwise(BOUNDS), 1):
        yield f"{low + 1:,} to {high:,}", number == i
    yield f"over {BOUNDS[-1]:,}", number == len(BOUNDS)
