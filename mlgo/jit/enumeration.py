"""All units there are, how they come out by default, and which of them are learnt from: tables of the baseline."""

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from mlgo.base.config import CseConfig
from mlgo.base.seeding import generator
from mlgo.errors import CorpusError
from mlgo.jit.compiler import BASELINES, CompiledUnit, Found, Outcome, Unit
from mlgo.jit.pool import ChoicePool
from mlgo.jit.state import fits
from mlgo.jit.stored import choice_row


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

    def summary(self) -> dict[str, Any]:
        """Counts of units by split, and why others are left out."""
        reasons = Counter(row["skip_reason"].partition(":")[0] for row in self.units)  # without the figure or the name
        splits = Counter(row["split"] for row in self.units if not row["skip_reason"])
        return {
            "units": {split: splits[split] for split in ("train", "validation", "test")},
            "candidates": len(self.candidates),
            "left_out": dict(sorted((reason, count) for reason, count in reasons.items() if reason)),
        }


def enumerate_units(pool: ChoicePool, config: CseConfig, splits: Mapping[str, Sequence[str]], seed: int) -> Tables:
    """Compile all units by default, choose those to learn from, and split these.

    Outcomes of the chosen ones are known to the pool's cache afterwards, however they were come by.
    """
    found = pool.spec.find_units()
    skipped = {one.unit.name: skip_reason(one.none, one.heuristic, config) for one in found}
    skipped |= repeats([one.unit for one in found if not skipped[one.unit.name]])
    sides, left_out = pool.spec.split([one for one in found if not skipped[one.unit.name]], splits, seed)
    skipped |= left_out
    taken = [one for one in found if not skipped[one.unit.name]]
    if not taken:
        message = f"none of {len(found)} units is eligible"
        raise CorpusError(f"{message}; lower cse.min_viable or raise cse.max_candidates")
    pool.keep({one.unit.name: dict(zip(BASELINES, one[1:], strict=True)) for one in taken})
    units = [_unit_row(one, sides.get(one.unit.name, ""), skipped[one.unit.name]) for one in found]
    compiles = [
        {"unit": one.unit.name, "way": way, **choice_row(outcome)}
        for one in found
        for way, outcome in (("none", one.none), ("heuristic", one.heuristic))
    ]
    candidates = {one.unit.name: one.none.candidates for one in taken if isinstance(one.none, CompiledUnit)}
    features = list(dict.fromkeys(name for one in candidates.values() for name in one.names))
    rows = [
        {"unit": unit, "position": position, "viable": bool(one.viable[position])}
        | {f"f_{name}": 0 for name in features}
        | {f"f_{name}": int(value) for name, value in zip(one.names, values, strict=True)}
        for unit, one in candidates.items()
        for position, values in enumerate(one.values)
    ]
    return Tables(units, compiles, rows, features)


def skip_reason(none: Outcome, heuristic: Outcome, config: CseConfig) -> str:
    """Why a unit with these baselines is left out; empty if it is not."""
    for way, outcome in (("without elimination", none), ("under the heuristic", heuristic)):
        if not isinstance(outcome, CompiledUnit):
            return f"fails {way}: {outcome.kind}"
        if outcome.score <= 0:
            return f"scores nothing {way}"
    assert isinstance(none, CompiledUnit)
    if fits(none.candidates, config.min_viable, config.max_candidates):
        return ""
    if len(none.candidates) > config.max_candidates:
        return f"too many candidates: {len(none.candidates)}"
    return f"too few viable candidates: {int(none.candidates.viable.sum())}"


def repeats(units: Sequence[Unit]) -> dict[str, str]:
    """Why units whose body an earlier one has are left out, by name."""
    first: dict[str, str] = {}
    seen = {unit.name: first.setdefault(unit.body_sha256, unit.name) for unit in units}
    return {name: f"same code as another: {other}" for name, other in seen.items() if other != name}


def _unit_row(one: Found, split: str, skip_reason: str) -> dict[str, Any]:
    return {
        "unit": one.unit.name,
        "project": one.unit.project,
        "language": one.unit.language,
        "split": split,
        "body_sha256": one.unit.body_sha256,
        "batch": one.unit.batch,
        "num_candidates": len(one.none.candidates) if isinstance(one.none, CompiledUnit) else None,
        "num_viable": one.num_viable,
        "skip_reason": skip_reason,
    }


def stratified_split(
    num_viable: Mapping[str, int], shares: Mapping[str, float], rest: str, seed: int
) -> dict[str, str]:
    """Split units so that each side has its share of every number of viable candidates.

    Within such a group the order is random, and each side takes its share of what is left, rounded at random so that
    small groups are fair, too.

    Returns:
        The side of each unit.
    """
    rng = generator(seed, "cse", "split")
    side: dict[str, str] = {}
    for group in sorted(set(num_viable.values())):
        members = [name for name, count in num_viable.items() if count == group]
        order = [members[i] for i in rng.permutation(len(members))]
        edges = np.cumsum([len(order) * share for share in shares.values()]) + rng.random()
        begin = 0
        for name, end in zip(shares, np.floor(edges).astype(int), strict=True):
            side |= dict.fromkeys(order[begin:end], name)
            begin = max(begin, end)
        side |= dict.fromkeys(order[begin:], rest)
    for name in (*(name for name, share in shares.items() if share), rest):
        if name not in side.values():
            raise CorpusError(f"no unit for {name}: {len(num_viable)} are too few; take more, or another collection")
    return {name: side[name] for name in num_viable}
