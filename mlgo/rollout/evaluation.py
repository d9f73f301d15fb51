"""A finished policy on many modules, side by side with the heuristic."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from mlgo.policy.network_policy import NetworkPolicy
from mlgo.rollout.compiles import CompileHost, CompileOutcome, check_failures
from mlgo.rollout.jobs import CompileJob
from mlgo.rollout.scored import ScoredModule


def evaluate_policy(
    host: CompileHost,
    policy: NetworkPolicy,
    name: str,
    seed: int,
    modules: Sequence[ScoredModule],
    bitcode: Mapping[str, Path],
    max_failed_share: float,
) -> tuple[list[dict[str, Any]], list[dict[str, Any]]]:
    """Compile modules under a policy.

    Args:
        host: runs the compiles.
        policy: makes the decisions.
        name: name of the policy for the rows.
        seed: seed it was trained with.
        modules: what to compile.
        bitcode: file by module key.
        max_failed_share: share of failures that is still accepted.

    Returns:
        Rows of ``artifacts.RESULTS`` and of ``artifacts.TIMINGS``.

    Raises:
        MlgoError: more failures than accepted.
    """
    jobs = [CompileJob(one.module.key, bitcode[one.module.key], policy) for one in modules]
    outcomes = host.compile_all(jobs, f"{name}-s{seed}")
    check_failures([job.module for job in jobs], outcomes, max_failed_share, "evaluate.max_failed_share")
    rows = [_result(one, outcome, name, seed) for one, outcome in zip(modules, outcomes, strict=True)]
    timings = [
        {
            "project": one.module.project,
            "module": one.module.name,
            "advisor": f"{name}-s{seed}",
            "seconds": outcome.result.seconds,
        }
        for one, outcome in zip(modules, outcomes, strict=True)
        if outcome.result is not None
    ]
    return rows, timings


def _result(scored: ScoredModule, outcome: CompileOutcome, name: str, seed: int) -> dict[str, Any]:
    module, result = scored.module, outcome.result
    return {
        "project": module.project,
        "module": module.name,
        "language": module.language,
        "split": module.split,
        "policy": name,
        "seed": seed,
        "exec_bytes": result and result.exec_bytes,
        "text_bytes": result and result.text_bytes,
        "baseline_exec_bytes": scored.exec_bytes,
        "baseline_text_bytes": scored.text_bytes,
        "num_questions": result and result.num_questions,
        "num_inlined": result and int(np.count_nonzero(np.frombuffer(result.answers, np.int64))),
        "truncated": result and result.truncated,
        "failure": outcome.failure,
        "message": outcome.message,
    }
