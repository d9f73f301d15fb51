"""Compile held-out modules without a policy: sizes of their programs.

Programs are also linked of what other levels of the compiler make, and of what is made without inlining.

Example:
    python scripts/evaluate_heuristic.py --workers 2 --shipped data/evaluation/parts/heuristic.shipped.parquet
"""

from pathlib import Path

from mlgo.base.artifacts import SHIPPED_SIZES, provenance, write_rows
from mlgo.base.config import EvaluateConfig, judged_split
from mlgo.base.files import file_sha256
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
from mlgo.evaluate import CompileHost, check_failures
from mlgo.evaluate.evaluation import compile_plain_all, evaluated_modules
from mlgo.evaluate.references import measure_references
from mlgo.evaluate.shipped import Linking, measure_programs, object_paths, other_modules
from mlgo.host.frontend import FrontEnd
from mlgo.host.tasks.task import HEURISTIC, get_task
from mlgo.host.toolchain import find_linker


def main() -> None:
    parser = stage_parser(__doc__)
    add_folder_arguments(parser)
    add_workers_arguments(parser)
    parser.add_argument("--shipped", type=Path, required=True, help="table of programs")
    args = parser.parse_args()

    values, (corpus, baseline) = settings_of(args), corpus_and_baseline(args)
    config, (toolchain, settings) = values.section("evaluate", EvaluateConfig), compiler_of(values)
    modules = [one.module for one in evaluated_modules(config, corpus, baseline, values.value("seed"))]
    programs = load_programs(corpus, splits=[judged_split(one.split for one in modules)])
    every = [*modules, *other_modules(modules, programs)]
    bitcode = unpack_bitcode(corpus, every, shared_folder(args.work) / "bitcode")
    linking = Linking(find_linker(), settings.compile_timeout_s, args.workers, load_kinds(corpus))
    with scratch_directory() as folder:
        objects = object_paths(every, folder)
        task, where = values.value("task"), workers_of(values)
        with CompileHost(toolchain, task, settings, args.workers, workers=where) as host:
            outcomes = compile_plain_all(host, every, bitcode, objects)[: len(modules)]
            keys = [one.key for one in modules]
            check_failures(keys, outcomes, config.max_failed_share, "evaluate.max_failed_share")
            shipped = measure_programs(linking, HEURISTIC, programs, objects)
            front_end = FrontEnd(toolchain, settings, shared_folder(args.work) / "zig-cache", get_task(task))
            shipped += measure_references(host, front_end, task, linking, programs, bitcode, folder / "references")
    origin = provenance(
        compiler=toolchain.name,
        compiler_sha256=toolchain.sha256,
        target=toolchain.target,
        compile=settings.model_dump(),
        scores_sha256=file_sha256(baseline / "scores.parquet"),
        linker_sha256=file_sha256(linking.linker),
    )
    write_rows(args.shipped, shipped, SHIPPED_SIZES, origin)


if __name__ == "__main__":
    run_program(main)
