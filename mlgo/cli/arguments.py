"""Arguments and set-up that the stage programs share."""

import argparse
import json
import os
from pathlib import Path

from mlgo.base.config import (
    LOCAL_WORKERS,
    CompileConfig,
    Settings,
    WorkersConfig,
    parse_section,
    read_settings,
)
from mlgo.cli.options import DEFAULT_CONFIG
from mlgo.errors import ConfigError
from mlgo.host.toolchain import Toolchain, find_toolchain

WORKERS = "MLGO_WORKERS"
"""Environment variable with section ``workers`` as JSON, which the workflow sets: where compiles run changes no result,
so it belongs to no rule's settings."""


def stage_parser(description: str | None) -> argparse.ArgumentParser:
    """A parser that shows a program's docstring, example included, as its help, and takes a configuration."""
    parser = argparse.ArgumentParser(description=description, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--config", type=Path, default=DEFAULT_CONFIG, help="configuration (default: %(default)s)")
    parser.add_argument("--preset", type=Path, action="append", default=[], help="file laid over it; may be repeated")
    return parser


def settings_of(args: argparse.Namespace) -> Settings:
    """The settings that ``--config`` and ``--preset`` name."""
    return read_settings(args.config, *args.preset)


def add_folder_arguments(parser: argparse.ArgumentParser) -> None:
    """Add ``--home`` and ``--work``; see `corpus_and_baseline`."""
    parser.add_argument(
        "--home", type=Path, default=Path("data"), help="folder with corpus/ and baseline/ (default: %(default)s)"
    )
    add_work_argument(parser)


def add_work_argument(parser: argparse.ArgumentParser) -> None:
    """Add ``--work``."""
    parser.add_argument(
        "--work",
        type=Path,
        default=Path("data/work"),
        help="folder for what is neither in Git nor in DVC (default: %(default)s)",
    )


def corpus_and_baseline(args: argparse.Namespace) -> tuple[Path, Path]:
    """Folders of the corpus and of its reference scores."""
    return args.home / "corpus", args.home / "baseline"


def add_workers_arguments(parser: argparse.ArgumentParser) -> None:
    """Add how many processes compile; see `workers_of`."""
    parser.add_argument("--workers", type=int, default=1, help="how many, unless section workers says")


def workers_of(settings: Settings) -> WorkersConfig:
    """Where compiles run: by the environment variable `WORKERS`, else section ``workers``, else on this machine."""
    if WORKERS in os.environ:
        try:
            values = json.loads(os.environ[WORKERS])
        except ValueError as error:
            raise ConfigError(f"environment variable {WORKERS} is not JSON: {error}") from error
        return parse_section(WorkersConfig, values, WORKERS)
    return settings.section("workers", WorkersConfig) if "workers" in settings else LOCAL_WORKERS


def compiler_of(settings: Settings) -> tuple[Toolchain, CompileConfig]:
    """Toolchain and compile settings."""
    compiling = settings.section("compile", CompileConfig)
    return find_toolchain(settings.value("toolchain"), settings.value("target")), compiling
