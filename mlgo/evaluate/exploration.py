"""Compiles around a policy: the policy itself, and variants that now and then decide otherwise."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from mlgo.base.seeding import generator
from mlgo.evaluate.jobs import CompileJob
from mlgo.evaluate.scored import ScoredModule
from mlgo.host.session import CompileResult
from mlgo.policy.exploring import ExploringAdvisor
from mlgo.policy.policy import Policy


def exploring_jobs(
    policy: Policy,
    variants: Sequence[Policy],
    modules: Sequence[ScoredModule],
    bitcode: Mapping[str, Path],
    compiles: tuple[int, int],
    questions: int,
    flip_share: float,
    min_flips: float,
    temperature: float,
    seed: int,
    *names: str | int,
    with_credit: bool = False,
    read: Callable[[str, CompileResult], Any] | None = None,
) -> list[CompileJob]:
    """Plan recorded compiles of each module: the first under the policy, the others exploring around its variants.

    Args:
        policy: the policy itself.
        variants: take turns; where they differ is what is worth knowing.
        modules: what to compile.
        bitcode: file by module key.
        compiles: least and greatest number per module.
        questions: a module is compiled so often that it asks about so many, within these bounds.
        flip_share: answers are turned around with a probability drawn from [0, flip_share] for each compile.
        min_flips: the probability is at least this divided by the module's questions, so that something differs.
        temperature: the logits' temperature is drawn from [0, temperature] for each compile.
        seed: root seed of all draws.
        *names: purpose, for example learner and round.
        with_credit: see `CompileJob.with_credit`.
        read: see `CompileJob.read`.
    """
    jobs = []
    for one in modules:
        key = one.module.key
        rng = generator(seed, "explore", key, *names)
        wanted = round(questions / one.num_questions)
        for i in range(min(max(wanted, compiles[0]), compiles[1])):
            flips = max(rng.uniform(0.0, flip_share), min(0.5, min_flips / one.num_questions))
            warmth, luck = rng.uniform(0.0, temperature), int(rng.integers(2**62))
            advisor = ExploringAdvisor(variants[i % len(variants)], warmth, flips, luck) if i else policy
            job = CompileJob(key, bitcode[key], advisor, record=True, sha256=one.module.sha256)
            jobs.append(replace(job, with_credit=with_credit, read=read))
    return jobs
