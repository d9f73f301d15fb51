"""Where a run stands: everything it needs to go on after a stop."""

from dataclasses import dataclass
from typing import Any

import numpy as np

from mlgo.learn.es.config import ESConfig
from mlgo.learn.es.trust_region import TrustRegionState
from mlgo.learn.es.update import AdamState, MomentumState

OptimizerState = AdamState | MomentumState | TrustRegionState


@dataclass(frozen=True)
class EsState:
    """Everything a run needs to go on after a stop.

    Attributes:
        generation: generations done.
        mean: float64 [num_varied], search point.
        optimizer: state of the update rule.
        best: float64 [num_varied], validated point with the highest validation reward.
        best_reward: its validation reward; -inf before the first validation.
        history: one record per generation, oldest first.
    """

    generation: int
    mean: np.ndarray
    optimizer: OptimizerState
    best: np.ndarray
    best_reward: float
    history: tuple[dict[str, Any], ...] = ()

    @classmethod
    def start(cls, num_varied: int, config: ESConfig) -> "EsState":
        """State before the first generation."""
        zeros = np.zeros(num_varied)
        return cls(0, zeros, _start_optimizer(num_varied, config), zeros, float("-inf"))

    @property
    def done(self) -> int:
        """Steps done, for the driver."""
        return self.generation

    @property
    def beats_all_before(self) -> bool:
        """Whether the last generation was validated, with a higher reward than ever before."""
        *before, last = (record.get("validation_reward", float("-inf")) for record in self.history)
        return bool(last > max(before, default=float("-inf")))


def _start_optimizer(num_varied: int, config: ESConfig) -> OptimizerState:
    match config.update:
        case "adam":
            return AdamState.zeros(num_varied)
        case "sgd":
            return MomentumState(np.zeros(num_varied))
        case "trust_region":
            return TrustRegionState(config.trust_region.radius)


STATES = (EsState, AdamState, MomentumState, TrustRegionState)
"""What a checkpoint is made of."""
