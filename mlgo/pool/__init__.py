"""Where rollouts run: in this process, in others of this machine, or on a cluster, behind one interface."""

from typing import Any

from mlgo.base.config import WorkersConfig
from mlgo.pool.local import LocalBackend, SerialBackend
from mlgo.pool.pool import Backend, Pool, WorkerLost
from mlgo.pool.schedule import Hint
from mlgo.pool.worker import MakeHandler

__all__ = ["Hint", "LocalBackend", "Pool", "WorkerLost", "open_pool"]


def open_pool(
    config: WorkersConfig, num_workers: int, make_handler: MakeHandler, *, deadline_s: float | None = None
) -> Pool[Any, Any]:
    """Open the pool that the configuration names, with so many workers unless it says how many."""
    wanted = config.num_workers or num_workers
    backend: Backend
    if config.kind == "serial":
        backend, wanted = SerialBackend(make_handler), 1
    elif config.kind == "ray":
        from mlgo.pool.ray_backend import RayBackend  # Ray is an extra

        backend = RayBackend(make_handler, config)
        wanted = config.num_workers or backend.num_cpus
    elif config.kind == "nested":
        from mlgo.pool.nested import NestedBackend

        backend = NestedBackend(config.address, make_handler, deadline_s)
        wanted, deadline_s = config.num_workers or backend.num_cores, None  # waiting for others does not count
    else:
        backend = LocalBackend(make_handler)
    return Pool(backend, wanted, retries=config.retries, deadline_s=deadline_s)
