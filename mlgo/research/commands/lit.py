"""`mlgo lit`: LLVM's own tests of the interactive channel, on this clang."""

import argparse
import os
import platform
import re
import shutil
import sys
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from dataclasses import asdict, dataclass
from functools import partial
from pathlib import Path
from typing import Any, Literal

from tqdm import tqdm

from mlgo.base.scratch import scratch_directory
from mlgo.cli.program import add_command, add_options, say
from mlgo.errors import MlgoError
from mlgo.host.process import Child
from mlgo.host.toolchain import find_toolchain
from mlgo.research.lit_host import MODULES
from mlgo.research.lit_standins import REASON, TOOLCHAIN, TOOLS

Outcome = Literal["passed", "failed", "not applicable"]

_CHANNEL = "-interactive-channel-base="
_KEYWORD = re.compile(r"^[^\w\n]*(RUN|DEFINE|REQUIRES):(.*)$", re.MULTILINE)
_DEFINED = re.compile(r"%\{(\w+)\}")
_MODULE = re.compile(rf"\S*/({'|'.join(map(re.escape, MODULES))})(?=\s|$)")
_FEATURES = {f"{platform.machine()}-linux", f"{platform.machine()}-registered-target", "x86-registered-target"}
_TIMEOUT_S = 600.0
_TOOL = '#!/bin/sh\nexec "{}" -m mlgo.research.lit_standins {} "$@"\n'
_NOT = '#!/bin/sh\n[ "$1" = --crash ] && shift\nif "$@"; then exit 1; else exit 0; fi\n'


class LitError(MlgoError):
    """A folder of tests cannot be run."""

    exit_status = 2


@dataclass(frozen=True)
class Tested:
    """What became of a test: ``reason`` says why it did not pass."""

    name: str
    outcome: Outcome
    reason: str = ""


def run_tests(
    folder: Path, toolchain: str, tools: Path | None, progress: Callable[[Sequence[Path]], Iterable[Path]] = iter
) -> list[Tested]:
    """Run all tests of a folder, by name. Their commands are run as they stand: use folders that you trust.

    Args:
        folder: such as llvm/test/Transforms/Inline/ML of a checkout of LLVM.
        tools: folder with opt, llc and FileCheck; None makes clang do what they do.
        progress: gives back the files one by one, and may show how far it is.
    """
    if not folder.is_dir():
        raise LitError(f"{folder} is no folder")
    if shutil.which("bash") is None:
        raise LitError("RUN lines need bash, and it is not on PATH")
    if missing := [name for name in TOOLS if tools is not None and shutil.which(name, path=str(tools)) is None]:
        raise LitError(f"{tools} has no {', '.join(missing)}; name the folder bin of a build of LLVM")
    if tools is None:
        find_toolchain(toolchain, "x86_64-linux-gnu")
    folder, tools = folder.resolve(), tools.resolve() if tools else None  # commands run in another folder
    found = {path: path.read_text(errors="replace") for path in sorted(folder.rglob("*.ll")) if path.is_file()}
    tests = [path for path, text in found.items() if _lines(text, "RUN")]
    if not any(_CHANNEL in found[path] for path in tests):
        raise LitError(f"{folder} has no .ll file with a RUN line that names {_CHANNEL}; it needs LLVM's tests")
    with scratch_directory() as scratch:
        programs = {f"host/{name}": text for name, text in MODULES.items()}
        if tools is None:  # what takes the place of LLVM's tools
            programs |= {f"bin/{name}": _TOOL.format(sys.executable, name) for name in TOOLS} | {"bin/not": _NOT}
        for name, text in programs.items():
            (scratch / name).parent.mkdir(exist_ok=True)
            (scratch / name).write_text(text)
            (scratch / name).chmod(0o755)
        return [_run_test(path, folder, found[path], scratch, toolchain, tools) for path in progress(tests)]


