"""Compiles under samples from a policy, for learners that need to see other answers than its own."""

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

import numpy as np

from mlgo.evaluate.compiles import CompileHost
from mlgo.evaluate.episodes import Read, compile_episodes
from mlgo.evaluate.jobs import CompileJob
from mlgo.evaluate.quarantine import Quarantine
from mlgo.evaluate.scored import ScoredModule
from mlgo.host.session import CompileResult
from mlgo.policy.exploring import ExploringAdvisor
from mlgo.policy.policy import Policy


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

    Args:
        host: runs the compiles.
        policy: gives the probabilities.
        modules: what to compile.
        bitcode: file by module key.
        read: what a compile teaches, see `compile_episodes`.
        quarantine: is told how every compile ended.
        episodes: compiles of each module, each with luck of its own.
        rng: source of the luck.
        with_credit: see `CompileJob.with_credit`.

    Returns:
        What was read, those of a module one after another; None where a compile failed.

    Raises:
        PolicyError: the compiler does not offer a feature.
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
