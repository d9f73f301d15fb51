"""Learner ``bc``: clone the heuristic, or choices that are known to be good."""

from collections.abc import Mapping
from typing import Any

import numpy as np

from mlgo.base.config import PolicyConfig
from mlgo.base.registry import Kind, Learner
from mlgo.errors import ConfigError, TrainingError
from mlgo.host.actions import ActionSpace
from mlgo.learn.base import Trained
from mlgo.learn.choices import ChoiceContext
from mlgo.learn.cloning import BCConfig, CloneData, cloning_network, fit_network, import_keras, layers_of
from mlgo.learn.context import TrainContext
from mlgo.learn.modules import ModuleContext
from mlgo.policy.network import Layers, flatten


def clone(
    train: CloneData, validation: CloneData, actions: ActionSpace, hidden: list[int], config: BCConfig, seed: int
) -> tuple[Layers, list[dict[str, float]]]:
    """Fit a network to recorded actions, stop when validation, questions of other projects, no longer improves.

    The seed decides the initial weights and the order of the batches.

    Returns:
        The network of the epoch with the lowest validation loss, and a record of each epoch, see `fit_network`.
    """
    for data, what in ((train, "training"), (validation, "validation")):
        if not len(data.answers):
            raise TrainingError(f"the {what} trace holds no question; add {what} projects with more code")
    if not actions.masked and len(np.unique(train.answers)) < 2:
        raise TrainingError("the training trace holds only one kind of answer; there is nothing to learn from it")
    keras = import_keras(seed)
    network = cloning_network(keras, actions, train.inputs.shape[-1], hidden, config.learning_rate)
    history = fit_network(keras, network, train, validation, config)
    if not all(np.isfinite([record["loss"], record["validation_loss"]]).all() for record in history):
        raise TrainingError("the cloning loss is not a number; lower bc.learning_rate")
    return layers_of(network), history


def cloned(
    context: ModuleContext | ChoiceContext, fresh: Any, hidden: list[int]
) -> tuple[Any, CloneData, list[dict[str, float]]]:
    """Clone into a fresh policy with these hidden layers: the policy, its training data, and `clone`'s records."""
    config = context.section("bc", BCConfig)
    train, validation = (context.demonstrations(split, config) for split in ("train", "validation"))
    layers, records = clone(train, validation, fresh.actions, hidden, config, context.seed)
    return fresh.with_weights(flatten(layers)), train, records


def start_with(context: TrainContext[Any], hidden: list[int] | None) -> dict[str, Any]:
    """Let a learner with a network of its own, if it has ``hidden`` layers, go on from a clone with that network.

    Returns:
        What `TrainContext.training` says of it in the policy's provenance.
    """
    name, config = context.order.learner.name, context.config
    if hidden is None:
        return {}
    if not isinstance(context, ModuleContext):
        raise ConfigError(f"{name}.hidden: the network of {context.task} is policy.hidden; set {name}.hidden to null")
    if context.order.start is not None:
        raise ConfigError(f"{name}.hidden: a network of its own goes on from no policy; leave out --start")
    context.start = cloned(context, context.fresh(hidden), hidden)[0]
    sections, hashes = context.imitated(context.section("bc", BCConfig))
    return {"sections": {**sections, name: config.model_dump()}, "hashes": hashes}


class BehaviouralCloning(Learner):
    """Clones once, without a compile of its own."""

    name = "bc"
    section = BCConfig
    sections: Mapping[Kind, tuple[str, ...]] = {"modules": ("bc", "policy"), "choices": ("bc", "policy")}
    compiles: tuple[Kind, ...] = ("choices",)

    def train(self, context: ModuleContext | ChoiceContext) -> Trained:
        config: BCConfig = context.config
        hidden = context.section("policy", PolicyConfig).hidden
        fresh = context.fresh(hidden)
        sections, hashes = context.imitated(config)
        with context.training(config.max_epochs, "epoch", policy=fresh, sections=sections, hashes=hashes):
            policy, train, records = cloned(context, fresh, hidden)
            context.log(records, "epoch")
        facts: dict[str, Any] = {}
        if isinstance(context, ModuleContext):
            facts["train_questions"] = len(train.answers)
            if fresh.actions.yes_or_no:
                facts["train_inline_share"] = float(np.mean(train.answers))
            facts["validation_accuracy"] = max(record["validation_accuracy"] for record in records)
        return Trained(policy, [{**one, "evaluations": 0} for one in records], facts)


LEARNER = BehaviouralCloning()
