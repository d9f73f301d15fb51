"""Score one project's modules under the reference advisors and record the heuristic's questions.

Example:
    python scripts/score_project.py --project zstandard --corpus data/corpus --task inline-size \
        --toolchain auto --target x86_64-linux-gnu --compile "$(cat compile.json)" \
        --random-inline-share 0.5 --seed 0 --workers 2 --work data/work \
        --scores data/baseline/parts/zstandard.scores.parquet --trace data/baseline/parts/zstandard.trace.parquet \
        --functions data/baseline/parts/zstandard.functions.parquet \
        --copies data/baseline/parts/zstandard.copies.parquet
"""

from pathlib import Path

from mlgo.cli.arguments import add_compiler_arguments, compiler_of, stage_parser
from mlgo.cli.program import run_program
from mlgo.compiler.probe import probe_channel
from mlgo.core.artifacts import (
    COPIES,
    FUNCTIONS,
    SCORES,
    TIMINGS,
    provenance,
    schema_of_trace,
    trace_schema,
    write_rows,
    write_table,
)
from mlgo.core.scratch import scratch_directory
from mlgo.core.work import shared_folder
from mlgo.corpus.store import load_modules, unpack_bitcode
from mlgo.rollout import CompileHost
from mlgo.rollout.baseline import score_references
from mlgo.tasks import get_task


def main() -> None:
    parser = stage_parser(__doc__)
    parser.add_argument("--project", required=True)
    parser.add_argument("--corpus", type=Path, required=True)
    parser.add_argument("--task", required=True)
    add_compiler_arguments(parser)
    parser.add_argument("--random-inline-share", type=float, required=True)
    parser.add_argument("--seed", type=int, required=True)
    parser.add_argument("--workers", type=int, default=1)
    parser.add_argument("--scores", type=Path, required=True, help="output")
    parser.add_argument("--trace", type=Path, required=True, help="output")
    parser.add_argument("--functions", type=Path, required=True, help="output")
    parser.add_argument("--copies", type=Path, required=True, help="output")
    args = parser.parse_args()

    (toolchain, settings), task = compiler_of(args), get_task(args.task)
    probe_channel(toolchain, task, settings)
    modules = load_modules(args.corpus, project=args.project)
    bitcode = unpack_bitcode(args.corpus, modules, shared_folder(args.work) / "bitcode")
    with scratch_directory() as folder, CompileHost(toolchain, task.name, settings, args.workers) as host:
        baseline = score_references(
            host, task, toolchain.quirks, modules, bitcode, args.random_inline_share, args.seed, folder, args.project
        )
    origin = provenance(
        compiler=toolchain.name,
        compiler_sha256=toolchain.sha256,
        target=toolchain.target,
        task=task.name,
        compile=settings.model_dump(),
        random_inline_share=args.random_inline_share,
        seed=args.seed,
    )
    write_rows(args.scores, baseline.scores, SCORES, origin)
    write_rows(args.functions, baseline.functions, FUNCTIONS, origin)
    write_rows(args.copies, baseline.copies.rows(), COPIES, origin)
    trace = baseline.trace if baseline.trace is not None else trace_schema([]).empty_table()
    write_table(args.trace, trace, schema_of_trace(trace), origin)
    write_rows(args.work / "timings" / "baseline" / f"{args.project}.parquet", baseline.timings, TIMINGS, origin)


if __name__ == "__main__":
    run_program(main)
