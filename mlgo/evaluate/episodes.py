"""Compiles as learners see them: what was asked, what was answered, what came out; whole, or function by function."""

import hashlib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Self, TypeVar

import numpy as np

from mlgo.evaluate.compiles import CompileHost
from mlgo.evaluate.worker import CompileJob
from mlgo.host.actions import Binary
from mlgo.host.session import CallAttribution, CompileResult
from mlgo.objects.measures import Measure, relative_reward
from mlgo.policy.features import Normalisation
from mlgo.policy.policy import Policy

Read = TypeVar("Read")


@dataclass(frozen=True)
class Episode:
    """One compile, or what became of one of its functions."""

    module: str
    # float16 [num_questions, ...], see `Policy.inputs_for`; a quarter of the memory of what was sent.
    inputs: np.ndarray
    answers: np.ndarray  # uint8 or float32 [num_questions], see `ActionSpace.targets`
    # By the objective; of a function, what the module costs if all others stay as the heuristic leaves them.
    score: float
    object_sha256: str
    function: str = ""  # symbol; empty for a whole module
    credit: CallAttribution | None = None  # functions of the decisions and their sizes, where the job asked for them

    def reward(self, baseline: float, offset: float = 0.0) -> float:
        """Relative reward, given the module's score under the heuristic; see `relative_reward`."""
        return float(relative_reward(np.array(self.score), np.array(baseline), offset))


def compile_episodes(
    host: CompileHost,
    jobs: Sequence[CompileJob],
    read: Callable[[str, Any], Read],
    label: str = "",
    note: Callable[[str, str], None] = lambda module, reason: None,
) -> list[Read | None]:
    """Do recorded jobs.

    Args:
        jobs: with ``record`` set.
        read: what a module's compile teaches, for example `episode` or `function_episodes`; of jobs that say what the
            worker reads, what is made of that.
        note: is told why each compile failed, if it did, in the order of the jobs, for example `Quarantine.note`.

    Returns:
        What was read, in the order of the jobs, None where a compile failed.
    """
    reasons = [""] * len(jobs)
    episodes: list[Read | None] = [None] * len(jobs)
    for position, outcome in host.compile_each(jobs, label):
        reasons[position] = outcome.reason
        if outcome.result is not None:  # and not kept: raw observations take four times the memory of what is read
            job = jobs[position]
            episodes[position] = read(job.module, outcome.result if job.read is None else outcome.read)
    for job, reason in zip(jobs, reasons, strict=True):
        note(job.module, reason)
    return episodes


def episode(module: str, result: CompileResult, policy: Policy, objective: str) -> Episode:
    """What a recorded compile with discrete answers teaches, as a whole."""
    inputs, answers = _questions(result, policy)
    return Episode(module, inputs, answers, result.score(objective), result.object_sha256, credit=result.credit)


def function_episodes(
    module: str, result: CompileResult, policy: Policy, measure: Measure, heuristic: Mapping[str, float]
) -> list[Episode]:
    """What the functions of a recorded compile teach, each by itself; those that were not asked about are left out."""
    assert result.spills is not None
    inputs, answers = _questions(result, policy)
    costs = {one.function: measure.of_functions([one]) for one in result.spills}
    total, episodes, start = sum(heuristic.values()), [], 0
    for function, count in result.contexts:
        asked = slice(start, start + count)
        start += count
        if count:
            score = max(0.0, total + costs.get(function, 0.0) - heuristic.get(function, 0.0))
            episodes.append(Episode(module, inputs[asked], answers[asked], score, result.object_sha256, function))
    return episodes


def _questions(result: CompileResult, policy: Policy) -> tuple[np.ndarray, np.ndarray]:
    """Inputs float16, and answers as a learner takes them, of all questions."""
    if result.header is None:  # nothing was there to decide
        return np.zeros((0, 0), np.float16), np.zeros(0, np.uint8)
    asked = result.questions()
    inputs = policy.inputs_for(asked.header)(asked.observations).astype(np.float16)
    return inputs, policy.actions.targets(asked.answers)


@dataclass(frozen=True)
class Inlined:
    """One compile with the questions that were answered by yes."""

    module: str
    score: float
    answers: bytes
    inputs: np.ndarray  # float16 [num_inlined, num_features]
    # Functions and their sizes, with callers and callees of the inlined questions alone; None where the compile does
    # not tell them.
    credit: CallAttribution | None = None

    @classmethod
    def of(
        cls, module: str, score: float, inputs: np.ndarray, answers: np.ndarray, credit: CallAttribution | None = None
    ) -> Self:
        """Take from all questions of a compile what was inlined.

        Args:
            inputs: [num_questions, num_features], normalised.
            answers: [num_questions], 0 or 1.
        """
        answers = answers.astype(np.uint8)
        yes, digest = answers == 1, hashlib.blake2b(answers.tobytes(), digest_size=16).digest()
        if credit is not None:
            credit = CallAttribution(credit.names, credit.sizes, credit.callers[yes], credit.callees[yes])
        return cls(module, score, digest, inputs[yes].astype(np.float16), credit)


@dataclass(frozen=True)
class InlinedReader:
    """Reads compiles of a binary task; for `CompileJob.read`."""

    normalise: Normalisation
    objective: str

    def __call__(self, module: str, result: CompileResult) -> Inlined:
        features, actions = self.normalise.features, Binary()
        inputs, answers = np.zeros((0, len(features)), np.float16), np.zeros(0, np.uint8)
        if result.header is not None:  # something was there to decide
            asked = result.questions()
            answers = actions.targets(asked.answers)
            inputs, yes = np.zeros((len(answers), len(features)), np.float16), answers == 1
            raw = actions.reader(asked.header, features)(asked.observations[yes])
            inputs[yes] = actions.learner_inputs(raw, self.normalise)
        return Inlined.of(module, result.score(self.objective), inputs, answers, result.credit)
