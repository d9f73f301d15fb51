"""The command line that all benchmarks share."""

import argparse
import json
from collections.abc import Mapping
from importlib import import_module
from pathlib import Path
from typing import Any

from mlgo.cli.program import CONFIG, add_options, run_program

RELEASED = Path("data/released/marginal-s0")


def run_benchmark(name: str) -> None:
    """Run ``main`` of a module that was started by ``python -m``, and exit.

    The module is imported by its name instead of being ``__main__``, so that workers can import what it sends them.
    """
    run_program(import_module(name).main)


def benchmark_parser(name: str, description: str | None) -> argparse.ArgumentParser:
    """A parser that shows a module's docstring, examples included, as its help.

    Args:
        name: of the module.
        description: its docstring.
    """
    return argparse.ArgumentParser(
        f"python -m {name}", description=description, formatter_class=argparse.RawDescriptionHelpFormatter
    )


def compiling_parser(name: str, description: str | None) -> argparse.ArgumentParser:
    """The same with what most benchmarks need: ``--data``, ``--quick``, ``--json`` and the configuration."""
    parser = benchmark_parser(name, description)
    parser.add_argument("--data", type=Path, default=Path("data"), help="folder with corpus/ and baseline/")
    parser.add_argument("--quick", action="store_true", help="under a minute on 2 cores, less precise")
    add_options(parser, "--json", *CONFIG)
    return parser


def add_policy_option(parser: argparse.ArgumentParser, policy: str) -> None:
    """Add ``--policy``, by default the released one, which every checkout has.

    Args:
        policy: what the policy is for.
    """
    parser.add_argument("--policy", type=Path, default=RELEASED, help=f"{policy} (default: %(default)s)")


def print_record(record: Mapping[str, Any], *, as_json: bool) -> None:
    """Print a result: as JSON, or a line for each value."""
    if as_json:
        print(json.dumps(record, indent=2))
        return
    width = max(map(len, record))
    for name, value in record.items():
        print(f"{name:<{width}}  {_text(value)}")


def _text(value: Any) -> str:
    return ", ".join(f"{kind} {count}" for kind, count in value.items()) if isinstance(value, dict) else str(value)
