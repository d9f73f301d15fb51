"""Compiles under variants of a policy: with other weights, with drawn answers, or now and then deciding otherwise."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from mlgo.base.seeding import generator
from mlgo.evaluate.baseline_modules import ScoredModule
from mlgo.evaluate.compiles import CompileHost, Quarantine
from mlgo.evaluate.episodes import Read, compile_episodes
from mlgo.evaluate.jobs import CompileJob
from mlgo.host.session import CompileResult
from mlgo.objects.measures import get_measure
from mlgo.policy.advisors import ExploringAdvisor
from mlgo.policy.policy import Policy


def candidate_rewards(
    host: CompileHost,
    policy: Policy,
    candidates: np.ndarray,
    modules: Sequence[ScoredModule],
    bitcode: Mapping[str, Path],
    objective: str,
    quarantine: Quarantine | None = None,
) -> np.ndarray:
    """Compile modules under candidates and compare with the heuristic.

    Args:
        host: runs the compiles.
        policy: gives features and architecture; its weights are replaced by the candidates'.
        candidates: float32 [num_candidates, num_params].
        modules: what to compile.
        bitcode: file by module key.
        objective: which score counts.
        quarantine: counts failures, in the order of candidates and modules.

    Returns:
        Relative rewards, float64 [num_candidates, num_modules], NaN where a compile failed.
    """
    scores = np.full((len(candidates), len(modules)), np.nan)
    reasons: dict[int, str] = {}
    for position, outcome in host.compile_each(_candidate_jobs(policy, candidates, modules, bitcode, objective)):
        scores.flat[position] = outcome.score(objective)
        if outcome.result is None:
            reasons[position] = outcome.reason
    if quarantine is not None:
        for position in range(scores.size):  # not as they ended
            quarantine.note(modules[position % len(modules)].module.key, reasons.get(position, ""))
    baseline = np.array([one.score(objective) for one in modules])
    return get_measure(objective).reward(scores, baseline)


def _candidate_jobs(
    policy: Policy,
    candidates: np.ndarray,
    modules: Sequence[ScoredModule],
    bitcode: Mapping[str, Path],
    objective: str,
) -> Iterator[CompileJob]:
    """All compiles, candidate by candidate, made as they are taken: a large generation is not in memory as such."""
    costs_only = get_measure(objective).is_by_function
    for weights in candidates:
        candidate = policy.with_weights(weights)
        for one in modules:
            key = one.module.key
            yield CompileJob(key, bitcode[key], candidate, sha256=one.module.sha256, costs_only=costs_only)


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


def sample_episodes(
    host: CompileHost,
    policy: Policy,
    modules: Sequence[ScoredModule],
    bitcode: Mapping[str, Path],
    read: Callable[[str, CompileResult], Read],
    quarantine: Quarantine,
    episodes: int,
    rng: np.random.Generator,
    with_credit: bool = False,
) -> list[Read | None]:
    """Compile modules under answers drawn with the policy's own probabilities.

    Returns:
        What was read, those of a module one after another; None where a compile failed.
    """
    jobs = [
        CompileJob(
            one.module.key,
            bitcode[one.module.key],
            ExploringAdvisor(policy, temperature=1.0, flip_share=0.0, seed=int(luck)),
            record=True,
            sha256=one.module.sha256,
            with_credit=with_credit,
        )
        for one in modules
        for luck in rng.integers(2**63, size=episodes)
    ]
    return compile_episodes(host, jobs, read, note=quarantine.note)
