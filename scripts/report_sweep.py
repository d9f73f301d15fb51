"""Compare the points of a sweep: page, numbers, each point's configuration, and what the trainings cost.

Example:
    python scripts/report_sweep.py --preset config/presets/sweep.yaml --work data/work --output data/sweep
"""

import shutil
from dataclasses import asdict
from pathlib import Path

import yaml

from mlgo.base.files import write_json, write_record, write_text
from mlgo.cli.program import run_program, settings_of, stage_parser
from mlgo.compare.inference import Bootstrap
from mlgo.compare.trainings import read_curves
from mlgo.research.matrix import expand
from mlgo.research.points import cost_of_seeds, read_points
from mlgo.research.study import read_asked
from mlgo.research.sweep_page import point_records, render_costs, render_sweep, study_record

GRID_OF_ONE = {"sampler": "grid", "points": {}, "ranges": {}, "tasks": {}}
"""Section ``sweep`` of a point by itself."""


def main() -> None:
    parser = stage_parser(__doc__)
    parser.add_argument("--work", type=Path, required=True, help="folder with timings/, gets report/sweep_cost.*")
    parser.add_argument("--output", type=Path, required=True, help="folder with policies/ and results/")
    parser.add_argument("--study", type=Path, help="folder with the batches of a study")
    args = parser.parse_args()

    settings = settings_of(args)
    asked = read_asked(args.study) if args.study else []
    sweep, bootstrap = expand(settings.values, asked), Bootstrap.of(settings)
    points = read_points(args.output, sweep, bootstrap)
    study = study_record(settings, args.output, asked, sweep, points) if args.study else None
    done = [policy for one in points for policy in one.trained]
    curves = dict(zip(done, read_curves(args.output / "policies", [str(name) for name in done]), strict=True))

    shutil.rmtree(args.output / "points", ignore_errors=True)
    for point in sweep.points:
        learners = [sweep.trainings[point.start].learner] if point.start else []
        train = {"algorithms": [*learners, point.learner], "seeds": list(sweep.seeds)}
        config = {**point.config, "train": train, "sweep": {**point.config["sweep"], **GRID_OF_ONE}}
        write_text(args.output / "points" / f"{point.name}.yaml", yaml.safe_dump(config, sort_keys=False, width=120))
    record = {"seeds": list(sweep.seeds), "points": point_records(points), **({"study": study} if study else {})}
    write_record(args.output / "sweep.json", record)
    write_text(args.output / "sweep.html", render_sweep(points, sweep, curves, bootstrap, study))
    known = (cost_of_seeds(args.work, one.name, sweep.seeds, one.kind) for one in sweep.points)
    costs = [cost for cost in known if cost is not None]
    write_json(args.work / "report" / "sweep_cost.json", [asdict(one) for one in costs])
    write_text(args.work / "report" / "sweep_cost.html", render_costs(costs))


if __name__ == "__main__":
    run_program(main)
