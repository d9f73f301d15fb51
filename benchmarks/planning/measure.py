"""What planning needs to know of a machine: unit costs and a workload; and whether the simulation tells the truth."""

import os
import platform
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.planning.costs import UnitCosts, costs_record
from benchmarks.planning.novelty import Novelty, fit_novelty
from benchmarks.planning.real_generations import Run, fresh_outcomes, watch_generations
from benchmarks.planning.unit_costs import DriverCost, TreeCost, measure_driver, measure_learner, measure_trees
from benchmarks.planning.validation import Seen, compare
from benchmarks.planning.workload import ModuleLoad, Workload, read_modules
from mlgo.base.config import LOCAL_WORKERS, Config
from mlgo.base.scratch import scratch_directory
from mlgo.base.seeding import sample
from mlgo.corpus.store import unpack_bitcode
from mlgo.evaluate.memory import tree_key
from mlgo.evaluate.scored import ScoredModule, load_scored_modules, with_questions
from mlgo.host.tasks.task import get_task
from mlgo.host.toolchain import Toolchain
from mlgo.policy.policy import Policy
from mlgo.pool.backend import Backend, MakeHandler
from mlgo.pool.local import LocalBackend
from mlgo.pool.trees import ReplayStore


@dataclass(frozen=True)
class Effort:
    """How much to measure.

    Attributes:
        generations: real ones, for each number of workers.
        modules: of each; as many more are compiled alone.
        pairs: of directions; a generation has twice as many candidates.
        jobs: sent to workers that answer at once.
        candidates: under which each module is compiled, alone.
        ray: whether to measure actors of a Ray cluster on this machine, too.
    """

    generations: int
    modules: int
    pairs: int
    jobs: int = 4000
    candidates: int = 4
    ray: bool = False


HOW = {
    "driver_message_s": "driver's processor time of jobs sent alone, less that of jobs in long messages",
    "driver_job_s": "driver's processor time: job made, pickled, scheduled, sent, its answer read; the rest",
    "driver_send_share": "share of it until the job is written to the pipe",
    "job_bytes": "pickle of a compile job with its policy",
    "result_bytes": "pickle of a real outcome",
    "recall_s": "thread time of walks down trees in memory, over their questions: intercept",
    "recall_question_s": "the same: slope",
    "load_byte_s": "thread time of loading trees from files that the system has cached, over their bytes",
    "keep_s": "thread time of adding compiles to trees (lock, append, no fsync), over the bytes appended: intercept",
    "keep_byte_s": "the same: slope",
    "update_s": "thread time of a step of evolution strategies and its checkpoint, over the candidates: intercept",
    "update_candidate_s": "the same: slope",
}


def measure(config: Config, toolchain: Toolchain, start: Policy, data: Path, effort: Effort) -> dict[str, Any]:
    """Measure unit costs and the workload, and compare real generations on one and two workers with simulated ones.

    Args:
        config: everything else.
        toolchain: compiler to use.
        start: policy around which candidates lie.
        data: folder with corpus/, baseline/ and work/.
        effort: how much.

    Returns:
        ``machine``, ``costs``, ``drivers`` by kind of worker, ``workload`` and ``validation``, as plain values.
    """
    es = config.es.model_copy(update={"pairs": effort.pairs, "generations": effort.generations})
    traced = get_task(config.task).references.traced
    loads = read_modules(data, traced, es.max_questions)
    train = with_questions(load_scored_modules(data / "corpus", data / "baseline", "train"), es.max_questions, "train")
    names = {one.name for one in loads}
    fit = [one for one in train if one.module.key in names]
    alone = sample(fit, 2 * effort.modules, config.seed, "bench", "planning")
    modules = alone[: effort.modules]
    bitcode = unpack_bitcode(data / "corpus", [one.module for one in alone], data / "work" / "bitcode")
    key = tree_key(toolchain, get_task(start.task), config.compile)
    with scratch_directory() as folder:
        store = ReplayStore(folder / "trees", key)
        trees, outcome = measure_trees(toolchain, config.compile, es, start, alone, bitcode, store, effort.candidates)
        drivers = {
            kind: measure_driver(start, es, modules, bitcode, outcome, effort.jobs, make_backend)
            for kind, make_backend in _kinds(effort.ray).items()
        }
        update_s, update_candidate_s = measure_learner(start, es, folder)
        runs = [
            watch_generations(
                toolchain,
                config.compile,
                es,
                start,
                modules,
                bitcode,
                ReplayStore(folder / f"run{number}", key),
                workers,
                config.seed,
                folder,
            )
            for number, workers in enumerate((1, 2))
        ]
    workload = _workload(loads, trees, modules, runs[0])
    costs = _costs(drivers["local"], trees, update_s, update_candidate_s)
    return {
        "machine": {
            "cores": len(os.sched_getaffinity(0)),
            "system": f"{platform.system()} {platform.machine()}",
            "python": platform.python_version(),
            "compiler": ".".join(map(str, toolchain.version)),
            "load": round(os.getloadavg()[1], 1),
        },
        "costs": costs_record(costs, HOW),
        "drivers": {kind: asdict(one) for kind, one in drivers.items()},
        "workload": workload.record(),
        "validation": [_compared(run, modules, workload, costs) for run in runs],
    }


