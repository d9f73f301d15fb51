"""Generations on a cluster, event by event.

A driver wakes up when answers have come, reads all of them, hands out what its schedule says and sleeps again; it is
one thread. A worker walks its job's policy down the module's tree, after reading what has been added to the file since
its last look, and compiles where the tree does not know the outcome; it then adds the compile under the lock of the
file. When all of a generation is back, the learner takes its time, and the next one begins.

Several trainings share all cores as nested workers do (`mlgo.pool.nesting`): each has a driver and a stub on every
core, a core works through one message after another, and where messages wait the turns decide (`mlgo.pool.fair`).
"""

import heapq
import itertools
from collections import deque
from collections.abc import Callable, Generator, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

import numpy as np
import simpy

from benchmarks.planning.cluster import Cluster, Placing
from benchmarks.planning.costs import UnitCosts
from benchmarks.planning.generations import Generation
from benchmarks.planning.workload import ModuleLoad
from mlgo.pool.fair import FairShare
from mlgo.pool.messages import AT_ONCE_S, message_size, next_wanted
from mlgo.pool.schedule import Hint, Schedule, Task

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
        messages: in which the evaluations were sent; those that were left are sent again.
        stolen: tasks taken from another worker's module.
        cold: first looks of a worker at a module that had a tree.
        read_bytes: of trees, read by workers.
        busy: what was in use for how long.
    """

    ends: list[list[float]]
    asked: int = 0
    compiled: int = 0
    repeated: int = 0
    messages: int = 0
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
    """Run trainings side by side on the same cores; one training may have several drivers.

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


class _Core:
    """Works through messages one after another, those of the lowest rank first."""

    def __init__(self) -> None:
        self.messages: list[tuple[float, int, _Worker, list[Task[Job]]]] = []  # a heap
        self.works = False


class _Worker:
    """What a driver knows of a core, and what it keeps warm there."""

    def __init__(self, number: int, driver: "_Driver", core: _Core) -> None:
        self.number, self.driver, self.core = number, driver, core
        self.num_held, self.wanted = 0, 1
        self.read: dict[int, float] = {}  # bytes of each tree that it has in memory


class _Driver:
    def __init__(self, env: simpy.Environment, placing: Placing) -> None:
        self.schedule: Schedule[Job] = Schedule(
            affinity=placing.affinity, stealing=placing.stealing, large_first=placing.large_first
        )
        self.workers: list[_Worker] = []
        self.answers: list[tuple[_Worker, list[Task[Job]], list[Task[Job]]]] = []  # done, and left
        self.incoming: Iterator[Job] = iter(())  # of the present generation
        self.more = False  # to take from it
        self.turns: FairShare | None = None
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
        self._positions, self._arrivals = itertools.count(), itertools.count()
        self._left = [0] * num_trainings
        self._over: list[simpy.Event] = [self._env.event() for _ in range(num_trainings)]
        cores = [_Core() for _ in range(cluster.cores)]
        if num_trainings > 1:
            self._drivers = [self._driver(cores, FairShare(len(cores))) for _ in range(num_trainings)]
        else:
            num = min(cluster.drivers, cluster.cores)
            self._drivers = [self._driver(cores[i::num], None) for i in range(num)]

    def _driver(self, cores: Sequence[_Core], turns: FairShare | None) -> _Driver:
        driver = _Driver(self._env, self._placing)
        driver.workers = [_Worker(number, driver, core) for number, core in enumerate(cores)]
        driver.free, driver.turns = set(driver.workers), turns
        return driver

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
        env, costs = self._env, self._costs
        drivers = [self._drivers[training]] if len(self._left) > 1 else self._drivers
        for generation in generations:
            self._left[training] = len(generation)
            self._over[training] = env.event()
            per_candidate = max(1, len(generation) // max(1, generation.num_candidates))
            for i, driver in enumerate(drivers):
                driver.incoming = _jobs(training, generation, per_candidate, i, len(drivers))
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
            seconds = 0.0
            for worker, done, left in answers:
                seconds += receive * (costs.driver_message_s + costs.driver_job_s * len(done))
                worker.num_held -= 1
                worker.wanted = next_wanted(worker.wanted, len(done) + len(left), len(done), self._cluster.most)
                driver.free.add(worker)
                for task in left:
                    driver.schedule.add(task)
                    driver.barren.clear()
            if seconds:
                course.busy.driver += seconds
                yield env.timeout(seconds)
            for _, done, _ in answers:
                self._count(done)
            sending = self._dispatch(driver)
            if sending:
                course.busy.driver += sending
                yield env.timeout(sending)

    def _dispatch(self, driver: _Driver) -> float:
        """Fill the free workers; returns how long the driver takes for that."""
        costs, cluster = self._costs, self._cluster
        seconds = 0.0
        self._refill(driver)
        while driver.free and len(driver.schedule):
            given = False
            for worker in sorted(driver.free - driver.barren, key=lambda one: (one.num_held, one.number)):
                if not len(driver.schedule):
                    break
                size = message_size(worker.wanted, len(driver.schedule), len(driver.workers), driver.more)
                tasks = [task for _ in range(size) if (task := driver.schedule.take(worker)) is not None]
                if not tasks:
                    driver.barren.add(worker)
                    continue
                given = True
                seconds += costs.driver_send_share * (costs.driver_message_s + costs.driver_job_s * len(tasks))
                sent = self._env.now + seconds
                self._course.messages += 1
                rank = driver.turns.asks(self._env.now) if driver.turns else 0.0
                arrives = driver.out.served(sent, costs.job_bytes * len(tasks) / cluster.network.bytes_per_s)
                self._env.process(self._deliver(worker, tasks, rank, arrives + cluster.network.latency_s))
                worker.num_held += 1
                if worker.num_held >= cluster.depth:
                    driver.free.remove(worker)
            if not given:
                break
        return seconds

    def _refill(self, driver: _Driver) -> None:
        """Take jobs while few enough wait."""
        schedule = driver.schedule
        driver.more = True
        while len(schedule) < self._cluster.lookahead:
            if (job := next(driver.incoming, None)) is None:
                driver.more = False
                break
            hint = self._tree(job.module).hint
            schedule.add(Task(next(self._positions), job, hint))
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

    def _deliver(self, worker: _Worker, tasks: list[Task[Job]], rank: float, at: float) -> Steps:
        yield self._env.timeout(at - self._env.now)
        core = worker.core
        heapq.heappush(core.messages, (rank, next(self._arrivals), worker, tasks))
        if core.works:
            return
        core.works = True
        while core.messages:
            _, _, whose, message = heapq.heappop(core.messages)
            yield from self._work_through(whose, message)
        core.works = False

    def _work_through(self, worker: _Worker, tasks: list[Task[Job]]) -> Steps:
        """Do the first job, and the others as long as that is possible at once, as `mlgo.pool.worker` does."""
        begin, done = self._env.now, 0
        while not done or (done < len(tasks) and self._env.now < begin + AT_ONCE_S):
            yield from self._evaluate(worker, tasks[done].job)
            done += 1
        if worker.driver.turns:
            worker.driver.turns.ends(self._env.now - begin)
        self._answer(worker, tasks[:done], tasks[done:])

    def _answer(self, worker: _Worker, done: list[Task[Job]], left: list[Task[Job]]) -> None:
        env, network, driver = self._env, self._cluster.network, worker.driver
        back = driver.back.served(env.now, self._costs.result_bytes * len(done) / network.bytes_per_s)
        delay = back + network.latency_s - env.now

        def arrived(event: object) -> None:
            driver.answers.append((worker, done, left))
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
