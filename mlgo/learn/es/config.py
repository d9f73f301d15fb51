"""Section ``es`` of the configuration."""

from typing import Annotated, Literal

from pydantic import Field, model_validator

from mlgo.base.config import Positive, PositiveFloat, Section, Share


class TrustRegionConfig(Section):
    """Steps by a linear model of the reward, as long as its predictions hold."""

    ridge_penalty: PositiveFloat
    """Penalty of the ridge regression that fits it, in perturbations of standard deviation 1."""
    radius: PositiveFloat
    """Longest step at the start, in units of ``es.perturbation_unit``."""
    min_radius: PositiveFloat
    """The radius does not shrink below this."""
    max_radius: PositiveFloat
    """The radius does not grow above this."""
    accept_threshold: Annotated[float, Field(ge=0.0)]
    """A step is taken if the improvement is more than this share of the predicted one."""
    shrink_threshold: float
    """The radius shrinks if the improvement is less than this share of the predicted one."""
    shrink_factor: Annotated[float, Field(gt=0.0, lt=1.0)]
    """By what it shrinks."""
    grow_threshold: float
    """The radius grows if the improvement is more than this share of the predicted one."""
    grow_factor: Annotated[float, Field(gt=1.0)]
    """By what it grows."""

    @model_validator(mode="after")
    def _check_order(self) -> "TrustRegionConfig":
        if not self.min_radius <= self.radius <= self.max_radius:
            raise ValueError("radius must lie between min_radius and max_radius")
        if self.shrink_threshold > self.grow_threshold:
            raise ValueError("shrink_threshold must not be above grow_threshold")
        return self


class ESConfig(Section):
    """Evolution strategies on compile results."""

    start: str
    """Learner whose policy it starts from."""
    hidden: list[Positive] | None
    """Units of each hidden layer of a network of its own, which begins as a clone of the heuristic, as section ``bc``
    says, whatever ``start`` names; null goes on with the network of ``start``."""
    generations: Annotated[int, Field(ge=0)]
    """Updates of the mean policy."""
    estimator: Literal["antithetic", "forward"]
    """Candidates of a direction: mean plus and minus the perturbation, or plus alone, held against the mean itself."""
    pairs: Positive
    """Directions per generation: twice as many candidates if antithetic, one more if forward."""
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
    gradient: Literal["monte_carlo", "ridge"]
    """From ranked rewards to a gradient: average of the noise, or ridge regression on it."""
    top_directions: Annotated[int, Field(ge=0)]
    """Gradients use so many directions, those with the best candidates (Mania et al. 2018); 0 uses all."""
    ridge_penalty: PositiveFloat
    """Penalty of ridge gradients, in perturbations of standard deviation 1."""
    update: Literal["adam", "trust_region"]
    """From gradient to step. A trust region fits its own model instead of a gradient."""
    step_size: PositiveFloat
    """Step size of Adam, in units of ``perturbation_unit``."""
    trust_region: TrustRegionConfig
    """Options of a trust region."""
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

    @model_validator(mode="after")
    def _check_pairs(self) -> "ESConfig":
        if self.modules_per_pair and (self.estimator, self.update) != ("antithetic", "adam"):
            raise ValueError("modules_per_pair needs estimator: antithetic and update: adam, which compare pairs")
        return self
