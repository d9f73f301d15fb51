"""Learner ``bc``: clone the heuristic, or choices that are known to be good."""

from collections.abc import Mapping
from typing import Any

import numpy as np

from mlgo.base.config import PolicyConfig
from mlgo.base.registry import Kind, Learner
from mlgo.errors import TrainingError
from mlgo.host.actions import ActionSpace
from mlgo.learn.base import Trained
from mlgo.learn.choices import ChoiceContext
from mlgo.learn.cloning import BCConfig, CloneData, cloning_network, fit_network, import_keras, layers_of
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
            train, validation = (context.demonstrations(split, config) for split in ("train", "validation"))
            layers, records = clone(train, validation, fresh.actions, hidden, config, context.seed)
            context.log(records, "epoch")
        facts: dict[str, Any] = {}
        if isinstance(context, ModuleContext):
            facts["train_questions"] = len(train.answers)
            if fresh.actions.yes_or_no:
                facts["train_inline_share"] = float(np.mean(train.answers))
            facts["validation_accuracy"] = max(record["validation_accuracy"] for record in records)
        return Trained(fresh.with_weights(flatten(layers)), [{**one, "evaluations": 0} for one in records], facts)


LEARNER = BehaviouralCloning()
