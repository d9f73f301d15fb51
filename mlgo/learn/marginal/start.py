"""What is known before the first compile: the heuristic's own decisions and sizes."""

from collections.abc import Sequence

import numpy as np
import pyarrow as pa

from mlgo.base.seeding import generator
from mlgo.evaluate.baseline_modules import ScoredModule, baselines
from mlgo.evaluate.episodes import Inlined
from mlgo.host.actions import Binary
from mlgo.learn.cloning import BCConfig, CloneData, clone
from mlgo.learn.dataset import whole_modules
from mlgo.learn.marginal.compile_file import StoreCompile
from mlgo.learn.marginal.config import MarginalConfig
from mlgo.learn.marginal.ensemble import Layer, scaled, steep
from mlgo.learn.marginal.equations import Evidence
from mlgo.policy.features import Normalisation
from mlgo.policy.network import flatten


def sure_clones(
    questions: CloneData, validation: CloneData, config: MarginalConfig, cloning: BCConfig, seed: int
) -> np.ndarray:
    """Clone the heuristic once per member, then scale the logits to a given median size, which changes no answer.

    A clone is as sure as its training was long; here a logit means bytes, so its size has to be chosen.

    Returns:
        float32 [num_members, num_params].
    """
    members = []
    for member in range(config.members):
        own_seed = int(generator(seed, "marginal", "clone", member).integers(2**32))
        layers = clone(questions, validation, Binary(), config.hidden, cloning, own_seed).layers
        members.append(flatten(scaled(layers, questions.inputs, config.start_logit)))
    return np.stack(members)


def linear_clone(questions: CloneData, validation: CloneData, cloning: BCConfig, seed: int) -> Layer:
    """The heuristic as one steep linear layer, see `steep`."""
    (layer,) = clone(questions, validation, Binary(), [], cloning, seed).layers
    return steep(layer, questions.inputs)


def heuristic_evidence(
    trace: pa.Table,
    modules: Sequence[ScoredModule],
    normalise: Normalisation,
    objective: str,
    told: bool,
    keep: StoreCompile,
) -> dict[str, Evidence]:
    """The heuristic's own compile of each module."""
    sizes = baselines(modules, objective)
    if not told:
        return {key: Evidence(size, ()) for key, size in sizes.items()}
    return {
        key: Evidence(sizes[key], (keep(Inlined.of(key, sizes[key], inputs, answers)),))
        for key, inputs, answers in whole_modules(trace, sizes, Binary(), normalise)
    }
