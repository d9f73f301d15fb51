"""`mlgo doctor`: is everything here that the pipeline needs, and does the compiler keep its word?"""

import argparse
import json
import os
import platform
import shutil
import sys
from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

import mlgo
from mlgo.cli.leftovers import find_leftovers
from mlgo.cli.options import SETTINGS, add_command, add_config_options, add_folder_options, read_config
from mlgo.compiler.frontend import FrontEnd
from mlgo.compiler.probe import probe_channel
from mlgo.compiler.session import compile_plain, compile_under_advice
from mlgo.compiler.toolchain import Toolchain, find_toolchain
from mlgo.core.config import Config
from mlgo.core.errors import CompileError, MlgoError
from mlgo.core.files import write_bytes
from mlgo.core.measures import DEFAULT
from mlgo.core.scratch import scratch_directory
from mlgo.corpus.recipe import find_sources, load_recipe
from mlgo.problems.llvm.advisors import ConstantAdvisor, EchoAdvisor, RecordedAdvisor
from mlgo.problems.llvm.task import get_task

PACKAGES = (
    "numpy",
    "pyarrow",
    "pydantic",
    "ziglang",
    "snakemake",
    "dvc",
    "tensorflow",
    "keras",
    "plotly",
    "scipy",
    "scikit-learn",
)
PROGRAMS = ("git", "make")
CHECKOUT = Path(mlgo.__file__).parents[1]
_NEEDED_DISK_BYTES = 4 << 30

_EXAMPLES = """
mlgo doctor
mlgo doctor --json
mlgo doctor --toolchain /usr/bin/clang-19
"""


@dataclass(frozen=True)
class Check:
    """One thing looked at.

    Attributes:
        name: what it is.
        ok: whether it is as it should be.
        detail: version, or what was found.
        remedy: what to install or set; empty when ok.
    """

    name: str
    ok: bool
    detail: str
    remedy: str = ""


def add_parser(commands: Any) -> None:
    """Register the sub-command."""
    parser = add_command(commands, "doctor", "is everything here, and does the compiler keep its word?", _EXAMPLES)
    add_folder_options(parser)
    parser.add_argument("--json", action="store_true", help="print JSON")
    add_config_options(parser)
    parser.set_defaults(run=run)


def run(args: argparse.Namespace) -> int:
    """Print all checks; 1 when one fails."""
    checks = []
    for check in run_checks(args):
        checks.append(check)
        if not args.json:
            print(f"{'ok     ' if check.ok else 'BROKEN '} {check.name:<14} {check.detail}")
            if not check.ok:
                print(f"        {'':<14} -> {check.remedy}")
    healthy = all(check.ok for check in checks)
    if args.json:
        print(json.dumps({"ok": healthy, "checks": [asdict(check) for check in checks]}, indent=2))
    else:
        print("all is well" if healthy else "something is broken, see above")
    return 0 if healthy else 1


def run_checks(args: argparse.Namespace) -> Iterator[Check]:
    """Look at everything, one check after another; later ones are left out when what they need is missing."""
    yield _python()
    yield from (_package(name) for name in PACKAGES)
    yield from (_program(name) for name in PROGRAMS)
    yield _temporary_folder()
    yield _disk()
    yield _affinity()
    try:
        config = read_config(args)
        yield Check("configuration", True, str(args.config))
    except MlgoError as error:
        yield Check("configuration", False, str(error), "mend the file, or give another with --config")
        return
    yield _leftovers(args)
    try:
        toolchain = find_toolchain(config.toolchain, config.target)
        yield Check("compiler", True, f"{toolchain.name}, target {toolchain.target}")
    except MlgoError as error:
        yield Check("compiler", False, str(error), "set toolchain: auto in the configuration and run make setup")
        return
    try:
        header = probe_channel(toolchain, get_task(config.task), config.compile)
        yield Check("channel", True, f"{len(header.features)} features, asks and takes answers")
    except MlgoError as error:
        yield Check("channel", False, str(error), "set toolchain: auto in the configuration")
        return
    yield from _compiler_checks(config, toolchain)


def _python() -> Check:
    ok = sys.version_info >= (3, 11)
    return Check("python", ok, platform.python_version(), "" if ok else "install Python 3.11 or newer")


def _package(name: str) -> Check:
    try:
        return Check(name, True, version(name))
    except PackageNotFoundError:
        return Check(name, False, "not installed", "run make setup")