def _kinds(ray: bool) -> dict[str, Callable[[MakeHandler], Backend]]:
    found: dict[str, Callable[[MakeHandler], Backend]] = {"local": LocalBackend}
    if ray:
        from mlgo.pool.ray_backend import RayBackend

        found["ray"] = partial(RayBackend, config=LOCAL_WORKERS.model_copy(update={"kind": "ray"}))
    return found


def _costs(driver: DriverCost, trees: TreeCost, update_s: float, update_candidate_s: float) -> UnitCosts:
    return UnitCosts(
        driver.message_s,
        driver.job_s,
        driver.send_share,
        driver.job_bytes,
        driver.result_bytes,
        trees.recall_s,
        trees.recall_question_s,
        trees.load_byte_s,
        trees.keep_s,
        trees.keep_byte_s,
        update_s,
        update_candidate_s,
    )


def _workload(loads: Sequence[ModuleLoad], trees: TreeCost, modules: Sequence[ScoredModule], run: Run) -> Workload:
    """All modules. What was not measured of one follows from others.

    Its time is the baseline's, scaled as that of the measured ones; a compile adds to its tree in proportion to its
    questions; and its outcomes are as new as those of the watched module with about as many questions.
    """
    known = {one.name: one for one in loads}
    scale = sum(trees.compile_s.values()) / sum(known[key].compile_s for key in trees.compile_s)
    per_question = sum(trees.leaf_bytes.values()) / max(1, sum(known[key].num_questions for key in trees.leaf_bytes))
    complete = tuple(
        ModuleLoad(
            one.name,
            round(trees.compile_s.get(one.name, scale * one.compile_s), 5),
            one.num_questions,
            one.bitcode_bytes,
            0.0,
            round(trees.leaf_bytes.get(one.name, per_question * one.num_questions)),
        )
        for one in loads
    )
    watched = {modules[i].module.key: fit_novelty(fresh) for i, fresh in fresh_outcomes(run).items()}

    def alike(one: ModuleLoad) -> Novelty:
        return watched[
            min(watched, key=lambda key: (key != one.name, abs(known[key].num_questions - one.num_questions)))
        ]

    return Workload(complete, round(trees.spread, 4), tuple(map(alike, complete)))


def _compared(run: Run, modules: Sequence[ScoredModule], workload: Workload, costs: UnitCosts) -> Mapping[str, Any]:
    by_name: dict[str, ModuleLoad] = {one.name: one for one in workload.modules}
    mine = tuple(by_name[one.module.key] for one in modules)
    novelties = tuple(workload.novelties[workload.modules.index(one)] for one in mine)
    seen = [Seen(one.modules, one.outcomes, one.compile_s, one.num_candidates, one.seconds) for one in run.generations]
    alone_s = np.array([one.compile_s for one in mine])
    found = compare(seen, run.workers, mine, costs, Workload(mine, workload.spread, novelties), alone_s)
    asked = sum(len(one.modules) for one in run.generations)
    driver_s = sum(one.driver_s for one in run.generations) / asked
    learner_s = sum(one.seconds - one.waiting_s for one in run.generations) / len(run.generations)
    extra = {"asked": asked, "driver_task_s": driver_s, "learner_s": learner_s, "workers_cpu_s": run.workers_cpu_s}
    return {name: round(value, 6) for name, value in {**asdict(found), **extra}.items()}
