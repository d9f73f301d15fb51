"""Proximal policy optimisation from a given start, one iteration after another."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

import numpy as np

from mlgo.base.seeding import generator
from mlgo.errors import ConfigError
from mlgo.host.actions import ActionSpace
from mlgo.learn.base import SampledCompile, State, Trajectory, Validate, run_steps, successful
from mlgo.learn.ppo.advantages import (
    RewardScale,
    RunningMoments,
    advantages_of_functions,
    advantages_over_siblings,
    terminal_advantages,
)
from mlgo.learn.ppo.config import PPOConfig
from mlgo.learn.ppo.update import ActorCritic, Batch, forward, soften
from mlgo.policy.network import Architecture

Collect = Callable[[np.ndarray, int], Sequence[SampledCompile | None]]
"""``(policy weights float32 [num_params], iteration) -> compiles``, None where one failed."""


@dataclass(frozen=True)
class PpoState(State):
    """State of a run, enough to resume it; arrays are of `ActorCritic.arrays`."""

    arrays: tuple[np.ndarray, ...]
    scale: RewardScale


STATES = (PpoState, RewardScale, RunningMoments)
"""What a checkpoint is made of."""


def optimise(
    start: np.ndarray,
    architecture: Architecture,
    actions: ActionSpace,
    collect: Collect,
    validate: Validate,
    config: PPOConfig,
    seed: int,
    state: PpoState | None = None,
    after_iteration: Callable[[PpoState], None] = lambda state: None,
) -> PpoState:
    """Run iterations until the configured number is reached.

    What is random in an iteration depends on seed and iteration only, so a resumed run equals an undisturbed one.

    Args:
        start: float32 [num_params], policy to start from; its logits are softened first.
        actions: what its outputs say about actions.
        collect: compiles under samples from a policy.
        validate: rewards of a policy's own decisions; their mean decides which policy is returned as best.
        state: where to go on; None starts anew.
        after_iteration: called with each new state, for checkpoints and logs.

    Raises:
        NothingCompiled: every compile of an iteration failed, or no module is left to compile.
    """
    if config.baseline == "network" and not actions.yes_or_no:
        raise ConfigError("ppo.baseline: there is no value network for answers that are not yes or no; choose siblings")
    networks = ActorCritic(soften(start, architecture, config.start_temperature), architecture, actions, config, seed)

    def validated(state: PpoState) -> PpoState:
        weights = networks.policy_weights
        return state.validated(weights, validate(weights))

    if state is None:
        first, scale = {"iteration": 0, "evaluations": 0}, RewardScale(config.reward_prior)
        state = validated(PpoState(networks.policy_weights, float("-inf"), (first,), networks.arrays(), scale))
    networks.restore(state.arrays)

    def iteration(state: PpoState) -> PpoState:
        asked = collect(networks.policy_weights, state.done)
        compiles = successful(asked, "ppo", "an iteration")
        episodes, scale = [one for each in compiles for one in each.episodes], state.scale
        if networks.value is None:
            batch, record = _over_siblings(episodes, networks, config)
        else:
            scale = scale.including([one.key for one in episodes], [one.reward for one in episodes])
            batch, record = _over_expectations(episodes, networks, scale, config)
        if len(batch.answers):
            record |= networks.update(batch, generator(seed, "ppo", "minibatches", state.done), state.done)
        rewards = np.array([one.reward for one in compiles])
        record = {
            "iteration": state.done + 1,
            "mean_reward": float(rewards.mean()),
            "max_reward": float(rewards.max()),
            "min_reward": float(rewards.min()),
            "win_share": float((rewards > 0).mean()),
            "failed_episodes": len(asked) - len(compiles),
            **record,
            "evaluations": state.history[-1]["evaluations"] + len(asked),
        }
        return replace(state, arrays=networks.arrays(), scale=scale, history=(*state.history, record))

    return run_steps(state, config.iterations, iteration, after_iteration, validated, config.validate_every)


def _over_siblings(
    episodes: Sequence[Trajectory], networks: ActorCritic, config: PPOConfig
) -> tuple[Batch, dict[str, float]]:
    """Join the questions about which other episodes of their subject say something; the rest teaches nothing."""
    if config.baseline == "functions":
        advantages = advantages_of_functions(episodes, config.max_advantage)
    else:
        rewards = np.array([one.reward for one in episodes])
        of_each = advantages_over_siblings([one.key for one in episodes], rewards, config.max_advantage)
        advantages = np.repeat(of_each, [len(one.answers) for one in episodes])
    differs = advantages != 0.0
    record = {"differing_share": float(np.count_nonzero(differs) / max(1, len(differs)))}
    if not differs.any():
        return Batch(*(np.zeros(0, np.float32) for _ in Batch._fields)), record
    inputs, chosen = (part[differs] for part in _joined(episodes))
    old = networks.log_probabilities(inputs, chosen)
    taught = advantages[differs].astype(np.float32)
    return Batch(inputs, chosen, old, taught, np.zeros(len(chosen), np.float32)), record


def _over_expectations(
    episodes: Sequence[Trajectory], networks: ActorCritic, scale: RewardScale, config: PPOConfig
) -> tuple[Batch, dict[str, float]]:
    """Join episodes to a batch, advantages normalised over all of it; and the share of returns that was foreseen."""
    inputs, chosen = _joined(episodes)
    values = forward(networks.value, inputs)[:, 0].astype(np.float64)
    ends = np.cumsum([len(one.answers) for one in episodes])
    advantages = np.concatenate(
        [
            terminal_advantages(part, scale.normalise(one.key, one.reward), config.gamma, config.gae_lambda)
            for one, part in zip(episodes, np.split(values, ends[:-1]), strict=True)
        ]
    )
    returns = advantages + values
    explained = 1.0 - advantages.var() / returns.var() if returns.var() > 0.0 else 0.0
    deviation = advantages.std()
    centred = (advantages - advantages.mean()) / (deviation if deviation > 0.0 else 1.0)
    old = networks.log_probabilities(inputs, chosen)
    batch = Batch(inputs, chosen, old, centred.astype(np.float32), returns.astype(np.float32))
    return batch, {"explained_variance": float(explained)}


def _joined(episodes: Sequence[Trajectory]) -> tuple[np.ndarray, np.ndarray]:
    """Questions of all episodes, and their answers as float32 [num_questions]."""
    inputs = np.concatenate([one.inputs for one in episodes])
    return inputs, np.concatenate([one.answers for one in episodes]).astype(np.float32)
