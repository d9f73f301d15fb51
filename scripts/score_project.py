"""Score one project's modules under the reference advisors and record the heuristic's questions.

Example:
    python scripts/score_project.py --preset config/presets/tiny.yaml --project lz --workers 2 \
        --scores data/baseline/parts/lz.scores.parquet --trace data/baseline/parts/lz.trace.parquet \
        --functions data/baseline/parts/lz.functions.parquet --copies data/baseline/parts/lz.copies.parquet
"""

from pathlib import Path

from mlgo.base.artifacts import (
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
from mlgo.base.scratch import scratch_directory, shared_folder
from mlgo.cli.program import compiler_of, corpus_and_baseline, run_program, settings_of, stage_parser, workers_of
from mlgo.corpus.store import load_modules, unpack_bitcode
from mlgo.evaluate import CompileHost
from mlgo.evaluate.baseline import Scoring, copy_rows, score_references
from mlgo.host.session import probe_channel
from mlgo.host.tasks.task import get_task


def main() -> None:
    parser = stage_parser(__doc__, "--home", "--work", "--workers")
    parser.add_argument("--project", required=True)
    parser.add_argument("--scores", type=Path, required=True, help="output")
    parser.add_argument("--trace", type=Path, required=True, help="output")
    parser.add_argument("--functions", type=Path, required=True, help="output")
    parser.add_argument("--copies", type=Path, required=True, help="output")
    args = parser.parse_args()

    values, (corpus, _) = settings_of(args), corpus_and_baseline(args)
    (toolchain, settings), task = compiler_of(values), get_task(values.value("task"))
    inline_share, seed = values.value("baseline.random_inline_share"), values.value("seed")
    how = Scoring(values.value("baseline.references") == "all", inline_share, seed)
    probe_channel(toolchain, task, settings)
    modules = load_modules(corpus, project=args.project)
    bitcode = unpack_bitcode(corpus, modules, shared_folder(args.work) / "bitcode")
    where = workers_of(values)
    with (
        scratch_directory() as folder,
        CompileHost(toolchain, task.name, settings, args.workers, workers=where) as host,
    ):
        baseline = score_references(host, task, toolchain.quirks, modules, bitcode, how, folder, args.project)
    origin = provenance(
        **toolchain.provenance,
        task=task.name,
        compile=settings.model_dump(),
        random_inline_share=inline_share,
        seed=seed,
    )
    write_rows(args.scores, baseline.scores, SCORES, origin)
    write_rows(args.functions, baseline.functions, FUNCTIONS, origin)
    write_rows(args.copies, copy_rows(baseline.copies), COPIES, origin)
    trace = baseline.trace if baseline.trace is not None else trace_schema([]).empty_table()
    write_table(args.trace, trace, schema_of_trace(trace), origin)
    write_rows(args.work / "timings" / "baseline" / f"{args.project}.parquet", baseline.timings, TIMINGS, origin)


if __name__ == "__main__":
    run_program(main)
