"""What trainings on compile results share: modules, trees, provenance, validation."""

from collections.abc import Collection
from pathlib import Path
from typing import Protocol

import pyarrow as pa
import pyarrow.compute as pc

from mlgo.base.artifacts import Row, RowView, provenance
from mlgo.base.config import CompileConfig, ReplayConfig
from mlgo.base.files import file_sha256
from mlgo.base.seeding import sample
from mlgo.corpus.store import Module, load_modules
from mlgo.errors import PolicyError
from mlgo.evaluate.baseline_modules import (
    ScoredModule,
    baseline_origin,
    load_copies,
    load_scored_modules,
    with_questions,
)
from mlgo.evaluate.copies import Copies
from mlgo.evaluate.worker import tree_key
from mlgo.host.tasks.task import get_task
from mlgo.host.toolchain import Toolchain
from mlgo.objects.measures import get_measure
from mlgo.policy.policy import Policy
from mlgo.policy.stored import load_policy
from mlgo.policy.vocabulary import build_vocabulary
from mlgo.pool.records import prune
from mlgo.pool.trees import ReplayStore


class ModuleLimits(Protocol):
    """What a learner's section says of the modules that it compiles.

    Attributes:
        max_questions: modules with more questions under the heuristic are left out.
    """

    @property
    def max_questions(self) -> int: ...

    @property
    def validation_modules(self) -> int: ...


def load_start(folder: Path, baseline: Path) -> Policy:
    """Load the policy that a training goes on from."""
    policy = load_policy(folder)
    policy.network()
    task = baseline_origin(baseline)[0].name
    if policy.task != task:
        raise PolicyError(
            f"{folder} was trained for task {policy.task}, {baseline} is of {task}; start from a policy of that task"
        )
    return policy


def training_modules(
    corpus: Path,
    baseline: Path,
    algorithm: str,
    config: ModuleLimits,
    seed: int,
    languages: Collection[str] | None = None,
) -> tuple[list[ScoredModule], list[ScoredModule]]:
    """Modules to train and to validate on, the latter sampled by seed.

    Args:
        corpus: folder of the corpus.
        baseline: folder of the reference scores.
        algorithm: section of the configuration that ``config`` is; also names the sample.
        config: how many questions a module may ask, and how many validation modules there are at most.
        seed: root seed of the training.
        languages: only modules in these.
    """
    kind = f"{'/'.join(languages)} " if languages else ""
    train, validation = (
        with_questions(
            load_scored_modules(corpus, baseline, split, languages), config.max_questions, kind + split, algorithm
        )
        for split in ("train", "validation")
    )
    return train, sample(validation, config.validation_modules, seed, algorithm, "validation")


def trace_of_languages(
    trace: pa.Table, vocabulary: pa.Table, corpus: Path, languages: Collection[str]
) -> tuple[pa.Table, pa.Table]:
    """Leave only the questions of modules in some languages, and make the vocabulary anew, of what is left of train."""
    left, train = (
        _questions_of(trace, load_modules(corpus, splits=splits, languages=languages)) for splits in (None, ["train"])
    )
    features = {name: train[name].to_numpy() for name in vocabulary["feature"].to_pylist()}
    return left, build_vocabulary(features, len(vocabulary["quantiles"][0]))


def _questions_of(trace: pa.Table, modules: Collection[Module]) -> pa.Table:
    keys = pc.binary_join_element_wise(trace["project"], trace["module"], "/")
    return trace.filter(pc.is_in(keys, pa.array([module.key for module in modules], pa.string())))


def training_origin(
    learner: RowView,
    toolchain: Toolchain,
    settings: CompileConfig,
    start: RowView,
    corpus: Path,
    baseline: Path,
) -> Row:
    """Provenance of a policy trained on compile results."""
    return provenance(
        **learner,
        compile=settings.model_dump(),
        compiler=toolchain.name,
        compiler_sha256=toolchain.sha256,
        target=toolchain.target,
        **start,
        scores_sha256=file_sha256(baseline / "scores.parquet"),
        corpus_sha256=file_sha256(corpus / "modules.parquet"),
    )


def known_compiles(folder: Path, config: ReplayConfig) -> Path | None:
    """Folder of what compiles have shown, pruned to the configured size; None where the configuration turns it off."""
    if config.enabled:
        prune(folder, int(config.max_disk_gb * 1e9))
    return folder if config.enabled else None


def open_trees(
    folder: Path,
    config: ReplayConfig,
    toolchain: Toolchain,
    task: str,
    settings: CompileConfig,
    copies: Copies | None = None,
) -> ReplayStore | None:
    """Response trees in a folder, pruned to the configured size; None where the configuration turns them off."""
    known = known_compiles(folder, config)
    return None if known is None else ReplayStore(known, tree_key(toolchain, get_task(task), settings, copies))


def needed_copies(settings: CompileConfig, baseline: Path) -> Copies | None:
    """What projects carry several times, where the objective depends on that; else sizes do not depend on it."""
    return load_copies(baseline) if get_measure(settings.objective).needs_copies else None
