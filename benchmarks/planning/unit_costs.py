"""What single steps of a training cost: driver, trees and learner, each measured alone.

Processor time of what takes a step, not wall time, so that a busy machine matters less.
"""

import itertools
import pickle
import resource
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
from tqdm import tqdm

from benchmarks.planning.real_generations import coordinates_of
from mlgo.base.config import CompileConfig
from mlgo.base.seeding import generator
from mlgo.evaluate.handler import MakeCompiler
from mlgo.evaluate.jobs import CompileJob
from mlgo.evaluate.memory import TreeMemory
from mlgo.evaluate.outcome import CompileOutcome
from mlgo.evaluate.scored import ScoredModule
from mlgo.host.toolchain import Toolchain
from mlgo.learn.checkpoint import save_state
from mlgo.learn.es import EsState, evolve
from mlgo.learn.es.config import ESConfig
from mlgo.policy.policy import Policy
from mlgo.pool import Hint, Pool
from mlgo.pool.backend import Backend, MakeHandler, Message
from mlgo.pool.local import LocalBackend
from mlgo.pool.messages import MOST
from mlgo.pool.schedule import WorkerName
from mlgo.pool.trees import ReplayStore

_WARM_UP = 500
_PAIRS = (10, 400)
_UPDATES = 5


@dataclass(frozen=True)
class DriverCost:
    """What a job costs the driver.

    Attributes:
        message_s: of one message and its answer, besides its jobs.
        job_s: of each job.
        send_share: how much of both passes before the job is on its way.
        job_bytes: pickled.
        result_bytes: pickled.
    """

    message_s: float
    job_s: float
    send_share: float
    job_bytes: int
    result_bytes: int


@dataclass(frozen=True)
class TreeCost:
    """What trees cost a worker, and what compiles for them take.

    Attributes:
        recall_s: of a walk, besides its questions.
        recall_question_s: of each question.
        load_byte_s: of reading a byte of a file.
        keep_s: of an addition, besides its bytes.
        keep_byte_s: of each byte that it appends.
        compile_s: processor time of recorded compiles, by module.
        spread: standard deviation of its logarithm within a module.
        leaf_bytes: what a further compile appends, by module.
    """

    recall_s: float
    recall_question_s: float
    load_byte_s: float
    keep_s: float
    keep_byte_s: float
    compile_s: Mapping[str, float]
    spread: float
    leaf_bytes: Mapping[str, float]


def candidates_of(start: Policy, es: ESConfig, num: int, seed: int) -> list[Policy]:
    """Policies around a start, as a generation has them."""
    coordinates = coordinates_of(start, es)
    rng = generator(seed, "bench", "planning")
    points = rng.standard_normal((num, coordinates.varied.size)) * es.perturbation
    return [start.with_weights(weights) for weights in coordinates.weights(points)]


def measure_driver(
    start: Policy,
    es: ESConfig,
    modules: Sequence[ScoredModule],
    bitcode: Mapping[str, Path],
    outcome: CompileOutcome,
    num: int,
    make_backend: Callable[[MakeHandler], Backend] = LocalBackend,
) -> DriverCost:
    """Send real jobs to two workers that answer at once with a real outcome.

    Args:
        start: policy whose variants the jobs carry.
        es: how they vary.
        modules: of the jobs.
        bitcode: file by module key.
        outcome: what every job is answered with.
        num: jobs.
        make_backend: kind of worker.
    """
    single, batched = (
        _driver_seconds(start, es, modules, bitcode, make_backend(_MakeParrot(outcome)), num, most)
        for most in (1, MOST)
    )
    message_s = max(0.0, (single.seconds - batched.seconds) / (1.0 - batched.messages))
    job = _job(candidates_of(start, es, 1, 0)[0], modules[0], bitcode)
    return DriverCost(
        message_s,
        max(0.0, single.seconds - message_s),
        single.send_share,
        len(pickle.dumps((1, job))),
        len(pickle.dumps((1, outcome))),
    )


