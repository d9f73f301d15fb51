"""Make the page for people, the metrics and plot data for DVC, and the page of compile times.

Example:
    python scripts/make_report.py --corpus data/corpus --baseline data/baseline --policies data/policies \
        --evaluation data/evaluation --programs data/execution/programs.parquet --work data/work --output data/report
"""

import argparse
from pathlib import Path

import pyarrow.compute as pc

from mlgo.base.artifacts import FUNCTIONS, MODULES, RESULTS, SCORES, SHIPPED_SIZES, read_provenance, read_table
from mlgo.base.config import Settings
from mlgo.base.files import read_record, write_json, write_record, write_text
from mlgo.cli.program import run_program, settings_of, stage_parser
from mlgo.compare.headline import headline
from mlgo.compare.inference import POINTS_ONLY, Bootstrap
from mlgo.compare.modules import (
    count_truncated,
    function_measure,
    function_rows,
    measured_functions,
    measured_modules,
    module_scopes,
)
from mlgo.compare.programs import read_matching_programs
from mlgo.compare.scores import ALL, ScoreMatrix, by_contender, compare
from mlgo.compare.trainings import check_seeds, read_curves
from mlgo.host.tasks.task import get_task
from mlgo.report.compile_time import read_timings, write_compile_times
from mlgo.report.inputs import (
    describe_corpus,
    feature_importances,
    flatten,
    input_hashes,
    policy_facts,
    read_self_test,
    read_training_failures,
)
from mlgo.report.metrics import (
    function_metrics,
    headline_metrics,
    headline_metrics_of,
    learning_csv,
    metrics,
    projects_csv,
    ratios_csv,
    shipped_metrics,
)
from mlgo.report.render import Report, render_page
from mlgo.report.seen_code import compare_seen
from mlgo.report.ships import compare_shipped


def main() -> None:
    parser = stage_parser(__doc__)
    parser.add_argument("--corpus", type=Path, required=True)
    parser.add_argument("--baseline", type=Path, required=True)
    parser.add_argument("--policies", type=Path, required=True, help="folder with one folder per policy")
    parser.add_argument("--evaluation", type=Path, required=True)
    parser.add_argument("--programs", type=Path, required=True, help="table of programs that ran; need not be there")
    parser.add_argument("--work", type=Path, required=True, help="folder with timings/, gets report/compile_time.*")
    parser.add_argument("--output", type=Path, required=True)
    args = parser.parse_args()

    settings = settings_of(args)
    objective = settings.value("compile.objective")
    report = _collect(args, settings)
    shipped = report.ships.totals
    write_text(args.output / "report.html", render_page(report))
    comparisons = metrics(report.rows)
    if shipped:
        comparisons["shipped"] = shipped_metrics(shipped)
    if report.truth:
        comparisons["truth"] = headline_metrics_of(report.truth)
    if report.seen.kinds:
        comparisons["seen"] = report.seen.metrics()
    if report.function_rows:
        comparisons["functions"] = function_metrics(report.function_rows)
    write_record(args.output / "comparisons.json", comparisons)
    write_json(args.output / "metrics.json", headline_metrics(report.rows, objective, shipped))
    write_text(args.output / "learning.csv", learning_csv(report.curves))
    write_text(args.output / "projects.csv", projects_csv(report.project_rows, objective))
    write_text(args.output / "ratios.csv", ratios_csv(report.modules, objective))
    write_compile_times(args.work / "report", read_timings(args.work / "timings"))


def _collect(args: argparse.Namespace, settings: Settings) -> Report:
    inputs = {
        "evaluation/results.parquet": args.evaluation / "results.parquet",
        "evaluation/shipped.parquet": args.evaluation / "shipped.parquet",
        "evaluation/functions.parquet": args.evaluation / "functions.parquet",
        "baseline/scores.parquet": args.baseline / "scores.parquet",
        "baseline/functions.parquet": args.baseline / "functions.parquet",
        "corpus/modules.parquet": args.corpus / "modules.parquet",
    }
    schemas = (RESULTS, SHIPPED_SIZES, FUNCTIONS, SCORES, FUNCTIONS, MODULES)
    results, shipped, evaluated, scores, referred, manifest = (
        read_table(path, schema) for path, schema in zip(inputs.values(), schemas, strict=True)
    )
    modules = measured_modules(results, scores, manifest)
    policies, judged = modules.policies, modules.judged
    check_seeds(args.policies / name for name in policies)
    contenders = [one for one in modules.contenders if one.is_policy]
    bootstrap = Bootstrap.of(settings)
    baseline = read_provenance(inputs["baseline/scores.parquet"])
    evaluation = read_provenance(inputs["evaluation/results.parquet"])
    measure = function_measure(modules)
    functions = measured_functions(modules, measure, referred, evaluated) if measure else None
    programs = read_matching_programs(args.programs, baseline, evaluation)
    by_size = not get_task(settings.value("task")).in_code_generation
    sizes = set(shipped.filter((pc.field("split") == judged) & (pc.field("failure") == ""))["contender"].to_pylist())
    return Report(
        task=settings.value("task"),
        measure=settings.value("compile.objective"),
        modules=modules,
        rows=by_contender(
            compare(
                modules, module_scopes, bootstrap, count_truncated, family=lambda row: (row.split, row.scope == ALL)
            )
        ),
        project_rows=compare(modules.only(policies), ScoreMatrix.by_project, POINTS_ONLY, together=False),
        ships=compare_shipped(shipped, contenders, bootstrap),
        truth=headline(shipped, results, programs, bootstrap) if by_size and sizes & set(policies) else None,
        seen=compare_seen(shipped, [one for one in contenders if one.is_policy], bootstrap),
        functions=functions,
        function_rows=function_rows(functions, modules, measure, bootstrap) if functions and measure else [],
        programs=programs,
        bootstrap=bootstrap,
        corpus=describe_corpus(manifest, read_record(args.corpus / "summary.json")),
        self_test=read_self_test(read_record(args.baseline / "summary.json")),
        curves=read_curves(args.policies, policies),
        training_failures=read_training_failures(args.policies, policies),
        measurement=flatten(baseline),
        policies=policy_facts(args.policies, policies, evaluation),
        importances=feature_importances(
            args.policies, policies, args.baseline / "trace.parquet", manifest, judged, bootstrap.seed
        ),
        hashes=input_hashes(
            {
                **inputs,
                "baseline/trace.parquet": args.baseline / "trace.parquet",
                **({"execution/programs.parquet": args.programs} if programs else {}),
            }
        ),
    )


if __name__ == "__main__":
    run_program(main)
