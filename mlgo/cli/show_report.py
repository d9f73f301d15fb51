"""`mlgo report`: where the report is and what it found."""

import argparse
import json
from pathlib import Path
from typing import Any

from mlgo.core.files import read_json
from mlgo.core.names import PolicyName

_EPILOG = """\
examples:
  mlgo report
  mlgo report --json
"""


def add_parser(commands: Any) -> None:
    """Register the sub-command."""
    parser = commands.add_parser(
        "report",
        help="say where the report is and what it found",
        epilog=_EPILOG,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("--data", type=Path, default=Path("data"), help="folder of the results (default: %(default)s)")
    parser.add_argument("--json", action="store_true", help="print the metrics as JSON")
    parser.set_defaults(run=run)


def run(args: argparse.Namespace) -> None:
    """Print what ``comparisons.json`` says."""
    metrics = read_json(args.data / "report" / "comparisons.json")
    if args.json:
        print(json.dumps(metrics, indent=2))
        return
    policies = [name for name in metrics["test"] if PolicyName.find(name)]
    for name in policies:
        for part, title in (("", "test projects"), (" c++", "their C++ modules"), (" c", "their C modules")):
            if f"{name}{part}" in metrics["test"]:
                print(f"{name}, {title}: {summarise(metrics['test'][f'{name}{part}'])}")
    pages = {"report": args.data / "report/report.html", "compile times": args.data / "work/report/compile_time.html"}
    for what, path in pages.items():
        if path.exists():
            print(f"{what}: {path}")


def summarise(figures: dict[str, Any]) -> str:
    """One line about one policy, on spill cost where that was measured, else on text.

    It says "smaller" or "larger" only when the interval excludes zero.
    """
    key, name = ("spill_cost", "spill cost") if "spill_cost_verdict" in figures else ("text", "text")
    gain, low, high = (figures.get(f"{key}_geomean_{end}_percent") for end in ("gain", "low", "high"))
    counts = f"{figures[f'{key}_wins']} smaller, {figures[f'{key}_losses']} larger, {figures[f'{key}_ties']} equal"
    if gain is None or low is None or high is None:
        return f"no interval can be given ({counts})"
    verdict = figures[f"{key}_verdict"]
    interval = f"interval of the gain {low:+.2f} to {high:+.2f} %"
    if verdict == "no difference shown":
        return f"no difference shown in {name} (geometric mean {gain:+.2f} %, {interval}; modules: {counts})"
    return f"{name} {abs(gain):.2f} % {verdict} than the heuristic's (geometric mean; {interval}; modules: {counts})"
