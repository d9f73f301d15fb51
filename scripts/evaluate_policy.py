"""Compile held-out modules under a policy: scores of modules and functions, sizes of what is linked of them.

Example:
    python scripts/evaluate_policy.py --policy data/policies/es-s0 --workers 2 \
        --output data/evaluation/parts/es-s0.parquet \
        --shipped data/evaluation/parts/es-s0.shipped.parquet --functions data/evaluation/parts/es-s0.functions.parquet
"""

from pathlib import Path

from mlgo.base.artifacts import FUNCTIONS, RESULTS, SHIPPED_SIZES, TIMINGS, provenance, write_rows
from mlgo.base.config import EvaluateConfig, judged_split
from mlgo.base.files import file_sha256
from mlgo.base.names import PolicyName
from mlgo.base.scratch import scratch_directory
from mlgo.base.work import shared_folder
from mlgo.cli.arguments import (
    add_folder_arguments,
    add_workers_arguments,
    compiler_of,
    corpus_and_baseline,
    settings_of,
    stage_parser,
    workers_of,
)
from mlgo.cli.program import run_program
from mlgo.corpus.seen import load_kinds
from mlgo.corpus.store import load_programs, unpack_bitcode
from mlgo.evaluate import CompileHost
from mlgo.evaluate.baseline_modules import load_copies
from mlgo.evaluate.evaluation import evaluate_policy, evaluated_modules
from mlgo.evaluate.shipped import Linking, measure_programs, object_paths, other_modules
from mlgo.host.toolchain import find_linker
from mlgo.policy.stored import load_policy


def main() -> None:
    parser = stage_parser(__doc__)
    parser.add_argument("--policy", type=Path, required=True, help="folder named <algorithm>-s<seed>")
    add_folder_arguments(parser)
    add_workers_arguments(parser)
    parser.add_argument("--output", type=Path, required=True, help="table of modules")
    parser.add_argument("--shipped", type=Path, help="table of the judged programs; they are not linked without it")
    parser.add_argument(
        "--every-language", action="store_true", help="ask it about languages that it was not trained on, too"
    )
    parser.add_argument("--functions", type=Path, help="table of functions; not written without it")
    args = parser.parse_args()

    values, (corpus, baseline) = settings_of(args), corpus_and_baseline(args)
    config, (toolchain, settings) = values.section("evaluate", EvaluateConfig), compiler_of(values)
    policy = load_policy(args.policy)
    scored = evaluated_modules(config, corpus, baseline, values.value("seed"))
    modules = [one.module for one in scored]
    programs = load_programs(corpus, splits=[judged_split(one.split for one in modules)]) if args.shipped else []
    others = other_modules(modules, programs)
    bitcode = unpack_bitcode(corpus, [*modules, *others], shared_folder(args.work) / "bitcode")
    name = PolicyName.of(args.policy.name)
    linking = Linking(
        find_linker(), settings.compile_timeout_s, args.workers, load_kinds(corpus) if args.shipped else {}
    )
    with scratch_directory() as folder:
        objects = object_paths([*modules, *others], folder) if args.shipped else None
        with CompileHost(
            toolchain, policy.task, settings, args.workers, copies=load_copies(baseline), workers=workers_of(values)
        ) as host:
            evaluation = evaluate_policy(
                host,
                policy,
                name,
                scored,
                bitcode,
                config.max_failed_share,
                objects,
                others,
                in_every_language=args.every_language,
            )
        shipped = measure_programs(linking, str(name), programs, objects) if objects else []
    origin = provenance(
        compiler=toolchain.name,
        compiler_sha256=toolchain.sha256,
        target=toolchain.target,
        compile=settings.model_dump(),
        policy_sha256=file_sha256(args.policy / "weights.npy"),
        scores_sha256=file_sha256(baseline / "scores.parquet"),
    )
    write_rows(args.output, evaluation.results, RESULTS, origin)
    if args.shipped:
        with_linker = {**origin, "linker_sha256": file_sha256(linking.linker)}
        write_rows(args.shipped, shipped, SHIPPED_SIZES, with_linker)
    if args.functions:
        write_rows(args.functions, evaluation.functions, FUNCTIONS, origin)
    times = args.work / "timings" / "evaluation" / f"{args.policy.name}.parquet"
    write_rows(times, evaluation.timings, TIMINGS, origin)


if __name__ == "__main__":
    run_program(main)
