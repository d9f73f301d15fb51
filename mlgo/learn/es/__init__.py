"""Learner ``es``: improve a policy by evolution strategies on compile results."""

import shutil
from collections.abc import Mapping
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from mlgo.base.registry import Kind, Learner
from mlgo.base.seeding import generator
from mlgo.learn.base import Trained
from mlgo.learn.bc import start_with
from mlgo.learn.context import TrainContext
from mlgo.learn.es.config import ESConfig
from mlgo.learn.es.gradient import Coordinates, FlipControl
from mlgo.learn.es.loop import STATES, EsState, Steer, as_configured, evolve, mean_over_common, shared_out


class EvolutionStrategies(Learner):
    """Perturbs a policy's weights, and moves them towards what compiled smaller."""

    name = "es"
    section = ESConfig
    sections: Mapping[Kind, tuple[str, ...]] = {"modules": ("bc", "es"), "choices": ("bc", "es")}
    compiles: tuple[Kind, ...] = ("modules", "choices")

    def start(self, config: Mapping[str, Any]) -> str | None:
        return str(config["es"]["start"]) if config["es"]["hidden"] is None else None

    def train(self, context: TrainContext[Any]) -> Trained:
        config: ESConfig = context.config
        origin, start = start_with(context, config.hidden), context.start
        coordinates = Coordinates.last_layers(
            start.weights,
            start.architecture.layer_slices(),
            config.trainable_layers,
            config.perturbation_unit,
            config.perturbation_epsilon,
        )
        steer: Steer = as_configured
        if config.flip_share:
            flips = FlipControl(context.answers(), config.flip_share)
            rng = generator(context.seed, "es", "units")
            coordinates = flips.equalised(coordinates, start.architecture.layer_slices(), rng)
            steer = partial(flips.factor, coordinates)
        with context.training(config.generations, "generation", STATES, **origin) as state:

            def evaluate(candidates: np.ndarray, generation: int) -> np.ndarray:
                instances, most = context.draw(config.modules, generation), config.modules_per_pair
                if not 0 < most < len(instances):
                    return context.evaluate(candidates, instances)
                rng = generator(context.seed, "es", "modules of pairs", generation)
                return context.evaluate(candidates, instances, shared_out(config.pairs, len(instances), most, rng))

            def after_generation(state: EsState, rewards: np.ndarray) -> None:
                context.saver.flush()
                _save(context, coordinates, state)
                context.progress.add_histogram("candidate_rewards", mean_over_common(rewards), state.done)
                context.progress.add_histogram("module_rewards", np.ma.compressed(rewards), state.done)
                last = state.history[-1]
                if last["skipped"]:
                    usable = f"{last['successful_pairs']} of {config.pairs} directions are usable"
                    share = f"es.min_success_share asks for {config.min_success_share:.0%}"
                    context.progress.say(f"generation {state.done} is skipped: {usable}, {share}")
                elif not last["differing_pairs"]:
                    advice = "raise es.flip_share or es.perturbation"
                    context.progress.say(f"generation {state.done} has equal rewards, and no gradient: {advice}")
                context.after(state)

            if state is not None:
                _save(context, coordinates, state)  # with those that a kill may have left out
            elif config.save_every and _snapshots(context).exists():
                shutil.rmtree(_snapshots(context))
            state = evolve(
                coordinates, evaluate, context.validate, config, context.seed, state, after_generation, steer
            )
        best = start.with_weights(coordinates.weights(state.best))
        return Trained(best, state.history, {"validation_reward": state.best_reward})


def _snapshots(context: TrainContext[Any]) -> Path:
    """Folder of policies during a training: one every so many generations, and each that beats all before it."""
    return context.order.work / "policies" / context.label


def _save(context: TrainContext[Any], coordinates: Coordinates, state: EsState) -> None:
    every = context.config.save_every
    if not every:
        return
    names = [f"iteration{state.done}"] if state.done % every == 0 else []
    if state.beats_all_before:
        names.append(f"best_policy_{state.best_reward:.5f}_step_{state.done}")
    policy = context.start.with_weights(coordinates.weights(state.mean))
    policy = replace(policy, origin={**context.origin, **state.history[-1]})
    for name in names:
        context.saver.save(_snapshots(context) / name, lambda path: context.save_policy(policy, path))


LEARNER = EvolutionStrategies()