def _run_test(path: Path, folder: Path, text: str, scratch: Path, toolchain: str, tools: Path | None) -> Tested:
    name = path.relative_to(folder).as_posix()
    if _CHANNEL not in " ".join(_lines(text, "RUN") + _lines(text, "DEFINE")):
        return Tested(name, "not applicable", "it does not use the interactive channel")
    required = {one.strip() for line in _lines(text, "REQUIRES") for one in line.split(",")}
    if unmet := sorted(required - _FEATURES):
        return Tested(name, "not applicable", f"it requires {', '.join(unmet)}")
    output = scratch / "output"
    shutil.rmtree(output, ignore_errors=True)
    output.mkdir()
    lines = script(path, text, output / f"{path.name}.tmp", scratch / "host")
    reason = output / "reason"
    command = ["bash", "-eo", "pipefail", "-c", "\n".join(lines)]
    programs = f"{tools or scratch / 'bin'}:{os.environ.get('PATH', '')}"
    environment = {**os.environ, "PATH": programs, REASON: str(reason), TOOLCHAIN: toolchain}
    done = Child(command, cwd=output, env=environment).finish(_TIMEOUT_S)
    if reason.exists():
        return Tested(name, "not applicable", reason.read_text().splitlines()[0])
    if done.returncode == 0:
        return Tested(name, "passed")
    messages = [line for line in done.stderr.splitlines() if line.strip()]
    how = f"no end within {_TIMEOUT_S:g} s" if done.returncode is None else f"status {done.returncode}"
    return Tested(name, "failed", f"{how}: {' | '.join(messages[-3:])[:500]}")


def script(path: Path, text: str, temporary: Path, host: Path) -> list[str]:
    """Commands of a test for a shell.

    Args:
        temporary: beginning of names of files that it may write (``%t``).
        host: folder with the modules that take the place of LLVM's host.
    """
    defined = {}
    for line in _lines(text, "DEFINE"):
        name, _, value = line.partition("=")
        defined[name.strip().removeprefix("%{").removesuffix("}")] = value.strip()
    known = {"%s": path, "%S": path.parent, "%p": path.parent, "%t": temporary, "%python": sys.executable, "%%": "%"}
    commands = []
    for line in _lines(text, "RUN"):
        while (expanded := _DEFINED.sub(lambda match: defined.get(match[1], match[0]), line)) != line:
            line = expanded
        line = re.sub("%python|%[sSpt%]", lambda match: str(known[match[0]]), line)
        commands.append(_MODULE.sub(lambda match: str(host / match[1]), line))
    return commands


def _lines(text: str, keyword: str) -> list[str]:
    """What stands behind a keyword, continued lines joined."""
    found = "".join(f"{match[2].strip()}\n" for match in _KEYWORD.finditer(text) if match[1] == keyword)
    return re.sub(r"[ \t]*\\\n", " ", found).splitlines()


def add_parser(commands: Any) -> None:
    parser = add_command(commands, "lit", run)
    parser.add_argument("folder", type=Path, help="folder of tests in a checkout of LLVM; its RUN lines are executed")
    parser.add_argument("--tools", type=Path, metavar="DIR", help="opt, llc and FileCheck of a build of LLVM")
    parser.add_argument("--toolchain", default="auto", help="auto, ziglang, or a clang (default: %(default)s)")
    add_options(parser, "--json")


def run(args: argparse.Namespace) -> int:
    """Run LLVM's own tests of the interactive channel on this clang.

    mlgo lit llvm-project/llvm/test/Transforms/Inline/ML
    mlgo lit llvm-project/llvm/test/CodeGen/MLRegAlloc --json
    mlgo lit llvm-project/llvm/test/CodeGen/MLRegAlloc --tools llvm-project/build/bin
    """
    progress = partial(tqdm, desc="lit", unit="test", disable=None, leave=False)
    found = run_tests(args.folder, args.toolchain, args.tools, progress)
    counts = Counter(one.outcome for one in found)
    summary = {name: counts[name] for name in ("passed", "failed", "not applicable")}
    lines = [f"{one.outcome:<14}  {one.name}{f': {one.reason}' if one.reason else ''}" for one in found]
    lines.append(", ".join(f"{number} {name}" for name, number in summary.items()))
    say(args, {"summary": summary, "tests": [asdict(one) for one in found]}, "\n".join(lines))
    return int(counts["failed"] > 0 or not counts["passed"])
