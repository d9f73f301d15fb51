"""Compiles as learners see them: what was asked, what was answered, what came out; whole, or function by function."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, TypeVar

import numpy as np
from tqdm import tqdm

from mlgo.evaluate.compiles import CompileHost
from mlgo.evaluate.jobs import CompileJob
from mlgo.host.session import CompileResult, Credit
from mlgo.objects.measures import Measure, relative_reward
from mlgo.policy.policy import Policy

Read = TypeVar("Read")


@dataclass(frozen=True)
class Episode:
    """One compile, or what became of one of its functions.

    Attributes:
        module: key of the module.
        inputs: float16 [num_questions, ...], see `Policy.inputs_for`; a quarter of the memory of what was sent.
        answers: uint8 or float32 [num_questions], see `ActionSpace.targets`.
        score: by the objective; of a function, what the module costs if all others stay as the heuristic leaves them.
        object_sha256: hash of the object file.
        function: symbol; empty for a whole module.
        credit: functions of the decisions and their sizes, where the job asked for them.
    """

    module: str
    inputs: np.ndarray
    answers: np.ndarray
    score: float
    object_sha256: str
    function: str = ""
    credit: Credit | None = None

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
        host: runs the compiles.
        jobs: with ``record`` set.
        read: what a module's compile teaches, for example `episode` or `function_episodes`; of jobs that say what the
            worker reads, what is made of that.
        label: title of a progress bar; none without it.
        note: is told why each compile failed, if it did, in the order of the jobs, for example `Quarantine.note`.

    Returns:
        What was read, in the order of the jobs, None where a compile failed.

    Raises:
        PolicyError: the compiler does not offer a feature.
    """
    reasons = [""] * len(jobs)
    episodes: list[Read | None] = [None] * len(jobs)
    bar = tqdm(host.compile_each(jobs), label, len(jobs), unit="compile", disable=None if label else True, leave=False)
    for position, outcome in bar:
        reasons[position] = outcome.reason
        if outcome.result is not None:  # and not kept: raw observations take four times the memory of what is read
            job = jobs[position]
            episodes[position] = read(job.module, outcome.result if job.read is None else outcome.read)
    for job, reason in zip(jobs, reasons, strict=True):
        note(job.module, reason)
    return episodes


def episode(module: str, result: CompileResult, policy: Policy, objective: str) -> Episode:
    """What a recorded compile with discrete answers teaches, as a whole.

    Args:
        module: key of the module.
        result: the compile.
        policy: says how questions are seen.
        objective: which score counts, by the names of ``compile.objective``.

    Raises:
        PolicyError: the compiler does not offer a feature.
    """
    inputs, answers = _questions(result, policy)
    return Episode(module, inputs, answers, result.score(objective), result.object_sha256, credit=result.credit)


def function_episodes(
    module: str, result: CompileResult, policy: Policy, measure: Measure, heuristic: Mapping[str, float]
) -> list[Episode]:
    """What the functions of a recorded compile teach, each by itself; those that were not asked about are left out.

    Args:
        module: key of the module.
        result: the compile.
        policy: says how questions are seen.
        measure: which score counts; a sum over functions.
        heuristic: what each function costs under the heuristic.

    Raises:
        PolicyError: the compiler does not offer a feature.
    """
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
    header = result.header
    if header is None or header.advice is None:  # nothing was there to decide
        return np.zeros((0, 0), np.float16), np.zeros(0, np.uint8)
    payloads = np.frombuffer(result.observations, np.uint8).reshape(-1, header.payload_bytes)
    inputs = policy.inputs_for(header)(payloads).astype(np.float16)
    return inputs, policy.actions.targets(np.frombuffer(result.answers, header.advice.dtype))
