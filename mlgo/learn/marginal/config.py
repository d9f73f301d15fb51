"""Section ``marginal`` of the configuration."""

from typing import Annotated

from pydantic import Field

from mlgo.base.config import Positive, PositiveFloat, Section, Share


class MarginalConfig(Section):
    """Marginal costs: rounds of exploring compiles and of fitting what each inlined call adds to the size."""

    start: str
    """Folder of a policy of this learner to go on from, for example on other modules; empty begins with a clone of the
    heuristic."""
    hidden: list[Positive] = Field(min_length=1)
    """Units of each hidden layer of a member."""
    rounds: Annotated[int, Field(ge=0)]
    """How often it explores and fits."""
    modules: Positive
    """Training modules explored in a round, at most."""
    compiles: Positive
    """Compiles of each of them in a round, at least; the first under the policy itself."""
    max_compiles: Positive
    """Compiles of each of them in a round, at most: small modules are cheap and need more to learn from."""
    questions: Positive
    """A module is compiled until it has asked about so many questions in a round, within these bounds."""
    max_questions: Positive
    """Modules with more questions under the heuristic are left out, of training and of validation."""
    first_flip_share: Share
    """In the first round answers are turned around with a probability drawn between 0 and this."""
    flip_share: Share
    """The same for later rounds."""
    min_flips: Annotated[float, Field(ge=0.0)]
    """Answers turned around per compile, on average at least; matters for modules with few questions."""
    temperature: Annotated[float, Field(ge=0.0)]
    """From the second round on, logits are divided by a number drawn between 0 and this: close calls vary most."""
    unit_bytes: PositiveFloat
    """Bytes that one unit of the policy's logit stands for."""
    start_logit: PositiveFloat
    """Median size of the cloned policy's logits before the first fit."""
    members: Positive
    """Fits per round, which differ in their start, their held-out modules and the order of their steps."""
    caution: Annotated[float, Field(ge=0.0)]
    """An answer other than the heuristic's needs a mean of the members of this many mean deviations."""
    anchors: list[Annotated[float, Field(ge=0.0)]] = Field(min_length=1)
    """Pull towards the heuristic's answers in the fits of each round; the last one holds for all further rounds."""
    huber_percent: PositiveFloat
    """Error of an equation, in percent of a module's size, from which on the loss is linear."""
    function_weight: Annotated[float, Field(ge=0.0)]
    """Weight of the equations of functions beside those of modules. With 0, compiles do not tell their functions."""
    huber_bytes: PositiveFloat
    """Error of an equation of a function, in bytes, from which on the loss is linear."""
    learning_rate: PositiveFloat
    """Adam step size."""
    max_epochs: Positive
    """Upper limit of passes over the equations in the first fit."""
    later_epochs: Positive
    """The same for later fits, which go on from the last one."""
    patience: Positive
    """Passes without progress on held-out modules before a fit stops."""
    batch_modules: Positive
    """Modules per gradient step."""
    held_out_share: Annotated[float, Field(ge=0.0, lt=1.0)]
    """Training modules that a member never fits to; their equations end its fits."""
    quarantine_after: Positive
    """A module is left out once this many of its compiles, and half of all of them, have failed."""
    validation_modules: Positive
    """Validation modules that judge each round, at most."""
