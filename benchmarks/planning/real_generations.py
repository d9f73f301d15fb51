"""Real generations of evolution strategies, watched: what each evaluation was, and when each generation was over."""

import hashlib
import resource
import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np

from mlgo.base.config import CompileConfig
from mlgo.evaluate import CompileHost
from mlgo.evaluate.candidates import CandidateEvaluator
from mlgo.evaluate.jobs import CompileJob
from mlgo.evaluate.outcome import CompileOutcome
from mlgo.evaluate.scored import ScoredModule
from mlgo.host.toolchain import Toolchain
from mlgo.learn.checkpoint import save_state
from mlgo.learn.es import Coordinates, EsState, evolve
from mlgo.learn.es.config import ESConfig
from mlgo.policy.policy import Policy
from mlgo.pool.trees import ReplayStore


@dataclass(frozen=True)
class Watched:
    """One generation.

    Attributes:
        seconds: wall time until the next one begins, the learner's step included.
        waiting_s: of these, until the last evaluation was back.
        driver_s: time of the driver's one thread until then.
        modules: number of the module of each evaluation, int64 [num].
        outcomes: number of its outcome among those of the module in the order of the candidates, int64 [num]; -1 for a
            failed compile.
        compile_s: wall time of its compile, float64 [num]; 0 where the trees knew it.
        recalled: they did, bool [num].
        num_candidates: how many.
    """

    seconds: float
    waiting_s: float
    driver_s: float
    modules: np.ndarray
    outcomes: np.ndarray
    compile_s: np.ndarray
    recalled: np.ndarray
    num_candidates: int


@dataclass(frozen=True)
class Run:
    """Generations in a row.

    Attributes:
        workers: processes that compiled.
        generations: each of them.
        workers_cpu_s: processor time of all workers and compilers, from their start to their end.
    """

    workers: int
    generations: tuple[Watched, ...]
    workers_cpu_s: float


class _WatchedHost(CompileHost):
    """A host that keeps what became of its jobs."""

    jobs: Sequence[CompileJob] = ()
    outcomes: Sequence[CompileOutcome] = ()

    def compile_each(self, jobs: Iterable[CompileJob]) -> Iterator[tuple[int, CompileOutcome]]:
        """Do jobs, as usual."""
        self.jobs = list(jobs)
        found = dict(super().compile_each(self.jobs))
        self.outcomes = [found[position] for position in range(len(self.jobs))]
        return iter(found.items())


def coordinates_of(start: Policy, es: ESConfig) -> Coordinates:
    """Where evolution strategies search."""
    layers = start.network().layer_slices()
    return Coordinates.last_layers(
        start.weights, layers, es.trainable_layers, es.perturbation_unit, es.perturbation_epsilon
    )


def watch_generations(
    toolchain: Toolchain,
    settings: CompileConfig,
    es: ESConfig,
    start: Policy,
    modules: Sequence[ScoredModule],
    bitcode: Mapping[str, Path],
    store: ReplayStore,
    num_workers: int,
    seed: int,
    folder: Path,
) -> Run:
    """Run ``es.generations`` generations on the same modules.

    Args:
        toolchain: compiler to use.
        settings: of compiles.
        es: sizes of the generations.
        start: policy to start from.
        modules: what is compiled in each generation.
        bitcode: file by module key.
        store: trees; where they begin empty, so does knowledge.
        num_workers: processes.
        seed: root seed of the noise.
        folder: for the checkpoint.
    """
    number = {one.module.key: i for i, one in enumerate(modules)}
    ids: list[dict[bytes, int]] = [{} for _ in modules]
    watched: list[Watched] = []
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    begun = 0.0
    host = _WatchedHost(toolchain, start.task, settings, num_workers, store)
    with host:
        evaluator = CandidateEvaluator(host, start, bitcode, settings.objective)
        evaluator.rewards(start.weights[None], modules[:1])  # workers start with their first job

        def evaluate(candidates: np.ndarray, generation: int) -> np.ndarray:
            nonlocal begun
            begun, thread = time.monotonic(), time.thread_time()
            rewards = evaluator.rewards(candidates, modules)
            waiting_s, driver_s = time.monotonic() - begun, time.thread_time() - thread
            numbers = [number[job.module] for job in host.jobs]
            outcomes = [_outcome(ids[i], one) for i, one in zip(numbers, host.outcomes, strict=True)]
            compile_s = [0.0 if one.recalled or one.result is None else one.result.seconds for one in host.outcomes]
            recalled = [one.recalled for one in host.outcomes]
            watched.append(
                Watched(
                    waiting_s,
                    waiting_s,
                    driver_s,
                    np.array(numbers),
                    np.array(outcomes),
                    np.array(compile_s),
                    np.array(recalled),
                    len(candidates),
                )
            )
            return rewards

        def after_generation(state: EsState, rewards: np.ndarray) -> None:
            save_state(state, folder / "checkpoint.npz")
            watched[-1] = replace(watched[-1], seconds=time.monotonic() - begun)

        es = es.model_copy(update={"validate_every": 10**9})
        evolve(coordinates_of(start, es), evaluate, lambda weights: 0.0, es, seed, None, after_generation)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    cpu_s = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
    return Run(num_workers, tuple(watched), cpu_s)


def _outcome(ids: dict[bytes, int], outcome: CompileOutcome) -> int:
    if outcome.result is None:
        return -1
    return ids.setdefault(hashlib.sha256(outcome.result.answers).digest(), len(ids))


def fresh_outcomes(run: Run) -> dict[int, list[bool]]:
    """By module, whether each of its evaluations had a new outcome, in the order of the candidates."""
    found: dict[int, list[bool]] = {}
    seen: dict[int, set[int]] = {}
    for one in run.generations:
        for module, outcome in zip(one.modules.tolist(), one.outcomes.tolist(), strict=True):
            known = seen.setdefault(module, set())
            found.setdefault(module, []).append(outcome not in known)
            known.add(outcome)
    return found
