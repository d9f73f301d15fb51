"""Compile held-out modules under the heuristic: sizes of their projects once linked.

Example:
    python scripts/evaluate_heuristic.py --workers 2 --output data/evaluation/parts/heuristic.linked.parquet
"""

from pathlib import Path

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
from mlgo.compiler.toolchain import find_linker
from mlgo.core.artifacts import LINKED, provenance, write_rows
from mlgo.core.config import EvaluateConfig
from mlgo.core.files import file_sha256
from mlgo.core.scratch import scratch_directory
from mlgo.core.work import shared_folder
from mlgo.corpus.store import unpack_bitcode
from mlgo.rollout import CompileHost, CompileJob, check_failures
from mlgo.rollout.evaluation import evaluated_modules
from mlgo.rollout.linking import Linking, measure_projects, object_paths


def main() -> None:
    parser = stage_parser(__doc__)
    add_folder_arguments(parser)
    add_workers_arguments(parser)
    parser.add_argument("--output", type=Path, required=True, help="table of projects")
    args = parser.parse_args()

    values, (corpus, baseline) = settings_of(args), corpus_and_baseline(args)
    config, (toolchain, settings) = values.section("evaluate", EvaluateConfig), compiler_of(values)
    modules = [one.module for one in evaluated_modules(config, corpus, baseline, values.value("seed"))]
    bitcode = unpack_bitcode(corpus, modules, shared_folder(args.work) / "bitcode")
    linking = Linking(find_linker(), settings.compile_timeout_s, args.workers)
    with scratch_directory() as folder:
        objects = object_paths(modules, folder)
        jobs = [CompileJob(one.key, bitcode[one.key], None, object_path=objects[one.key]) for one in modules]
        task, where = values.value("task"), workers_of(values)
        with CompileHost(toolchain, task, settings, args.workers, workers=where) as host:
            outcomes = host.compile_all(jobs, "heuristic")
        check_failures([one.key for one in modules], outcomes, config.max_failed_share, "evaluate.max_failed_share")
        linked = measure_projects(linking, "heuristic", modules, objects)
    origin = provenance(
        compiler=toolchain.name,
        compiler_sha256=toolchain.sha256,
        target=toolchain.target,
        compile=settings.model_dump(),
        scores_sha256=file_sha256(baseline / "scores.parquet"),
        linker_sha256=file_sha256(linking.linker),
    )
    write_rows(args.output, linked, LINKED, origin)


if __name__ == "__main__":
    run_program(main)
