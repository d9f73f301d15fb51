"""Which units are learnt from and judged, and on which side of the split each lies."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from mlgo.core.errors import CorpusError
from mlgo.core.seeding import generator
from mlgo.problems.subset.compiler import Compiled, Outcome, Unit
from mlgo.problems.subset.state import fits


@dataclass(frozen=True)
class Eligible:
    """What a unit needs.

    Attributes:
        min_viable: candidates that can be applied.
        max_candidates: candidates in all.
    """

    min_viable: int
    max_candidates: int

    def skip_reason(self, none: Outcome, heuristic: Outcome) -> str:
        """Why a unit with these baselines is left out; empty if it is not."""
        for way, outcome in (("without elimination", none), ("under the heuristic", heuristic)):
            if not isinstance(outcome, Compiled):
                return f"fails {way}: {outcome.kind}"
            if outcome.score <= 0:
                return f"scores nothing {way}"
        assert isinstance(none, Compiled)
        if fits(none.candidates, self.min_viable, self.max_candidates):
            return ""
        if len(none.candidates) > self.max_candidates:
            return f"too many candidates: {len(none.candidates)}"
        return f"too few viable candidates: {int(none.candidates.viable.sum())}"


def repeats(units: Sequence[Unit]) -> dict[str, str]:
    """Units whose body an earlier one has, with the name of that one."""
    first: dict[str, str] = {}
    return {unit.name: seen for unit in units if (seen := first.setdefault(unit.body_sha256, unit.name)) != unit.name}


def stratified_split(
    num_viable: Mapping[str, int], shares: Mapping[str, float], rest: str, seed: int
) -> dict[str, str]:
    """Split units so that each side has its share of every number of viable candidates.

    Within such a group the order is random, and each side takes its share of what is left, rounded at random so that
    small groups are fair, too.

    Args:
        num_viable: viable candidates of each unit.
        shares: of all units, by side.
        rest: side of those that no share takes.
        seed: root seed.

    Returns:
        The side of each unit.

    Raises:
        CorpusError: a side that should have units gets none.
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
