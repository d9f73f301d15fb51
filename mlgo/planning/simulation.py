"""Generations on a cluster, event by event.

A driver wakes up when answers have come, reads all of them, looks at all its workers, hands out what its schedule says
and sleeps again; it is one thread. A worker walks its job's policy down the module's tree, after reading what has been
added to the file since its last look, and compiles where the tree does not know the outcome; it then adds the compile
under the lock of the file. When all of a generation is back, the learner takes its time, and the next one begins.
"""

import itertools
from collections import deque
from collections.abc import Callable, Generator, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

import numpy as np
import simpy

from mlgo.planning.cluster import Cluster, Placing
from mlgo.planning.costs import UnitCosts
from mlgo.planning.generations import Generation
from mlgo.planning.workload import ModuleLoad
from mlgo.workers.schedule import Hint, Schedule, Task

Steps = Generator[simpy.Event, None, None]


class Job(NamedTuple):
    """One evaluation on its way."""

    training: int
    module: int
    outcome: int
    seconds: float


@dataclass
class Busy:
    """Seconds for which something was in use, all together where there are several.

    Attributes:
        compiling: compilers.
        recalling: workers that walk trees.
        loading: workers that read what the files hold.
        keeping: workers that add compiles.
        waiting: workers that wait for a lock or for the file server.
        driver: drivers.
        learner: learners.
        server: the file server.
        link: the drivers' links, the busier way.
        lock: the lock of the one file that was held longest.
    """

    compiling: float = 0.0
    recalling: float = 0.0
    loading: float = 0.0
    keeping: float = 0.0
    waiting: float = 0.0
    driver: float = 0.0
    learner: float = 0.0
    server: float = 0.0
    link: float = 0.0
    lock: float = 0.0

    @property
    def worker(self) -> float:
        """Workers with work in hand, waiting not counted."""
        return self.compiling + self.recalling + self.loading + self.keeping


@dataclass
class Course:
    """What a simulation has shown.

    Attributes:
        ends: by training, the moment at which each of its generations was over, the learner's step included.
        asked: evaluations.
        compiled: of these, those that no tree knew.
        repeated: compiles whose outcome somebody else was compiling at the same time.
        stolen: tasks taken from another worker's module.
        cold: first looks of a worker at a module that had a tree.
        read_bytes: of trees, read by workers.
        busy: what was in use for how long.
    """

    ends: list[list[float]]
    asked: int = 0
    compiled: int = 0
    repeated: int = 0
    stolen: int = 0
    cold: int = 0
    read_bytes: float = 0.0
    busy: Busy = field(default_factory=Busy)

    @property
    def seconds(self) -> float:
        """When the last training was over."""
        return max(ends[-1] for ends in self.ends)


def simulate(
    modules: Sequence[ModuleLoad],
    costs: UnitCosts,
    cluster: Cluster,
    placing: Placing,
    trainings: Sequence[Iterable[Generation]],
    progress: Callable[[int], object] = lambda num: None,
) -> Course:
    """Run trainings side by side on the same workers.

    Args:
        modules: what their generations number; numbers beyond are copies.
        costs: of single steps.
        cluster: what they run on.
        placing: how the drivers schedule.
        trainings: generations of each.
        progress: told how many evaluations are done, now and then.
    """
    return _Simulation(modules, costs, cluster, placing, len(trainings), progress).run(trainings)


class _Tree:
    """The trees of a module on disk."""

    def __init__(self, load: ModuleLoad, hint: Hint) -> None:
        self.load, self.hint = load, hint
        self.bytes = load.tree_bytes
        self.known: set[tuple[int, int]] = set()  # outcomes by training
        self.compiling: dict[tuple[int, int], int] = {}
        self.locked = False
        self.waiting: deque[simpy.Event] = deque()  # for the lock
        self.lock_s = 0.0


class _Queue:
    """Serves one after another: a server or a link."""

    def __init__(self) -> None:
        self.free_at = self.busy_s = 0.0

    def served(self, now: float, seconds: float) -> float:
        """When what comes now is done."""
        self.busy_s += seconds
        self.free_at = max(self.free_at, now) + seconds
        return self.free_at


class _Worker:
    def __init__(self, number: int, driver: "_Driver") -> None:
        self.number, self.driver = number, driver
        self.messages: deque[list[Task[Job]]] = deque()
        self.num_held = 0
        self.works = False
        self.read: dict[int, float] = {}  # bytes of each tree that it has in memory


class _Driver:
    def __init__(self, env: simpy.Environment, placing: Placing) -> None:
        self.schedule: Schedule[Job] = Schedule(
            affinity=placing.affinity, stealing=placing.stealing, large_first=placing.large_first
        )
        self.workers: list[_Worker] = []
        self.answers: list[tuple[_Worker, list[Task[Job]]]] = []
        self.incoming: deque[Iterator[Job]] = deque()  # of each training that has something to ask
        self.asked = False  # for more than it knows of
        self.out, self.back = _Queue(), _Queue()
        self.wake: simpy.Event = env.event()
        self.free: set[_Worker] = set()  # have room for a message
        self.barren: set[_Worker] = set()  # of these, the ones for which the schedule has nothing as it is


