"""Measurements of a small imaginary machine, in the form in which ``--measure`` leaves them."""

from typing import Any

from benchmarks.planning.costs import UnitCosts, costs_record
from benchmarks.planning.measure import HOW
from benchmarks.planning.novelty import Novelty
from benchmarks.planning.workload import ModuleLoad, Workload

COSTS = UnitCosts(1e-4, 2e-4, 0.5, 3e3, 1e3, 1e-4, 1e-6, 1e-8, 5e-4, 1e-8, 1e-3, 1e-5)
WORKLOAD = Workload(
    tuple(ModuleLoad(f"p/{i}.c", 0.05 * (i + 1), 40 * i + 10, 4000 * (i + 1), 0.0, 900.0) for i in range(5)),
    0.05,
    tuple(Novelty(0.1 * i, 2.0) for i in range(5)),
)


def measured() -> dict[str, Any]:
    comparison = {
        "workers": 2,
        "generations": 3,
        "measured_s": 10.0,
        "replayed_s": 9.5,
        "replayed_error": 0.05,
        "drawn_s": 9.0,
        "drawn_worker_s": 17.0,
        "compiled": 40,
        "replayed_compiled": 41,
        "drawn_compiled": 39.0,
        "slowdown": 1.2,
        "asked": 120,
        "driver_task_s": 3e-4,
        "learner_s": 1e-3,
        "workers_cpu_s": 18.0,
    }
    drivers = {
        "local": {"message_s": 1e-4, "job_s": 2e-4, "send_share": 0.5, "job_bytes": 3000, "result_bytes": 1000},
        "ray": {"message_s": 1e-3, "job_s": 2e-4, "send_share": 0.7, "job_bytes": 3000, "result_bytes": 1000},
    }
    machine = {"cores": 2, "system": "Linux x86_64", "python": "3.11", "compiler": "22.1.8", "load": 0.5}
    return {
        "machine": machine,
        "costs": costs_record(COSTS, HOW),
        "drivers": drivers,
        "workload": WORKLOAD.record(),
        "validation": [comparison],
    }
