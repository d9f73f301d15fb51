"""Proximal policy optimisation from a given start, one iteration after another."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

import numpy as np

from mlgo.base.seeding import generator
from mlgo.host.actions import ActionSpace
from mlgo.learn.base import SampledCompile, State, Trajectory, Validate, run_steps, successful
from mlgo.learn.ppo.advantages import advantages_of_functions, advantages_over_siblings
from mlgo.learn.ppo.config import PPOConfig
from mlgo.learn.ppo.update import Batch, TrainablePolicy, soften
from mlgo.policy.network import Architecture

Collect = Callable[[np.ndarray, int], Sequence[SampledCompile | None]]
"""``(policy weights float32 [num_params], iteration) -> compiles``, None where one failed."""


@dataclass(frozen=True)
class PpoState(State):
    """State of a run, enough to resume it; arrays are of `TrainablePolicy.arrays`."""

    arrays: tuple[np.ndarray, ...]


STATES = (PpoState,)
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
    policy = TrainablePolicy(soften(start, architecture, config.start_temperature), architecture, actions, config)

    def validated(state: PpoState) -> PpoState:
        weights = policy.weights
        return state.validated(weights, validate(weights))

    if state is None:
        first = {"iteration": 0, "evaluations": 0}
        state = validated(PpoState(policy.weights, float("-inf"), (first,), policy.arrays()))
    policy.restore(state.arrays)

    def iteration(state: PpoState) -> PpoState:
        asked = collect(policy.weights, state.done)
        compiles = successful(asked, "ppo", "an iteration")
        batch, record = _over_siblings([one for each in compiles for one in each.episodes], policy, config)
        if len(batch.answers):
            record |= policy.update(batch, generator(seed, "ppo", "minibatches", state.done), state.done)
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
        return replace(state, arrays=policy.arrays(), history=(*state.history, record))

    return run_steps(state, config.iterations, iteration, after_iteration, validated, config.validate_every)


def _over_siblings(
    episodes: Sequence[Trajectory], policy: TrainablePolicy, config: PPOConfig
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
    inputs = np.concatenate([one.inputs for one in episodes])[differs]
    chosen = np.concatenate([one.answers for one in episodes]).astype(np.float32)[differs]
    old = policy.log_probabilities(inputs, chosen)
    return Batch(inputs, chosen, old, advantages[differs].astype(np.float32)), record
