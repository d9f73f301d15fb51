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
    "doctor": "mlgo.cli.doctor",
    "capture": "mlgo.cli.capture",
    "corpus": "mlgo.cli.corpus",
    "compile": "mlgo.cli.compile_module",
    "cc": "mlgo.cli.cc",
    "c++": "mlgo.cli.cc",
    "ld": "mlgo.cli.ld",
    "ld++": "mlgo.cli.ld",
    "evaluate": "mlgo.cli.evaluate",
    "explain": "mlgo.research.commands.explain",
    "import": "mlgo.cli.import_model",
    "distill": "mlgo.research.commands.distill",
    "combine": "mlgo.cli.combine",
    "replay": "mlgo.cli.replay",
    "config": "mlgo.cli.configure",
    "workers": "mlgo.cli.workers",
    "size-diff": "mlgo.cli.size_diff",
    "lit": "mlgo.research.commands.lit",
    "publish": "mlgo.cli.publish",
    "report": "mlgo.cli.show_report",
}
"""Modules by command. Importing all of them takes most of a second, so only the one in use is."""


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
        import_module(module).add_parser(commands)
    return parser


def main() -> None:
    """Run the command line and exit."""
    run_program(_dispatch)


def _dispatch() -> int | None:
    named = sys.argv[1:2]
    args = build_parser(named if set(named) & set(COMMANDS) else COMMANDS).parse_args()
    status: int | None = args.run(args)
    return status
