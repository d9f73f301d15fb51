"""Collections for tests/fakes/superpmi.py: made up, but such that what pays can be learned from the features.

What a candidate is worth. Performed, it saves its cost at each use and pays for a store at each definition, weighted
by the frequency of their blocks. It takes a register: where the method has many variables, or where it lives across a
call, the more so both, each use may be a reload. A constant that fits into the instruction saves next to nothing. Two
that are performed together compete for registers (pairs). Some noise that no feature shows is added.

The built-in heuristic looks at the same, roughly: it takes what costs much and is used often, is less willing where a
value lives across a call, and knows nothing of pairs, nor of how costs grow with pressure.
"""

import numpy as np

from mlgo.base.seeding import generator

UNIT_WEIGHT = 100
"""Weight of a use in a block that runs once per call of the method."""
_TYPES, _TYPE_SHARES = (0, 1, 2, 3, 4, 5, 6), (0.40, 0.25, 0.15, 0.03, 0.05, 0.05, 0.07)
_TIERS, _TIER_SHARES = ("Tier1", "FullOpts", "Tier1-OSR", "Tier0", "Instrumented Tier0"), (0.5, 0.3, 0.1, 0.05, 0.05)
_WITHOUT_PHASE = ("Tier0", "Instrumented Tier0")


def make_collection(num_methods: int, seed: int, *, max_candidates: int = 20) -> dict:
    """Make methods with 0 to ``max_candidates`` candidates each; the same arguments give the same methods."""
    return {"methods": [_method(i, generator(seed, "superpmi", i), max_candidates) for i in range(1, num_methods + 1)]}


def _method(number: int, rng: np.random.Generator, max_candidates: int) -> dict:
    tier = str(rng.choice(_TIERS, p=_TIER_SHARES))
    count = 0 if tier in _WITHOUT_PHASE else int(rng.integers(0, max_candidates + 1))
    num_locals, num_blocks = int(rng.integers(2, 40)), int(rng.integers(1, 80))
    candidates = [_candidate(rng, num_locals, num_blocks) for _ in range(count)]
    work = sum(c["features"][12] * c["features"][8] for c in candidates) / UNIT_WEIGHT
    return {
        "name": f"Demo.Type{number % 17}:Method{number}(int,System.String){':this' if number % 3 else ':int'}",
        "hash": f"{int(rng.integers(0, 1 << 32)):08x}",
        "tier": tier,
        "base_score": round(float(10 + num_blocks * rng.uniform(1, 8) + work * rng.uniform(1.2, 2.5)), 2),
        "base_bytes": int(60 + 12 * num_blocks + sum(3 * c["features"][9] for c in candidates)),
        "candidates": candidates,
        "pairs": _pairs(candidates, num_locals, rng),
        "heuristic": _heuristic([c["features"] for c in candidates]),
    }


def _candidate(rng: np.random.Generator, num_locals: int, num_blocks: int) -> dict:
    viable = int(rng.random() < 0.85)
    live_across_call, const = int(rng.random() < 0.35), int(rng.random() < 0.15)
    make_cse, has_call, containable = (int(rng.random() < p) for p in (0.08, 0.05, 0.20))
    cost_ex = int(2 + rng.geometric(0.5)) if const else int(min(80, 2 + rng.geometric(0.12) + 15 * has_call))
    cost_sz = int(min(54, 1 + rng.geometric(0.25)))
    uses, defs = int(rng.geometric(0.35)), int(rng.geometric(0.65))
    use_weight = int(uses * UNIT_WEIGHT * np.exp(rng.normal(0.0, 1.0)))
    def_weight = int(defs * UNIT_WEIGHT * np.exp(rng.normal(0.0 if not make_cse else -1.5, 0.7)))
    features = [
        int(rng.choice(_TYPES, p=_TYPE_SHARES)),
        viable,
        live_across_call,
        const,
        0,
        make_cse,
        has_call,
        containable,
        cost_ex,
        cost_sz,
        uses,
        defs,
        max(1, use_weight) if viable else 0,
        max(1, def_weight) if viable else 0,
        int(rng.integers(0, 5)),
        int(rng.integers(0, 7)),
        num_blocks,
        int(rng.integers(0, num_blocks)),
        num_locals,
    ]
    score = _effect(features) * float(np.exp(rng.normal(0.0, 0.15)))
    return {"features": features, "score": round(score, 2), "bytes": int(2 * defs + 3 * live_across_call - uses)}


def _effect(features: list[int]) -> float:
    """What performing a candidate adds to the score: below 0 is a gain."""
    live_across_call, const, containable, cost_ex = features[2], features[3], features[7], features[8]
    uses, defs, num_locals = features[12] / UNIT_WEIGHT, features[13] / UNIT_WEIGHT, features[18]
    saved = uses * (cost_ex - 1) * (0.15 if const else 1.0) * (0.5 if containable else 1.0)
    pressure = num_locals / 20
    reloads = (uses * 2.0 + defs) * pressure * (2.2 if live_across_call else 0.8)
    return 0.35 * (defs * 1.5 + reloads - saved)


def _pairs(candidates: list[dict], num_locals: int, rng: np.random.Generator) -> list[list]:
    """Competition for registers: among some pairs, the more the fewer registers there are."""
    pairs = []
    for a in range(len(candidates)):
        for b in range(a + 1, len(candidates)):
            first, second = candidates[a]["features"], candidates[b]["features"]
            if first[1] and second[1] and rng.random() < 0.3:
                shared = min(first[12], second[12]) / UNIT_WEIGHT
                both_across = 2.0 if first[2] and second[2] else 0.7
                pairs.append([a, b, round(shared * num_locals / 20 * both_across, 2)])
    return pairs


def _heuristic(rows: list[list[int]]) -> list[int]:
    """Positions that a plain rule takes, the most expensive work first."""
    order = sorted(range(len(rows)), key=lambda i: (-rows[i][8] * rows[i][12], i))
    taken = []
    for i in order:
        live_across_call, cost_ex, uses, defs = rows[i][2], rows[i][8], rows[i][12], rows[i][13]
        threshold = (uses + 2 * defs) * (3 if live_across_call else 1)
        if rows[i][1] and cost_ex * uses > threshold:
            taken.append(i)
    return taken
