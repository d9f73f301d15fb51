"""The `mlgo` command."""

import argparse
import sys
from collections.abc import Iterable
from importlib import import_module

from mlgo import __version__
from mlgo.cli.program import run_program

_DESCRIPTION = """\
Train machine-learned compiler heuristics with a stock compiler.

The pipeline itself runs under Snakemake or DVC (make, snakemake --cores all, dvc repro); this command looks at
single things.
"""


COMMANDS = {
    "doctor": "doctor",
    "compile": "compile_module",
    "replay-episode": "replay_episode",
    "explain": "explain",
    "config": "configure",
    "replay": "replay",
    "headroom": "headroom",
    "cse": "cse",
    "programs": "programs",
    "scoreboard": "scoreboard",
    "generalisation": "generalisation",
    "sweep": "sweep",
    "report": "show_report",
    "workers": "workers",
}
"""Modules of `mlgo.cli` by command. Importing all of them takes most of a second, so only the one in use is."""


def build_parser(names: Iterable[str] = COMMANDS) -> argparse.ArgumentParser:
    """The parser with some sub-commands; with all of them by default."""
    parser = argparse.ArgumentParser("mlgo", description=_DESCRIPTION, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--version", action="version", version=f"mlgo {__version__}")
    commands = parser.add_subparsers(title="commands", required=True, metavar="COMMAND")
    for name in names:
        import_module(f"mlgo.cli.{COMMANDS[name]}").add_parser(commands)
    return parser


def main() -> None:
    """Run the command line and exit."""
    run_program(_dispatch)


def _dispatch() -> int | None:
    named = sys.argv[1:2]
    args = build_parser(named if set(named) & set(COMMANDS) else COMMANDS).parse_args()
    status: int | None = args.run(args)
    return status
