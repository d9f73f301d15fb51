"""What single decisions are worth: each of the heuristic's answers, given the other way round by itself."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np

from mlgo.base.seeding import sample
from mlgo.evaluate.compiles import CompileHost
from mlgo.evaluate.jobs import CompileJob
from mlgo.evaluate.scored import ScoredModule
from mlgo.host.tasks.advisors import EchoAdvisor
from mlgo.host.tasks.task import Task
from mlgo.policy.overrides import OverridingAdvisor, observation_keys
from mlgo.policy.policy import Policy


@dataclass(frozen=True)
class SingleFlip:
    """One answer of the heuristic, given the other way round.

    Attributes:
        module: where.
        question: number of the first question that it concerns, from 0.
        times: questions that look the same and were answered together.
        inlined: whether the heuristic inlines.
        logit: a policy's output there; above 0 it inlines.
        before: score of the module under the heuristic.
        change: score after the flip minus that; NaN if the compile failed.
    """

    module: ScoredModule
    question: int
    times: int
    inlined: bool
    logit: float
    before: float
    change: float


def measure_flips(
    host: CompileHost,
    task: Task,
    policy: Policy,
    modules: Sequence[ScoredModule],
    bitcode: Mapping[str, Path],
    objective: str,
    per_module: int,
    seed: int,
) -> list[SingleFlip]:
    """Compile modules under the heuristic's answers, then with one of them turned round, for a sample of them.

    A question is known by what it holds, as in `mlgo.research.explanation`; what is asked anew because of a flip, the
    heuristic answers.

    Args:
        host: runs the compiles.
        task: one whose compiler tells the heuristic's decision beside all features.
        policy: whose logits are held against the changes.
        modules: where to flip.
        bitcode: file by module key.
        objective: which score.
        per_module: flips of each module, at most.
        seed: root seed of the sample.

    Returns:
        Flips by module, in the order of the questions. Modules that do not compile any more have none.
    """
    assert task.default is not None
    echo = EchoAdvisor(task.default.feature)
    asked = [
        CompileJob(one.module.key, bitcode[one.module.key], echo, with_default=True, record=True) for one in modules
    ]
    flips: list[SingleFlip] = []
    jobs: list[CompileJob] = []
    for one, job, outcome in zip(modules, asked, host.compile_all(asked, "heuristic"), strict=True):
        result = outcome.result
        if result is None or result.header is None or not result.num_questions:
            continue
        payloads = np.frombuffer(result.observations, np.uint8).reshape(result.num_questions, -1)
        answers, logit = np.frombuffer(result.answers, np.int64) != 0, policy.logits_for(result.header)
        by_key: dict[bytes, list[int]] = {}
        for number, key in enumerate(observation_keys(result.header, payloads, task.default_features)):
            by_key.setdefault(key, []).append(number)
        for key in sample(list(by_key), per_module, seed, "flips", one.module.key):
            first, *others = by_key[key]
            turned = OverridingAdvisor(echo, {key: int(not answers[first])}, task.default_features)
            jobs.append(CompileJob(job.module, job.bitcode, turned, with_default=True))
            output, before = float(np.ravel(logit(payloads[first].tobytes()))[0]), outcome.score(objective)
            flips.append(SingleFlip(one, first, 1 + len(others), bool(answers[first]), output, before, float("nan")))
    outcomes = host.compile_all(jobs, "flips")
    return [
        replace(one, change=outcome.score(objective) - one.before) for one, outcome in zip(flips, outcomes, strict=True)
    ]
