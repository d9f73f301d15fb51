"""What single decisions are worth, and how well a policy tells them apart; see `mlgo.evaluate.flips`."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np


@dataclass(frozen=True)
class FlipFigures:
    """Flips of some modules.

    Attributes:
        scope: all, a language, or a language and what the heuristic answers there.
        num_modules: that have flips.
        num_flips: that compiled.
        saving: share of them that lower the score.
        mean_saving: mean change of these, as bytes below the heuristic; 0 if there is none.
        mean_loss: mean change of those that raise it.
        ranking: chance that the policy puts a flip that saves before one of the same module that does not; 0.5 is
            that of a coin; None without such pairs.
        chosen: share of the flips that the policy would make.
        mean_of_chosen: mean change of these, negative is smaller; None if it would make none.
        right: share of these that lower the score; None if it would make none.
        found: share of what all flips save that these save; None if none saves.
    """

    scope: str
    num_modules: int
    num_flips: int
    saving: float
    mean_saving: float
    mean_loss: float
    ranking: float | None
    chosen: float
    mean_of_chosen: float | None
    right: float | None
    found: float | None


def tell_flips(rows: Iterable[Mapping[str, Any]]) -> list[FlipFigures]:
    """Figures of all flips, by language, and by language and the heuristic's answer.

    Args:
        rows: of ``artifacts.FLIPS``.
    """
    known = [row for row in rows if row["change"] is not None]
    scopes: dict[str, list[Mapping[str, Any]]] = {"all": known}
    for language in sorted({row["language"] for row in known}):
        scopes[language] = of_language = [row for row in known if row["language"] == language]
        scopes[f"{language}, inlined"] = [row for row in of_language if row["inlined"]]
        scopes[f"{language}, refused"] = [row for row in of_language if not row["inlined"]]
    return [_figures(scope, chosen) for scope, chosen in scopes.items() if chosen]


def _figures(scope: str, rows: list[Mapping[str, Any]]) -> FlipFigures:
    change = np.array([row["change"] for row in rows])
    would = np.array([(row["logit"] > 0.0) != row["inlined"] for row in rows])
    saves, loses = change < 0, change > 0
    modules = {(row["project"], row["module"]) for row in rows}
    return FlipFigures(
        scope,
        len(modules),
        len(rows),
        float(saves.mean()),
        float(-change[saves].mean()) if saves.any() else 0.0,
        float(change[loses].mean()) if loses.any() else 0.0,
        _ranking(rows),
        float(would.mean()),
        float(change[would].mean()) if would.any() else None,
        float(saves[would].mean()) if would.any() else None,
        float(abs(change[saves & would].sum() / change[saves].sum())) if saves.any() else None,
    )


def _ranking(rows: list[Mapping[str, Any]]) -> float | None:
    """Share of pairs of one module in the right order, one that saves and one that does not; ties count half."""
    by_module: dict[tuple[str, str], tuple[list[float], list[float]]] = {}
    for row in rows:
        better, others = by_module.setdefault((row["project"], row["module"]), ([], []))
        expected = -row["logit"] if row["inlined"] else row["logit"]
        (better if row["change"] < 0 else others).append(expected)
    right = pairs = 0.0
    for better, others in by_module.values():
        difference = np.subtract.outer(better, others)
        right += float((difference > 0).sum() + 0.5 * (difference == 0).sum())
        pairs += difference.size
    return right / pairs if pairs else None
