"""`mlgo doctor`: is everything here that the pipeline needs, and does the compiler keep its word?"""

import argparse
import os
import platform
import shutil
from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass
from functools import partial
from importlib.metadata import version
from pathlib import Path
from typing import Any

from packaging.requirements import Requirement

from mlgo.base.config import Config
from mlgo.base.packages import IS_CHECKOUT, NOT_INSTALLED, install_command, requirements, shortcoming
from mlgo.base.scratch import scratch_directory
from mlgo.cli.leftovers import add_folder_options, find_leftovers
from mlgo.cli.program import CONFIG, SETTINGS, add_command, add_options, read_config, say
from mlgo.corpus.link_time import full_lto_asks
from mlgo.corpus.recipe import sample_files
from mlgo.errors import LinkError, MlgoError, ToolchainError
from mlgo.host.frontend import FrontEnd
from mlgo.host.rustc import echoed_object, find_rustc, plain_object
from mlgo.host.session import compile_plain, compile_under_advice, probe_channel
from mlgo.host.tasks.task import ConstantAdvisor, EchoAdvisor, RecordedAdvisor, get_task
from mlgo.host.toolchain import Toolchain, find_linker, find_toolchain
from mlgo.objects.measures import DEFAULT, Compiled, read_scores
from mlgo.pool.cores import usable_cores

EXTRAS = ("", "train", "pipeline")
"""Extras of this package that are looked at; the first is what everything needs."""

PROGRAMS = ("git", "make")
_NEEDED_DISK_BYTES = 4 << 30


@dataclass(frozen=True)
class Check:
    """One thing looked at."""

    name: str
    ok: bool
    detail: str  # version, or what was found
    remedy: str = ""  # what to install or set; empty when ok


def add_parser(commands: Any) -> None:
    parser = add_command(commands, "doctor", run)
    add_folder_options(parser)
    add_options(parser, "--json", *CONFIG)


def run(args: argparse.Namespace) -> int:
    """Is everything here, and does the compiler keep its word?

    mlgo doctor
    mlgo doctor --json
    mlgo doctor --toolchain /usr/bin/clang-19
    """
    checks = []
    for check in run_checks(args):
        checks.append(check)
        if not args.json:
            print(f"{'ok     ' if check.ok else 'BROKEN '} {check.name:<14} {check.detail}")
            if not check.ok:
                print(f"        {'':<14} -> {check.remedy}")
    healthy = all(check.ok for check in checks)
    record = {"ok": healthy, "checks": [asdict(check) for check in checks]}
    say(args, record, "all is well" if healthy else "something is broken, see above")
    return 0 if healthy else 1


def run_checks(args: argparse.Namespace) -> Iterator[Check]:
    """Look at everything, one check after another; later ones are left out when what they need is missing."""
    yield Check("python", True, platform.python_version())
    for extra in EXTRAS:
        for package in requirements(extra):
            yield _package(package, extra)
    for name in PROGRAMS if IS_CHECKOUT else ():
        yield _looked_at(name, partial(_program, name), f"install {name} from your distribution")
    yield _looked_at("fifo", _fifo, "point TMPDIR at a local file system that allows FIFOs")
    if IS_CHECKOUT:
        yield _looked_at("disk", _disk, "free 4 GB for the default preset")
    yield Check("cores", True, f"{usable_cores()} usable")
    step, remedy = "configuration", "mend the file, or give another with --config"
    try:
        config = read_config(args)
        yield Check(step, True, str(args.config))
        yield _looked_at("older settings", lambda: _leftovers(args), "build the corpus anew")
        step, remedy = "compiler", f"set toolchain: auto in the configuration and run {install_command()}"
        toolchain = find_toolchain(config.toolchain, config.target)
        yield Check(step, True, f"{toolchain.name}, target {toolchain.target}")
        step, remedy = "channel", "set toolchain: auto in the configuration"
        header = probe_channel(toolchain, get_task(config.task), config.compile)
        yield Check(step, True, f"{len(header.features)} features, asks and takes answers")
        step, remedy = "front end", f"set toolchain: auto, and run {install_command()}"
        with scratch_directory() as folder:
            modules = _sample_modules(config, toolchain, folder)
            yield Check(step, True, f"{len(modules)} sample modules compiled")
            step, remedy = "self-test", "this clang does not take advice as released ones do; set toolchain: auto"
            differences = "; ".join(filter(None, (_self_test(config, toolchain, module) for module in modules)))
            what = "giving answers again" if get_task(config.task).default is None else "echoing the default"
            detail = differences or f"{what} reproduces {len(modules)} of {len(modules)} objects"
            yield Check(step, not differences, detail, remedy if differences else "")
            yield _looked_at("full LTO", partial(_full_lto, config, modules, folder), "set toolchain: auto")
            yield _looked_at("rustc", partial(_rustc, config, folder), "mlgo cargo needs another rustc")
    except MlgoError as error:
        yield Check(step, False, str(error), remedy)


