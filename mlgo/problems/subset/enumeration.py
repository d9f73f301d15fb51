"""All units there are, how they come out by default, and which of them are learnt from: tables of the baseline."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple, Protocol

from mlgo.core.config import CseConfig
from mlgo.core.errors import CorpusError
from mlgo.problems.subset.compiler import Compiled, CompilerSpec, Outcome, Unit
from mlgo.problems.subset.pool import CsePool
from mlgo.problems.subset.selection import Eligible, repeats
from mlgo.problems.subset.stored import choice_row


class Found(NamedTuple):
    """A unit and its baselines.

    Attributes:
        unit: itself.
        none: without elimination.
        heuristic: under the built-in heuristic.
    """

    unit: Unit
    none: Outcome
    heuristic: Outcome

    @property
    def num_viable(self) -> int | None:
        """Candidates that can be applied; None where it does not compile."""
        return int(self.none.candidates.viable.sum()) if isinstance(self.none, Compiled) else None


class Sides(NamedTuple):
    """How units are split.

    Attributes:
        split: train, validation or test, by name of the unit.
        left_out: why others are not taken, by name.
    """

    split: dict[str, str]
    left_out: dict[str, str]


class UnitsSpec(CompilerSpec, Protocol):
    """A compiler whose units can all be found, compiled by default, and split."""

    def find_units(self, open_pool: Callable[[], CsePool]) -> list[Found]:
        """All units, in a fixed order.

        Args:
            open_pool: gives workers, where they are needed.
        """
        ...

    def split(self, found: Sequence[Found], splits: Mapping[str, Sequence[str]], seed: int) -> Sides:
        """Which side of the split eligible units are on.

        Args:
            found: the eligible units.
            splits: projects by side.
            seed: root seed.

        Raises:
            CorpusError: a side that should have units gets none.
        """
        ...


def skip_reasons(found: Sequence[Found], config: CseConfig) -> dict[str, str]:
    """Why units are left out, by name; empty where they are not."""
    rule = Eligible(config.min_viable, config.max_candidates)
    reasons = {one.unit.name: rule.skip_reason(one.none, one.heuristic) for one in found}
    fit = [one.unit for one in found if not reasons[one.unit.name]]
    return reasons | {name: f"same code as another: {first}" for name, first in repeats(fit).items()}


@dataclass(frozen=True)
class Tables:
    """Rows of the baseline's tables.

    Attributes:
        units: of ``artifacts.CSE_UNITS``.
        compiles: of ``artifacts.CSE_COMPILES``.
        candidates: of ``artifacts.cse_candidates_schema``, of the units that are taken.
        features: names of all features.
    """

    units: list[dict[str, Any]]
    compiles: list[dict[str, Any]]
    candidates: list[dict[str, Any]]
    features: list[str]

    @staticmethod
    def of(found: Sequence[Found], skipped: Mapping[str, str], sides: Sides) -> "Tables":
        """Tables of all units.

        Args:
            found: the units.
            skipped: why they are left out, as `skip_reasons` gives it.
            sides: how those that are not are split.

        Raises:
            CorpusError: all are left out.
        """
        skipped = {**skipped, **sides.left_out}
        taken = [one for one in found if not skipped[one.unit.name]]
        if not taken:
            message = f"none of {len(found)} units is eligible"
            raise CorpusError(f"{message}; lower cse.min_viable or raise cse.max_candidates")
        units = [_unit_row(one, sides.split.get(one.unit.name, ""), skipped[one.unit.name]) for one in found]
        compiles = [
            {"unit": one.unit.name, "way": way, **choice_row(outcome)}
            for one in found
            for way, outcome in (("none", one.none), ("heuristic", one.heuristic))
        ]
        candidates = {one.unit.name: one.none.candidates for one in taken if isinstance(one.none, Compiled)}
        features = list(dict.fromkeys(name for one in candidates.values() for name in one.names))
        rows = [
            {"unit": unit, "position": position, "viable": bool(one.viable[position])}
            | {f"f_{name}": 0 for name in features}
            | {f"f_{name}": int(value) for name, value in zip(one.names, values, strict=True)}
            for unit, one in candidates.items()
            for position, values in enumerate(one.values)
        ]
        return Tables(units, compiles, rows, features)

    def summary(self) -> dict[str, Any]:
        """Counts of units by split, and why others are left out."""
        reasons: dict[str, int] = {}
        for row in self.units:
            if row["skip_reason"]:
                reason = row["skip_reason"].partition(":")[0]  # without the figure or the name
                reasons[reason] = reasons.get(reason, 0) + 1
        taken = [row["split"] for row in self.units if not row["skip_reason"]]
        return {
            "units": {split: taken.count(split) for split in ("train", "validation", "test")},
            "candidates": len(self.candidates),
            "left_out": dict(sorted(reasons.items())),
        }


def _unit_row(one: Found, split: str, skip_reason: str) -> dict[str, Any]:
    return {
        "unit": one.unit.name,
        "project": one.unit.project,
        "language": one.unit.language,
        "split": split,
        "body_sha256": one.unit.body_sha256,
        "batch": one.unit.batch,
        "num_candidates": len(one.none.candidates) if isinstance(one.none, Compiled) else None,
        "num_viable": one.num_viable,
        "skip_reason": skip_reason,
    }
