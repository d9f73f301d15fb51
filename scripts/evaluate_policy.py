"""Compile held-out modules under a policy: scores of modules and functions, sizes of programs that are linked of them.

Without a policy they are compiled under the heuristic. Programs are then also linked of what other levels of the
compiler make, and of what is made without inlining.

Example:
    python scripts/evaluate_policy.py --policy data/policies/es-s0 --workers 2 \
        --output data/evaluation/parts/es-s0.parquet \
        --shipped data/evaluation/parts/es-s0.shipped.parquet --functions data/evaluation/parts/es-s0.functions.parquet
"""

import argparse
from pathlib import Path
from typing import Any

from mlgo.base.artifacts import FUNCTIONS, RESULTS, SEEN, SHIPPED_SIZES, TIMINGS, provenance, read_table, write_rows
from mlgo.base.config import EvaluateConfig, judged_split
from mlgo.base.files import file_sha256
from mlgo.base.names import PolicyName
from mlgo.base.scratch import scratch_directory, shared_folder
from mlgo.cli.program import compiler_of, corpus_and_baseline, run_program, settings_of, stage_parser, workers_of
from mlgo.corpus.seen import SEEN_NAME, kinds_by_name
from mlgo.corpus.store import load_programs, unpack_bitcode
from mlgo.errors import ConfigError
from mlgo.evaluate import CompileHost, check_failures
from mlgo.evaluate.baseline import load_copies
from mlgo.evaluate.evaluation import Evaluation, evaluate_policy, evaluated_modules
from mlgo.evaluate.shipped import EvaluationRun, Linking, measure_references, other_modules
from mlgo.host.frontend import FrontEnd
from mlgo.host.tasks.task import HEURISTIC, get_task
from mlgo.host.toolchain import find_linker
from mlgo.policy.stored import load_policy


def main() -> None:
    parser = stage_parser(__doc__, "--home", "--work", "--workers")
    parser.add_argument("--policy", type=Path, help="folder named <algorithm>-s<seed>; the heuristic without it")
    parser.add_argument("--output", type=Path, help="table of modules under the policy")
    parser.add_argument("--shipped", type=Path, help="table of the judged programs; they are not linked without it")
    parser.add_argument(
        "--every-language", action="store_true", help="ask it about languages that it was not trained on, too"
    )
    parser.add_argument("--functions", type=Path, help="table of functions; not written without it")
    args = parser.parse_args()
    if (args.output is None) != (args.policy is None) or not (args.policy or args.shipped):
        raise ConfigError("give --policy and --output, or --shipped alone for the heuristic")

    values, (corpus, baseline) = settings_of(args), corpus_and_baseline(args)
    config, (toolchain, settings) = values.section("evaluate", EvaluateConfig), compiler_of(values)
    policy = load_policy(args.policy) if args.policy else None
    task = policy.task if policy else values.value("task")
    scored = evaluated_modules(config, corpus, baseline, values.value("seed"))
    modules = [one.module for one in scored]
    programs = load_programs(corpus, splits=[judged_split(one.split for one in modules)]) if args.shipped else []
    bitcode = unpack_bitcode(
        corpus, [*modules, *other_modules(modules, programs)], shared_folder(args.work) / "bitcode"
    )
    kinds = kinds_by_name(read_table(corpus / SEEN_NAME, SEEN)) if args.shipped else {}
    linking = Linking(find_linker(), settings.compile_timeout_s, args.workers, settings.ships, kinds)
    copies = load_copies(baseline) if policy else None
    origin = provenance(
        **toolchain.provenance,
        compile=settings.model_dump(),
        **({"policy_sha256": file_sha256(args.policy / "weights.npy")} if policy else {}),
        scores_sha256=file_sha256(baseline / "scores.parquet"),
    )
    with (
        scratch_directory() as folder,
        CompileHost(toolchain, task, settings, args.workers, copies=copies, workers=workers_of(values)) as host,
    ):
        run = EvaluationRun(host, modules, programs, bitcode, linking, folder)
        if policy:
            name = PolicyName.of(args.policy.name)
            evaluation = evaluate_policy(run, policy, name, scored, config.max_failed_share, args.every_language)
            _write_modules(args, evaluation, origin)
            shipped = run.link(str(name))
        else:
            keys = [one.key for one in modules]
            check_failures(keys, run.compile(), config.max_failed_share, "evaluate.max_failed_share")
            front_end = FrontEnd(toolchain, settings, shared_folder(args.work) / "zig-cache", get_task(task))
            shipped = [*run.link(HEURISTIC), *measure_references(run, front_end, task)]
    if args.shipped:
        write_rows(args.shipped, shipped, SHIPPED_SIZES, {**origin, "linker_sha256": file_sha256(linking.linker)})


def _write_modules(args: argparse.Namespace, evaluation: Evaluation, origin: dict[str, Any]) -> None:
    write_rows(args.output, evaluation.results, RESULTS, origin)
    if args.functions:
        write_rows(args.functions, evaluation.functions, FUNCTIONS, origin)
    times = args.work / "timings" / "evaluation" / f"{args.policy.name}.parquet"
    write_rows(times, evaluation.timings, TIMINGS, origin)


if __name__ == "__main__":
    run_program(main)
