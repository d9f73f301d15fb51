"""Learner ``bc``: clone the heuristic, or choices that are known to be good."""

from collections.abc import Mapping
from typing import Any

import numpy as np

from mlgo.base.config import PolicyConfig
from mlgo.base.registry import Kind, Learner
from mlgo.learn.base import Trained
from mlgo.learn.choices import ChoiceContext
from mlgo.learn.cloning import BCConfig, clone
from mlgo.learn.modules import ModuleContext
from mlgo.policy.network import flatten


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
