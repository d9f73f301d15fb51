"""What a compile costs the learner's process: at how many workers does it become the limit of exploring?

A driver that decodes all questions stands beside one whose workers read what the fit needs. Compiles that tell their
functions are always done; those that do not are walked down response trees, which is as short as a job can be.

Example:
    python -m benchmarks.episodes
    python -m benchmarks.episodes --modules 100 --json
"""

import json
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass
from functools import partial
from pathlib import Path
from statistics import median
from typing import Any

from benchmarks.arguments import compiling_parser, run_benchmark
from mlgo.base.artifacts import VOCABULARY, read_table
from mlgo.base.scratch import scratch_directory
from mlgo.base.seeding import generator, sample
from mlgo.cli.options import positive, read_config
from mlgo.corpus.store import unpack_bitcode
from mlgo.evaluate import CompileHost
from mlgo.evaluate.episodes import compile_episodes, episode
from mlgo.evaluate.exploration import exploring_jobs
from mlgo.evaluate.inlined import Inlined, InlinedReader
from mlgo.evaluate.scored import ScoredModule
from mlgo.evaluate.training import needed_copies, open_trees, training_modules
from mlgo.host.tasks.task import get_task
from mlgo.host.toolchain import find_toolchain
from mlgo.learn.marginal import CompileFile
from mlgo.learn.marginal.caution import cautious_shape
from mlgo.policy.features import Normalisation
from mlgo.policy.network import Architecture
from mlgo.policy.policy import Policy
from mlgo.policy.vocabulary import normalisation

_TASK = "inline-size"
_NOISE = 0.1


@dataclass(frozen=True)
class EpisodeCost:
    """Compiles of one kind.

    Attributes:
        compiles: jobs of a round.
        questions: mean of a compile.
        worker_ms: time of a worker for one, median over rounds.
        driver_ms: processor time of the learner's process for one, median over rounds.
        limit_workers: how many workers that process can keep busy.
    """

    compiles: int
    questions: float
    worker_ms: float
    driver_ms: float
    limit_workers: int


def bench_episodes(
    host: CompileHost,
    file: CompileFile,
    policies: Sequence[Policy],
    modules: Sequence[ScoredModule],
    bitcode: Mapping[str, Path],
    objective: str,
    with_credit: bool,
    decoded_by: str,
    rounds: int,
) -> EpisodeCost:
    """Explore modules as learner ``marginal`` does, the same compiles in every round; the first is not measured.

    Args:
        host: runs the compiles.
        file: takes them.
        policies: the joint policy, then its members.
        modules: compiled four times each.
        bitcode: file by module key.
        objective: which score counts.
        with_credit: whether compiles tell their functions.
        decoded_by: ``workers``, or ``driver``.
        rounds: that are measured.
    """
    joint, *members = policies
    assert isinstance(joint.normalisation, Normalisation)
    read = InlinedReader(joint.normalisation, objective) if decoded_by == "workers" else None
    take: Callable[[str, Any], Any] = _kept(file) if read else partial(_decoded, file, joint, objective)
    wall, driver, jobs = [], [], []
    for _ in range(rounds + 1):
        jobs = exploring_jobs(
            joint, members, modules, bitcode, (4, 4), 1, 0.03, 1.5, 1.0, 0, "bench", with_credit=with_credit, read=read
        )
        began, used = time.perf_counter(), time.process_time()
        compile_episodes(host, jobs, take)
        wall.append(time.perf_counter() - began)
        driver.append(time.process_time() - used)
    worker_ms = 1000.0 * host.num_workers * median(wall[1:]) / len(jobs)
    driver_ms = 1000.0 * median(driver[1:]) / len(jobs)
    questions = sum(one.num_questions for one in modules) / len(modules)
    return EpisodeCost(
        len(jobs), round(questions, 1), round(worker_ms, 2), round(driver_ms, 3), int(worker_ms / driver_ms)
    )


def _kept(file: CompileFile) -> Callable[[str, Inlined], object]:
    return lambda module, one: file.keep(one)


def _decoded(file: CompileFile, policy: Policy, objective: str, module: str, result: Any) -> object:
    one = episode(module, result, policy, objective)
    return file.keep(Inlined.of(module, one.score, one.inputs, one.answers, one.credit))


def main() -> None:
    """Measure both kinds of compiles under both ways, and print them."""
    parser = compiling_parser(__name__, __doc__)
    parser.add_argument("--modules", type=positive, default=60, help="drawn from training (default: %(default)s)")
    parser.add_argument("--repeats", type=positive, default=3, help="rounds (default: %(default)s)")
    parser.add_argument("--workers", type=positive, default=1)
    args = parser.parse_args()
    config, baseline = read_config(args), args.data / "baseline"
    toolchain = find_toolchain(config.toolchain, config.target)
    train, _ = training_modules(args.data / "corpus", baseline, "marginal", config.marginal, 0, None)
    modules = sample(train, 8 if args.quick else args.modules, 0, "bench", "episodes")
    vocabulary = read_table(baseline / "vocabulary.parquet", VOCABULARY)
    scaling, rng = normalisation(vocabulary, get_task(_TASK).units), generator(0, "bench", "episodes")
    shape = Architecture((len(scaling.features), *config.marginal.hidden, 1))
    shapes = [cautious_shape(shape, config.marginal.members), *[shape] * config.marginal.members]
    policies = [
        Policy(_TASK, scaling, one, (_NOISE * rng.standard_normal(one.num_params)).astype("float32")) for one in shapes
    ]
    copies, records = needed_copies(config.compile, baseline), {}
    with scratch_directory() as folder:
        bitcode = unpack_bitcode(args.data / "corpus", [one.module for one in modules], folder / "bitcode")
        trees = open_trees(folder / "replay", config.replay, toolchain, _TASK, config.compile, copies)
        with (
            CompileHost(toolchain, _TASK, config.compile, args.workers, trees, copies) as host,
            CompileFile(folder, len(scaling.features)) as file,
        ):
            for with_credit in (False, True):
                for decoded_by in ("driver", "workers"):
                    kind = f"{'compiled' if with_credit else 'walked'}, decoded by {decoded_by}"
                    repeats = 1 if args.quick else args.repeats
                    cost = bench_episodes(
                        host,
                        file,
                        policies,
                        modules,
                        bitcode,
                        config.compile.objective,
                        with_credit,
                        decoded_by,
                        repeats,
                    )
                    records[kind] = asdict(cost)
                    if not args.json:
                        print(f"{kind}: {', '.join(f'{key} {value}' for key, value in records[kind].items())}")
    if args.json:
        print(json.dumps(records, indent=2))


if __name__ == "__main__":
    run_benchmark("benchmarks.episodes")
