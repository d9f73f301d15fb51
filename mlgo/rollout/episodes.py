"""Compiles as learners see them: what was asked, what was answered, what came out."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

import numpy as np
from tqdm import tqdm

from mlgo.compiler.session import CompileResult
from mlgo.policy.features import Normalisation, feature_columns
from mlgo.rollout.compiles import CompileHost, CompileOutcome
from mlgo.rollout.jobs import CompileJob
from mlgo.tasks.reward import relative_reward


@dataclass(frozen=True)
class Episode:
    """One compile.

    Attributes:
        module: key of the module.
        inputs: float16 [num_questions, num_features], normalised; a quarter of the memory of what was sent.
        answers: uint8 [num_questions].
        score: size in bytes, by the objective.
        object_sha256: hash of the object file.
    """

    module: str
    inputs: np.ndarray
    answers: np.ndarray
    score: float
    object_sha256: str

    def reward(self, baseline: float) -> float:
        """Relative reward, given the module's score under the heuristic."""
        return float(relative_reward(np.array(self.score), np.array(baseline)))


def compile_episodes(
    host: CompileHost,
    jobs: Sequence[CompileJob],
    normalise: Normalisation,
    objective: str,
    label: str = "",
    note: Callable[[str, CompileOutcome], None] = lambda module, outcome: None,
) -> list[Episode | None]:
    """Do recorded jobs.

    Args:
        host: runs the compiles.
        jobs: with ``record`` set.
        normalise: from raw features to inputs.
        objective: which size counts, ``text_bytes`` or ``exec_bytes``.
        label: title of a progress bar; none without it.
        note: is told how each compile ended, in the order of the jobs, for example `Quarantine.note`.

    Returns:
        Episodes in the order of the jobs, None where a compile failed.

    Raises:
        PolicyError: the compiler does not offer a feature.
    """
    outcomes: list[CompileOutcome | None] = [None] * len(jobs)
    episodes: list[Episode | None] = [None] * len(jobs)
    bar = tqdm(host.compile_each(jobs), label, len(jobs), unit="compile", disable=None if label else True, leave=False)
    for position, outcome in bar:
        if outcome.result is not None:  # raw observations are dropped one by one: they take four times the memory
            episodes[position] = episode(jobs[position].module, outcome.result, normalise, objective)
            outcome = replace(outcome, result=replace(outcome.result, observations=b"", answers=b""))
        outcomes[position] = outcome
    for job, ended in zip(jobs, outcomes, strict=True):
        assert ended is not None
        note(job.module, ended)
    return episodes


def episode(module: str, result: CompileResult, normalise: Normalisation, objective: str) -> Episode:
    """What a recorded compile with discrete answers teaches.

    Raises:
        PolicyError: the compiler does not offer a feature.
    """
    header = result.header
    assert header is not None
    assert header.advice is not None
    offered = [spec.name for spec in header.features]
    columns = feature_columns(normalise.features, offered, "the compiler")
    return Episode(
        module,
        normalise(header.scalars(result.observations)[:, columns]).astype(np.float16),
        np.frombuffer(result.answers, header.advice.dtype).astype(np.uint8),
        float(getattr(result, objective)),
        result.object_sha256,
    )
