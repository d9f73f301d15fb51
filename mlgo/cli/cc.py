"""`mlgo cc` and `mlgo c++`: compilers for the builds of others, advised by a policy.

What runs here runs once for a policy and a compiler: it makes their driver, which builds start without Python from then
on (``bin/mlgo``).
"""

import argparse
import json
import os
import platform
import shutil
import signal
import sys
from collections.abc import Callable, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any, NoReturn

from mlgo.base import names
from mlgo.base.scratch import remove_own_scratch
from mlgo.base.ships import Ships
from mlgo.cli.program import add_command
from mlgo.deploy.drivers import DriverChoice, make_driver
from mlgo.errors import MlgoError, ToolchainError
from mlgo.host.toolchain import Toolchain, find_toolchain

_HELP = {
    "cc": """Compile C in a build, under a policy.

make CC="mlgo cc --" CFLAGS=-Oz
CC="mlgo cc --" CXX="mlgo c++ --" CFLAGS=-Oz CXXFLAGS=-Oz cmake -B build
CC="mlgo cc --policy $PWD/data/policies/marginal-s0 --" CFLAGS=-Oz meson setup build
mlgo cc --log compiles.jsonl -- -Oz -c file.c -o file.o
mlgo cc --compiler /usr/bin/clang-19 -- -Oz -c file.c -o file.o
mlgo cc --plain -- -Oz -c file.c -o file.o       the same compiler without the policy, to compare with
make CC="mlgo cc --whole --" CFLAGS=-Oz          programs as one module each, linked by mlgo ld
mlgo cc --cold -- -O2 -fprofile-sample-use=app.prof -c file.c       small where it is cold, the rest untouched
""",
    "c++": """Compile C++ in a build, under a policy.

make CXX="mlgo c++ --" CXXFLAGS=-Oz
mlgo c++ --log compiles.jsonl -- -Oz -c file.cpp -o file.o
""",
}
LANGUAGES = {"cc": "c", "c++": "c++", "ld": "c", "ld++": "c++"}
"""What each command compiles or links."""


def add_parser(commands: Any) -> None:
    for name, text in _HELP.items():
        parser = add_command(commands, name, run, text=text)
        add_choice_options(parser)
        parser.add_argument("--whole", action="store_true", help="compile to bitcode, link as one module by mlgo ld")
        parser.add_argument("--thin", action="store_true", help="compile for ThinLTO, link by mlgo ld --thin")
        parser.add_argument(
            "--cold",
            action="store_true",
            help="ask only in functions that the profile of the build calls cold, at any level; see mlgo profile",
        )
        parser.set_defaults(tool=name)


def add_choice_options(parser: argparse.ArgumentParser) -> None:
    """Add what the compilers and linkers of C for builds share."""
    add_policy_options(parser, "what the compiler takes")
    parser.add_argument("--compiler", default="", metavar="CLANG", help="clang 17 or newer (default: of ziglang)")
    add_languages(parser, names.OF_CLANG)
    parser.add_argument(
        "--ships",
        type=Ships.of,
        metavar="RECORD",
        help="what ships, where the commands of the build say other: whole,folding=all (default: $MLGO_SHIPS)",
    )


def add_policy_options(
    parser: argparse.ArgumentParser, arguments: str, nargs: str = "*", metavar: str = "-- ARGUMENT"
) -> None:
    """Add what all compilers for builds share."""
    parser.add_argument(
        "--policy",
        metavar="P",
        help="a policy's folder, or the name of an installed one (default: $MLGO_POLICY, else the released policy)",
    )
    parser.add_argument("--plain", action="store_true", help="do not ask the policy")
    parser.add_argument("--any-level", action="store_true", help="at every -O, not only at the one of its training")
    parser.add_argument("--log", metavar="FILE", help="append a line of JSON for each command")
    parser.add_argument("arguments", nargs=nargs, metavar=metavar, help=arguments)


def add_languages(parser: argparse.ArgumentParser, known: Sequence[str] = names.LANGUAGES) -> None:
    """Add the option that says in which languages a policy is asked, of those that a command knows."""

    def languages(text: str) -> list[str]:
        found = text.split(",")
        if not set(found) <= set(known):
            raise argparse.ArgumentTypeError(f"{text}: these are {', '.join(sorted(known))}, with commas between")
        return found

    parser.add_argument(
        "--languages",
        type=languages,
        metavar="L",
        help=f"ask the policy in some of {', '.join(sorted(known))}, with commas between (default: in those of its "
        "training; the released policy not in c)",
    )


