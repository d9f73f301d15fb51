"""Learner ``sb3``: MaskablePPO of SB3-Contrib; needs the extra ``sb3``."""

from collections.abc import Mapping

from tqdm import tqdm

from mlgo.base.config import PolicyConfig
from mlgo.base.packages import require
from mlgo.base.registry import Kind, Learner
from mlgo.jit.baseline import names_of
from mlgo.jit.env import ChoiceEndGain, ChoiceEnv
from mlgo.learn.base import Trained
from mlgo.learn.choices import ChoiceContext


class StableBaselines(Learner):
    """Trains another library's agent on the environment of choices."""

    name = "sb3"
    section = None
    sections: Mapping[Kind, tuple[str, ...]] = {"choices": ("policy",)}
    compiles: tuple[Kind, ...] = ()  # one at a time, so one worker is enough

    def train(self, context: ChoiceContext) -> Trained:
        """Make ``cse.sb3_steps`` choices."""
        require("learner sb3", "sb3")
        config, steps = context.cse, context.cse.sb3_steps
        policy, units = context.fresh(context.section("policy", PolicyConfig).hidden), context.train
        from mlgo.learn.maskable_ppo import train_maskable_ppo  # takes seconds: only once all is well

        logs = str(context.order.work / "tensorboard" / context.label)
        with (
            context.open_pool() as pool,
            context.training(steps, "step", sections={"sb3_steps": steps}),
            tqdm(total=steps, desc=context.label, unit="step", disable=None) as bar,
        ):
            # Rewards in percent, so that they are of the size that the library's settings are for.
            env = ChoiceEnv(
                pool,
                names_of(units),
                min_viable=config.min_viable,
                max_candidates=config.max_candidates,
                reward=ChoiceEndGain(scale=100.0),
            )
            weights = train_maskable_ppo(env, steps, policy.architecture.widths[1:-1], context.seed, logs, bar.update)
        return Trained(policy.with_weights(weights), [{"step": steps, "evaluations": env.num_asked}])


LEARNER = StableBaselines()