def _looked_at(name: str, look: Callable[[], str], remedy: str) -> Check:
    """A check that is broken if looking fails."""
    try:
        return Check(name, True, look())
    except (MlgoError, OSError) as error:
        return Check(name, False, getattr(error, "strerror", None) or str(error), remedy)


def _package(package: Requirement, extra: str) -> Check:
    """Whether a package is there; of a tool that was installed, extras may be missing."""
    wrong = shortcoming(package)
    if wrong == NOT_INSTALLED and extra and not IS_CHECKOUT:
        return Check(package.name, True, f"not installed; {install_command(extra)} adds it")
    return Check(package.name, not wrong, wrong or version(package.name), install_command(extra) if wrong else "")


def _program(name: str) -> str:
    path = shutil.which(name)
    if path is None:
        raise ToolchainError("not found")
    return path


def _fifo() -> str:
    with scratch_directory() as folder:
        os.mkfifo(folder / "fifo")
    return "FIFOs work in the temporary folder"


def _disk() -> str:
    free = shutil.disk_usage(Path.cwd()).free
    if free < _NEEDED_DISK_BYTES:
        raise ToolchainError(f"{free / 1e9:.0f} GB free")
    return f"{free / 1e9:.0f} GB free"


def _leftovers(args: argparse.Namespace) -> str:
    text = "; ".join(map(str, find_leftovers(args.work, args.data, SETTINGS)))
    return f"{text}; mlgo replay prune --old deletes them" if text else "left nothing"


def _sample_modules(config: Config, toolchain: Toolchain, folder: Path) -> list[Path]:
    """Compile the first source of each sample project to bitcode."""
    front_end = FrontEnd(toolchain, config.compile, folder / "cache", get_task(config.task))
    first = {path.parent.name: path for path in reversed(sample_files().values())}
    return [front_end.module_of(path, folder / f"{name}.bc") for name, path in sorted(first.items())]


def _full_lto(config: Config, modules: list[Path], folder: Path) -> str:
    try:
        asks = full_lto_asks(find_linker(), modules, folder, config.compile.compile_timeout_s)
    except LinkError:
        return f"not tested: whole programs are linked for ELF alone, the target is {config.target}"
    if asks:
        return "lld asks while it optimizes whole programs"
    return (
        "lld asks nothing while it optimizes whole programs, another advisor runs; build with mlgo cc --whole or --thin"
    )


def _rustc(config: Config, folder: Path) -> str:
    """Whether rustc's own decisions give its own code, and what becomes of it where its traps are not avoided."""
    task, settings = get_task("inline-size"), config.compile
    try:
        rustc = find_rustc()
    except ToolchainError as error:  # without Rust all is well
        return f"{error}; mlgo cargo cannot use it"
    if rustc is None:
        return "not installed; mlgo cargo alone needs it"
    plain = plain_object(rustc, folder, settings)
    echo, questions = echoed_object(rustc, task, folder, settings)
    who = f"{rustc.version}, LLVM {'.'.join(map(str, rustc.llvm))}"
    if echo != plain:
        raise ToolchainError(f"{who}: echoing the default gives another object")
    # Nothing warns of it, so what drives rustc never sets the one without the other.
    trap = plain_object(rustc, folder, settings, [f"-Cllvm-args={flag}" for flag in task.mode_flags])
    before, after = (read_scores(Compiled(data))[DEFAULT.name] for data in (plain, trap))
    return (
        f"{who}; echoing the default reproduces an object ({questions} questions); with the inliner and no channel its "
        f"{before:,} bytes of text were {after:,}"
    )


def _self_test(config: Config, toolchain: Toolchain, module: Path) -> str:
    """Compile plain and under the echo of the default; return what differs, empty when nothing does."""
    task = get_task(config.task)
    settings = config.compile.model_copy(update={"size_stop_factor": 1000.0})
    if task.default is None:
        first = compile_under_advice(toolchain, task, module, ConstantAdvisor(0), settings)
        again = compile_under_advice(toolchain, task, module, RecordedAdvisor(first.answers), settings)
        return "" if first.object_sha256 == again.object_sha256 else f"{module.stem}: the same answers, another object"
    plain = compile_plain(toolchain, module, settings)
    advisor = EchoAdvisor(toolchain.quirks.default_slot)
    echo = compile_under_advice(toolchain, task, module, advisor, settings, with_heuristic_feature=True)
    if echo.object_sha256 != plain.object_sha256:
        echoed, expected = (DEFAULT.describe(one.scores) for one in (echo, plain))
        return f"{module.stem}: echo gives {echoed}, the plain compile {expected}"
    return "" if echo.num_questions else f"{module.stem}: the compiler asked nothing"
