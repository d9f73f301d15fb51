"""Candidates chosen one after another, until the stop."""

from dataclasses import dataclass

import numpy as np

from mlgo.host.actions.categorical import Masked


@dataclass(frozen=True)
class Subset(Masked):
    """At each step one of the candidates that are left, or the stop, which is the last action."""

    def num_inputs(self, num_features: int) -> int:
        """The features of a candidate and of the whole, and 1 for the stop."""
        return num_features + 1

    def rows(self, candidates: np.ndarray, whole: np.ndarray) -> np.ndarray:
        """Inputs of the network; the stop has no features of its own.

        Args:
            candidates: float32 [num_candidates, num_features].
            whole: float32 [num_figures], the same for all actions.

        Returns:
            float32 [num_candidates + 1, num_features + num_figures + 1].
        """
        num_candidates, num_features = candidates.shape
        rows = np.zeros((num_candidates + 1, self.num_inputs(num_features + len(whole))), np.float32)
        rows[:-1, :num_features] = candidates
        rows[:, num_features:-1] = whole
        rows[-1, -1] = 1.0
        return rows

    def legal(self, left: np.ndarray, *, stop: bool = True) -> np.ndarray:
        """Which actions are: bool [num_candidates + 1].

        Args:
            left: bool [num_candidates], what may still be chosen.
            stop: whether stopping is allowed while something is left.
        """
        return np.append(left, stop or not left.any())

    def sample(self, logits: np.ndarray, rng: np.random.Generator) -> int:
        """An action drawn with the probabilities ``softmax(logits)``, [num_actions], by adding Gumbel noise."""
        return int((logits.astype(np.float64) + rng.gumbel(size=len(logits))).argmax())
