"""Make the page about chosen eliminations, with metrics and plot data for DVC.

Example:
    python scripts/report_cse.py --preset jit.yaml --baseline data/cse/baseline \
        --labels data/cse/labels/labels.parquet --policies data/cse/policies/bc-s0 data/cse/policies/es-s0 \
        --evaluation data/cse/evaluation/bc-s0.parquet data/cse/evaluation/es-s0.parquet --output data/cse/report
"""

from pathlib import Path

from mlgo.base.artifacts import read_provenance
from mlgo.base.files import write_json, write_record, write_text
from mlgo.cli.program import run_program, settings_of, stage_parser
from mlgo.compare.inference import Bootstrap
from mlgo.compare.trainings import Curve, check_seeds, read_curves
from mlgo.compare.units import read_units, unit_rows
from mlgo.errors import ConfigError
from mlgo.report.choices import choice_comparisons, choice_metrics, choice_ratios_csv, render_choices
from mlgo.report.inputs import flatten, input_hashes, policy_facts


def main() -> None:
    parser = stage_parser(__doc__)
    parser.add_argument("--baseline", type=Path, required=True)
    parser.add_argument("--labels", type=Path, required=True)
    parser.add_argument("--evaluation", type=Path, nargs="+", required=True, help="a table for each policy")
    parser.add_argument("--policies", type=Path, nargs="+", required=True, help="folders of the same policies")
    parser.add_argument("--output", type=Path, required=True)
    args = parser.parse_args()
    settings = settings_of(args)
    measured = read_units(settings.value("task"), args.baseline, args.labels, args.evaluation)
    folders = {folder.name: folder for folder in args.policies}
    named, evaluated = (", ".join(sorted(names)) for names in (folders, measured.policies))
    if named != evaluated:
        raise ConfigError(f"--policies names {named}, --evaluation holds {evaluated}; name the same policies")
    check_seeds(folders[name] for name in measured.policies)
    inputs = {
        "baseline/units.parquet": args.baseline / "units.parquet",
        "baseline/compiles.parquet": args.baseline / "compiles.parquet",
        "labels.parquet": args.labels,
        **{f"evaluation/{path.name}": path for path in args.evaluation},
    }
    weights = {"policies": {path.stem: read_provenance(path) for path in args.evaluation}}
    facts = {
        "Baseline": flatten(read_provenance(inputs["baseline/compiles.parquet"])),
        "Labels": flatten(read_provenance(args.labels)),
    }
    curves: dict[str, list[Curve]] = {}
    for one in measured.contenders:
        if one.is_policy:
            facts |= policy_facts(folders[one.name].parent, [one.name], weights)
            curves.setdefault(one.learner, []).extend(read_curves(folders[one.name].parent, [one.name]))
    bootstrap = Bootstrap.of(settings)
    rows = unit_rows(measured, bootstrap)
    page = render_choices(measured, rows, bootstrap, curves, facts, input_hashes(inputs))
    write_text(args.output / "report.html", page)
    write_record(args.output / "comparisons.json", choice_comparisons(measured, rows))
    write_json(args.output / "metrics.json", choice_metrics(rows))
    write_text(args.output / "ratios.csv", choice_ratios_csv(measured))


if __name__ == "__main__":
    run_program(main)
