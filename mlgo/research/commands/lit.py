"""`mlgo lit`: LLVM's own tests of the interactive channel, on this clang."""

import argparse
from collections import Counter
from dataclasses import asdict
from functools import partial
from pathlib import Path
from typing import Any

from tqdm import tqdm

from mlgo.cli.options import add_command, say
from mlgo.research.lit.lit import run_tests

_EXAMPLES = """
mlgo lit llvm-project/llvm/test/Transforms/Inline/ML
mlgo lit llvm-project/llvm/test/CodeGen/MLRegAlloc --json
mlgo lit llvm-project/llvm/test/CodeGen/MLRegAlloc --tools llvm-project/build/bin
"""


def add_parser(commands: Any) -> None:
    """Register the sub-command."""
    parser = add_command(commands, "lit", "run LLVM's own tests of the interactive channel on this clang", _EXAMPLES)
    parser.add_argument("folder", type=Path, help="folder of tests in a checkout of LLVM; its RUN lines are executed")
    parser.add_argument("--tools", type=Path, metavar="DIR", help="opt, llc and FileCheck of a build of LLVM")
    parser.add_argument("--toolchain", default="auto", help="auto, ziglang, or a clang (default: %(default)s)")
    parser.add_argument("--json", action="store_true", help="print JSON")
    parser.set_defaults(run=run)


def run(args: argparse.Namespace) -> int:
    """Run and print; 1 unless a test passed and none failed."""
    progress = partial(tqdm, desc="lit", unit="test", disable=None, leave=False)
    found = run_tests(args.folder, args.toolchain, args.tools, progress)
    counts = Counter(one.outcome for one in found)
    summary = {name: counts[name] for name in ("passed", "failed", "not applicable")}
    lines = [f"{one.outcome:<14}  {one.name}{f': {one.reason}' if one.reason else ''}" for one in found]
    lines.append(", ".join(f"{number} {name}" for name, number in summary.items()))
    say(args, {"summary": summary, "tests": [asdict(one) for one in found]}, "\n".join(lines))
    return int(counts["failed"] > 0 or not counts["passed"])
