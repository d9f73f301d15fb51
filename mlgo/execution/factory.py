"""From the configuration to a pool."""

from typing import Any

from mlgo.core.config import WorkersConfig
from mlgo.execution.address import DEFAULT_ADDRESS, Address
from mlgo.execution.backend import Backend, MakeHandler
from mlgo.execution.local import LocalBackend
from mlgo.execution.nested import NestedBackend
from mlgo.execution.pool import Pool
from mlgo.execution.serial import SerialBackend


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
        from mlgo.execution.ray_backend import RayBackend  # Ray is an extra

        backend = RayBackend(make_handler, config)
        wanted = config.num_workers or backend.num_cpus
    elif config.kind == "nested":
        shared = NestedBackend(Address.of(config.address or DEFAULT_ADDRESS), make_handler)
        backend, wanted = shared, config.num_workers or shared.num_nesting
    else:
        backend = LocalBackend(make_handler)
    return Pool(backend, wanted, retries=config.retries, deadline_s=deadline_s)
