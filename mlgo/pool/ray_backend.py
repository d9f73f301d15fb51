"""Workers that are actors of a Ray cluster."""

import threading
import time
import uuid
from collections.abc import Collection, Sequence
from concurrent.futures import Future
from pathlib import Path
from typing import Any

from mlgo.base.config import WorkersConfig
from mlgo.errors import WorkerError
from mlgo.pool import cluster
from mlgo.pool.pool import Answered, Backend, Event, Gone
from mlgo.pool.ray_worker import FileSource, RayWorker, pack
from mlgo.pool.schedule import WorkerName
from mlgo.pool.worker import MakeHandler, Message, Raised

_END_TIMEOUT_S = 5.0
_FILE_CALLS = 8
_MAX_FAILED_STARTS = 5
"""Actors in a row that die before they are ready."""


class RayBackend(Backend):
    """Actors of a Ray cluster, each on a CPU of its own, see `Backend`.

    An actor starts when there is work for it, which is what makes a cluster grow, and ends when there has been none for
    a while, so that a cluster may shrink. A node that dies takes its actors along; others take their place.

    Args:
        make_handler: see `MakeHandler`. It may have a method ``moved_to(folder, read)``, which gives what to call on a
            machine that does not see the driver's files, and a method ``check()``, which raises `MlgoError` where
            something is missing.
        release_after_s: time without work after which actors end.
    """

    depth = 2  # one message waits at a worker's side: the way to a node takes about a millisecond

    def __init__(self, make_handler: MakeHandler, config: WorkersConfig, release_after_s: float = 60.0) -> None:
        self._ray = cluster.connect(config.address, config.files)
        self._errors = errors = self._ray.exceptions
        self._deaths = (errors.ActorDiedError, errors.ActorUnavailableError, errors.WorkerCrashedError)
        self._inbox = cluster.Inbox(self._ray.get_runtime_context().gcs_address)
        self._config, self._release_after_s = config, release_after_s
        self._folder = str(Path.cwd())
        self._run = f"ray-{uuid.uuid4().hex[:12]}"
        self._here = cluster.versions()
        self._actors: dict[WorkerName, Any] = {}
        self._ready: set[WorkerName] = set()
        self._failed_starts = 0
        self._waiting_since: float | None = None
        self._releasing: threading.Timer | None = None
        self._changing = threading.Lock()
        self._source: Any = None
        try:
            self._packed = pack(make_handler)
            # A cancellation does not wait for its turn.
            self._actor = self._ray.remote(
                num_cpus=1, max_restarts=0, max_task_retries=0, concurrency_groups={"now": 1}
            )(type("Worker", (RayWorker,), {"cancel": self._ray.method(concurrency_group="now")(RayWorker.cancel)}))
            if config.files == "send":
                source = self._ray.remote(num_cpus=0, max_concurrency=_FILE_CALLS)(FileSource)
                here = cluster.on_this_machine(self._ray)
                self._source = source.options(scheduling_strategy=here).remote(self._folder)
        except BaseException:
            cluster.disconnect()
            raise

    @property
    def num_cpus(self) -> int:
        """CPUs that the cluster has now."""
        return max(1, int(self._ray.cluster_resources().get("CPU", 1)))

    def ready(self, worker: WorkerName) -> bool:
        with self._changing:
            self._stay()
            if worker not in self._actors:
                self._start(worker)
            return worker in self._ready

    def _start(self, worker: WorkerName) -> None:
        if self._waiting_since is None:
            self._waiting_since = time.monotonic()
        actor = self._actor.options(scheduling_strategy="SPREAD").remote(self._run, self._source, self._folder)
        self._actors[worker] = actor
        self._inbox.expect(actor.begin.remote(self._packed), (worker, actor, True))

    def send(self, worker: WorkerName, jobs: Message) -> None:
        first, _ = jobs[0]
        actor = self._actors[worker]
        try:
            self._inbox.expect(actor.run.remote(first, pack(jobs)), (worker, actor, False))
        except self._errors.ObjectStoreFullError as error:
            raise self._store_full() from error

    def cancel(self, worker: WorkerName, ticket: int) -> None:
        self._actors[worker].cancel.remote(ticket)

    def wait(self, timeout_s: float | None) -> Sequence[Event]:
        limit = self._seconds_to_start()
        arrivals = self._inbox.take(timeout_s, limit)
        if not arrivals and limit is not None and self._seconds_to_start() == 0.0:
            limit_s, free = self._config.start_timeout_s, self._ray.available_resources().get("CPU", 0)
            raise WorkerError(
                f"no Ray worker has started within workers.start_timeout_s ({limit_s:g} s): the cluster has "
                f"{self.num_cpus} CPUs, {free:g} of them free; wait until others have finished, {cluster.LOCAL_INSTEAD}"
            )
        return [event for about, future in arrivals if (event := self._event(about, future)) is not None]

    def _event(self, about: tuple[WorkerName, Any, bool], future: "Future[Any]") -> Event | None:
        worker, actor, starts = about
        if self._actors.get(worker) is not actor:  # killed in the meantime
            return None
        try:
            result = future.result()
        except self._deaths as error:
            return self._gone(worker, error)
        except (self._errors.RuntimeEnvSetupError, self._errors.ActorUnschedulableError) as error:
            raise WorkerError(
                f"Ray cannot start a worker: {cluster.first_line(error)}; {cluster.LOCAL_INSTEAD}"
            ) from error
        except (self._errors.ObjectStoreFullError, self._errors.OutOfDiskError) as error:
            raise self._store_full() from error
        if not starts:
            return Answered(worker, *result)
        node, there, failure = result
        cluster.check_versions(self._here, there, node)
        if isinstance(failure, Raised):
            raise failure.error
        self._ready.add(worker)
        self._waiting_since, self._failed_starts = None, 0
        return None

    def _gone(self, worker: WorkerName, error: Exception) -> Gone:
        started = worker in self._ready
        self.kill(worker)  # whatever else comes of it says the same
        if "node has died" in str(error) or "node was terminated" in str(error):  # Ray tells it in words alone
            return Gone(worker, None, "its Ray node is gone")
        if not started:
            self._failed_starts += 1
            if self._failed_starts >= _MAX_FAILED_STARTS:
                raise WorkerError(
                    f"{self._failed_starts} Ray actors in a row died while they started, the last with: "
                    f"{cluster.first_line(error)}; see ray logs, {cluster.LOCAL_INSTEAD}"
                ) from error
        return Gone(worker, None, f"its Ray actor died ({cluster.first_line(error)})")

    def kill(self, worker: WorkerName) -> None:
        self._ready.discard(worker)
        actor = self._actors.pop(worker, None)
        if actor is not None:
            self._ray.kill(actor, no_restart=True)

    def idle(self) -> None:
        with self._changing:
            if self._releasing is None:
                self._releasing = threading.Timer(self._release_after_s, self._release)
                self._releasing.daemon = True
                self._releasing.start()

    def _stay(self) -> None:
        if self._releasing is not None:
            self._releasing.cancel()
            self._releasing = None

    def _release(self) -> None:
        with self._changing:
            if self._releasing is not None:  # else there was work in the last moment
                self._releasing = None
                self._end(list(self._actors))

    def _end(self, workers: Collection[WorkerName]) -> None:
        """End actors after they have removed what they keep on their machines."""
        ends = [self._actors[worker].end.remote() for worker in workers if worker in self._ready]
        if ends:
            self._ray.wait(ends, num_returns=len(ends), timeout=_END_TIMEOUT_S)
        for worker in workers:
            self.kill(worker)

    def close(self) -> None:
        with self._changing:
            self._stay()
        if not self._ray.is_initialized():
            return
        self._end(list(self._actors))
        if self._source is not None:
            self._ray.kill(self._source)
        cluster.disconnect()

    def _seconds_to_start(self) -> float | None:
        """Time left until somebody must have started; None when somebody has."""
        if self._ready or self._waiting_since is None:
            return None
        return max(0.0, self._waiting_since + self._config.start_timeout_s - time.monotonic())

    def _store_full(self) -> WorkerError:
        return WorkerError(
            "Ray's object store is full; start the nodes with a larger --object-store-memory, "
            f"set workers.files: shared, {cluster.LOCAL_INSTEAD}"
        )
