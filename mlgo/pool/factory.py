"""From the configuration to a pool."""

from typing import Any

from mlgo.base.config import WorkersConfig
from mlgo.pool.backend import Backend, MakeHandler
from mlgo.pool.local import LocalBackend
from mlgo.pool.pool import Pool
from mlgo.pool.serial import SerialBackend


def open_pool(
    config: WorkersConfig, num_workers: int, make_handler: MakeHandler, *, deadline_s: float | None = None
) -> Pool[Any, Any]:
    """Open the pool that the configuration names.

    Args:
        config: where workers run.
        num_workers: how many, unless the configuration says.
        make_handler: see `MakeHandler`.
        deadline_s: time that a job may take.

    Raises:
        WorkerError: there are no such workers.
    """
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
        return Pool(backend, config.num_workers or backend.num_cores, retries=config.retries)
    else:
        backend = LocalBackend(make_handler)
    return Pool(backend, wanted, retries=config.retries, deadline_s=deadline_s)
