"""One evaluation, of the workflow and of `mlgo evaluate`: compile modules and link programs under each contender."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np

from mlgo.base.artifacts import Row
from mlgo.base.config import EvaluateConfig
from mlgo.base.names import PolicyName
from mlgo.base.seeding import sample
from mlgo.corpus.store import Module, Program
from mlgo.evaluate.baseline import function_rows, timing_rows
from mlgo.evaluate.baseline_modules import ScoredModule, load_scored_modules
from mlgo.evaluate.compiles import CompileHost, check_failures
from mlgo.evaluate.jobs import CompileJob, CompileOutcome
from mlgo.evaluate.shipped import Linking, measure_programs, object_paths, other_modules
from mlgo.host.tasks.task import HEURISTIC, Advisor
from mlgo.objects.measures import scores_of
from mlgo.policy.stored import StoredPolicy, advisor_in


@dataclass(frozen=True)
class EvaluationRun:
    """Modules that are compiled and programs that are linked of them, under one contender after another.

    Attributes:
        host: runs the compiles.
        modules: of which results are wanted.
        programs: linked of these modules, and perhaps of others.
        bitcode: file by module key.
        linking: how.
        folder: for objects.
    """

    host: CompileHost
    modules: Sequence[Module]
    programs: Sequence[Program]
    bitcode: Mapping[str, Path]
    linking: Linking
    folder: Path

    @property
    def every_module(self) -> list[Module]:
        """Modules, and others that the programs need."""
        return [*self.modules, *other_modules(self.modules, self.programs)]

    def objects(self, contender: str) -> dict[str, Path]:
        """Object files by module key; none are kept where no program is linked."""
        return object_paths(self.every_module, self.folder / contender) if self.programs else {}

    def compile(
        self, contender: str, advisor_of: Callable[[Module], Advisor | None], modules: Sequence[Module] | None = None
    ) -> list[CompileOutcome]:
        """Compile under a contender; of modules that only programs need, just the objects are kept.

        Args:
            contender: name of who decides.
            advisor_of: who decides in a module; None is the heuristic.
            modules: of which outcomes are wanted, by default all.
        """
        wanted, objects = self.modules if modules is None else modules, self.objects(contender)
        jobs = [
            CompileJob(one.key, self.bitcode[one.key], advisor_of(one), object_path=objects.get(one.key))
            for one in [*wanted, *other_modules(self.modules, self.programs)]
        ]
        return self.host.compile_all(jobs, contender)[: len(wanted)]

    def compile_heuristic(self) -> list[CompileOutcome]:
        return self.compile(HEURISTIC, lambda module: None)

    def link(self, contender: str) -> list[Row]:
        """Link and measure what was compiled under a contender; rows of ``artifacts.SHIPPED_SIZES``."""
        return measure_programs(self.linking, contender, self.programs, self.objects(contender))


@dataclass(frozen=True)
class Evaluation:
    """Modules under a policy.

    Attributes:
        results: rows of ``artifacts.RESULTS``, by module as given.
        functions: rows of ``artifacts.FUNCTIONS``; empty for tasks that allocate no registers.
        timings: rows of ``artifacts.TIMINGS``.
    """

    results: list[Row]
    functions: list[Row]
    timings: list[Row]


@dataclass(frozen=True)
class Shipped:
    """A project under the heuristic and under a policy.

    Attributes:
        results: rows of ``artifacts.RESULTS``, one for each module, with the reason where either of both failed.
        sizes: rows of ``artifacts.SHIPPED_SIZES``.
        course: rows of ``artifacts.SEARCH_COURSE``; none where nothing was searched.
    """

    results: list[Row]
    sizes: list[Row]
    course: list[Row] = field(default_factory=list)


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


def evaluate_policy(
    run: EvaluationRun,
    policy: StoredPolicy,
    name: PolicyName,
    scored: Sequence[ScoredModule],
    max_failed_share: float,
    in_every_language: bool = False,
) -> Evaluation:
    """Compile modules under a policy; those in a language that it does not decide in, under the heuristic."""
    contender = str(name)
    outcomes = run.compile(
        contender,
        lambda module: policy if in_every_language else advisor_in(policy, module.language),
        [one.module for one in scored],
    )
    check_failures([one.module.key for one in scored], outcomes, max_failed_share, "evaluate.max_failed_share")
    pairs = list(zip(scored, outcomes, strict=True))
    return Evaluation(
        [result_row(one, outcome, name, policy.actions.yes_or_no) for one, outcome in pairs],
        [row for one, outcome in pairs for row in function_rows(one.module, contender, outcome.result)],
        timing_rows((one.module, contender, outcome) for one, outcome in pairs),
    )


def compile_both(run: EvaluationRun, policy: StoredPolicy, name: PolicyName) -> list[Row]:
    """Compile a project under the heuristic and under a policy; rows of ``artifacts.RESULTS``."""
    outcomes = dict(zip((one.key for one in run.modules), run.compile_heuristic(), strict=True))
    compiled = [
        ScoredModule(module, result.scores, 0) for module in run.modules if (result := outcomes[module.key].result)
    ]
    rows = evaluate_policy(run, policy, name, compiled, 1.0).results
    by_key = {(row["project"], row["module"]): row for row in rows}
    return [
        by_key.get((module.project, module.name)) or _without_baseline(module, outcomes[module.key], name)
        for module in run.modules
    ]


def evaluate_project(run: EvaluationRun, policy: StoredPolicy, name: PolicyName) -> Shipped:
    """Compile a project under the heuristic and under a policy, link its programs, and measure."""
    results = compile_both(run, policy, name)
    return Shipped(results, [*run.link(HEURISTIC), *run.link(str(name))])


def _without_baseline(module: Module, outcome: CompileOutcome, name: PolicyName) -> Row:
    """The row of a module that does not compile under the heuristic, under which nothing else was tried then."""
    failed = CompileOutcome(None, outcome.failure, f"under the heuristic: {outcome.message}")
    return result_row(ScoredModule(module, scores_of({}), 0), failed, name, inlining=False)


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
