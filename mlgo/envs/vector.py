"""Observations as one vector of numbers of comparable size, for learners that take no dictionaries."""

from typing import Any

import gymnasium
import numpy as np
from gymnasium.spaces import Box
from gymnasium.utils import RecordConstructorArgs

from mlgo.envs.env import CompileEnv
from mlgo.envs.episode import Observation
from mlgo.errors import ConfigError
from mlgo.policy.features import CLIP, Normalisation

_LARGEST_LOG = 10.0
"""Without a vocabulary, logarithms are divided by this: those of int64 are below 44, so the clip takes nothing away."""


class VectorObservation(gymnasium.ObservationWrapper[np.ndarray, Any, Observation], RecordConstructorArgs):
    """Features in the order of the space, each normalised; then the mask of legal columns, where there is one.

    float32 [num_features], or [num_columns * num_features + num_columns] for eviction, feature by feature. A feature
    that is one number for all columns enters once.

    Args:
        env: a `CompileEnv`.
        normalise: for example of a policy, or `policy.vocabulary.normalisation` of ``vocabulary.parquet``; None takes
            logarithms alone, in the task's units.
    """

    def __init__(self, env: gymnasium.Env[Observation, Any], normalise: Normalisation | None = None) -> None:
        RecordConstructorArgs.__init__(self, normalise=normalise)
        super().__init__(env)
        inner = env.unwrapped
        if not isinstance(inner, CompileEnv):
            raise ConfigError(f"VectorObservation wraps environments of mlgo, not {type(inner).__name__}")
        offered = {spec.name: spec for spec in inner.features}
        self._mask = inner.task.actions.mask
        names = tuple(name for name in offered if name != self._mask)
        if normalise is None:
            unit = np.array([inner.task.units.get(name, 1.0) for name in names], np.float32)
            scale = np.full(len(names), _LARGEST_LOG, np.float32)
            normalise = Normalisation(names, np.zeros(len(names), np.float32), scale, unit)
        if missing := [name for name in normalise.features if name not in offered]:
            raise ConfigError(f"the environment does not observe {', '.join(missing[:5])}")
        self._features = normalise.features
        sizes = [offered[name].num_elements for name in normalise.features]
        # One feature of 33 columns is 33 numbers that share its centre and scale.
        centre, scale = np.repeat(normalise.centre, sizes), np.repeat(normalise.scale, sizes)
        units = None if normalise.unit is None else np.repeat(normalise.unit, sizes)
        self._normalise = Normalisation(normalise.features, centre, scale, units)
        size = sum(sizes) + (offered[self._mask].num_elements if self._mask else 0)
        self.observation_space = Box(-CLIP, CLIP, (size,), np.float32)

    def observation(self, observation: Observation) -> np.ndarray:
        raw = np.concatenate([observation[name].ravel().astype(np.float32) for name in self._features])
        values = self._normalise(raw)
        return np.concatenate([values, observation[self._mask].ravel().astype(np.float32)]) if self._mask else values

    def action_masks(self) -> np.ndarray:
        inner = self.env.unwrapped
        assert isinstance(inner, CompileEnv)
        return inner.action_masks()
