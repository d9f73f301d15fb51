"""`mlgo cc` and `mlgo c++`: compilers for the builds of others, advised by a policy.

What runs here runs once for a policy and a compiler: it makes their driver, which builds start without Python from then
on (``bin/mlgo``).
"""

import argparse
import os
import platform
import shutil
import signal
import sys
from pathlib import Path
from typing import Any, NoReturn

from mlgo.cli.options import add_command
from mlgo.compiler.toolchain import find_toolchain
from mlgo.core.errors import MlgoError, ToolchainError
from mlgo.core.scratch import remove_own_scratch
from mlgo.deploy.drivers import Choice, default_policy, make_driver, plain_command

_EXAMPLES = {
    "cc": """
make CC="mlgo cc --" CFLAGS=-Oz
CC="mlgo cc --" CXX="mlgo c++ --" cmake -B build -DCMAKE_BUILD_TYPE=MinSizeRel
CC="mlgo cc --policy $PWD/data/policies/marginal-s0 --" meson setup build --optimization s
mlgo cc --log compiles.jsonl -- -Oz -c file.c -o file.o
mlgo cc --compiler /usr/bin/clang-19 -- -Oz -c file.c -o file.o
mlgo cc --plain -- -Oz -c file.c -o file.o       the same compiler without the policy, to compare with
""",
    "c++": """
make CXX="mlgo c++ --" CXXFLAGS=-Oz
mlgo c++ --log compiles.jsonl -- -Oz -c file.cpp -o file.o
""",
}
_LANGUAGES = {"cc": "c", "c++": "c++"}


def add_parser(commands: Any) -> None:
    """Register both sub-commands."""
    for name, examples in _EXAMPLES.items():
        summary = f"compile {_LANGUAGES[name].upper()} as clang does, under a policy; for the builds of others"
        parser = add_command(commands, name, summary, examples)
        parser.add_argument(
            "--policy", metavar="DIR", help="a policy's folder (default: $MLGO_POLICY, else the released policy)"
        )
        parser.add_argument("--compiler", default="", metavar="CLANG", help="clang 17 or newer (default: of ziglang)")
        parser.add_argument("--plain", action="store_true", help="do not ask the policy")
        parser.add_argument(
            "--any-level", action="store_true", help="ask at every -O, not only at the one it was trained for"
        )
        parser.add_argument("--log", metavar="FILE", help="append a line of JSON for each command")
        parser.add_argument("arguments", nargs="*", metavar="-- ARGUMENT", help="what a compiler takes")
        parser.set_defaults(run=run, tool=name)


def run(args: argparse.Namespace) -> None:
    """Make the driver and become it; where that fails, say why once and become the compiler itself.

    Raises:
        ToolchainError: there is no such compiler.
    """
    compiler = shutil.which(args.compiler) or "" if args.compiler else ""
    if args.compiler and not compiler:
        raise ToolchainError(f"--compiler {args.compiler} is not an executable; give the path of a clang")
    toolchain = find_toolchain(compiler or "auto", f"{platform.machine()}-linux-gnu")
    named = args.policy or os.environ.get("MLGO_POLICY")
    try:
        choice = Choice(Path(named) if named else default_policy(), compiler, bool(named))
        driver = make_driver(choice, toolchain)
    except MlgoError as error:
        print(f"mlgo cc: warning: {error}; compiled without the policy", file=sys.stderr)
        _become([*plain_command(toolchain, _LANGUAGES[args.tool]), *args.arguments])
    options = [f"--{name}" for name in ("plain", "any-level") if getattr(args, name.replace("-", "_"))]
    log = ["--log", args.log] if args.log else []
    _become([str(driver), args.tool, "--new", *options, *log, "--", *args.arguments])


def _become(command: list[str]) -> NoReturn:
    remove_own_scratch()
    sys.stderr.flush()
    signal.signal(signal.SIGPIPE, signal.SIG_DFL)  # which Python ignores, and a compiler does not
    os.execv(command[0], command)
