"""All methods there are, how they come out by default, and which of them are learnt from: tables, written and read."""

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from mlgo.base.artifacts import CSE_COMPILES, CSE_LABELS, CSE_UNITS, read_table
from mlgo.base.config import CseConfig, SuperPmiConfig
from mlgo.base.seeding import generator, sample
from mlgo.errors import CorpusError
from mlgo.jit.cache import choice_row
from mlgo.jit.compiler import FoundUnit
from mlgo.jit.outcome import Decisions
from mlgo.jit.pool import ChoicePool
from mlgo.jit.state import Observer, columns_for, skip_reason


@dataclass(frozen=True)
class Tables:
    """Rows of the baseline's tables, see `mlgo.base.artifacts`; candidates and features of the units that are taken."""

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


def enumerate_units(pool: ChoicePool, config: CseConfig, seed: int) -> Tables:
    """Compile all units by default, choose those to learn from, and split these.

    Outcomes of the chosen ones are known to the pool's cache afterwards.
    """
    found, settings, limits = pool.spec.find_units(), config.superpmi, (config.min_viable, config.max_candidates)
    skipped = {one.name: skip_reason(one.none, one.heuristic, *limits) for one in found}
    skipped |= repeats({one.name: one.body_sha256 for one in found if not skipped[one.name]})
    eligible = [one for one in found if not skipped[one.name]]
    taken = sample(eligible, settings.max_methods, seed, "cse", "methods")
    if not taken:
        raise CorpusError(f"none of {len(found)} units is eligible; lower cse.min_viable or raise cse.max_candidates")
    sides = split_units({one.name: one.none.candidates.num_viable for one in taken}, settings, seed)
    skipped |= {one.name: "sampled: cse.superpmi.max_methods" for one in eligible if one.name not in sides}
    pool.store({one.name: {(): one.none, None: one.heuristic} for one in taken})
    compiles = [
        {"unit": one.name, "way": way, **choice_row(outcome)}
        for one in found
        for way, outcome in (("none", one.none), ("heuristic", one.heuristic))
    ]
    features = list(dict.fromkeys(name for one in taken for name in one.none.candidates.names))
    return Tables(
        [_unit_row(one, sides.get(one.name, ""), skipped[one.name]) for one in found],
        compiles,
        [row for one in taken for row in _candidate_rows(one, features)],
        features,
    )


def repeats(bodies: Mapping[str, str]) -> dict[str, str]:
    """Why units whose body an earlier one has are left out, by name; given the hash of each body."""
    first: dict[str, str] = {}
    earliest = {name: first.setdefault(body, name) for name, body in bodies.items()}
    return {name: f"same code as another: {other}" for name, other in earliest.items() if other != name}


def _unit_row(one: FoundUnit, split: str, skip_reason: str) -> dict[str, Any]:
    return {
        "unit": one.name,
        "split": split,
        "body_sha256": one.body_sha256,
        "num_candidates": len(one.none.candidates),
        "num_viable": one.none.candidates.num_viable,
        "skip_reason": skip_reason,
    }


def _candidate_rows(one: FoundUnit, features: Sequence[str]) -> list[dict[str, Any]]:
    candidates = one.none.candidates
    return [
        {"unit": one.name, "position": position, "viable": bool(candidates.viable[position])}
        | {f"f_{name}": 0 for name in features}
        | {f"f_{name}": int(value) for name, value in zip(candidates.names, values, strict=True)}
        for position, values in enumerate(candidates.values)
    ]


def split_units(num_viable: Mapping[str, int], settings: SuperPmiConfig, seed: int) -> dict[str, str]:
    """The side of each unit: each has its share of every number of viable candidates, rounded at random."""
    rng, rest = generator(seed, "cse", "split"), "train"
    shares = {"test": settings.test_share, "validation": settings.validation_share}
    side: dict[str, str] = {}
    for group in sorted(set(num_viable.values())):
        members = [name for name, count in num_viable.items() if count == group]
        order = rng.permutation(len(members))
        edges = np.cumsum([len(order) * share for share in shares.values()]) + rng.random()
        parts = np.split(order, np.floor(edges).astype(int))
        side |= {members[i]: name for name, part in zip((*shares, rest), parts, strict=True) for i in part}
    for name in (*(name for name, share in shares.items() if share), rest):
        if name not in side.values():
            raise CorpusError(f"no unit for {name}: {len(num_viable)} are too few; take more, or another collection")
    return {name: side[name] for name in num_viable}


@dataclass(frozen=True)
class EligibleUnit:
    """A unit that takes part, with its baselines."""

    name: str
    split: str
    num_viable: int  # candidates that can be applied
    none: float  # score without elimination
    heuristic: float  # score under the built-in heuristic
    heuristic_choice: Decisions


def eligible_units(baseline: Path, *splits: str) -> list[EligibleUnit]:
    """Eligible units of some splits, of all without any."""
    rows = read_table(baseline / "units.parquet", CSE_UNITS).to_pylist()
    compiles = read_table(baseline / "compiles.parquet", CSE_COMPILES).to_pylist()
    compiled = {(row["unit"], row["way"]): row for row in compiles}
    units = [
        EligibleUnit(
            row["unit"],
            row["split"],
            row["num_viable"],
            compiled[row["unit"], "none"]["score"],
            compiled[row["unit"], "heuristic"]["score"],
            tuple(compiled[row["unit"], "heuristic"]["requested"]),
        )
        for row in rows
        if not row["skip_reason"] and (not splits or row["split"] in splits)
    ]
    if not units:
        raise CorpusError(f"no eligible unit in {', '.join(splits) or 'any split'}; lower cse.min_viable")
    return units


def names_of(units: Iterable[EligibleUnit]) -> list[str]:
    """Names of units, as `ChoicePool.map` takes them."""
    return [unit.name for unit in units]


def observer_for(baseline: Path, max_candidates: int) -> Observer:
    """What a policy for this baseline's JIT sees."""
    columns = read_table(baseline / "candidates.parquet").column_names
    return Observer(columns_for([name[2:] for name in columns if name.startswith("f_")]), max_candidates)


def stored_labels(path: Path) -> dict[str, Decisions]:
    """The best choice known for each unit."""
    return {row["unit"]: tuple(row["requested"]) for row in read_table(path, CSE_LABELS).to_pylist()}
