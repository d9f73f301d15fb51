"""The `mlgo` command."""

import argparse

from mlgo import __version__
from mlgo.cli import (
    bench,
    compile_module,
    configure,
    cse,
    doctor,
    explain,
    generalisation,
    headroom,
    plan,
    programs,
    replay,
    replay_episode,
    scoreboard,
    show_report,
    sweep,
    workers,
)
from mlgo.cli.program import run_program

_DESCRIPTION = """\
Train machine-learned compiler heuristics with a stock compiler.

The pipeline itself runs under Snakemake or DVC (make, snakemake --cores all, dvc repro); this command looks at
single things.
"""


def build_parser() -> argparse.ArgumentParser:
    """The parser with all sub-commands."""
    parser = argparse.ArgumentParser("mlgo", description=_DESCRIPTION, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--version", action="version", version=f"mlgo {__version__}")
    commands = parser.add_subparsers(title="commands", required=True, metavar="COMMAND")
    for command in (
        doctor,
        compile_module,
        replay_episode,
        explain,
        configure,
        replay,
        bench,
        headroom,
        plan,
        cse,
        programs,
        scoreboard,
        generalisation,
        sweep,
        show_report,
        workers,
    ):
        command.add_parser(commands)
    return parser


def main() -> None:
    """Run the command line and exit."""
    run_program(_dispatch)


def _dispatch() -> int | None:
    args = build_parser().parse_args()
    status: int | None = args.run(args)
    return status
