"""`mlgo profile`: what a program executes, as a profile for its compiler."""

import argparse
import shutil
import sys
from pathlib import Path
from typing import Any

from mlgo.base.files import write_text
from mlgo.cli.program import add_command, add_options, say
from mlgo.errors import ConfigError, ProgramError
from mlgo.host.program import find_valgrind
from mlgo.host.sample_profile import profile_text, run_counted, sample_functions


def add_parser(commands: Any) -> None:
    parser = add_command(commands, "profile", run)
    parser.add_argument("-o", "--output", type=Path, required=True, metavar="FILE", help="the profile, a text")
    add_options(parser, "--json")
    parser.add_argument("workload", nargs=argparse.REMAINDER, help="-- and the command that runs the program")


def run(args: argparse.Namespace) -> int:
    """Run a program under valgrind, and write its profile for -fprofile-sample-use.

    mlgo profile -o app.prof -- ./app --input typical.txt
    mlgo profile -o app.prof -- make check        what a command starts counts, too
    """
    command = args.workload[1:] if args.workload[:1] == ["--"] else args.workload
    if not command:
        raise ConfigError("give the command that runs the program after --")
    if shutil.which(command[0]) is None:
        raise ConfigError(f"cannot start {command[0]}: no such program")
    status, counts = run_counted(find_valgrind(), command)
    if not (functions := sample_functions(counts)):
        raise ProgramError(
            f"none of the {len(counts)} files that ran says which lines its code comes from; build the program with "
            "-g1 -fdebug-info-for-profiling, and do not strip it"
        )
    write_text(args.output, profile_text(functions))
    if status:
        print(f"warning: {command[0]} ended with status {status}; the profile is of what it did", file=sys.stderr)
    samples = sum(one.total for one in functions.values())
    record = {"functions": len(functions), "samples": samples, "status": status}
    say(args, record, f"{args.output}: {len(functions):,} functions, {samples:,} samples")
    return status
