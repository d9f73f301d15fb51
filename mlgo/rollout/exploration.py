"""Compiles around a policy: the policy itself, and variants that now and then decide otherwise."""

from collections.abc import Mapping, Sequence
from pathlib import Path

from mlgo.policy.exploring import ExploringAdvisor
from mlgo.policy.network_policy import NetworkPolicy
from mlgo.rollout.jobs import CompileJob
from mlgo.rollout.scored import ScoredModule
from mlgo.seeding import generator


def exploring_jobs(
    policy: NetworkPolicy,
    modules: Sequence[ScoredModule],
    bitcode: Mapping[str, Path],
    compiles: int,
    flip_share: float,
    min_flips: float,
    temperature: float,
    seed: int,
    *names: str | int,
) -> list[CompileJob]:
    """Plan recorded compiles of each module: the first under the policy, the others exploring.

    Args:
        policy: what is explored around.
        modules: what to compile.
        bitcode: file by module key.
        compiles: per module.
        flip_share: answers are turned around with a probability drawn from [0, flip_share] for each compile.
        min_flips: the probability is at least this divided by the module's questions, so that something differs.
        temperature: the logits' temperature is drawn from [0, temperature] for each compile.
        seed: root seed of all draws.
        *names: purpose, for example learner and round.
    """
    jobs = []
    for one in modules:
        key = one.module.key
        rng = generator(seed, "explore", key, *names)
        for i in range(compiles):
            flips = max(rng.uniform(0.0, flip_share), min(0.5, min_flips / one.num_questions))
            warmth, luck = rng.uniform(0.0, temperature), int(rng.integers(2**62))
            advisor = ExploringAdvisor(policy, warmth, flips, luck) if i else policy
            jobs.append(CompileJob(key, bitcode[key], advisor, record=True, sha256=one.module.sha256))
    return jobs
