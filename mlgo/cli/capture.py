"""`mlgo capture`: any build becomes a project of a corpus."""

import argparse
import os.path
import shlex
import sys
from collections import Counter
from dataclasses import asdict
from pathlib import Path
from typing import Any

from mlgo.base.files import relative, shown
from mlgo.base.output import claim
from mlgo.base.packages import Package, fetch_package, pin_package, require
from mlgo.base.scratch import shared_folder
from mlgo.cli.program import CONFIG, add_command, add_options, configured, positive, say
from mlgo.corpus.capture.builds import recorded_build
from mlgo.corpus.capture.importers import KINDS, import_build
from mlgo.corpus.capture.invocations import is_own, run_build
from mlgo.corpus.capture.objects import with_system_headers
from mlgo.corpus.capture.project import Captured, Extraction, write_project
from mlgo.corpus.capture.wheels import wheel_project
from mlgo.corpus.recipe import Wheel
from mlgo.corpus.store import IN_CAPTURED
from mlgo.errors import ConfigError, CorpusError
from mlgo.host.command_line import check_options
from mlgo.host.frontend import FrontEnd
from mlgo.host.tasks.task import get_task
from mlgo.pool.cores import usable_cores


def add_parser(commands: Any) -> None:
    parser = add_command(commands, "capture", run)
    parser.add_argument("-o", "--output", type=Path, required=True, metavar="DIR", help="folder of the project")
    parser.add_argument("--from", dest="source", type=Path, metavar="PATH", help=f"instead of a build: {KINDS}")
    parser.add_argument("--sdist", metavar="NAME==VERSION", help="instead of a build: a source distribution's wheel")
    parser.add_argument("--sha256", help="of the source distribution (default: what the package index says)")
    parser.add_argument("--root", type=Path, help="names are relative to this folder (default: here)")
    parser.add_argument(
        "--options", default="", metavar="WORDS", help="of the code generation of bitcode: --options=-fPIC"
    )
    parser.add_argument("--name", help="of the project (default: the folder's)")
    parser.add_argument("--licence", default="", help="SPDX identifier of the sources")
    parser.add_argument(
        "--jobs", type=positive, default=usable_cores(), help="compiles at a time (default: %(default)s)"
    )
    add_options(parser, "--json", *CONFIG)
    parser.add_argument("build", nargs=argparse.REMAINDER, help="-- and the command that builds")


def run(args: argparse.Namespace) -> int:
    """Record a build and make a project of a corpus of it.

    mlgo capture -o captured/zlib -- make -j8
    mlgo capture -o captured/app -- sh -c 'cmake -B build && cmake --build build -j8'
    mlgo capture -o captured/ujson --sdist ujson==6.1.0
    mlgo capture -o captured/app --root ../app -- cargo build --release --manifest-path ../app/Cargo.toml
    mlgo capture -o captured/app --from build/compile_commands.json
    mlgo capture -o captured/app --from bitcode --options=-fPIC
    """
    command = args.build[1:] if args.build[:1] == ["--"] else args.build
    if sum(map(bool, (command, args.source, args.sdist))) != 1:
        raise ConfigError("give one of a command after --, --from, and --sdist")
    relative(args.name or args.output.resolve().name, "project")
    if args.sdist:
        require("--sdist", "index")
    claim(args.output, IN_CAPTURED)
    if args.sdist:
        captured, status = _capture_sdist(args), 0
    else:
        captured, status = _capture_build(args, command)
    say(args, asdict(captured), _summary(args.output, captured))
    if not captured.modules:
        raise CorpusError(f"none of the {len(captured.skipped)} units became a module; {args.output} says why")
    return status


def _capture_build(args: argparse.Namespace, command: list[str]) -> tuple[Captured, int]:
    """Capture what runs now, or what is written down; with the status of the build."""
    status, root = 0, Path(os.path.normpath((args.root or Path()).absolute()))  # builds name folders without `..`
    if command:
        status = run_build(command, args.output)
        build = with_system_headers(recorded_build(args.output, root), is_own)
    else:
        build = import_build(args.source, args.root, _options(args.options))
    for note in build.notes:
        print(f"note: {note}", file=sys.stderr)
    if command and not build.units and status:
        error = CorpusError(f"the build ended with status {status}, and nothing of what it compiled is there")
        error.exit_status = status
        raise error
    if not build.units and not build.modules:
        raise CorpusError(
            "no compile was seen whose output is there; set compilers in the environment (CC=... mlgo capture ... -- "
            "make), not behind make; a folder that was configured earlier calls its compilers by their paths: "
            "configure it anew with mlgo capture -o DIR -- cmake ..., or give its compile_commands.json with --from"
            if command
            else f"{args.source} names no compile"
        )
    if status:
        print(f"warning: the build ended with status {status}; what it had done until then is kept", file=sys.stderr)
    name = args.name or args.output.resolve().name
    return write_project(args.output, build, root, _extraction(args, name), ran=bool(command)), status


def _capture_sdist(args: argparse.Namespace) -> Captured:
    """Build a source distribution as a wheel, and capture that."""
    name, equals, version = args.sdist.partition("==")
    if not (name and equals and version):
        raise ConfigError(f"--sdist {args.sdist}: give NAME==VERSION")
    package = Package(name, version, args.sha256, "sdist") if args.sha256 else pin_package(name, version, "sdist")
    if not args.sha256:
        print(f"{package} has sha256 {package.sha256}", file=sys.stderr)
    archive = fetch_package(package, shared_folder() / "sdists")
    return wheel_project(archive, args.output.absolute(), Wheel(), _extraction(args, args.name or name))


def _options(text: str) -> tuple[str, ...]:
    """Options of code generation that a user gives for bitcode."""
    try:
        words = shlex.split(text)
    except ValueError as error:
        raise ConfigError(f"--options {text}: {error}") from error
    check_options(words)
    if strange := [word for word in words if not word.startswith(("-f", "-m"))]:
        raise ConfigError(f"--options takes those of code generation (-f..., -m...); {strange[0]} is none")
    return tuple(words)


def _summary(output: Path, captured: Captured) -> str:
    """How many modules and programs there are, and the first source that was left out for each kind of reason."""
    lines = [f"{captured.modules} modules and {captured.programs} programs in {output}"]
    for kind, count in Counter(reason.split(":")[0] for reason in captured.skipped.values()).most_common():
        first = next(f"{name}: {why}" for name, why in captured.skipped.items() if why.startswith(kind))
        lines.append(f"{count} sources left out ({kind}), the first is {shown(first)}")
    lines += [
        f"{count} modules of {level} are marked as of the configured level" for level, count in captured.edited.items()
    ]
    lines += [
        f"{shown(name)} links {len(files)} files that were not seen being made, the first is {shown(files[0])}"
        for name, files in captured.foreign.items()
    ]
    lines += [f"{count} modules are compiled without {shown(these)}" for these, count in captured.missed.items()]
    lines += [f"link left out: {shown(name)}: {shown(reason)}" for name, reason in captured.left_out.items()]
    return "\n".join(lines)


def _extraction(args: argparse.Namespace, name: str) -> Extraction:
    config, toolchain = configured(args)
    front_end = FrontEnd(toolchain, config.compile, shared_folder() / "zig-cache", get_task(config.task))
    return Extraction(name, args.licence, front_end, args.jobs)
