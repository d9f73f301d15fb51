"""Proximal policy optimisation from a given start, one iteration after another."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from mlgo.config import PPOConfig
from mlgo.errors import NothingCompiled
from mlgo.learn.ppo.gae import terminal_advantages
from mlgo.learn.ppo.network import ActorCritic, forward, soften
from mlgo.learn.ppo.rewards import RewardScale
from mlgo.learn.ppo.update import Batch, ClippedUpdate, log_probability
from mlgo.policy.network import Architecture
from mlgo.seeding import generator


@dataclass(frozen=True)
class Sampled:
    """An episode whose answers were drawn with the probabilities of the policy.

    Attributes:
        module: key of the module.
        inputs: float16 or float32 [num_questions, num_features], normalised.
        answers: uint8 [num_questions], 0 or 1.
        reward: relative reward, at the end.
    """

    module: str
    inputs: np.ndarray
    answers: np.ndarray
    reward: float


Collect = Callable[[np.ndarray, int], Sequence[Sampled | None]]
"""``(policy weights float32 [num_params], iteration) -> episodes``, None where a compile failed."""

Validate = Callable[[np.ndarray], np.ndarray]
"""``weights float32 [num_params] -> rewards float64 [num_modules]`` of the decided policy on other projects."""


@dataclass(frozen=True)
class PpoState:
    """Everything a run needs to go on after a stop.

    Attributes:
        iteration: iterations done.
        arrays: both networks and their optimisers, see `ActorCritic.arrays`.
        scale: how rewards are normalised.
        best: float32 [num_params], validated policy with the highest validation reward.
        best_reward: its validation reward; -inf before the first validation.
        evaluations: compiles asked for so far, those of validations included.
        history: one record per iteration, oldest first.
    """

    iteration: int
    arrays: tuple[np.ndarray, ...]
    scale: RewardScale
    best: np.ndarray
    best_reward: float = float("-inf")
    evaluations: int = 0
    history: tuple[dict[str, Any], ...] = ()


def optimise(
    start: np.ndarray,
    architecture: Architecture,
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
        architecture: its layer widths.
        collect: episodes under samples from a policy.
        validate: rewards of a policy's own decisions; their mean decides which policy is returned as best.
        config: sizes and steps.
        seed: root seed of the value network and of the order of questions.
        state: where to go on; None starts anew.
        after_iteration: called with each new state, for checkpoints and logs.

    Raises:
        NothingCompiled: every compile of an iteration failed, or no module is left to compile.
        TrainingError: a loss or a weight is not a number.
    """
    networks = ActorCritic(soften(start, architecture, config.start_temperature), architecture, config, seed)
    if state is None:
        state = PpoState(0, networks.arrays(), RewardScale(config.reward_prior), networks.policy_weights)
        state = _validated(state, networks, validate)
    networks.restore(state.arrays)
    update = ClippedUpdate(networks, config)
    while state.iteration < config.iterations:
        asked = collect(networks.policy_weights, state.iteration)
        episodes = _successful(asked)
        scale = state.scale.including([one.module for one in episodes], [one.reward for one in episodes])
        batch, explained = _with_advantages(episodes, networks, scale, config)
        losses = update(batch, generator(seed, "ppo", "minibatches", state.iteration))
        state = replace(
            state,
            iteration=state.iteration + 1,
            arrays=networks.arrays(),
            scale=scale,
            evaluations=state.evaluations + len(asked),
            history=(
                *state.history,
                {
                    "iteration": state.iteration + 1,
                    **_rewards_of(asked, episodes),
                    **losses,
                    "explained_variance": explained,
                    "evaluations": state.evaluations + len(asked),
                },
            ),
        )
        if state.iteration % config.validate_every == 0 or state.iteration == config.iterations:
            state = _validated(state, networks, validate)
        after_iteration(state)
    return state


def _successful(asked: Sequence[Sampled | None]) -> list[Sampled]:
    episodes = [one for one in asked if one is not None]
    if not asked:
        raise NothingCompiled("no training module is left to compile; raise ppo.quarantine_after")
    if not episodes:
        raise NothingCompiled(
            f"all {len(asked)} compiles of an iteration failed; raise compile.compile_timeout_s or "
            "compile.max_memory_gb"
        )
    return episodes


def _with_advantages(
    episodes: Sequence[Sampled], networks: ActorCritic, scale: RewardScale, config: PPOConfig
) -> tuple[Batch, float]:
    """Join episodes to a batch, advantages normalised over all of it; and the share of returns that was foreseen."""
    inputs = np.concatenate([one.inputs for one in episodes]).astype(np.float32)
    answers = np.concatenate([one.answers for one in episodes]).astype(np.float32)
    values = forward(networks.value, inputs).astype(np.float64)
    ends = np.cumsum([len(one.answers) for one in episodes])
    advantages = np.concatenate(
        [
            terminal_advantages(part, scale.normalise(one.module, one.reward), config.gamma, config.gae_lambda)
            for one, part in zip(episodes, np.split(values, ends[:-1]), strict=True)
        ]
    )
    returns = advantages + values
    explained = 1.0 - advantages.var() / returns.var() if returns.var() > 0.0 else 0.0
    deviation = advantages.std()
    centred = (advantages - advantages.mean()) / (deviation if deviation > 0.0 else 1.0)
    old = np.asarray(log_probability(forward(networks.policy, inputs), answers))
    return Batch(inputs, answers, old, centred.astype(np.float32), returns.astype(np.float32)), float(explained)


def _validated(state: PpoState, networks: ActorCritic, validate: Validate) -> PpoState:
    weights = networks.policy_weights
    rewards = validate(weights)
    reward, evaluations = float(rewards.mean()), state.evaluations + len(rewards)
    last = state.history[-1] if state.history else {"iteration": 0}
    history = (*state.history[:-1], {**last, "evaluations": evaluations, "validation_reward": reward})
    state = replace(state, evaluations=evaluations, history=history)
    if reward > state.best_reward:
        return replace(state, best=weights, best_reward=reward)
    return state


def _rewards_of(asked: Sequence[Sampled | None], episodes: Sequence[Sampled]) -> dict[str, Any]:
    rewards = np.array([one.reward for one in episodes])
    return {
        "mean_reward": float(rewards.mean()),
        "max_reward": float(rewards.max()),
        "min_reward": float(rewards.min()),
        "win_share": float((rewards > 0).mean()),
        "failed_episodes": len(asked) - len(episodes),
    }
