"""`mlgo programs`: what policies change when programs run, and whether the compiler's costs tell."""

import argparse
import json
from dataclasses import asdict
from pathlib import Path
from typing import Any

from mlgo.cli.tables import aligned, markdown
from mlgo.core.files import write_text
from mlgo.report.execution import FIGURES, Execution, read_execution

_EPILOG = """\
examples:
  make programs PRESET=regalloc          build and run the programs under all policies (needs valgrind)
  mlgo programs                          changes over the heuristic, and how well costs rank what is executed
  mlgo programs --json
  mlgo programs --markdown docs/results/programs.md
"""


def add_parser(commands: Any) -> None:
    """Register the sub-command."""
    parser = commands.add_parser(
        "programs",
        help="what policies change when programs run",
        epilog=_EPILOG,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("--data", type=Path, default=Path("data"), help="folder of the results (default: %(default)s)")
    parser.add_argument("--json", action="store_true", help="print JSON")
    parser.add_argument("--markdown", type=Path, metavar="FILE", help="write the tables as a page as well")
    parser.set_defaults(run=run)


def run(args: argparse.Namespace) -> int:
    """Print changes and rank correlations; 1 when a program did something else than it should."""
    execution = read_execution(args.data / "execution" / "programs.parquet")
    if args.json:
        print(json.dumps(asdict(execution), indent=2))
    else:
        print("Change over the heuristic in percent, geometric mean over the programs; less is better.\n")
        print(aligned(_changes(execution, "all")))
        print("\nRank correlation (Spearman) over the contenders of a program: of spill cost and ...\n")
        print(aligned(_agreements(execution)))
        for program, contender, reason in execution.wrong:
            print(f"\n{program} under {contender}: {reason}")
    if args.markdown:
        _write_page(args.markdown, execution)
    return 1 if execution.wrong else 0


def _changes(execution: Execution, program: str | None) -> list[list[str]]:
    rows = [one for one in execution.changes if one.program == program or (program is None and one.program != "all")]
    return [
        ["program", "contender", *FIGURES.values()],
        *([one.program, one.contender, *(_percent(one.change[name]) for name in FIGURES)] for one in rows),
    ]


def _agreements(execution: Execution) -> list[list[str]]:
    return [
        ["program", "contenders", "instructions", "accesses"],
        *(
            [one.program, str(one.num_contenders), _rank(one.with_instructions), _rank(one.with_accesses)]
            for one in execution.agreements
        ),
    ]


def _write_page(path: Path, execution: Execution) -> None:
    parts = [
        "# Programs\n\nWhat policies change when programs run, written by `mlgo programs --markdown`.",
        "## All programs\n\nChange over the heuristic in percent, geometric mean; less is better.",
        markdown(_changes(execution, "all")),
        "## Does spill cost tell what is executed?\n\nSpearman's rank correlation over the contenders of a program.",
        markdown(_agreements(execution)),
        "## Program by program\n\nChange over the heuristic in percent.",
        markdown(_changes(execution, None)),
    ]
    write_text(path, "\n\n".join(parts) + "\n")


def _percent(change: float | None) -> str:
    return "-" if change is None else f"{100 * change:+.2f}"


def _rank(correlation: float | None) -> str:
    return "-" if correlation is None else f"{correlation:+.2f}"
