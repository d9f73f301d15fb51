"""Section ``bc`` of the configuration."""

from typing import Literal

from mlgo.base.config import Positive, PositiveFloat, Section


class BCConfig(Section):
    """Behavioural cloning of the default policy."""

    max_epochs: Positive
    """Upper limit of passes over the trace."""
    patience: Positive
    """Passes without progress on the validation projects before it stops."""
    batch_size: Positive
    """Questions per gradient step."""
    learning_rate: PositiveFloat
    """Adam step size."""
    max_steps_per_module: Positive
    """Questions taken from one module at most, so that large modules do not rule."""
    weighting: Literal["question", "module", "sqrt"]
    """What a module's total weight follows: its questions, nothing (all modules weigh the same), or their root."""
    balance: bool
    """Give both answers the same total weight."""
