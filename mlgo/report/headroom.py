"""How much smaller modules are known to be possible, and which share of that each policy captured."""

from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa

from mlgo.core.artifacts import HEADROOM, RESULTS, read_table
from mlgo.core.errors import ArtifactError
from mlgo.core.names import PolicyName
from mlgo.report.compare import log_ratios
from mlgo.report.pages import render

BEST = "best known"
"""The smallest size of each module: under the heuristic, any variant of the search, or any evaluated policy."""

ALL = "all"
"""Scope of all modules."""


@dataclass(frozen=True)
class Captured:
    """One way of answering on some modules, beside the heuristic and the best known.

    Attributes:
        scope: `ALL`, a language, or a project.
        contender: variant of ``artifacts.HEADROOM``, policy with its seed, or `BEST`.
        is_policy: the contender is a policy.
        num_modules: modules compared; those on which the contender failed, or was not tried, are left out.
        heuristic_bytes: sum over the modules.
        contender_bytes: sum over the modules.
        best_bytes: sum over the modules.
        total: ``1 - contender / heuristic`` of the sums.
        geomean: ``1 - exp(mean(log(contender / heuristic)))``.
        share: ``(heuristic - contender) / (heuristic - best)`` of the sums; None when nothing smaller is known.
    """

    scope: str
    contender: str
    is_policy: bool
    num_modules: int
    heuristic_bytes: int
    contender_bytes: int
    best_bytes: int
    total: float
    geomean: float
    share: float | None


def read_captured(headroom_path: Path, results_path: Path, measure: str) -> list[Captured]:
    """Read what the search has found and, where there are any, the policies' results; see `captured_shares`.

    Raises:
        ArtifactError: the search has not been run, or a file is damaged.
    """
    if not headroom_path.exists():
        raise ArtifactError(f"{headroom_path} is missing; make it with: make headroom")
    results = read_table(results_path, RESULTS) if results_path.exists() else RESULTS.empty_table()
    return captured_shares(read_table(headroom_path, HEADROOM), results, measure)


def captured_shares(headroom: pa.Table, results: pa.Table, measure: str) -> list[Captured]:
    """Compare all variants and policies with the heuristic and the best known, on the modules of the search.

    Args:
        headroom: ``artifacts.HEADROOM``.
        results: ``artifacts.RESULTS``; other modules' rows do not count.
        measure: ``text_bytes`` or ``exec_bytes``.

    Returns:
        By scope (all, languages, projects), then variants, policies and the best known.

    Raises:
        ArtifactError: the search holds no module.
    """
    variants = headroom.to_pylist()
    policies = [{**row, "variant": str(PolicyName(row["policy"], row["seed"]))} for row in results.to_pylist()]
    modules = {_key(row): i for i, row in enumerate(row for row in variants if row["variant"] == "heuristic")}
    if not modules:
        raise ArtifactError("the headroom table holds no module; raise headroom.max_questions and run: make headroom")
    sizes = {
        name: np.full(len(modules), np.nan) for name in dict.fromkeys(row["variant"] for row in (*variants, *policies))
    }
    for row in (*variants, *policies):
        if _key(row) in modules and row[measure] is not None:
            sizes[row["variant"]][modules[_key(row)]] = row[measure]
    sizes[BEST] = np.nanmin(list(sizes.values()), axis=0)
    heuristic = sizes.pop("heuristic")
    named = {row["variant"] for row in policies}
    return [
        row
        for scope, members in _scopes(row for row in variants if row["variant"] == "heuristic")
        for contender, values in sizes.items()
        if (row := _captured(scope, contender, contender in named, values, heuristic, sizes[BEST], members)) is not None
    ]


def _key(row: dict[str, Any]) -> tuple[str, str]:
    return row["project"], row["module"]


def _scopes(modules: Iterable[dict[str, Any]]) -> list[tuple[str, np.ndarray]]:
    """Scopes with their modules, bool [num_modules]."""
    rows = list(modules)
    found = [(ALL, np.ones(len(rows), bool))]
    for column in ("language", "project"):
        values = np.array([row[column] for row in rows])
        found += [(str(value), values == value) for value in np.unique(values)]
    return found


def _captured(
    scope: str,
    contender: str,
    is_policy: bool,
    values: np.ndarray,
    heuristic: np.ndarray,
    best: np.ndarray,
    members: np.ndarray,
) -> Captured | None:
    """Compare sizes float64 [num_modules], NaN where there is none; None when no module is left."""
    used = members & np.isfinite(values) & ((values > 0) == (heuristic > 0))
    before, after, least = (int(sizes[used].sum()) for sizes in (heuristic, values, best))
    if not before:
        return None
    return Captured(
        scope=scope,
        contender=contender,
        is_policy=is_policy,
        num_modules=int(used.sum()),
        heuristic_bytes=before,
        contender_bytes=after,
        best_bytes=least,
        total=1.0 - after / before,
        geomean=0.0 - float(np.expm1(log_ratios(values[used], heuristic[used]).mean())),
        share=(before - after) / (before - least) if before > least else None,
    )


def render_headroom(rows: list[Captured], measure: str, settings: dict[str, Any]) -> str:
    """The page about the headroom.

    Args:
        rows: as of `captured_shares`.
        measure: size that was compared.
        settings: section ``headroom`` of the configuration that the search ran with.
    """
    return render(
        "headroom.html.jinja",
        scopes={scope: [row for row in rows if row.scope == scope] for scope in dict.fromkeys(r.scope for r in rows)},
        titles={ALL: "All modules", "c": "C", "c++": "C++"},
        num_modules=max(row.num_modules for row in rows),
        measure=measure,
        settings=settings,
    )
