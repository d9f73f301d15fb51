"""From an order to the policy in its folder, whatever the kind of its task."""

from typing import Any

from mlgo.base.registry import PROBLEMS
from mlgo.errors import ConfigError
from mlgo.learn.choices import ChoiceContext
from mlgo.learn.context import TrainContext, TrainOrder
from mlgo.learn.modules import ModuleContext


def train(order: TrainOrder) -> None:
    """Train a policy and write it, its history and its failures. Goes on where an earlier session was stopped."""
    context = open_context(order)
    context.write(order.learner.train(context))


def open_context(order: TrainOrder) -> TrainContext[Any]:
    """The surroundings of a training, by the kind of its task."""
    task = order.settings.value("task")
    kind = PROBLEMS.get(task).kind
    if kind not in order.learner.sections:
        raise ConfigError(f"learner {order.learner.name} does not learn task {task}")
    return ChoiceContext(order) if kind == "choices" else ModuleContext(order)