class _Simulation:
    def __init__(
        self,
        modules: Sequence[ModuleLoad],
        costs: UnitCosts,
        cluster: Cluster,
        placing: Placing,
        num_trainings: int,
        progress: Callable[[int], object],
    ) -> None:
        self._env = simpy.Environment()
        self._modules, self._costs, self._cluster, self._progress = modules, costs, cluster, progress
        self._placing = placing
        self._course = Course([[] for _ in range(num_trainings)])
        self._trees: dict[int, _Tree] = {}
        self._server = _Queue()
        self._positions = itertools.count()
        self._left = [0] * num_trainings
        self._over: list[simpy.Event] = [self._env.event() for _ in range(num_trainings)]
        self._drivers = [_Driver(self._env, placing) for _ in range(min(cluster.drivers, cluster.cores))]
        for number in range(cluster.cores):
            driver = self._drivers[number % len(self._drivers)]
            driver.workers.append(_Worker(number, driver))
        for driver in self._drivers:
            driver.free = set(driver.workers)

    def run(self, trainings: Sequence[Iterable[Generation]]) -> Course:
        env, course = self._env, self._course
        for driver in self._drivers:
            env.process(self._drive(driver))
        env.run(env.all_of([env.process(self._train(i, one)) for i, one in enumerate(trainings)]))
        busy = course.busy
        busy.server = self._server.busy_s
        busy.link = sum(max(driver.out.busy_s, driver.back.busy_s) for driver in self._drivers)
        busy.lock = max((tree.lock_s for tree in self._trees.values()), default=0.0)
        course.stolen = sum(driver.schedule.num_stolen for driver in self._drivers)
        return course

    def _train(self, training: int, generations: Iterable[Generation]) -> Steps:
        env, costs, num = self._env, self._costs, len(self._drivers)
        for generation in generations:
            self._left[training] = len(generation)
            self._over[training] = env.event()
            per_candidate = max(1, len(generation) // max(1, generation.num_candidates))
            for i, driver in enumerate(self._drivers):
                driver.incoming.append(_jobs(training, generation, per_candidate, i, num))
                driver.asked = True
                _wake(driver)
            if len(generation):
                yield self._over[training]
            update_s = costs.update_s + costs.update_candidate_s * generation.num_candidates
            self._course.busy.learner += update_s
            yield env.timeout(update_s)
            self._course.ends[training].append(env.now)

    def _drive(self, driver: _Driver) -> Steps:
        env, costs, course = self._env, self._costs, self._course
        receive = 1.0 - costs.driver_send_share
        while True:
            if not driver.answers and not driver.asked:
                driver.wake = env.event()
                yield driver.wake
            answers, driver.answers, driver.asked = driver.answers, [], False
            seconds = costs.driver_worker_s * len(driver.workers)
            for worker, tasks in answers:
                seconds += receive * (costs.driver_message_s + costs.driver_job_s * len(tasks))
                worker.num_held -= 1
                driver.free.add(worker)
            if seconds:
                course.busy.driver += seconds
                yield env.timeout(seconds)
            for _, tasks in answers:
                self._count(tasks)
            sending = self._hand_out(driver)
            if sending:
                course.busy.driver += sending
                yield env.timeout(sending)

    def _hand_out(self, driver: _Driver) -> float:
        """Fill the free workers; returns how long the driver takes for that."""
        costs, cluster = self._costs, self._cluster
        seconds = 0.0
        self._refill(driver)
        while driver.free and len(driver.schedule):
            given = False
            for worker in sorted(driver.free - driver.barren, key=lambda one: (one.num_held, one.number)):
                if not len(driver.schedule):
                    break
                tasks = [task for _ in range(cluster.batch) if (task := driver.schedule.take(worker)) is not None]
                if not tasks:
                    driver.barren.add(worker)
                    continue
                given = True
                seconds += costs.driver_send_share * (costs.driver_message_s + costs.driver_job_s * len(tasks))
                sent = self._env.now + seconds
                arrives = driver.out.served(sent, costs.job_bytes * len(tasks) / cluster.network.bytes_per_s)
                self._env.process(self._deliver(worker, tasks, arrives + cluster.network.latency_s))
                worker.num_held += 1
                if worker.num_held >= cluster.depth:
                    driver.free.remove(worker)
            if not given:
                break
        return seconds

    def _refill(self, driver: _Driver) -> None:
        """Take jobs from the trainings in turn while few enough wait."""
        incoming, schedule, room = driver.incoming, driver.schedule, self._cluster.lookahead - len(driver.schedule)
        while incoming and room > 0:
            job = next(incoming[0], None)
            if job is None:
                incoming.popleft()
                continue
            if len(incoming) > 1:
                incoming.rotate(-1)
            hint = self._tree(job.module).hint
            schedule.add(Task(next(self._positions), job, hint))
            room -= 1
            home = schedule.home(hint.group)
            if isinstance(home, _Worker) and not self._placing.stealing:
                driver.barren.discard(home)
            else:
                driver.barren.clear()

    def _count(self, tasks: list[Task[Job]]) -> None:
        for task in tasks:
            self._course.asked += 1
            self._left[task.job.training] -= 1
            if not self._left[task.job.training]:
                self._over[task.job.training].succeed()
        self._progress(len(tasks))

    def _deliver(self, worker: _Worker, tasks: list[Task[Job]], at: float) -> Steps:
        yield self._env.timeout(at - self._env.now)
        worker.messages.append(tasks)
        if worker.works:
            return
        worker.works = True
        while worker.messages:
            done = worker.messages.popleft()
            for task in done:
                yield from self._evaluate(worker, task.job)
            self._answer(worker, done)
        worker.works = False

    def _answer(self, worker: _Worker, tasks: list[Task[Job]]) -> None:
        env, network, driver = self._env, self._cluster.network, worker.driver
        back = driver.back.served(env.now, self._costs.result_bytes * len(tasks) / network.bytes_per_s)
        delay = back + network.latency_s - env.now

        def arrived(event: object) -> None:
            driver.answers.append((worker, tasks))
            _wake(driver)

        if delay > 0.0:
            timeout = env.timeout(delay)
            assert timeout.callbacks is not None
            timeout.callbacks.append(arrived)
        else:
            arrived(None)

    def _evaluate(self, worker: _Worker, job: Job) -> Steps:
        env, costs, course = self._env, self._costs, self._course
        tree = self._tree(job.module)
        outcome = (job.training, job.outcome)
        course.cold += job.module not in worker.read and tree.bytes > 0
        known = outcome in tree.known
        recall_s = costs.recall_s + costs.recall_question_s * tree.load.num_questions if tree.bytes else 0.0
        course.busy.recalling += recall_s
        unread, load_s = self._catch_up(worker, job, tree)
        yield self._access(self._cluster.store.recall_operations, unread, recall_s + load_s)
        if known:
            return
        course.compiled += 1
        course.repeated += outcome in tree.known or outcome in tree.compiling
        tree.compiling[outcome] = tree.compiling.get(outcome, 0) + 1
        course.busy.compiling += job.seconds
        yield env.timeout(job.seconds)
        asked = env.now
        if tree.locked:
            tree.waiting.append(turn := env.event())
            yield turn
        tree.locked, held = True, env.now
        course.busy.waiting += held - asked
        grows = 0.0 if outcome in tree.known else tree.load.leaf_bytes
        keep_s = costs.keep_s + costs.keep_byte_s * grows
        course.busy.keeping += keep_s
        unread, load_s = self._catch_up(worker, job, tree)
        yield self._access(self._cluster.store.keep_operations, unread + grows, keep_s + load_s)
        tree.lock_s += env.now - held
        tree.known.add(outcome)
        tree.bytes += grows
        worker.read[job.module] = tree.bytes
        tree.compiling[outcome] -= 1
        if not tree.compiling[outcome]:
            del tree.compiling[outcome]
        if tree.waiting:
            tree.waiting.popleft().succeed()  # the lock goes on without being open to anybody in between
        else:
            tree.locked = False

    def _catch_up(self, worker: _Worker, job: Job, tree: _Tree) -> tuple[float, float]:
        """Bytes that the worker has not read yet, and the time to take them in."""
        unread = tree.bytes - worker.read.get(job.module, 0.0)
        worker.read[job.module] = tree.bytes
        seconds = unread * self._costs.load_byte_s
        self._course.busy.loading += seconds
        self._course.read_bytes += unread
        return unread, seconds

    def _access(self, operations: int, num_bytes: float, seconds: float) -> simpy.Event:
        """The end of some work on a tree's file: what it takes on a local disk, and what a file server adds."""
        env, store = self._env, self._cluster.store
        served = self._server.served(env.now, operations / store.operations_per_s + num_bytes / store.bytes_per_s)
        wait_s = served - env.now + operations * store.operation_s
        self._course.busy.waiting += wait_s
        return env.timeout(wait_s + seconds)

    def _tree(self, module: int) -> _Tree:
        if module not in self._trees:
            load = self._modules[module % len(self._modules)]
            self._trees[module] = _Tree(load, Hint(str(module), load.bitcode_bytes))
        return self._trees[module]


def _jobs(training: int, generation: Generation, per_candidate: int, driver: int, num_drivers: int) -> Iterator[Job]:
    """Those of the candidates that are a driver's."""
    mine = np.arange(len(generation)) // per_candidate % num_drivers == driver
    columns = (generation.modules[mine], generation.outcomes[mine], generation.seconds[mine])
    for module, outcome, seconds in zip(*(column.tolist() for column in columns), strict=True):
        yield Job(training, module, outcome, seconds)


def _wake(driver: _Driver) -> None:
    if not driver.wake.triggered:
        driver.wake.succeed()
