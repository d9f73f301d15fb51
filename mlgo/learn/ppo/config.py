"""Section ``ppo`` of the configuration."""

from typing import Annotated, Literal

from pydantic import Field

from mlgo.base.config import Positive, PositiveFloat, Section


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
    episodes: Annotated[int, Field(ge=2)]
    """Compiles of each of them, with answers drawn anew; a reward is compared with those of the others."""
    max_questions: Positive
    """Modules with more questions under the heuristic are left out, of training and of validation."""
    baseline: Literal["siblings", "functions"]
    """What a reward is compared with: the other episodes of the same module, in register allocation of the same
    function; or, for inlining, the sizes of a decision's own functions in the other episodes."""
    max_advantage: PositiveFloat
    """Advantages stay within this many times their root mean square."""
    start_temperature: PositiveFloat
    """The clone's logits are divided by this, once, so that sampling explores; a power of two rounds nothing."""
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
