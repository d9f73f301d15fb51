"""Learner ``sb3``: MaskablePPO of SB3-Contrib; needs the extra ``sb3``."""

import importlib.util
from collections.abc import Mapping
from typing import Any

from tqdm import tqdm

from mlgo.core.config import PolicyConfig
from mlgo.core.errors import ConfigError
from mlgo.core.problems import Kind
from mlgo.learn.base import Trained
from mlgo.learn.choice.context import ChoiceContext
from mlgo.problems.subset.env import CseEnv
from mlgo.problems.subset.problem import choice_problem
from mlgo.problems.subset.rewards import EndGain


class StableBaselines:
    """Trains another library's agent on the environment of choices."""

    name = "sb3"
    section = None
    sections: Mapping[Kind, tuple[str, ...]] = {"choices": ("policy",)}
    compiles: tuple[Kind, ...] = ()

    def start(self, config: Mapping[str, Any]) -> str | None:
        """Goes on from none."""
        return None

    def train(self, context: ChoiceContext) -> Trained:
        """Make ``cse.sb3_steps`` choices."""
        if importlib.util.find_spec("sb3_contrib") is None:
            raise ConfigError("learner sb3: Stable-Baselines3 is not installed; run make setup EXTRA=sb3")
        config, hidden, units = context.cse, context.section("policy", PolicyConfig).hidden, context.train
        from mlgo.learn.sb3.stable_baselines import train_maskable_ppo  # takes seconds: only once all is well

        # Rewards in percent, so that they are of the size that the library's settings are for.
        env = CseEnv(
            context.spec.open(),
            choice_problem(context.task).columns,
            [unit.name for unit in units],
            min_viable=config.min_viable,
            max_candidates=config.max_candidates,
            reward=EndGain(scale=100.0),
        )
        logs = str(context.order.work / "tensorboard" / context.label)
        sections = {"sb3_steps": config.sb3_steps}
        try:
            with (
                context.training(config.sb3_steps, "step", sections=sections),
                tqdm(total=config.sb3_steps, desc=context.label, unit="step", disable=None) as bar,
            ):
                weights = train_maskable_ppo(env, config.sb3_steps, tuple(hidden), context.seed, logs, bar.update)
        finally:
            env.close()
        history = [{"step": config.sb3_steps, "evaluations": env.num_asked}]
        return Trained(context.fresh(hidden).with_weights(weights), history)


LEARNER = StableBaselines()
