"""`mlgo sweep`: the points of a sweep side by side, and what they cost."""

import argparse
import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

from mlgo.cli.tables import aligned
from mlgo.core.errors import ArtifactError
from mlgo.core.files import read_json
from mlgo.core.names import PolicyName
from mlgo.learn.effort import effort_path, read_effort, read_experiments
from mlgo.report.sweep import SPLITS
from mlgo.report.sweep_cost import Cost, cost_of

_EPILOG = """\
examples:
  make sweep                       six step sizes of ES (config/presets/sweep.yaml), then this table
  make sweep PRESET=my-sweep       the sweep that config/presets/my-sweep.yaml describes
  mlgo sweep                       the table of the finished sweep; the page is data/sweep/sweep.html
  mlgo sweep --json
  mlgo sweep --experiments         what the trainings of DVC's experiments cost (dvc exp run --queue, or --temp)
"""


def add_parser(commands: Any) -> None:
    """Register the sub-command."""
    parser = commands.add_parser(
        "sweep",
        help="the points of a sweep side by side, and what they cost",
        epilog=_EPILOG,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("--data", type=Path, default=Path("data"), help="folder of the results (default: %(default)s)")
    parser.add_argument("--json", action="store_true", help="print JSON")
    parser.add_argument("--experiments", action="store_true", help="tell of DVC's experiments instead")
    parser.set_defaults(run=run)


def run(args: argparse.Namespace) -> None:
    """Print the table."""
    if args.experiments:
        told = experiment_costs(args.data / "work")
        print(json.dumps([asdict(one) for one in told], indent=2) if args.json else cost_table(told))
        return
    path = args.data / "sweep" / "sweep.json"
    if not path.exists():
        raise ArtifactError(f"{path} is missing; make it with: make sweep")
    record = read_json(path)
    costs = {one["name"]: _cost(args.data / "work", one["name"], record["seeds"]) for one in record["points"]}
    if args.json:
        points = [{**one, "cost": asdict(cost) if (cost := costs[one["name"]]) else None} for one in record["points"]]
        print(json.dumps({**record, "points": points}, indent=2))
        return
    print(point_table(record["points"], record["seeds"], costs))
    for one in record["points"]:
        for seed, message in one["failures"].items():
            print(f"{PolicyName(one['name'], seed)} failed: {message}")


def point_table(points: Sequence[Mapping[str, Any]], seeds: Sequence[int], costs: Mapping[str, Cost | None]) -> str:
    """All points for a terminal, costs as means over the seeds; * marks the greatest validation gain."""
    keys = list(dict.fromkeys(key for one in points for key in one["settings"]))
    tasks = ["task"] if any(one["task"] for one in points) else []
    head = ["", *tasks, "learner", *keys, "seeds", *(f"{split} gain % (interval)" for split in SPLITS)]
    rows = [[*head, "evaluations", "compiles", "by trees", "minutes"]]
    for one in points:
        cost = costs[one["name"]]
        rows.append(
            [
                "*" if one["best_on_validation"] else "",
                *([one["task"]] if tasks else []),
                one["learner"],
                *(str(one["settings"].get(key, "-")) for key in keys),
                f"{len(seeds) - len(one['failures'])} of {len(seeds)}" if one["failures"] else str(len(seeds)),
                *(_gain(one.get(split)) for split in SPLITS),
                "-" if one["evaluations"] is None else f"{one['evaluations']:,.0f}",
                *(_figures(cost, cost.trainings)[1:] if cost else ["-"] * 3),
            ]
        )
    return aligned(rows)


def experiment_costs(work: Path) -> list[Cost]:
    """What each of DVC's experiments cost, all of its trainings together.

    Raises:
        ArtifactError: there is none.
    """
    found = read_experiments(work)
    if not found:
        raise ArtifactError("no experiment has left its cost; run some with: dvc exp run --queue, and dvc queue start")
    return [cost_of(name, list(efforts.values())) for name, efforts in found.items()]


def cost_table(costs: Sequence[Cost]) -> str:
    """Costs for a terminal."""
    head = ["experiment", "evaluations", "compiles", "by trees", "minutes"]
    return aligned([head, *([one.name, *_figures(one)] for one in costs)])


def _cost(work: Path, name: str, seeds: Sequence[int]) -> Cost | None:
    policies = [str(PolicyName(name, seed)) for seed in seeds]
    if not all(effort_path(work, policy).exists() for policy in policies):
        return None
    return cost_of(name, [read_effort(work, policy) for policy in policies])


def _figures(cost: Cost, trainings: int = 1) -> list[str]:
    """Evaluations, compiles, share of the trees and minutes; means over so many trainings, else sums."""
    least = "" if cost.complete else "≥ "
    saved = "-" if cost.saved is None else f"{100 * cost.saved:.1f} %"
    evaluations, compiles, minutes = (n / trainings for n in (cost.evaluations, cost.compiles, cost.seconds / 60))
    return [f"{evaluations:,.0f}", f"{least}{compiles:,.0f}", saved, f"{least}{minutes:.1f}"]


def _gain(figures: Mapping[str, Any] | None) -> str:
    if figures is None or figures["gain_percent"] is None:
        return "failed" if figures is None else "-"
    interval = (
        "" if figures["low_percent"] is None else f" ({figures['low_percent']:+.2f} to {figures['high_percent']:+.2f})"
    )
    return f"{figures['gain_percent']:+.2f}{interval}"