class _Timed:
    """Hands everything on to a backend, and counts messages and the time that sending takes."""

    def __init__(self, backend: Backend, most: int) -> None:
        self._backend, self.depth, self.most = backend, backend.depth, min(most, backend.most)
        self.num_messages, self.send_s = 0, 0.0

    def send(self, worker: WorkerName, jobs: Message) -> None:
        begin = time.thread_time()
        self._backend.send(worker, jobs)
        self.send_s += time.thread_time() - begin
        self.num_messages += 1

    def __getattr__(self, name: str) -> Any:
        return getattr(self._backend, name)


@dataclass(frozen=True)
class _Driven:
    """For each job: seconds of the driver, all its threads, and messages; and the share until a job is on its way."""

    seconds: float
    messages: float
    send_share: float


def _driver_seconds(
    start: Policy,
    es: ESConfig,
    modules: Sequence[ScoredModule],
    bitcode: Mapping[str, Path],
    backend: Backend,
    num: int,
    most: int,
) -> _Driven:
    making = 0.0

    def jobs(number: int) -> Iterator[CompileJob]:
        nonlocal making
        begin = time.thread_time()
        made = (
            _job(policy, one, bitcode)
            for policy in candidates_of(start, es, -(-number // len(modules)), 0)
            for one in modules
        )
        for job in itertools.islice(made, number):
            making += time.thread_time() - begin
            yield job
            begin = time.thread_time()

    timed = _Timed(backend, most)
    with Pool[CompileJob, CompileOutcome](timed, 2) as pool:
        for _ in pool.map(jobs(_WARM_UP), _hint):
            pass  # workers start with their first job, and messages grow
        timed.num_messages, timed.send_s, making = 0, 0.0, 0.0
        begin = time.process_time()
        scores = [outcome.score("text_bytes") for _, outcome in pool.map(jobs(num), _hint)]  # type: ignore[union-attr]
        seconds = time.process_time() - begin
    return _Driven(seconds / len(scores), timed.num_messages / len(scores), (timed.send_s + making) / seconds)


def _hint(job: CompileJob) -> Hint:
    return Hint(job.module)


@dataclass(frozen=True)
class _MakeParrot:
    """Makes a worker that answers every job alike, at once."""

    outcome: CompileOutcome

    def __call__(self) -> Any:
        return lambda job: self.outcome


def _job(policy: Policy, one: ScoredModule, bitcode: Mapping[str, Path]) -> CompileJob:
    return CompileJob(one.module.key, bitcode[one.module.key], policy, sha256=one.module.sha256)


def measure_trees(
    toolchain: Toolchain,
    settings: CompileConfig,
    es: ESConfig,
    start: Policy,
    modules: Sequence[ScoredModule],
    bitcode: Mapping[str, Path],
    store: ReplayStore,
    num_candidates: int,
) -> tuple[TreeCost, CompileOutcome]:
    """Compile modules under candidates in this process, add them to trees, walk them, and read the files anew.

    Args:
        toolchain: compiler to use.
        settings: of compiles.
        es: how candidates vary.
        start: policy around which they lie.
        modules: what is compiled.
        bitcode: file by module key.
        store: trees, empty.
        num_candidates: under how many each module is compiled.

    Returns:
        The costs, and an outcome as workers send them, of median length.
    """
    compiler, memory = MakeCompiler(toolchain, start.task, settings)(), TreeMemory(store)
    policies = candidates_of(start, es, num_candidates, 1)
    compile_s: dict[str, list[float]] = {}
    kept: list[tuple[float, float]] = []  # bytes, seconds
    leaves: dict[str, list[float]] = {}
    samples: list[tuple[int, CompileOutcome]] = []
    work = [(one, policy) for one in modules for policy in policies]
    for one, policy in tqdm(work, "compiles and trees", unit="compile", disable=None):
        found = memory.recall(_job(policy, one, bitcode))
        if found.result is not None:
            continue
        begin = _processor_s()
        outcome = compiler(found.job)
        compile_s.setdefault(one.module.key, []).append(_processor_s() - begin)
        if outcome.result is None:
            continue
        before, begin = _file_bytes(store, one.module.sha256), time.thread_time()
        memory.keep(found.job, outcome.result)
        seconds = time.thread_time() - begin
        appended = _file_bytes(store, one.module.sha256) - before
        kept.append((appended, seconds))
        if before:
            leaves.setdefault(one.module.key, []).append(appended)
        sent = replace(memory.complete(found, outcome.result), observations=b"")  # as workers do
        samples.append((sent.num_questions, CompileOutcome(sent)))
    assert samples
    recalls = _recalls(memory, policies + candidates_of(start, es, num_candidates, 2), modules, bitcode)
    loaded = [_load(store, one.module.sha256) for one in modules if _file_bytes(store, one.module.sha256)]
    recall_s, recall_question_s = _line(recalls)
    keep_s, keep_byte_s = _line(kept)
    logs = [np.log(times) - np.log(times).mean() for times in compile_s.values() if len(times) > 1]
    return (
        TreeCost(
            recall_s,
            recall_question_s,
            sum(seconds for _, seconds in loaded) / max(1.0, sum(num for num, _ in loaded)),
            keep_s,
            keep_byte_s,
            {key: float(np.median(times)) for key, times in compile_s.items()},
            float(np.sqrt(np.mean(np.concatenate(logs) ** 2))) if logs else 0.0,
            {key: float(np.mean(sizes)) for key, sizes in leaves.items()},
        ),
        sorted(samples, key=lambda one: one[0])[len(samples) // 2][1],
    )


def _processor_s() -> float:
    """Of this thread and of all children that have ended."""
    children = resource.getrusage(resource.RUSAGE_CHILDREN)
    return time.thread_time() + children.ru_utime + children.ru_stime


def _file_bytes(store: ReplayStore, sha256: str) -> int:
    return store.file_bytes(sha256) if sha256 in store.modules() else 0


def _recalls(
    memory: TreeMemory, policies: Sequence[Policy], modules: Sequence[ScoredModule], bitcode: Mapping[str, Path]
) -> list[tuple[float, float]]:
    """Questions and seconds of walks down trees that are in memory."""
    found = []
    for one in modules:
        for policy in policies:
            begin = time.thread_time()
            recalled = memory.recall(_job(policy, one, bitcode))
            seconds = time.thread_time() - begin
            known = recalled.job.known
            if recalled.result is not None:
                found.append((float(recalled.result.num_questions), seconds))
            elif known is not None:
                found.append((float(known.num_questions), seconds))
    return found


def _load(store: ReplayStore, sha256: str) -> tuple[float, float]:
    """Bytes and seconds of reading a tree that is on disk alone."""
    fresh = store.shared_by(1)
    begin = time.thread_time()
    fresh.load(sha256)
    return float(store.file_bytes(sha256)), time.thread_time() - begin


def _line(points: Sequence[tuple[float, float]]) -> tuple[float, float]:
    """Intercept and slope, neither below 0, that fit points best."""
    from scipy.optimize import nnls

    x, y = np.array(points, np.float64).reshape(-1, 2).T
    (intercept, slope), _ = nnls(np.column_stack([np.ones_like(x), x]), y)
    return float(intercept), float(slope)


def measure_learner(start: Policy, es: ESConfig, folder: Path) -> tuple[float, float]:
    """Seconds of the learner's step with its checkpoint: for each generation, and for each of its candidates."""
    points = []
    for pairs in _PAIRS:
        settings = es.model_copy(update={"pairs": pairs, "generations": _UPDATES, "validate_every": 10**9})
        rng = generator(0, "bench", "learner")

        def evaluate(candidates: np.ndarray, generation: int, rng: np.random.Generator = rng) -> np.ndarray:
            return rng.standard_normal((len(candidates), 1)) * 1e-3

        def after_generation(state: EsState, rewards: np.ndarray) -> None:
            save_state(state, folder / "checkpoint.npz")

        coordinates = coordinates_of(start, settings)
        begin = time.thread_time()
        evolve(coordinates, evaluate, lambda weights: 0.0, settings, 0, None, after_generation)
        points.append((2.0 * pairs, (time.thread_time() - begin) / _UPDATES))
    return _line(points)
