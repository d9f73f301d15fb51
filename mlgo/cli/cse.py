"""`mlgo cse`: how policies choose eliminations, beside the built-in heuristic."""

import argparse
import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from mlgo.cli.tables import aligned
from mlgo.core.errors import ArtifactError
from mlgo.core.files import read_json

_EPILOG = """\
examples:
  mlgo cse                        the test units of the finished run
  mlgo cse --split validation
  mlgo cse --project libsass      one project; task gcc-pre only
  mlgo cse --json                 all figures, for programs
"""

_COLUMNS = (
    "who chose",
    "units",
    "failed",
    "G (interval)",
    "better : worse : same",
    "mean change",
    "G of sizes",
    "share of headroom",
    "eliminations",
    "verdict on the score",
)


def add_parser(commands: Any) -> None:
    """Register the sub-command."""
    parser = commands.add_parser(
        "cse",
        help="how policies choose eliminations, beside the built-in heuristic",
        epilog=_EPILOG,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("--data", type=Path, default=Path("data"), help="folder of the results (default: %(default)s)")
    parser.add_argument("--split", choices=("test", "validation", "train"), default="test", help="default: %(default)s")
    parser.add_argument("--project", help="only the units of one project")
    parser.add_argument("--json", action="store_true", help="print JSON")
    parser.set_defaults(run=run)


def run(args: argparse.Namespace) -> None:
    """Print the table.

    Raises:
        ArtifactError: there is no finished run, or it holds nothing about these units.
    """
    path = args.data / "cse" / "report" / "comparisons.json"
    if not path.exists():
        raise ArtifactError(f"{path} is missing; set task to gcc-pre or jit-cse and run the pipeline: make")
    found = read_json(path)
    splits = found["splits"]
    if args.split not in splits:
        raise ArtifactError(f"{path} holds no {args.split} unit; it has {', '.join(splits)}")
    part = splits[args.split]
    if args.project is not None and args.project not in part["projects"]:
        known = ", ".join(part["projects"]) or "none"
        raise ArtifactError(f"{path} holds no {args.split} project {args.project}; it has {known}")
    contenders = part["contenders"] if args.project is None else part["projects"][args.project]
    if args.json:
        print(json.dumps(part if args.project is None else contenders, indent=2))
        return
    where = f"{args.split} units" if args.project is None else f"{args.split} units of {args.project}"
    print(
        f"Task {found['task']}, {where}. Score: {found['measure']}, lower is better.\n"
        "G: geometric mean of score / score under the heuristic, below 1 is better.\n"
        f"Of {part['units']} {args.split} units {part['labels']} have a best known choice, "
        f"{part['exhaustive_labels']} of them by trying all.\n"
    )
    print(aligned([_COLUMNS, *(_cells(name, record) for name, record in contenders.items())]))


def _cells(name: str, record: Mapping[str, Any]) -> list[str]:
    beside, size, share = record["heuristic"], record["size"], record["headroom_share"]
    interval = "" if beside["low"] is None else f" ({beside['low']:.4f} to {beside['high']:.4f})"
    failures = {kind: number for kind, number in record["failures"].items() if kind != "OK"}
    kinds = ", ".join(f"{kind} {number}" for kind, number in failures.items())
    return [
        name,
        str(beside["num_units"]),
        f"{sum(failures.values())}{f' ({kinds})' if kinds else ''}",
        f"{_ratio(beside['geomean'])}{interval}",
        f"{beside['better']} : {beside['worse']} : {beside['same']}",
        "-" if beside["mean_change"] is None else f"{100 * beside['mean_change']:+.2f} %",
        _ratio(size["geomean"]),
        "-" if share is None else f"{100 * share:+.1f} %",
        f"{record['eliminations']:.10g}",
        "" if name == "heuristic" else record["verdict"],
    ]


def _ratio(value: float | None) -> str:
    return "-" if value is None else f"{value:.4f}"
