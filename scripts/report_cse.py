"""Make the page about chosen eliminations, with metrics and plot data for DVC.

Example:
    python scripts/report_cse.py --task gcc-pre --baseline data/cse/baseline --labels data/cse/labels.parquet \
        --evaluation data/cse/evaluation/bc-s0.parquet data/cse/evaluation/es-s0.parquet \
        --policies data/cse/policies/bc-s0 data/cse/policies/es-s0 \
        --resamples 10000 --confidence 0.95 --seed 0 --output data/cse/report
"""

import argparse
from pathlib import Path

from mlgo.cli.arguments import stage_parser
from mlgo.cli.options import positive
from mlgo.cli.program import run_program
from mlgo.core.artifacts import read_provenance
from mlgo.core.errors import ConfigError
from mlgo.core.files import write_json, write_text
from mlgo.report.compare import Bootstrap
from mlgo.report.cse import cse_rows, read_measured
from mlgo.report.cse_numbers import cse_comparisons, cse_metrics, cse_ratios_csv
from mlgo.report.cse_page import CseReport, render_cse_page
from mlgo.report.curves import read_curves
from mlgo.report.origin import input_hashes, measurement_facts, policy_facts


def main() -> None:
    parser = stage_parser(__doc__)
    parser.add_argument("--task", required=True, help="gcc-pre or jit-cse")
    parser.add_argument("--baseline", type=Path, required=True)
    parser.add_argument("--labels", type=Path, required=True)
    parser.add_argument("--evaluation", type=Path, nargs="+", required=True, help="a table for each policy")
    parser.add_argument("--policies", type=Path, nargs="+", required=True, help="folders of the same policies")
    parser.add_argument("--resamples", type=positive, required=True, help="of the bootstrap")
    parser.add_argument("--confidence", type=float, required=True, help="coverage of the intervals, 0 to 1")
    parser.add_argument("--seed", type=int, required=True, help="of the bootstrap")
    parser.add_argument("--output", type=Path, required=True)
    args = parser.parse_args()
    if not 0.0 < args.confidence < 1.0:
        raise ConfigError(f"--confidence {args.confidence} is not between 0 and 1")

    report = _collect(args)
    write_text(args.output / "report.html", render_cse_page(report))
    write_json(args.output / "comparisons.json", cse_comparisons(report.measured, report.rows))
    write_json(args.output / "metrics.json", cse_metrics(report.rows))
    write_text(args.output / "ratios.csv", cse_ratios_csv(report.measured))


def _collect(args: argparse.Namespace) -> CseReport:
    measured = read_measured(args.task, args.baseline, args.labels, args.evaluation)
    folders = {folder.name: folder for folder in args.policies}
    named, evaluated = (", ".join(sorted(names)) for names in (folders, measured.policies))
    if named != evaluated:
        raise ConfigError(f"--policies names {named}, --evaluation holds {evaluated}; name the same policies")
    inputs = {
        "baseline/units.parquet": args.baseline / "units.parquet",
        "baseline/compiles.parquet": args.baseline / "compiles.parquet",
        "labels.parquet": args.labels,
        **{f"evaluation/{path.name}": path for path in args.evaluation},
    }
    weights = {"policies": {path.stem: read_provenance(path) for path in args.evaluation}}
    bootstrap = Bootstrap(args.resamples, args.confidence, args.seed)
    facts = {
        "Baseline": measurement_facts(inputs["baseline/compiles.parquet"]),
        "Labels": measurement_facts(args.labels),
    }
    for name in measured.policies:
        facts |= policy_facts(folders[name].parent, [name], weights)
    return CseReport(
        measured=measured,
        rows=cse_rows(measured, bootstrap),
        bootstrap=bootstrap,
        curves=[curve for name in measured.policies for curve in read_curves(folders[name].parent, [name])],
        facts=facts,
        hashes=input_hashes(inputs),
    )


if __name__ == "__main__":
    run_program(main)
