"""Learner ``es``: improve a policy by evolution strategies on compile results."""

from collections.abc import Mapping
from typing import Any

import numpy as np

from mlgo.base.problems import Kind
from mlgo.learn.base import Trained
from mlgo.learn.context import TrainContext
from mlgo.learn.es.config import ESConfig
from mlgo.learn.es.coordinates import Coordinates
from mlgo.learn.es.loop import evolve
from mlgo.learn.es.rewards import mean_over_common
from mlgo.learn.es.snapshots import Snapshots
from mlgo.learn.es.state import STATES, EsState


class EvolutionStrategies:
    """Perturbs a policy's weights, and moves them towards what compiled smaller."""

    name = "es"
    section = ESConfig
    sections: Mapping[Kind, tuple[str, ...]] = {"modules": ("es",), "choices": ("es",)}
    compiles: tuple[Kind, ...] = ("modules", "choices")

    def start(self, config: Mapping[str, Any]) -> str | None:
        """Goes on from the policy of ``es.start``."""
        return str(config["es"]["start"])

    def train(self, context: TrainContext[Any]) -> Trained:
        """Run generations; the best validated mean is the policy."""
        config: ESConfig = context.config
        start = context.start
        coordinates = Coordinates.last_layers(
            start.weights,
            start.architecture.layer_slices(),
            config.trainable_layers,
            config.perturbation_unit,
            config.perturbation_epsilon,
        )
        with context.training(config.generations, "generation", STATES) as training:
            snapshots = Snapshots(training, config.save_every, coordinates)

            def evaluate(candidates: np.ndarray, generation: int) -> np.ndarray:
                return training.evaluate(candidates, training.draw(config.modules, generation))

            def after_generation(state: EsState, rewards: np.ndarray) -> None:
                training.saver.flush()
                snapshots.keep(state)
                training.progress.add_histogram("candidate_rewards", mean_over_common(rewards), state.done)
                training.progress.add_histogram("module_rewards", rewards, state.done)
                last = state.history[-1]
                if last["skipped"]:
                    usable = f"{last['successful_pairs']} of {config.pairs} directions are usable"
                    share = f"es.min_success_share asks for {config.min_success_share:.0%}"
                    training.progress.say(f"generation {state.done} is skipped: {usable}, {share}")
                if last.get("chosen_weights") == 0:
                    found = "lasso found no slope at all; lower es.lasso_penalty"
                    training.progress.say(f"generation {state.done}: {found}")
                training.after(state)

            snapshots.begin(training.state)
            state = evolve(
                coordinates,
                evaluate,
                lambda weights: float(training.validate(weights).mean()),
                config,
                context.seed,
                training.state,
                after_generation,
                training.num_validation,
            )
        best = start.with_weights(coordinates.weights(state.best))
        return Trained(best, state.history, {"validation_reward": state.best_reward})


LEARNER = EvolutionStrategies()
