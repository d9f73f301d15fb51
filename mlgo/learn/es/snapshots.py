"""Policies during a training: one every so many generations, and each that beats all before it."""

import shutil
from dataclasses import replace
from pathlib import Path
from typing import Any

from mlgo.learn.context import Training
from mlgo.learn.es.coordinates import Coordinates
from mlgo.learn.es.state import EsState


class Snapshots:
    """Saves search points as policies, when the saver may write.

    Args:
        training: gives start policy, provenance and saver.
        every: generations from one policy to the next; 0 keeps none at all.
        coordinates: from search points to weights.
    """

    def __init__(self, training: Training[Any], every: int, coordinates: Coordinates) -> None:
        self._training, self._every, self._coordinates = training, every, coordinates
        self._folder: Path = training.context.order.work / "policies" / training.context.label

    def begin(self, state: EsState | None) -> None:
        """Begin where a run begins: anew without what another run has left, or with what a kill may have left out."""
        if state is not None:
            self.keep(state)
        elif self._every and self._folder.exists():
            shutil.rmtree(self._folder)

    def keep(self, state: EsState) -> None:
        """Queue what is worth keeping of a generation."""
        if not self._every:
            return
        start, origin = self._training.context.start, self._training.origin
        weights = self._coordinates.weights(state.mean)
        policy = replace(start.with_weights(weights), origin={**origin, **state.history[-1]})
        if state.done % self._every == 0:
            self._save(policy, f"iteration{state.done}")
        if state.beats_all_before:
            self._save(policy, f"best_policy_{state.best_reward:.5f}_step_{state.done}")

    def _save(self, policy: Any, name: str) -> None:
        save = self._training.context.save_policy
        self._training.saver.save(self._folder / name, lambda path: save(policy, path))
