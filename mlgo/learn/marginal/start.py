"""What is known before the first compile: the heuristic's own decisions and sizes."""

from collections.abc import Sequence

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from mlgo.config import BCConfig, MarginalConfig
from mlgo.learn.bc import CloneData, clone
from mlgo.learn.marginal.caution import Layer, steep
from mlgo.learn.marginal.equations import Evidence
from mlgo.policy.features import Normalisation
from mlgo.policy.network import flatten, logits
from mlgo.rollout.episodes import Episode
from mlgo.rollout.scored import ScoredModule
from mlgo.seeding import generator


def sure_clones(
    questions: CloneData, validation: CloneData, config: MarginalConfig, cloning: BCConfig, seed: int
) -> np.ndarray:
    """Clone the heuristic once per member, then scale the logits to a given median size, which changes no answer.

    A clone is as sure as its training was long; here a logit means bytes, so its size has to be chosen.

    Returns:
        float32 [num_members, num_params].

    Raises:
        TrainingError: see `clone`.
    """
    members = []
    for member in range(config.members):
        own_seed = int(generator(seed, "marginal", "clone", member).integers(2**32))
        *hidden, (matrix, bias) = clone(questions, validation, config.hidden, cloning, own_seed).layers
        median = float(np.median(np.abs(logits([*hidden, (matrix, bias)], questions.inputs))))
        scale = config.start_logit / max(median, 1e-6)
        members.append(flatten([*hidden, (scale * matrix, scale * bias)]))
    return np.stack(members)


def linear_clone(questions: CloneData, validation: CloneData, cloning: BCConfig, seed: int) -> Layer:
    """The heuristic as one steep linear layer, see `steep`."""
    (layer,) = clone(questions, validation, [], cloning, seed).layers
    return steep(layer, questions.inputs)


def heuristic_evidence(
    trace: pa.Table, modules: Sequence[ScoredModule], normalise: Normalisation, objective: str
) -> dict[str, Evidence]:
    """The heuristic's own compile of each module.

    Args:
        trace: ``artifacts.trace_schema`` rows.
        modules: to take; all of them ask questions.
        normalise: from raw features to inputs.
        objective: which size counts, ``text_bytes`` or ``exec_bytes``.

    Returns:
        Evidence of one compile by module key.
    """
    wanted = {one.module.key: one for one in modules}
    keys = pc.binary_join_element_wise(trace["project"], trace["module"], "/").to_numpy(zero_copy_only=False)
    starts = np.flatnonzero(np.concatenate([[True], keys[1:] != keys[:-1]]))
    evidence = {}
    for start, end in zip(starts, [*starts[1:], len(keys)], strict=True):
        one = wanted.get(keys[start])
        if one is None:
            continue
        part = trace.slice(start, end - start)
        inputs = normalise(np.column_stack([part[name].to_numpy() for name in normalise.features]))
        size = float(getattr(one, objective))
        answers = part["answer"].to_numpy().astype(np.uint8)
        episode = Episode(one.module.key, inputs.astype(np.float16), answers, size, "")
        evidence[one.module.key] = Evidence(size, (episode,))
    return evidence
