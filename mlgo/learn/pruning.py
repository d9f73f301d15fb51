"""When a training of a study ends early: its rewards stay below those of other trials at the same step."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from mlgo.base.files import read_json
from mlgo.errors import ArtifactError


@dataclass(frozen=True)
class Limits:
    """What the best validation reward so far must reach.

    Attributes:
        least: by step (generation, iteration, round); steps that are not there have no limit.
    """

    least: Mapping[int, float] = field(default_factory=dict)

    @classmethod
    def read(cls, path: Path, seed: int) -> "Limits":
        """Read the limits for a seed from the file of a batch of trials, see `mlgo.research.study`.

        Raises:
            ArtifactError: missing or damaged.
        """
        record = read_json(path)
        try:
            return cls({int(step): float(reward) for step, reward in record["limits"].get(str(seed), {}).items()})
        except (AttributeError, KeyError, TypeError, ValueError) as error:
            raise ArtifactError(f"{path} is no batch of trials ({error}); delete it and run: make sweep") from error

    def missed(self, history: Sequence[Mapping[str, Any]], total: int) -> int | None:
        """The first step at which a training has missed its limit; None if it may go on.

        The last step has no limit: a training that is done costs nothing more.

        Args:
            history: a record for each step, from 0, with ``validation_reward`` where it validated.
            total: steps in all.
        """
        best = float("-inf")
        for step, record in enumerate(history[:total]):
            if "validation_reward" in record:
                best = max(best, record["validation_reward"])
                if best < self.least.get(step, float("-inf")):
                    return step
        return None

    def reason(self, history: Sequence[Mapping[str, Any]], step: int) -> str:
        """Why a training ended at a step, in words.

        Args:
            history: a record for each step, from 0.
            step: which `missed` gave.
        """
        best = max(one["validation_reward"] for one in history[: step + 1] if "validation_reward" in one)
        return (
            f"pruned after step {step}: its best validation reward is {100 * best:+.3f} %, earlier trials had "
            f"{100 * self.least[step]:+.3f} % there"
        )
