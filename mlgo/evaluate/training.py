"""What trainings on compile results share: modules, trees, provenance, validation."""

from collections.abc import Callable, Collection, Mapping, Sequence
from itertools import compress
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from mlgo.base.config import CompileConfig
from mlgo.base.seeding import generator, sample
from mlgo.corpus.store import load_modules
from mlgo.errors import PolicyError
from mlgo.evaluate.baseline import ScoredModule, baseline_origin, load_copies, load_scored_modules, with_questions
from mlgo.evaluate.compiles import CompileHost, Quarantine
from mlgo.evaluate.episodes import Read, compile_episodes
from mlgo.evaluate.worker import CompileJob, Copies
from mlgo.host.session import CompileResult
from mlgo.objects.measures import get_measure
from mlgo.policy.policy import ExploringAdvisor, Policy
from mlgo.policy.stored import load_policy
from mlgo.policy.vocabulary import build_vocabulary


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
    max_questions: int,
    validation_modules: int,
    seed: int,
    languages: Collection[str] | None = None,
    min_questions: int = 1,
) -> tuple[list[ScoredModule], list[ScoredModule]]:
    """Modules to train and to validate on, the latter sampled by seed and algorithm; projects take turns.

    Modules with fewer than ``min_questions`` or more than ``max_questions`` under the heuristic are left out.
    """
    kind = f"{'/'.join(languages)} " if languages else ""
    train, validation = (
        with_questions(scored, max_questions, kind + split, algorithm, min_questions)
        for split in ("train", "validation")
        for scored in [load_scored_modules(corpus, baseline, split, languages)]
    )
    projects = [one.module.project for one in validation]
    return train, sample(validation, validation_modules, seed, algorithm, "validation", turns=projects)


def validation_weights(modules: Sequence[ScoredModule], objective: str) -> np.ndarray:
    """What rewards of modules count for, float64 [num_modules] with a mean of 1: a project as much as any other.

    Within a project a module counts by its score, so the mean of weighted rewards is what a project saves, in the mean
    over projects. One that carries seven copies of a library would else outvote the others. Rewards that are logarithms
    (`relative_reward`) add up to no saving of a project: there its modules are alike.
    """
    _, project = np.unique([one.module.project for one in modules], return_inverse=True)
    sizes = np.array([1.0 if get_measure(objective).offset else one.score(objective) for one in modules])
    totals = np.bincount(project, sizes)
    return sizes / totals[project] * (len(modules) / len(totals))


def trace_of_languages(
    trace: pa.Table, vocabulary: pa.Table, corpus: Path, languages: Collection[str]
) -> tuple[pa.Table, pa.Table]:
    """Leave only the questions of modules in some languages, and make the vocabulary anew, of what is left of train."""
    keys = pc.binary_join_element_wise(trace["project"], trace["module"], "/")
    left, train = (
        trace.filter(pc.is_in(keys, pa.array([one.key for one in modules], pa.string())))
        for splits in (None, ["train"])
        for modules in [load_modules(corpus, splits=splits, languages=languages)]
    )
    features = {name: train[name].to_numpy() for name in vocabulary["feature"].to_pylist()}
    return left, build_vocabulary(features, len(vocabulary["quantiles"][0]))


def needed_copies(settings: CompileConfig, baseline: Path) -> Copies | None:
    """What projects carry several times, where the objective depends on that; else sizes do not depend on it."""
    return load_copies(baseline) if get_measure(settings.objective).needs_copies else None


def candidate_rewards(
    host: CompileHost,
    policy: Policy,
    candidates: np.ndarray,
    modules: Sequence[ScoredModule],
    bitcode: Mapping[str, Path],
    objective: str,
    quarantine: Quarantine | None = None,
    asked: np.ndarray | None = None,
) -> np.ndarray:
    """Compile modules under candidates and compare with the heuristic.

    Args:
        policy: gives features and architecture; its weights are replaced by the candidates'.
        candidates: float32 [num_candidates, num_params].
        quarantine: counts failures, in the order of candidates and modules.
        asked: bool [num_candidates, num_modules], what to compile; None is all.

    Returns:
        Relative rewards, float64 [num_candidates, num_modules], NaN where a compile failed or none was asked for.
    """
    scores = np.full((len(candidates), len(modules)), np.nan)
    wanted = np.ones(scores.shape, bool) if asked is None else asked
    positions = np.flatnonzero(wanted).tolist()
    reasons: dict[int, str] = {}
    costs_only = get_measure(objective).is_by_function
    jobs = (  # made as they are taken: a large generation is not in memory as such
        CompileJob(one.module.key, bitcode[one.module.key], candidate, sha256=one.module.sha256, costs_only=costs_only)
        for candidate, row in zip(map(policy.with_weights, candidates), wanted, strict=True)
        for one in compress(modules, row)
    )
    for number, outcome in host.compile_each(jobs):
        position = positions[number]
        scores.flat[position] = outcome.score(objective)
        if outcome.result is None:
            reasons[position] = outcome.reason
    if quarantine is not None:
        for position in positions:  # not as they ended
            quarantine.note(modules[position % len(modules)].module.key, reasons.get(position, ""))
    baseline = np.array([one.score(objective) for one in modules])
    return get_measure(objective).reward(scores, baseline)


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
        variants: take turns; where they differ is what is worth knowing.
        compiles: least and greatest number per module.
        questions: a module is compiled so often that it asks about so many, within these bounds.
        flip_share: answers are turned around with a probability drawn from [0, flip_share] for each compile.
        min_flips: the probability is at least this divided by the module's questions, so that something differs.
        temperature: the logits' temperature is drawn from [0, temperature] for each compile.
        *names: purpose, for example learner and round.
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
            sha256 = one.module.sha256
            jobs.append(
                CompileJob(key, bitcode[key], advisor, record=True, sha256=sha256, with_credit=with_credit, read=read)
            )
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
    """What compiles gave under answers drawn with the policy's probabilities, module by module; None for failures."""
    jobs = []
    for one in modules:
        key, sha256 = one.module.key, one.module.sha256
        for luck in rng.integers(2**63, size=episodes):
            advisor = ExploringAdvisor(policy, temperature=1.0, flip_share=0.0, seed=int(luck))
            jobs.append(CompileJob(key, bitcode[key], advisor, record=True, sha256=sha256, with_credit=with_credit))
    return compile_episodes(host, jobs, read, note=quarantine.note)
