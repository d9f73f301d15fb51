"""What a network's outputs say about answers; the formulas take and give tensors of Keras."""

from math import e, log, pi
from typing import Any, Protocol

from mlgo.core.errors import ConfigError
from mlgo.policy.column_policy import ColumnPolicy
from mlgo.policy.network_policy import NetworkPolicy
from mlgo.policy.policy import Policy
from mlgo.policy.priority_policy import PriorityPolicy

ILLEGAL = -1e9
"""Added to the logit of a column that is not legal: its probability is zero in float32."""


class Answers(Protocol):
    """A kind of answer, as a distribution that a policy network describes."""

    def network_shape(self, num_inputs: int) -> tuple[int | None, ...]:
        """Shape of one question as the network takes it."""
        ...

    def question_shape(self, num_inputs: int) -> tuple[int | None, ...]:
        """Shape of one question as `Policy.inputs_for` gives it."""
        ...

    def outputs(self, network: Any, inputs: Any) -> Any:
        """What the network says: float32 [num, ...] of inputs, float32 [num, ...]; see `Policy.inputs_for`."""
        ...

    def log_probability(self, outputs: Any, answers: Any) -> Any:
        """Logarithm of the probability of answers, float32 [num]."""
        ...

    def entropy(self, outputs: Any) -> Any:
        """Entropy of the answers in nats, float32 [num]: 0 for a sure policy."""
        ...

    def agrees(self, outputs: Any, answers: Any) -> Any:
        """Whether the policy's own answers are these, bool [num]."""
        ...


class _OneOutput:
    """Questions of a number for each input, and one output, [num]."""

    def network_shape(self, num_inputs: int) -> tuple[int | None, ...]:
        """One number for each input."""
        return (num_inputs,)

    def question_shape(self, num_inputs: int) -> tuple[int | None, ...]:
        """The same."""
        return (num_inputs,)

    def outputs(self, network: Any, inputs: Any) -> Any:
        """The network's output, [num]."""
        return network(inputs)[:, 0]


class YesOrNo(_OneOutput):
    """Answers 0 or 1, of which 1 has the probability ``sigmoid(logit)``."""

    def log_probability(self, outputs: Any, answers: Any) -> Any:
        """``-log(1 + exp(-logit))`` for yes, ``-log(1 + exp(logit))`` for no."""
        from keras import ops

        return -ops.softplus((1.0 - 2.0 * answers) * outputs)

    def entropy(self, outputs: Any) -> Any:
        """At most ln 2, that of a coin."""
        from keras import ops

        return ops.softplus(outputs) - outputs * ops.sigmoid(outputs)

    def agrees(self, outputs: Any, answers: Any) -> Any:
        """Yes where the logit is above 0."""
        return (outputs > 0.0) == (answers > 0.0)


class LegalColumn:
    """Answers that choose a legal column, with the probability ``softmax(logits)``."""

    def network_shape(self, num_inputs: int) -> tuple[int | None, ...]:
        """Inputs of each column."""
        return (None, num_inputs)

    def question_shape(self, num_inputs: int) -> tuple[int | None, ...]:
        """The same, and whether the column is legal."""
        return (None, num_inputs + 1)

    def outputs(self, network: Any, inputs: Any) -> Any:
        """Logits, [num, num_columns]; the last input of a column tells whether it is legal."""
        return network(inputs[..., :-1])[..., 0] + (1.0 - inputs[..., -1]) * ILLEGAL

    def log_probability(self, outputs: Any, answers: Any) -> Any:
        """Of the chosen columns."""
        from keras import ops

        chosen = ops.cast(answers, "int32")[:, None]
        return ops.take_along_axis(ops.log_softmax(outputs), chosen, axis=1)[:, 0]

    def entropy(self, outputs: Any) -> Any:
        """At most the logarithm of the number of legal columns."""
        from keras import ops

        return -ops.sum(ops.softmax(outputs) * ops.log_softmax(outputs), axis=1)

    def agrees(self, outputs: Any, answers: Any) -> Any:
        """The column with the largest logit."""
        from keras import ops

        return ops.equal(ops.argmax(outputs, axis=1), ops.cast(answers, "int32"))


class NoisyOutput(_OneOutput):
    """Answers that are the network's output and Gaussian noise of deviation 1, see `ExploringPriorityAdvisor`.

    Of priorities only the order counts, so it is the size of the outputs that says how much the noise disturbs it.
    """

    def log_probability(self, outputs: Any, answers: Any) -> Any:
        """Logarithm of the density: ``-(answer - output)^2 / 2 - log(2 pi) / 2``."""
        return -0.5 * (answers - outputs) ** 2 - 0.5 * log(2.0 * pi)

    def entropy(self, outputs: Any) -> Any:
        """The same for all: ``log(2 pi e) / 2``."""
        return 0.0 * outputs + 0.5 * log(2.0 * pi * e)

    def agrees(self, outputs: Any, answers: Any) -> Any:
        """Closer than a tenth of the noise."""
        return abs(answers - outputs) < 0.1


_KINDS: dict[type[Policy], Answers] = {
    NetworkPolicy: YesOrNo(),
    ColumnPolicy: LegalColumn(),
    PriorityPolicy: NoisyOutput(),
}


def answers_of(policy: Policy, learner: str) -> Answers:
    """Kind of answers of a policy.

    Raises:
        ConfigError: none that a learner, named for the message, can learn.
    """
    if type(policy) not in _KINDS:
        raise ConfigError(f"{learner} does not learn answers like those of task {policy.task}; take bc or es for it")
    return _KINDS[type(policy)]
