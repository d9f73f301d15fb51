"""From the configuration to a pool."""

from typing import Any

from mlgo.core.config import WorkersConfig
from mlgo.execution.address import DEFAULT_ADDRESS, Address
from mlgo.execution.crew import Crew, MakeHandler
from mlgo.execution.local import LocalCrew
from mlgo.execution.nested import NestedCrew
from mlgo.execution.pool import Pool
from mlgo.execution.serial import SerialCrew


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
    crew: Crew
    if config.kind == "serial":
        crew, wanted = SerialCrew(make_handler), 1
    elif config.kind == "ray":
        from mlgo.execution.ray_crew import RayCrew  # Ray is an extra

        crew = RayCrew(make_handler, config)
        wanted = config.num_workers or crew.num_cpus
    elif config.kind == "nested":
        shared = NestedCrew(Address.of(config.address or DEFAULT_ADDRESS), make_handler)
        crew, wanted = shared, config.num_workers or shared.num_nesting
    else:
        crew = LocalCrew(make_handler)
    return Pool(crew, wanted, retries=config.retries, deadline_s=deadline_s)
