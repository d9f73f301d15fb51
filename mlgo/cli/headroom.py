"""`mlgo headroom`: how much smaller modules could be, and what share of that each policy captured."""

import argparse
import json
from dataclasses import asdict
from pathlib import Path
from typing import Any

from mlgo.core.measures import DEFAULT, SIZES
from mlgo.report.headroom import Captured, read_captured

_EPILOG = """\
examples:
  make headroom                          search for smaller code (opt-in, some minutes)
  mlgo headroom                          what was found, by language and project
  mlgo headroom --measure exec_bytes --json
"""


def add_parser(commands: Any) -> None:
    """Register the sub-command."""
    parser = commands.add_parser(
        "headroom",
        help="how much smaller modules could be, and what share of that each policy captured",
        epilog=_EPILOG,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("--data", type=Path, default=Path("data"), help="folder of the results (default: %(default)s)")
    parser.add_argument("--measure", choices=SIZES, default=DEFAULT.name, help="size (default: %(default)s)")
    parser.add_argument("--json", action="store_true", help="print JSON")
    parser.set_defaults(run=run)


def run(args: argparse.Namespace) -> None:
    """Print a table for all modules, each language and each project."""
    rows = read_captured(
        args.data / "headroom" / "headroom.parquet", args.data / "evaluation" / "results.parquet", args.measure
    )
    if args.json:
        print(json.dumps([asdict(row) for row in rows], indent=2))
        return
    print(f"Gains over the heuristic in {args.measure}; share = (heuristic - policy) / (heuristic - best known).")
    for scope in dict.fromkeys(row.scope for row in rows):
        print(f"\n{scope:<16} modules   heuristic       bytes    total  per module   share of the known headroom")
        for row in rows:
            if row.scope == scope:
                print(_line(row))


def _line(row: Captured) -> str:
    share = f"{100 * row.share:+.1f} %" if row.is_policy and row.share is not None else ""
    return (
        f"  {row.contender:<14} {row.num_modules:>7} {row.heuristic_bytes:>11} {row.contender_bytes:>11} "
        + f"{100 * row.total:>+7.2f}%    {100 * row.geomean:>+7.2f}%   {share:>12}".rstrip()
    )
