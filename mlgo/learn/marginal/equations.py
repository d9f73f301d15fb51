"""From compiles to equations about single decisions.

For compile k of module m, with d(x) the change in size when the call with features x is inlined:

    size(m, k) = c(m) + sum of d(x) over the inlined questions of k

c(m) is unknown and cancels when both sides are centred within the module. One compile says something about hundreds of
decisions, where a candidate's reward says one thing about a vector of weights.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from mlgo.rollout.episodes import Episode


@dataclass(frozen=True)
class Evidence:
    """Compiles of one module that differ in their answers.

    Attributes:
        baseline: size under the heuristic, in bytes.
        episodes: compiles known so far.
    """

    baseline: float
    episodes: tuple[Episode, ...]

    def add(self, episode: Episode) -> "Evidence":
        """The evidence with one more compile; the same answers again add nothing."""
        if any(np.array_equal(episode.answers, known.answers) for known in self.episodes):
            return self
        return Evidence(self.baseline, (*self.episodes, episode))


@dataclass(frozen=True)
class Equations:
    """A batch of equations, flat: one row per inlined question, one entry per compile.

    Attributes:
        inputs: float16 [num_inlined, num_features], normalised features of the inlined questions.
        compile_of: int32 [num_inlined], the compile each belongs to.
        module_of: int32 [num_compiles], the module of each compile, counted from 0.
        sizes: float32 [num_compiles], size in percent of the heuristic's.
        percent_per_byte: float32 [num_compiles], what one byte is in percent of the heuristic's size.
        num_modules: how many modules.
    """

    inputs: np.ndarray
    compile_of: np.ndarray
    module_of: np.ndarray
    sizes: np.ndarray
    percent_per_byte: np.ndarray
    num_modules: int


def equations(chosen: Sequence[tuple[float, Sequence[Episode]]], num_features: int) -> Equations:
    """Lay out compiles of some modules.

    Args:
        chosen: baseline size in bytes and compiles of each module.
        num_features: width of the inputs, for the case that nothing was inlined.
    """
    compiles = [(m, baseline, one) for m, (baseline, episodes) in enumerate(chosen) for one in episodes]
    inlined = [one.inputs[one.answers == 1] for _, _, one in compiles]
    counts = [len(rows) for rows in inlined]
    return Equations(
        np.concatenate([np.zeros((0, num_features), np.float16), *inlined]),
        np.repeat(np.arange(len(compiles), dtype=np.int32), counts),
        np.array([m for m, _, _ in compiles], np.int32),
        np.array([100.0 * one.score / baseline for _, baseline, one in compiles], np.float32),
        np.array([100.0 / baseline for _, baseline, _ in compiles], np.float32),
        len(chosen),
    )
