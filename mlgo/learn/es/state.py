"""Where a run stands: everything it needs to go on after a stop."""

from dataclasses import dataclass

import numpy as np

from mlgo.learn.base import State
from mlgo.learn.es.config import ESConfig
from mlgo.learn.es.trust_region import TrustRegionState
from mlgo.learn.es.update import AdamState, MomentumState

OptimizerState = AdamState | MomentumState | TrustRegionState


@dataclass(frozen=True)
class EsState(State):
    """Everything a run needs to go on after a stop.

    Attributes:
        mean: float64 [num_varied], search point; `best` is another, of those that were validated.
        optimizer: state of the update rule.
    """

    mean: np.ndarray
    optimizer: OptimizerState

    @classmethod
    def start(cls, num_varied: int, config: ESConfig) -> "EsState":
        """State before the first generation."""
        zeros, record = np.zeros(num_varied), {"generation": 0, "evaluations": 0, "skipped": False}
        return cls(zeros, float("-inf"), (record,), zeros, _start_optimizer(num_varied, config))

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
