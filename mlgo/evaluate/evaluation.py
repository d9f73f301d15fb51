"""One evaluation, of the workflow and of `mlgo evaluate`: compile modules and link programs under each contender."""

import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

import numpy as np

from mlgo.base.artifacts import Row
from mlgo.base.config import EvaluateConfig
from mlgo.base.names import PolicyName
from mlgo.base.seeding import sample
from mlgo.corpus.link_time import back_end_module, fat_module, thin_link
from mlgo.corpus.store import Module, Program
from mlgo.errors import CompileError
from mlgo.evaluate.baseline import ScoredModule, function_rows, load_scored_modules, timing_rows
from mlgo.evaluate.compiles import check_failures
from mlgo.evaluate.shipped import EvaluationRun, not_measured, objects_of
from mlgo.evaluate.worker import CompileOutcome
from mlgo.host.linker import LinkedFile
from mlgo.host.tasks.task import HEURISTIC, Advisor
from mlgo.objects.measures import scores_of
from mlgo.policy.stored import StoredPolicy, advisor_in


@dataclass(frozen=True)
class Evaluation:
    """Modules, or a project, under a policy."""

    results: list[Row]  # rows of `artifacts.RESULTS`, by module as given, with the reason where a compile failed
    # Rows of `artifacts.FUNCTIONS`; empty for tasks that allocate no registers.
    functions: list[Row] = field(default_factory=list)
    timings: list[Row] = field(default_factory=list)  # rows of `artifacts.TIMINGS`
    sizes: list[Row] = field(default_factory=list)  # rows of `artifacts.SHIPPED_SIZES`
    # Rows of `artifacts.SEARCH_COURSE`; none where nothing was searched.
    course: list[Row] = field(default_factory=list)


def evaluated_modules(config: EvaluateConfig, corpus_dir: Path, baseline_dir: Path, seed: int) -> list[ScoredModule]:
    """List the modules that every contender is compiled on: by split as configured, then in manifest order."""
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

    def advisor_of(module: Module) -> Advisor | None:
        return policy if in_every_language else advisor_in(policy, module.language)

    outcomes = run.compile(contender, advisor_of, [one.module for one in scored])
    check_failures([one.module.key for one in scored], outcomes, max_failed_share, "evaluate.max_failed_share")
    pairs = list(zip(scored, outcomes, strict=True))
    return Evaluation(
        [result_row(one, outcome, name, policy.actions.yes_or_no) for one, outcome in pairs],
        [row for one, outcome in pairs for row in function_rows(one.module, contender, outcome.result)],
        timing_rows((one.module, contender, outcome) for one, outcome in pairs),
    )


def compile_both(run: EvaluationRun, policy: StoredPolicy, name: PolicyName) -> list[Row]:
    """Compile a project under the heuristic and under a policy; rows of ``artifacts.RESULTS``."""
    pairs = list(zip(run.modules, run.compile(), strict=True))
    compiled = [ScoredModule(module, outcome.result.scores, 0) for module, outcome in pairs if outcome.result]
    rows = iter(evaluate_policy(run, policy, name, compiled, 1.0).results)

    def failed(module: Module, outcome: CompileOutcome) -> Row:
        explained = replace(outcome, message=f"under the heuristic: {outcome.message}")
        return result_row(ScoredModule(module, scores_of({}), 0), explained, name, inlining=False)

    return [next(rows) if outcome.result else failed(module, outcome) for module, outcome in pairs]


def evaluate_project(run: EvaluationRun, policy: StoredPolicy, name: PolicyName) -> Evaluation:
    """Compile a project under the heuristic and under a policy, link its programs, and measure."""
    return Evaluation(compile_both(run, policy, name), sizes=[*run.link(HEURISTIC), *run.link(str(name))])


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


def evaluate_thin(run: EvaluationRun, policy: StoredPolicy, name: PolicyName) -> Evaluation:
    """Build a project with ThinLTO under the heuristic and under a policy, and measure its programs.

    The policy gives advice in both compiles, since most inlining happens in the first. Results are those of the
    pre-link compiles, whose objects are those of ordinary ones.
    """
    (run.folder / "fat").mkdir(parents=True)
    fat = {}
    for number, module in enumerate(run.every_module):
        fat[module.key] = run.folder / "fat" / f"{number}.bc"
        fat[module.key].write_bytes(fat_module(run.bitcode[module.key]))
    results = compile_both(replace(run, bitcode=fat), policy, name)
    contenders = ((HEURISTIC, None), (str(name), policy))
    pairs = [(*who, program, number) for who in contenders for number, program in enumerate(run.programs)]
    return Evaluation(results, sizes=[row for pair in pairs for row in _ship_thin(run, *pair)])


def _ship_thin(
    run: EvaluationRun, contender: str, policy: StoredPolicy | None, program: Program, number: int
) -> list[Row]:
    folder = run.folder / f"{contender}-{number}"
    folder.mkdir()
    try:
        linked, bitcode = thin_linked(run, program, run.objects(contender), folder)
    except CompileError as error:
        return not_measured(contender, program, error)
    label = f"{program.row['program']} {contender}"
    return run.ship(
        contender, [linked], bitcode, lambda one: policy and advisor_in(policy, one.language), folder, label=label
    )


def thin_linked(
    run: EvaluationRun, program: Program, objects: Mapping[str, Path], folder: Path
) -> tuple[Program, dict[str, Path]]:
    """The program of modules after their import, and the file of each by its key."""
    by_name = {module.name: module for module in program.modules}
    file, fat = LinkedFile.of_row(program.row), objects_of(program, objects)
    imports = thin_link(run.linking.linker, file, fat, folder, run.linking.timeout_s)
    modules, files = [], {}
    for number, (name, (imported, index)) in enumerate(imports.items()):
        module = by_name[name]
        data = back_end_module(imported.read_bytes(), index, run.bitcode[module.key])
        files[module.key] = folder / f"{number}.back-end.bc"
        files[module.key].write_bytes(data)
        modules.append(replace(module, sha256=hashlib.sha256(data).hexdigest()))
    parts = [{"kind": "object", "modules": [module.name]} for module in modules]
    return Program({**program.row, "parts": parts}, program.split, tuple(modules)), files
