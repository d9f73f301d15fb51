"""Arguments and set-up that the stage programs share."""

import argparse
import os
from pathlib import Path

from mlgo.compiler.toolchain import Toolchain, find_toolchain
from mlgo.core.config import LOCAL_WORKERS, CompileConfig, CseConfig, WorkersConfig, parse_section
from mlgo.problems.subset.compiler import CompilerSpec
from mlgo.problems.subset.problem import compiler_spec


def stage_parser(description: str | None) -> argparse.ArgumentParser:
    """A parser that shows a program's docstring, example included, as its help."""
    return argparse.ArgumentParser(description=description, formatter_class=argparse.RawDescriptionHelpFormatter)


def add_compiler_arguments(parser: argparse.ArgumentParser) -> None:
    """Add what every program that compiles must know; see `compiler_of`."""
    parser.add_argument("--toolchain", default="auto", help="auto, ziglang, or a clang")
    parser.add_argument("--target", required=True, help="target triple")
    parser.add_argument("--compile", required=True, help="section compile of the configuration, as JSON")
    parser.add_argument("--work", type=Path, required=True, help="folder for what is neither in Git nor in DVC")


def training_parser(description: str | None, *sections: str) -> argparse.ArgumentParser:
    """A parser with what every training on compile results must know.

    Args:
        description: docstring of the program.
        sections: of the configuration that it needs besides ``compile`` and ``replay``; each becomes an argument.
    """
    parser = stage_parser(description)
    parser.add_argument("--seed", type=int, required=True)
    for section in ("replay", *sections):
        parser.add_argument(f"--{section}", required=True, help=f"section {section} of the configuration, as JSON")
    add_compiler_arguments(parser)
    parser.add_argument("--corpus", type=Path, required=True)
    parser.add_argument("--baseline", type=Path, required=True)
    add_workers_arguments(parser)
    parser.add_argument("--output", type=Path, required=True)
    return parser


def add_workers_arguments(parser: argparse.ArgumentParser) -> None:
    """Add where compiles run; see `workers_of`."""
    parser.add_argument("--workers", type=int, default=1, help="how many, unless section workers says")
    parser.add_argument(
        "--where",
        default=os.environ.get("MLGO_WORKERS"),
        help="section workers of the configuration, as JSON; by default from the environment variable MLGO_WORKERS, "
        "which the workflow sets, else processes of this machine",
    )


def workers_of(args: argparse.Namespace) -> WorkersConfig:
    """Where the arguments say that compiles run.

    Raises:
        ConfigError: bad settings.
    """
    return LOCAL_WORKERS if args.where is None else parse_section(WorkersConfig, args.where)


def cse_parser(description: str | None, *sections: str) -> argparse.ArgumentParser:
    """A parser with what every program must know that chooses eliminations; see `cse_compiler_of`.

    Args:
        description: docstring of the program.
        sections: of the configuration that it needs besides ``cse``; each becomes an argument.
    """
    parser = stage_parser(description)
    parser.add_argument("--task", required=True, help="gcc-pre or jit-cse")
    for section in ("cse", *sections):
        parser.add_argument(f"--{section}", required=True, help=f"section {section} of the configuration, as JSON")
    parser.add_argument("--seed", type=int, required=True)
    parser.add_argument("--sources", type=Path, help="table of translation units, for gcc-pre")
    parser.add_argument("--workers", type=int, default=1)
    parser.add_argument("--output", type=Path, required=True)
    return parser


def cse_compiler_of(args: argparse.Namespace) -> tuple[CseConfig, CompilerSpec]:
    """Settings, and the compiler that they name.

    Raises:
        ConfigError: bad settings.
        ToolchainError: no usable compiler.
    """
    config = parse_section(CseConfig, args.cse)
    return config, compiler_spec(args.task, config, args.sources)


def compiler_of(args: argparse.Namespace) -> tuple[Toolchain, CompileConfig]:
    """Toolchain and compile settings that the arguments name.

    Raises:
        ConfigError: bad settings.
        ToolchainError: no usable compiler.
    """
    settings = parse_section(CompileConfig, args.compile)
    return find_toolchain(args.toolchain, args.target), settings
