"""Section ``bcmax`` of the configuration."""

from typing import Annotated, Literal

from pydantic import AfterValidator, Field

from mlgo.base.config import Positive, PositiveFloat, Section, Share, unique


class BCMaxConfig(Section):
    """Behavioural cloning of the best known trajectory of each module, again and again (BC-Max)."""

    rounds: Annotated[int, Field(ge=0)]
    """Rounds of exploring, keeping what was best, and cloning it."""
    hidden: list[Positive]
    """Units of each hidden layer of the clone; where the start policy has other ones, it starts from fresh weights."""
    clone_epochs: Positive
    """Passes over the heuristic's own trajectories with which a clone from fresh weights begins."""
    flipped: Annotated[int, Field(ge=0)]
    """Variants per round that turn some of the current policy's answers around."""
    temperature: Annotated[float, Field(ge=0.0)]
    """Their logits are divided by this and answers drawn from the sigmoid; 0 keeps the policy's answers."""
    flip_share: Share
    """Probability that they turn an answer around."""
    perturbed: Annotated[int, Field(ge=0)]
    """Variants per round with noise on the current policy's weights."""
    perturbation: PositiveFloat
    """Standard deviation of that noise, relative to each layer's root mean square weight."""
    references: Annotated[list[Literal["never", "random"]], AfterValidator(unique)]
    """Reference advisors that are compiled once, before the first round; the heuristic is always known."""
    random_share: Share
    """Probability that the random reference inlines; the same question always gets the same answer."""
    policies: Annotated[list[str], AfterValidator(unique)]
    """Folders of earlier policies that are compiled once, before the first round."""
    use_trees: bool
    """Begin with the best compiles that the response trees hold. The result then depends on what earlier runs left."""
    modules: Positive
    """Training modules at most, sampled reproducibly; the same in all rounds."""
    max_questions: Positive
    """Modules with more questions under the heuristic are left out, of training and of validation."""
    weighting: Literal["question", "module", "sqrt"]
    """What a module's total weight follows, as in bc."""
    gain_weight: Annotated[float, Field(ge=0.0)]
    """Further weight of a module per percent that its best trajectory gains over the heuristic."""
    epochs: Positive
    """Passes over the best trajectories per round."""
    batch_size: Positive
    """Questions per gradient step."""
    learning_rate: PositiveFloat
    """Adam step size."""
    quarantine_after: Positive
    """A module is left out once this many of its compiles, and half of all of them, have failed."""
    validation_modules: Positive
    """Validation modules that each round is judged on, at most."""