def _program(name: str) -> Check:
    path = shutil.which(name)
    return Check(name, path is not None, path or "not found", "" if path else f"install {name} from your distribution")


def _temporary_folder() -> Check:
    try:
        with scratch_directory() as folder:
            os.mkfifo(folder / "fifo")
        return Check("fifo", True, "FIFOs work in the temporary folder")
    except OSError as error:
        return Check("fifo", False, f"{error.strerror}", "point TMPDIR at a local file system that allows FIFOs")


def _disk() -> Check:
    free = shutil.disk_usage(Path.cwd()).free
    ok = free >= _NEEDED_DISK_BYTES
    return Check("disk", ok, f"{free / 1e9:.0f} GB free", "" if ok else "free 4 GB for the default preset")


def _leftovers(args: argparse.Namespace) -> Check:
    try:
        found = find_leftovers(args.work, args.data, SETTINGS)
    except MlgoError as error:
        return Check("older settings", False, str(error), "build the corpus anew")
    text = "; ".join(map(str, found))
    return Check("older settings", True, f"{text}; mlgo replay prune --old deletes them" if text else "left nothing")


def _affinity() -> Check:
    count = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count()
    return Check("cores", True, f"{count} usable")


def _compiler_checks(config: Config, toolchain: Toolchain) -> Iterator[Check]:
    with scratch_directory() as folder:
        modules, check = _sample_modules(config, toolchain, folder)
        yield check
        if modules:
            what = "giving answers again" if get_task(config.task).default is None else "echoing the default"
            yield _self_test_check(modules, lambda module: _self_test(config, toolchain, module), what)


def _sample_modules(config: Config, toolchain: Toolchain, folder: Path) -> tuple[list[Path], Check]:
    """Compile the first source of each sample project to bitcode."""
    front_end = FrontEnd(toolchain, config.compile, folder / "cache", get_task(config.task))
    recipes = sorted((CHECKOUT / "config/corpora/sample").glob("*.yaml"))
    modules = []
    for path in recipes:
        bitcode = folder / f"{path.stem}.bc"
        try:
            recipe = load_recipe(path)
            root = CHECKOUT / str(recipe.path)
            unit, source = find_sources(recipe, root)[0]
            front_end.compile_to_bitcode(root, unit.language, unit.arguments(), source, bitcode)
            write_bytes(bitcode, front_end.finished(bitcode))
        except CompileError as error:
            return [], Check("front end", False, f"{path.stem}: {error}", "set toolchain: auto")
        except MlgoError as error:
            return [], Check("front end", False, str(error), "restore config/corpora/sample and data/sample")
        modules.append(bitcode)
    if not modules:
        return [], Check("front end", False, "the sample corpus is missing", "run from a complete checkout")
    return modules, Check("front end", True, f"{len(modules)} sample modules compiled")


def _self_test(config: Config, toolchain: Toolchain, module: Path) -> str:
    """Compile plain and under the echo of the default; return what differs, empty when nothing does.

    Where the compiler does not tell its default, answers are recorded and given again instead.
    """
    task = get_task(config.task)
    settings = config.compile.model_copy(update={"size_stop_factor": 1000.0})
    if task.default is None:
        first = compile_under_advice(toolchain, task, module, ConstantAdvisor(0), settings)
        again = compile_under_advice(toolchain, task, module, RecordedAdvisor(first.answers), settings)
        return "" if first.object_sha256 == again.object_sha256 else f"{module.stem}: the same answers, another object"
    plain = compile_plain(toolchain, module, settings)
    advisor = EchoAdvisor(toolchain.quirks.default_slot)
    echo = compile_under_advice(toolchain, task, module, advisor, settings, with_default=True)
    if echo.object_sha256 != plain.object_sha256:
        echoed, expected = (DEFAULT.told(one.scores) for one in (echo, plain))
        return f"{module.stem}: echo gives {echoed}, the plain compile {expected}"
    return "" if echo.num_questions else f"{module.stem}: the compiler asked nothing"


def _self_test_check(modules: list[Path], test: Callable[[Path], str], what: str) -> Check:
    remedy = "this clang does not take advice as released ones do; set toolchain: auto"
    try:
        differences = [text for text in (test(module) for module in modules) if text]
    except CompileError as error:
        differences = [str(error)]
    detail = "; ".join(differences) or f"{what} reproduces {len(modules)} of {len(modules)} objects"
    return Check("self-test", not differences, detail, remedy if differences else "")
