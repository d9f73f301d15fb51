"""Learner ``bcmax``: clone the best known trajectory of each module, again and again."""

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from mlgo.base.files import file_sha256
from mlgo.base.registry import Kind, Learner
from mlgo.base.seeding import generator, sample
from mlgo.errors import ConfigError
from mlgo.evaluate import CompileJob
from mlgo.evaluate.episodes import compile_episodes
from mlgo.host.session import CompileResult
from mlgo.host.tasks.task import Advisor, get_task
from mlgo.learn.base import Fitted, Trained, Trajectory
from mlgo.learn.bcmax.explorers import BCMaxConfig, explorers, load_earlier
from mlgo.learn.bcmax.loop import STATES, Compiled, heuristic_trajectories, imitate_best
from mlgo.learn.cloning import CloneData, fit
from mlgo.learn.modules import ModuleContext
from mlgo.policy.network import Architecture


class BestClone(Learner):
    """Compiles under references and variants of a policy, keeps what was best, and clones that."""

    name = "bcmax"
    section = BCMaxConfig
    sections: Mapping[Kind, tuple[str, ...]] = {"modules": ("bcmax",)}
    compiles: tuple[Kind, ...] = ("modules",)

    def start(self, config: Mapping[str, Any]) -> str | None:
        return "bc"

    def train(self, context: ModuleContext) -> Trained:
        config: BCMaxConfig = context.config
        start, actions = context.start, context.actions
        earlier = load_earlier(config.policies, context.task)
        is_heuristic = get_task(context.task).references.is_heuristic
        context.train = sample(context.train, config.modules, context.seed, "bcmax", "train")
        context.check_trace(start.normalisation)
        keys = {one.module.key for one in context.train}
        known = heuristic_trajectories(context.trace, keys, actions, start.normalisation) if is_heuristic else None
        architecture = Architecture((start.num_inputs, *config.hidden, 1))
        if not is_heuristic and architecture != start.architecture:
            raise ConfigError("bcmax.hidden must be like policy.hidden for tasks whose heuristic tells no decisions")
        blank = replace(start, architecture=architecture, weights=np.zeros(architecture.num_params, np.float32))
        hashes = {
            "policies_sha256": [file_sha256(Path(folder) / "weights.npy") for folder in config.policies],
            "trace_sha256": context.trace_sha256,
        }

        def explore(weights: np.ndarray, number: int) -> Compiled:
            advisors = explorers(blank.with_weights(weights), earlier, config, context.seed, number)
            return [
                one
                for name, advisor in advisors.items()
                for one in _compiled(context, advisor, f"{name} of round {number}")
            ]

        def measure(weights: np.ndarray) -> Compiled:
            return _compiled(context, blank.with_weights(weights), "policy")

        def clone(data: CloneData, weights: np.ndarray | None, number: int) -> Fitted:
            seed = int(generator(context.seed, "bcmax", "fit", number).integers(2**32))
            epochs = config.clone_epochs if weights is None else config.epochs
            return fit(data, actions, architecture, weights, epochs, config.batch_size, config.learning_rate, seed)

        with context.training(config.rounds, "round", STATES, policy=blank, hashes=hashes) as state:
            weights = start.weights if architecture == start.architecture else None
            state = imitate_best(
                weights, known, explore, measure, context.validate, clone, config, state, context.after
            )
            context.origin["validation_reward"] = state.best_reward
        return Trained(blank.with_weights(state.best), state.history)


def _compiled(context: ModuleContext, advisor: Advisor, source: str) -> Compiled:
    """Training modules that still compile, under an advisor."""

    def read(module: str, result: CompileResult) -> list[Trajectory]:
        return [replace(one, source=source) for one in context.trajectories(module, result)]

    jobs = [
        CompileJob(one.module.key, context.bitcode[one.module.key], advisor, record=True, sha256=one.module.sha256)
        for one in context.compiling
    ]
    return [each or [] for each in compile_episodes(context.host, jobs, read, source, context.quarantine.note)]


LEARNER = BestClone()
