"""On choices: a network that predicts what eliminating a candidate saves, fitted to measured effects."""

from collections.abc import Iterable, Mapping
from dataclasses import replace
from pathlib import Path

import numpy as np

from mlgo.base.artifacts import CSE_EFFECTS, read_table
from mlgo.base.config import PolicyConfig
from mlgo.base.files import file_sha256
from mlgo.errors import TrainingError
from mlgo.jit.baseline import EligibleUnit, names_of
from mlgo.jit.compiler import compile_each
from mlgo.jit.outcome import CompiledUnit
from mlgo.jit.state import Choice, Observer
from mlgo.learn.base import Trained
from mlgo.learn.choices import ChoiceContext
from mlgo.learn.cloning import BCConfig, CloneData, fit_network, import_keras, layers_of, perceptron
from mlgo.policy.network import flatten


def savings(
    observer: Observer,
    units: Iterable[tuple[EligibleUnit, CompiledUnit]],
    changes: Mapping[str, Mapping[int, float]],
    max_effect: float,
) -> CloneData:
    """Inputs of candidates before anything is chosen, and what eliminating them saves; of each unit the stop, too.

    Args:
        units: with their compile without elimination.
        changes: mean change of the score with each candidate, by unit and position.

    Returns:
        Answers are float32 [num_rows], in percent of the unit's score under the heuristic; NaN for the stop, which is
        to look like a set saving. All units have the same total weight.
    """
    inputs, saved, weights = [], [], []
    for unit, none in units:
        measured = changes.get(unit.name, {})
        if not measured:
            continue
        rows = observer.columns_of(Choice(none, none))
        percent = -100.0 * np.array(list(measured.values())) / unit.heuristic
        inputs.append(rows[[*measured, observer.max_candidates]])
        saved.append(np.append(np.clip(percent, -max_effect, max_effect), np.nan))
        weights.append(np.full(len(percent) + 1, 1.0 / (len(percent) + 1)))
    if not inputs:
        raise TrainingError("no unit has a measured effect; raise cse.max_trials")
    weight = np.concatenate(weights)
    return CloneData(
        np.concatenate(inputs).astype(np.float32),
        np.concatenate(saved).astype(np.float32),
        (weight / weight.mean()).astype(np.float32),
    )


def fit_savings(
    train: CloneData, validation: CloneData, margin: float, hidden: list[int], config: BCConfig, seed: int
) -> tuple[np.ndarray, list[dict[str, float]]]:
    """Fit by Huber's loss until validation no longer improves: weights float32 [num_params], and a record per epoch."""
    keras = import_keras(seed)
    network = perceptron(keras, (train.inputs.shape[1],), hidden)
    network.compile(optimizer=keras.optimizers.Adam(config.learning_rate), loss=keras.losses.Huber())
    seen, unseen = (
        replace(part, answers=np.where(np.isnan(part.answers), np.float32(margin), part.answers))
        for part in (train, validation)
    )
    history = fit_network(keras, network, seen, unseen, config)
    if not np.isfinite([record["validation_loss"] for record in history]).all():
        raise TrainingError("the loss of savings is not a number; lower bc.learning_rate")
    layers = layers_of(network)
    # What is 0 in every row, as the number of choices made, has weights that were never fitted.
    layers[0][0][~np.any(train.inputs, axis=0)] = 0.0
    return flatten(layers), history


def learn_savings(context: ChoiceContext) -> Trained:
    """Fit once for each configured margin of the stop, and keep the policy that validates best."""
    bc, hidden = context.section("bc", BCConfig), context.section("policy", PolicyConfig).hidden
    margins, fresh = context.cse.margins, context.fresh(hidden)
    effects = context.order.home / "labels/effects.parquet"
    sections = {"bc": bc.model_dump(), "margins": margins, "max_effect": context.cse.max_effect}
    hashes = {"effects_sha256": file_sha256(effects)}
    with context.training(bc.max_epochs, "epoch", policy=fresh, sections=sections, hashes=hashes):
        train, validation = (_measured(context, effects, split) for split in ("train", "validation"))
        fitted = [fit_savings(train, validation, margin, hidden, bc, context.seed) for margin in margins]
        rewards = context.validate(np.stack([weights for weights, _ in fitted])).mean(axis=1)
        best = int(rewards.argmax())
        weights, records = fitted[best]
        facts = {"margin": margins[best], "validation_reward": float(rewards[best])}
        history = [{**record, "evaluations": 0} for record in records]
        history[-1] |= {"validation_reward": facts["validation_reward"], "margin": facts["margin"]}
        context.log(history, "epoch")
    return Trained(fresh.with_weights(weights), history, facts)


def _measured(context: ChoiceContext, effects: Path, split: str) -> CloneData:
    """Measured effects of a split's candidates beside what is seen of them."""
    changes: dict[str, dict[int, float]] = {}
    for row in read_table(effects, CSE_EFFECTS).to_pylist():
        if row["mean_change"] is not None:
            changes.setdefault(row["unit"], {})[row["position"]] = row["mean_change"]
    units = context.units(split)
    found = context.pool.map(compile_each, names_of(units))
    compiled = [(unit, found[unit.name][0]) for unit in units if unit.name in found]
    pairs = [(unit, none) for unit, none in compiled if isinstance(none, CompiledUnit)]
    return savings(context.observer, pairs, changes, context.cse.max_effect)
