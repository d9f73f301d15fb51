"""The `mlgo` command."""

import argparse
import sys
from collections.abc import Iterable
from functools import partial
from importlib import import_module
from importlib.metadata import entry_points

from mlgo import __version__
from mlgo.cli.program import run_program
from mlgo.errors import ConfigError

_DESCRIPTION = """\
Train machine-learned compiler heuristics, prove what they are worth. Examples: mlgo COMMAND --help.
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
    "cargo": "mlgo.cli.rust",
    "rustc": "mlgo.cli.rust",
    "profile": "mlgo.cli.profile",
    "evaluate": "mlgo.cli.evaluate",
    "tune": "mlgo.cli.tune",
    "import": "mlgo.cli.import_model",
    "combine": "mlgo.cli.combine",
    "replay": "mlgo.cli.replay",
    "config": "mlgo.cli.configure",
    "init": "mlgo.cli.configure",
    "workers": "mlgo.cli.workers",
    "size-diff": "mlgo.cli.size_diff",
    "publish": "mlgo.cli.publish",
    "report": "mlgo.cli.show_report",
}
"""Modules by command. Importing all of them takes most of a second, so only the one in use is."""

GROUP = "mlgo.commands"
"""Entry points of further commands: each names a module with ``add_parser(subparsers)``."""


def find_commands() -> dict[str, str]:
    """Modules of all commands by name, with those of `mlgo.research` and of other packages."""
    found = dict(COMMANDS)
    for point in sorted(entry_points(group=GROUP), key=lambda one: (one.name, one.value)):
        if found.setdefault(point.name, point.value) != point.value:
            raise ConfigError(
                f"command {point.name!r} is registered twice, as {found[point.name]} and as {point.value}; uninstall "
                "one of the packages"
            )
    return found


class _Help(argparse.RawDescriptionHelpFormatter):
    """Commands without a line that only says that they are commands."""

    def _format_action(self, action: argparse.Action) -> str:
        text = super()._format_action(action)
        return text.partition("\n")[2] if action.nargs == argparse.PARSER else text


def build_parser(names: Iterable[str] | None = None) -> argparse.ArgumentParser:
    """The parser with some sub-commands; with all of them by default."""
    modules = COMMANDS if names is not None and set(names) <= set(COMMANDS) else find_commands()
    parser = argparse.ArgumentParser(
        "mlgo",
        usage="mlgo [-h] [--version] COMMAND ...",
        description=_DESCRIPTION,
        formatter_class=partial(_Help, max_help_position=20),
        add_help=False,
    )
    parser.add_argument("-h", "--help", action="help", help=argparse.SUPPRESS)
    parser.add_argument("--version", action="version", version=f"mlgo {__version__}", help=argparse.SUPPRESS)
    commands = parser.add_subparsers(title="commands", required=True, metavar="COMMAND ...", prog="mlgo")
    for module in dict.fromkeys(modules[name] for name in (modules if names is None else names)):
        import_module(module).add_parser(commands)
    return parser


def main() -> None:
    """Run the command line and exit."""
    run_program(_dispatch)


def _dispatch() -> int | None:
    named = sys.argv[1:2]
    known = named and (named[0] in COMMANDS or named[0] in find_commands())
    args = build_parser(named if known else None).parse_args()
    status: int | None = args.run(args)
    return status
