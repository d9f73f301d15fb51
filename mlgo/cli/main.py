"""The `mlgo` command."""

import argparse
import sys
from collections.abc import Iterable
from functools import partial
from importlib import import_module

from mlgo import __version__
from mlgo.cli.program import run_program

_DESCRIPTION = "Train machine-learned compiler heuristics with a stock compiler, and prove what they are worth."
_EPILOG = """\
The pipeline runs under Snakemake or DVC: make, snakemake --cores 2, dvc repro.
Options and examples: mlgo COMMAND --help. Measurements: docs/benchmarks.md.
"""


COMMANDS = {
    "doctor": "doctor",
    "capture": "capture",
    "corpus": "corpus",
    "compile": "compile_module",
    "cc": "cc",
    "c++": "cc",
    "ld": "ld",
    "ld++": "ld",
    "evaluate": "evaluate",
    "explain": "explain",
    "import": "import_model",
    "distill": "distill",
    "combine": "combine",
    "replay": "replay",
    "config": "configure",
    "workers": "workers",
    "size-diff": "size_diff",
    "lit": "lit",
    "publish": "publish",
    "report": "show_report",
}
"""Modules of `mlgo.cli` by command. Importing all of them takes most of a second, so only the one in use is."""


def build_parser(names: Iterable[str] = COMMANDS) -> argparse.ArgumentParser:
    """The parser with some sub-commands; with all of them by default."""
    parser = argparse.ArgumentParser(
        "mlgo",
        usage="mlgo [-h] [--version] COMMAND ...",
        description=_DESCRIPTION,
        epilog=_EPILOG,
        formatter_class=partial(argparse.RawDescriptionHelpFormatter, max_help_position=20),
        add_help=False,
    )
    parser.add_argument("-h", "--help", action="help", help=argparse.SUPPRESS)
    parser.add_argument("--version", action="version", version=f"mlgo {__version__}", help=argparse.SUPPRESS)
    commands = parser.add_subparsers(title="commands", required=True, metavar="COMMAND ...", prog="mlgo")
    for module in dict.fromkeys(COMMANDS[name] for name in names):
        import_module(f"mlgo.cli.{module}").add_parser(commands)
    return parser


def main() -> None:
    """Run the command line and exit."""
    run_program(_dispatch)


def _dispatch() -> int | None:
    named = sys.argv[1:2]
    args = build_parser(named if set(named) & set(COMMANDS) else COMMANDS).parse_args()
    status: int | None = args.run(args)
    return status
