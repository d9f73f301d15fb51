"""A finished policy on many modules, side by side with the heuristic."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from mlgo.base.artifacts import Row
from mlgo.base.config import EvaluateConfig
from mlgo.base.names import PolicyName
from mlgo.base.seeding import sample
from mlgo.corpus.store import Module
from mlgo.evaluate.baseline_modules import ScoredModule, load_scored_modules
from mlgo.evaluate.compiles import CompileHost, check_failures
from mlgo.evaluate.functions import function_rows
from mlgo.evaluate.jobs import CompileJob, CompileOutcome
from mlgo.host.tasks.task import HEURISTIC
from mlgo.objects.measures import scores_of
from mlgo.policy.languages import advisor_in
from mlgo.policy.stored import StoredPolicy


@dataclass(frozen=True)
class Evaluation:
    """What compiling modules under a policy gives.

    Attributes:
        results: rows of ``artifacts.RESULTS``, by module as given.
        functions: rows of ``artifacts.FUNCTIONS``; empty for tasks that allocate no registers.
        timings: rows of ``artifacts.TIMINGS``.
    """

    results: list[Row]
    functions: list[Row]
    timings: list[Row]


def evaluated_modules(config: EvaluateConfig, corpus_dir: Path, baseline_dir: Path, seed: int) -> list[ScoredModule]:
    """List the modules that every contender is compiled on: by split as configured, then in manifest order.

    Args:
        config: splits, and how many modules of train.
        corpus_dir: folder with ``modules.parquet``.
        baseline_dir: folder with ``scores.parquet``.
        seed: root seed of the run, chooses the modules of train.
    """
    by_split = {split: load_scored_modules(corpus_dir, baseline_dir, split) for split in config.splits}
    if "train" in by_split:
        by_split["train"] = sample(by_split["train"], config.max_train_modules, seed, "evaluate", "train")
    return [one for split in config.splits for one in by_split[split]]


def compile_plain_all(
    host: CompileHost, modules: Sequence[Module], bitcode: Mapping[str, Path], objects: Mapping[str, Path]
) -> list[CompileOutcome]:
    """Compile modules under the heuristic; outcomes in their order.

    Args:
        host: runs the compiles.
        modules: what to compile.
        bitcode: file by module key.
        objects: where to keep the object files, by module key.
    """
    jobs = [CompileJob(one.key, bitcode[one.key], None, object_path=objects[one.key]) for one in modules]
    return host.compile_all(jobs, HEURISTIC)


def evaluate_policy(
    host: CompileHost,
    policy: StoredPolicy,
    name: PolicyName,
    modules: Sequence[ScoredModule],
    bitcode: Mapping[str, Path],
    max_failed_share: float,
    objects: Mapping[str, Path] | None = None,
    others: Sequence[Module] = (),
    in_every_language: bool = False,
) -> Evaluation:
    """Compile modules under a policy; those in a language that it does not decide in, under the heuristic.

    Args:
        host: runs the compiles.
        policy: makes the decisions.
        name: learner and seed, for the rows.
        modules: what to compile.
        bitcode: file by module key.
        max_failed_share: share of failures that is still accepted.
        objects: where to keep the object files, by module key.
        others: modules of which only the object files are wanted.
        in_every_language: ask it about modules in other languages, too.
    """
    keys, kept, advisor = [one.module.key for one in modules], objects or {}, str(name)
    jobs = [
        CompileJob(
            module.key,
            bitcode[module.key],
            policy if in_every_language else advisor_in(policy, module.language),
            object_path=kept.get(module.key),
        )
        for module in [*(one.module for one in modules), *others]
    ]
    outcomes = host.compile_all(jobs, advisor)[: len(keys)]
    check_failures(keys, outcomes, max_failed_share, "evaluate.max_failed_share")
    return Evaluation(
        [
            result_row(one, outcome, name, policy.actions.yes_or_no)
            for one, outcome in zip(modules, outcomes, strict=True)
        ],
        [
            row
            for one, outcome in zip(modules, outcomes, strict=True)
            for row in function_rows(one.module, advisor, outcome.result)
        ],
        [
            {
                "project": one.module.project,
                "module": one.module.name,
                "advisor": advisor,
                "seconds": outcome.result.seconds,
            }
            for one, outcome in zip(modules, outcomes, strict=True)
            if outcome.result is not None
        ],
    )


def result_row(scored: ScoredModule, outcome: CompileOutcome, name: PolicyName, inlining: bool) -> Row:
    """A row of ``artifacts.RESULTS``."""
    module, result = scored.module, outcome.result
    return {
        "project": module.project,
        "module": module.name,
        "language": module.language,
        "split": module.split,
        "policy": name.learner,
        "seed": name.seed,
        **scores_of(result.scores if result else {}),
        **{f"baseline_{name}": score for name, score in scored.scores.items()},
        "num_questions": result and result.num_questions,
        "num_inlined": int(np.count_nonzero(np.frombuffer(result.answers, np.int64))) if result and inlining else None,
        "truncated": result and result.truncated,
        "failure": outcome.failure,
        "message": outcome.message,
    }
