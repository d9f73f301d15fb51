"""Section ``es`` of the configuration."""

from typing import Annotated, Literal

from pydantic import Field

from mlgo.base.config import Positive, PositiveFloat, Section, Share


class ESConfig(Section):
    """Evolution strategies on compile results."""

    start: str
    """Learner whose policy it starts from."""
    hidden: list[Positive] | None
    """Units of each hidden layer of a network of its own, which begins as a clone of the heuristic, as section ``bc``
    says, whatever ``start`` names; null goes on with the network of ``start``."""
    generations: Annotated[int, Field(ge=0)]
    """Updates of the mean policy."""
    pairs: Positive
    """Directions of a generation, each with two candidates: the mean plus and minus the perturbation."""
    modules: Positive
    """Training modules that are drawn for a generation."""
    modules_per_pair: Annotated[int, Field(ge=0)]
    """How many of them an antithetic pair compiles, not the same ones for each; 0: all compile all."""
    ranks: Literal["candidates", "modules"]
    """What is ranked: mean rewards of candidates, or the rewards on each module, so that none outweighs others."""
    max_questions: Positive
    """Modules with more questions under the heuristic are left out, of training and of validation."""
    perturbation: PositiveFloat
    """Standard deviation of the noise, in units of ``perturbation_unit``."""
    flip_share: Annotated[float, Field(ge=0.0, lt=1.0)]
    """In each generation noise and steps are scaled so that candidates answer this share of the trace's questions
    otherwise than the mean; layers have equal parts in it. 0 leaves them as they are configured."""
    perturbation_unit: Literal["layer_rms", "weight"]
    """Unit of perturbations and steps: each layer's root mean square weight, or each weight's own size."""
    perturbation_epsilon: PositiveFloat
    """Added to a weight's size when that is the unit, so that weights near 0 vary too."""
    step_size: PositiveFloat
    """Step size of Adam in the first generation, in units of ``perturbation_unit``."""
    step_decay: Annotated[float, Field(gt=0.0, le=1.0)]
    """The step of each generation is that of the one before times this."""
    trainable_layers: Positive
    """How many of the last layers are varied; the others keep their cloned weights."""
    min_success_share: Share
    """A generation with a smaller share of usable directions is skipped."""
    quarantine_after: Positive
    """A module is left out once this many of its compiles, and half of all of them, have failed."""
    validate_every: Positive
    """Generations between two validations of the mean policy."""
    validation_modules: Positive
    """Validation modules used for that, at most."""
    save_every: Annotated[int, Field(ge=0)]
    """Generations between two policies in data/work/policies, where the best so far are kept too; 0 keeps none."""
