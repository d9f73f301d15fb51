"""Make the page for people, the metrics and plot data for DVC, and the page of compile times.

Example:
    python scripts/make_report.py --corpus data/corpus --baseline data/baseline --policies data/policies \
        --evaluation data/evaluation --evaluate "$(cat evaluate.json)" --seed 0 --objective text_bytes \
        --programs data/execution/programs.parquet --work data/work --output data/report
"""

import argparse
from pathlib import Path

from mlgo.cli.arguments import stage_parser
from mlgo.cli.program import run_program
from mlgo.core.artifacts import FUNCTIONS, LINKED, MODULES, RESULTS, SCORES, read_provenance, read_table
from mlgo.core.config import EvaluateConfig, parse_section
from mlgo.core.files import read_json, write_json, write_text
from mlgo.report.compare import Bootstrap
from mlgo.report.compile_time import read_timings, write_compile_times
from mlgo.report.corpus import describe_corpus
from mlgo.report.curves import read_curves
from mlgo.report.execution import read_matching_execution
from mlgo.report.functions import collect_functions, function_rows
from mlgo.report.importance import feature_importances
from mlgo.report.linked import link_failures, project_gains, rank_correlations, total_gains
from mlgo.report.measured import MEASURES, contenders, measured_table
from mlgo.report.metrics import (
    correlation_metrics,
    function_metrics,
    headline_linked_metrics,
    headline_metrics,
    learning_csv,
    linked_metrics,
    merged,
    metrics,
    projects_csv,
    ratios_csv,
)
from mlgo.report.origin import input_hashes, measurement_facts, policy_facts
from mlgo.report.render import Report, render_page
from mlgo.report.selftest import read_self_test
from mlgo.report.tables import project_rows, seed_rows, split_rows
from mlgo.report.training_failures import read_training_failures
from mlgo.tasks import get_task


def main() -> None:
    parser = stage_parser(__doc__)
    parser.add_argument("--corpus", type=Path, required=True)
    parser.add_argument("--baseline", type=Path, required=True)
    parser.add_argument("--policies", type=Path, required=True, help="folder with one folder per policy")
    parser.add_argument("--evaluation", type=Path, required=True)
    parser.add_argument("--evaluate", required=True, help="section evaluate of the configuration, as JSON")
    parser.add_argument("--seed", type=int, required=True, help="of the bootstrap")
    parser.add_argument("--objective", choices=MEASURES, required=True, help="measure of the headline")
    parser.add_argument("--programs", type=Path, required=True, help="table of programs that ran; need not be there")
    parser.add_argument("--work", type=Path, required=True, help="folder with timings/, gets report/compile_time.*")
    parser.add_argument("--output", type=Path, required=True)
    args = parser.parse_args()

    config = parse_section(EvaluateConfig, args.evaluate)
    report = _collect(args, config)
    write_text(args.output / "report.html", render_page(report))
    comparisons = merged(metrics(report.split_rows), linked_metrics(report.total_gains))
    comparisons["rank_correlations"] = correlation_metrics(report.correlations)
    if report.function_rows:
        comparisons["functions"] = function_metrics(report.function_rows)
    write_json(args.output / "comparisons.json", comparisons)
    policies = contenders(report.measured, policies=True)
    headline = headline_metrics(report.split_rows, policies, args.objective)
    write_json(args.output / "metrics.json", merged(headline, headline_linked_metrics(report.total_gains)))
    write_text(args.output / "learning.csv", learning_csv(report.curves))
    write_text(args.output / "projects.csv", projects_csv(report.project_rows, args.objective))
    write_text(args.output / "ratios.csv", ratios_csv(report.measured, args.objective))
    write_compile_times(args.work / "report", read_timings(args.work / "timings"))


def _collect(args: argparse.Namespace, config: EvaluateConfig) -> Report:
    inputs = {
        "evaluation/results.parquet": args.evaluation / "results.parquet",
        "evaluation/linked.parquet": args.evaluation / "linked.parquet",
        "evaluation/functions.parquet": args.evaluation / "functions.parquet",
        "baseline/scores.parquet": args.baseline / "scores.parquet",
        "baseline/functions.parquet": args.baseline / "functions.parquet",
        "corpus/modules.parquet": args.corpus / "modules.parquet",
    }
    schemas = (RESULTS, LINKED, FUNCTIONS, SCORES, FUNCTIONS, MODULES)
    results, linked, evaluated, scores, referred, modules = (
        read_table(path, schema) for path, schema in zip(inputs.values(), schemas, strict=True)
    )
    measured = measured_table(results, scores, modules)
    policies = contenders(measured, policies=True)
    bootstrap = Bootstrap(config.resamples, config.confidence, args.seed)
    whole_projects = project_gains(linked, policies)
    baseline = read_provenance(inputs["baseline/scores.parquet"])
    evaluation = read_provenance(inputs["evaluation/results.parquet"])
    task = baseline.get("task", "inline-size")
    in_code_generation = get_task(task).in_code_generation
    functions = collect_functions(measured, referred, evaluated) if in_code_generation else None
    execution = read_matching_execution(args.programs, baseline, evaluation) if in_code_generation else None
    return Report(
        task=task,
        measured=measured,
        split_rows=[
            *split_rows(measured, [*policies, *contenders(measured, policies=False)], bootstrap),
            *seed_rows(measured, policies, bootstrap),
        ],
        project_rows=project_rows(measured, policies, bootstrap),
        project_gains=whole_projects,
        total_gains=total_gains(whole_projects, bootstrap),
        correlations=rank_correlations(whole_projects),
        link_failures=link_failures(linked),
        functions=functions,
        function_rows=function_rows(functions, bootstrap) if functions else [],
        execution=execution,
        measure=args.objective,
        bootstrap=bootstrap,
        corpus=describe_corpus(modules, read_json(args.corpus / "summary.json")),
        self_test=read_self_test(read_json(args.baseline / "summary.json")),
        curves=read_curves(args.policies, policies),
        training_failures=read_training_failures(args.policies, policies),
        measurement=measurement_facts(inputs["baseline/scores.parquet"]),
        policies=policy_facts(args.policies, policies, evaluation),
        importances=feature_importances(args.policies, policies, args.baseline / "trace.parquet", modules, args.seed),
        hashes=input_hashes(
            {
                **inputs,
                "baseline/trace.parquet": args.baseline / "trace.parquet",
                **({"execution/programs.parquet": args.programs} if execution else {}),
            }
        ),
    )


if __name__ == "__main__":
    run_program(main)
