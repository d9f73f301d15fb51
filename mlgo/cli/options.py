"""Options that several sub-commands share."""

import argparse
import json
import math
from collections.abc import Mapping, Sequence
from pathlib import Path
from textwrap import dedent, indent
from typing import Any

from mlgo.base.config import Config, load_config
from mlgo.base.scratch import shared_folder
from mlgo.base.sealed import check_corpus

SETTINGS = Path("config")
DEFAULT_CONFIG = SETTINGS / "config.yaml"


def add_command(
    commands: Any, name: str, summary: str, examples: str, parents: Sequence[argparse.ArgumentParser] = ()
) -> argparse.ArgumentParser:
    """Add a sub-command whose help ends with examples.

    Args:
        commands: what ``add_subparsers`` has returned.
        name: of the sub-command.
        summary: what it does, in a few words.
        examples: command lines, one in a line; remarks may stand beneath a blank line.
        parents: parsers with options that it shares.
    """
    parser: argparse.ArgumentParser = commands.add_parser(
        name,
        help=summary,
        description=summary[0].upper() + summary[1:] + "." * (not summary.endswith("?")),
        epilog="examples:\n" + indent(dedent(examples).strip(), "  "),
        formatter_class=argparse.RawDescriptionHelpFormatter,
        parents=parents,
    )
    return parser


def examples_of(actions: Mapping[str, str]) -> str:
    """Examples of a command: those of its actions, one after another."""
    return "\n".join(dedent(examples).strip() for examples in actions.values())


def add_config_options(parser: argparse.ArgumentParser) -> None:
    """Add ``--config``, ``--preset`` and ``--toolchain``."""
    parser.add_argument("--config", type=Path, default=DEFAULT_CONFIG, help="configuration (default: %(default)s)")
    parser.add_argument("--preset", type=Path, action="append", default=[], help="file laid over it; may be repeated")
    parser.add_argument("--toolchain", help="auto, ziglang, or a clang; instead of the configuration's")


def add_folder_options(parser: argparse.ArgumentParser) -> None:
    """Add ``--data`` and ``--work``."""
    parser.add_argument("--data", type=Path, default=Path("data"), help="folder of the results (default: %(default)s)")
    parser.add_argument(
        "--work",
        type=Path,
        default=shared_folder(),
        help="folder with replay/, checkpoints/ and bitcode/ (default: %(default)s)",
    )


def add_trace_option(parser: argparse.ArgumentParser) -> None:
    """Add ``--trace``."""
    parser.add_argument(
        "--trace",
        type=Path,
        default=Path("data/baseline/trace.parquet"),
        metavar="FILE",
        help="recorded questions (default: %(default)s)",
    )


def read_config(args: argparse.Namespace) -> Config:
    """Load the configuration that the options name."""
    config = load_config(args.config, *args.preset)
    check_corpus(config)
    return config.model_copy(update={"toolchain": args.toolchain}) if args.toolchain else config


def say(args: argparse.Namespace, record: Any, text: str) -> None:
    """Print a record as JSON if ``--json`` was given, else as text."""
    print(json.dumps(record, indent=2) if args.json else text)


def positive(text: str) -> int:
    """Read a whole number of at least 1, for ``argparse``."""
    value = int(text)
    if value < 1:
        raise argparse.ArgumentTypeError(f"{text} is not at least 1")
    return value


def positive_float(text: str) -> float:
    """Read a finite number above 0, for ``argparse``."""
    value = float(text)
    if not 0.0 < value < math.inf:
        raise argparse.ArgumentTypeError(f"{text} is not a number above 0")
    return value


def not_negative_float(text: str) -> float:
    """Read a finite number of at least 0, for ``argparse``."""
    value = float(text)
    if not 0.0 <= value < math.inf:
        raise argparse.ArgumentTypeError(f"{text} is not a number of at least 0")
    return value
