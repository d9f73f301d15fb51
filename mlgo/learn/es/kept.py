"""Policies during a training: one every so many generations, and each that beats all before it."""

import shutil
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

from mlgo.learn.es.coordinates import Coordinates
from mlgo.learn.es.state import EsState
from mlgo.learn.saver import BackgroundSaver
from mlgo.policy.policy import Policy
from mlgo.policy.stored import save_policy


class KeptPolicies:
    """Saves search points as policies, when the saver may write.

    Args:
        saver: does the writing.
        folder: of the policies.
        every: generations from one policy to the next; 0 keeps none at all.
        start: gives task, features and architecture.
        coordinates: from search points to weights.
        origin: provenance of the training; the record of the generation is added.
    """

    def __init__(
        self,
        saver: BackgroundSaver,
        folder: Path,
        every: int,
        start: Policy,
        coordinates: Coordinates,
        origin: dict[str, Any],
    ) -> None:
        self._saver, self._folder, self._every = saver, folder, every
        self._start, self._coordinates, self._origin = start, coordinates, origin

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
        weights = self._coordinates.weights(state.mean)
        policy = replace(self._start.with_weights(weights), origin={**self._origin, **state.history[-1]})
        if state.generation % self._every == 0:
            self._saver.save(self._folder / f"iteration{state.generation}", partial(save_policy, policy))
        if state.beats_all_before:
            name = f"best_policy_{state.best_reward:.5f}_step_{state.generation}"
            self._saver.save(self._folder / name, partial(save_policy, policy))
