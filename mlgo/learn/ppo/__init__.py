"""Learner ``ppo``: improve a policy by proximal policy optimisation."""

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import numpy as np

from mlgo.base.registry import Kind, Learner
from mlgo.learn.base import SampledCompile, Trained
from mlgo.learn.bc import start_with
from mlgo.learn.context import TrainContext
from mlgo.learn.ppo.config import PPOConfig
from mlgo.learn.ppo.loop import STATES, optimise


class ProximalPolicyOptimisation(Learner):
    """Draws answers with the policy's own probabilities, and makes those likelier that compiled smaller."""

    name = "ppo"
    section = PPOConfig
    sections: Mapping[Kind, tuple[str, ...]] = {"modules": ("bc", "ppo"), "choices": ("bc", "ppo")}
    compiles: tuple[Kind, ...] = ("modules", "choices")

    def start(self, config: Mapping[str, Any]) -> str | None:
        return str(config["ppo"]["start"]) if config["ppo"]["hidden"] is None else None

    def train(self, context: TrainContext[Any]) -> Trained:
        config: PPOConfig = context.config
        origin = start_with(context, config.hidden)
        architecture, weights = context.start.architecture.ungrouped(context.start.weights)  # as Keras trains them
        start = replace(context.start, architecture=architecture, weights=weights)
        with context.training(config.iterations, "iteration", STATES, policy=start, **origin) as state:

            def collect(weights: np.ndarray, iteration: int) -> list[SampledCompile | None]:
                instances = context.draw(config.modules, iteration)
                credited = config.baseline == "functions"
                return context.sampled(weights, instances, config.episodes, iteration, credited)

            state = optimise(
                start.weights,
                start.architecture,
                context.actions,
                collect,
                context.validate,
                config,
                context.seed,
                state,
                context.after,
            )
        return Trained(start.with_weights(state.best), state.history, {"validation_reward": state.best_reward})


LEARNER = ProximalPolicyOptimisation()
