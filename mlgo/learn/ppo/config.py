"""Section ``ppo`` of the configuration."""

from typing import Annotated, Literal

from pydantic import Field, model_validator

from mlgo.base.config import Positive, PositiveFloat, Section, Share


class PPOConfig(Section):
    """Proximal policy optimisation on compile results."""

    start: str
    """Learner whose policy it starts from."""
    hidden: list[Positive] | None
    """Units of each hidden layer of a network of its own, which begins as a clone of the heuristic, as section ``bc``
    says, whatever ``start`` names; null goes on with the network of ``start``."""
    iterations: Annotated[int, Field(ge=0)]
    """Rounds of sampling and learning."""
    modules: Positive
    """Training modules compiled in an iteration."""
    episodes: Positive
    """Compiles of each of them, with answers drawn anew."""
    max_questions: Positive
    """Modules with more questions under the heuristic are left out, of training and of validation."""
    baseline: Literal["network", "siblings", "functions"]
    """What a reward is compared with: what a value network expects, for answers of yes or no; the other episodes of the
    same module, in register allocation of the same function; or, for inlining, the sizes of a decision's own functions
    in the other episodes."""
    max_advantage: PositiveFloat
    """Without a value network: advantages stay within this many times their root mean square."""
    start_temperature: PositiveFloat
    """The clone's logits are divided by this, once, so that sampling explores; a power of two rounds nothing."""
    gamma: Share
    """Discount of the reward per question before the last."""
    gae_lambda: Share
    """Advantages: 0 trusts the value network, 1 the reward alone."""
    reward_prior: PositiveFloat
    """Episodes that the mean and deviation of all rewards are worth, beside a module's own."""
    clip_range: PositiveFloat
    """Change of an answer's probability, as a share of it, beyond which nothing more is gained."""
    epochs: Positive
    """Passes over the questions of an iteration."""
    batch_size: Positive
    """Questions per gradient step."""
    learning_rate: PositiveFloat
    """Adam step size of the policy."""
    learning_rate_decay: Annotated[float, Field(gt=0.0, le=1.0)]
    """The learning rate of the policy in each iteration is that of the one before times this."""
    value_learning_rate: PositiveFloat
    """Adam step size of the value network."""
    value_hidden: list[Positive]
    """Units of each hidden layer of the value network."""
    entropy_bonus: Annotated[float, Field(ge=0.0)]
    """Weight of the policy's entropy, in nats, beside the clipped gain."""
    max_kl: PositiveFloat
    """The policy's updates of an iteration end where it has moved this far, in nats per question."""
    max_gradient_norm: PositiveFloat
    """Longer gradients are shortened to this."""
    quarantine_after: Positive
    """A module is left out once this many of its compiles, and half of all of them, have failed."""
    validate_every: Positive
    """Iterations between two validations of the policy."""
    validation_modules: Positive
    """Validation modules used for that, at most."""

    @model_validator(mode="after")
    def _check_siblings(self) -> "PPOConfig":
        if self.baseline != "network" and self.episodes < 2:
            raise ValueError(f"with baseline {self.baseline} episodes must be 2 or more")
        return self