def chosen(args: argparse.Namespace) -> tuple[Toolchain, Callable[[], DriverChoice]]:
    """The compiler that the options name, and the policy, which may not be there."""
    compiler = shutil.which(args.compiler) or "" if args.compiler else ""
    if args.compiler and not compiler:
        raise ToolchainError(f"--compiler {args.compiler} is not an executable; give the path of a clang")
    named = args.policy or os.environ.get("MLGO_POLICY") or ""
    toolchain = find_toolchain(compiler or "auto", f"{platform.machine()}-linux-gnu")
    if toolchain.is_zig:  # which asks $CC where the system's C library is, and that is this command again
        os.environ.pop("CC", None)
    return toolchain, lambda: DriverChoice.of(named, str(Path(compiler).absolute()) if compiler else "")


def run(args: argparse.Namespace) -> None:
    """Make the driver and become it; where that fails, say why once and become the compiler itself."""
    toolchain, choice = chosen(args)
    try:
        driver = make_driver(choice(), toolchain)
    except MlgoError as error:
        reason = "--plain" if args.plain else str(error)
        log(args, {"source": "", "outcome": "plain" if args.plain else "failed", "reason": reason})
        become_plain(args, None if args.plain else error, toolchain, choice)
    switches = ("plain", "whole", "thin", "any-level", "cold")
    flags = [f"--{name}" for name in switches if getattr(args, name.replace("-", "_"))]
    languages = ",".join(args.languages or ())
    ships = str(args.ships or "")
    named = {"--policy": args.policy, "--compiler": args.compiler, "--languages": languages, "--ships": ships}
    named["--log"] = args.log
    options = [word for option, value in named.items() if value for word in (option, value)]
    _become([str(driver), args.tool, "--new", *flags, *options, "--", *args.arguments])


def log(args: argparse.Namespace, record: dict[str, Any]) -> None:
    """Append a line to the file that ``--log`` names, if any."""
    if args.log:
        try:
            place = os.open(args.log, os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_NONBLOCK | os.O_CLOEXEC, 0o666)
            with os.fdopen(place, "a") as file:  # not waiting for the reader of a FIFO
                file.write(json.dumps(record, separators=(",", ":")) + "\n")
        except OSError as error:
            print(f"mlgo {args.tool}: warning: cannot write {args.log}: {error.strerror}", file=sys.stderr)


def become_plain(
    args: argparse.Namespace, error: MlgoError | None, toolchain: Toolchain, choice: Callable[[], DriverChoice]
) -> NoReturn:
    """Do as the compiler itself; where that works and something is wrong, say what."""
    command = _plain_command(args, toolchain, choice)
    if error is None:
        _become(command)
    _prepare_to_end()
    if (status := os.spawnvp(os.P_WAIT, command[0], command)) == 0:
        print(f"mlgo {args.tool}: warning: {error}; done without the policy", file=sys.stderr)
    sys.exit(status if status >= 0 else 128 - status)


def _plain_command(args: argparse.Namespace, toolchain: Toolchain, choice: Callable[[], DriverChoice]) -> list[str]:
    """Start a driver, which mends what zig's own does wrong: the one of this policy, or of the default one."""
    if args.tool == "rustc":
        return list(args.arguments)
    for one in (choice, lambda: DriverChoice.plain(toolchain.binary)):
        with suppress(MlgoError):
            tool = "c++" if LANGUAGES[args.tool] == "c++" else "cc"
            return [str(make_driver(one(), toolchain)), tool, "--new", "--plain", "--", *args.arguments]
    levels = [word for word in args.arguments if word.startswith("-O")]
    level = ["-Xclang", "-Oz"] if toolchain.is_zig and levels[-1:] == ["-Oz"] else []  # zig takes it for -Os
    return [*toolchain.driver(LANGUAGES[args.tool]), *args.arguments, *level]


def _prepare_to_end() -> None:
    remove_own_scratch()
    sys.stdout.flush()
    sys.stderr.flush()
    signal.signal(signal.SIGPIPE, signal.SIG_DFL)  # which Python ignores, and a compiler does not


def _become(command: list[str]) -> NoReturn:
    _prepare_to_end()
    os.execvp(command[0], command)
