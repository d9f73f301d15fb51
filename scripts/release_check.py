"""Try a release as its users get it: install the wheel on several Pythons, drive several compilers, print what works.

Needs `dist/`, which `make dist` fills. Each environment is new, in a temporary folder. Whatever fails is a cell with
its reason, and the status is 1. Pythons and compilers that are not on this machine are named and count for nothing.

Example:
    python scripts/release_check.py
    python scripts/release_check.py --python /opt/python3.14/bin/python3 --skip-compilers
    python scripts/release_check.py --beside optuna==4.5.0 --only 3.12 --json
"""

import argparse
import json
import os
import re
import resource
import shutil
import sys
import time
import zipfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from mlgo import __version__
from mlgo.base.scratch import scratch_directory
from mlgo.cli.program import run_program
from mlgo.errors import MlgoError
from mlgo.host.process import Child
from mlgo.report.pages import Table, text_column

ROOT = Path(__file__).absolute().parents[1]
PYTHONS = ("3.11", "3.12", "3.13", "3.14")
WHEELS = {"19": "0.14.1", "20": "0.15.2", "21": "0.16.0", "22": "0.17.0"}
"""Releases of ziglang by the clang that they hold."""
DEBIAN_CLANG = Path("/usr/bin/clang-19")
TASKS = {"inline-size": "text bytes", "regalloc-evict": "spill cost", "regalloc-priority": "spill cost"}
"""Tasks with their measures."""

_INSTALL_S, _STEP_S = 900.0, 300.0
_OTHER_VERSION = "0.0.999"
_FIRST_COMPILE_S = 180.0
_OF_VENV = ("pip", "setuptools", "pkg_resources")
_MOST_MB = 700  # of 2^20 bytes, as du -m counts
_VERSION_MS, _IMPORT_MS = 100, 50
_NOT_KEPT = ("PYTHON", "MLGO_", "VIRTUAL_ENV", "CONDA")
"""Beginnings of environment variables that a stranger does not have; those of pip and proxies stay."""


class StepFailed(MlgoError):
    """A step did not do what it should; the message is the reason that its cell shows.

    Attributes:
        said: what the program had printed.
    """

    def __init__(self, reason: str, said: str = "") -> None:
        super().__init__(reason)
        self.said = said


@dataclass
class Row:
    """What became of a Python or a compiler: what each step found, or why it failed."""

    name: str
    here: bool = True
    found: dict[str, str] = field(default_factory=dict)
    failed: dict[str, str] = field(default_factory=dict)

    @contextmanager
    def step(self, name: str) -> Iterator[None]:
        """Let a step that fails end in its cell."""
        try:
            yield
        except StepFailed as error:
            self.failed[name] = str(error)

    def cell(self, step: str) -> str:
        """What the table says of a step."""
        return f"**{self.failed[step]}**" if step in self.failed else self.found.get(step, "-")


@dataclass(frozen=True)
class Environment:
    """An environment with mlgo, and an empty folder to work in."""

    venv: Path
    folder: Path
    wheel: Path = Path()  # what it has of mlgo

    def variables(self) -> dict[str, str]:
        """What programs in it see: the environment's programs first, and caches that are empty at first."""
        kept = {name: value for name, value in os.environ.items() if not name.startswith(_NOT_KEPT)}
        path = os.pathsep.join([str(self.venv / "bin"), kept.get("PATH", os.defpath)])
        return {**kept, "PATH": path, "XDG_CACHE_HOME": f"{self.folder}.cache", "PIP_NO_INPUT": "1"}

    def run(self, *command: str | Path, timeout_s: float = _STEP_S) -> str:
        """Run a program of the environment in the folder; returns what it prints."""
        words = [str(self.venv / "bin" / command[0]), *map(str, command[1:])]
        return run(words, self.folder, self.variables(), timeout_s)

    def pip(self, *words: str | Path) -> str:
        """Run the environment's pip."""
        return self.run("python", "-m", "pip", "--disable-pip-version-check", *words, timeout_s=_INSTALL_S)


def main() -> int:
    """Try everything, print the tables."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--dist", type=Path, default=Path("dist"), metavar="DIR", help="with the wheel and the sdist")
    parser.add_argument("--python", action="append", default=[], metavar="FILE", help="a Python to try; repeatable")
    parser.add_argument("--only", action="append", metavar="3.N", help="of the Pythons; repeatable")
    parser.add_argument("--beside", action="append", default=[], metavar="NAME==VERSION", help="install this first")
    parser.add_argument("--environment", type=Path, metavar="DIR", help="with mlgo: try nothing but compilers in it")
    parser.add_argument("--skip-compilers", action="store_true", help="try Pythons alone")
    parser.add_argument("--offline", action="store_true", help="try only compilers that are here")
    parser.add_argument("--json", action="store_true", help="print JSON")
    args = parser.parse_args()
    with scratch_directory() as scratch:
        working = Environment(args.environment.absolute(), scratch / "compilers") if args.environment else None
        pythons: list[Row] = []
        if working is None:
            pythons, working = try_pythons(args, scratch)
        compilers = [] if working is None or args.skip_compilers else try_compilers(working, args.offline)
    if args.json:
        found = {"pythons": list(map(asdict, pythons)), "compilers": list(map(asdict, compilers))}
        print(json.dumps({"version": __version__, **found}, indent=2))
    else:
        tables = (("Python", pythons), ("compiler", compilers))
        print("\n\n".join(_table(title, rows) for title, rows in tables if rows))
    return int(any(row.failed for row in [*pythons, *compilers]))


def try_pythons(args: argparse.Namespace, scratch: Path) -> tuple[list[Row], Environment | None]:
    """Try the wheel on each Python and the source distribution; returns the last environment that could be made."""
    wheel, sdist = find_release(args.dist)
    pythons = find_pythons([*args.python, *os.environ.get("PYTHONS", "").split()], args.only or PYTHONS)
    rows: list[Row] = []
    working: Environment | None = None
    for number, (name, found) in enumerate(pythons.items()):
        environment = Environment(scratch / f"venv{number}", scratch / f"empty{number}", wheel)
        rows.append(try_python(name, found, environment, args.beside))
        _tell(rows[-1])
        superseded: Environment | None = environment
        if "installed" in rows[-1].found and rows[-1].here:
            superseded, working = working, environment
        if superseded:
            shutil.rmtree(superseded.venv, ignore_errors=True)  # it takes half a gigabyte
    rows.append(try_sdist(sdist, wheel, scratch))
    _tell(rows[-1])
    return rows, working


def find_release(dist: Path) -> tuple[Path, Path]:
    """The wheel and the source distribution of this version, whatever else lies beside them."""
    wheels, sdists = (sorted(dist.absolute().glob(f"mlgo-{__version__}{end}")) for end in ("-*.whl", ".tar.gz"))
    if not wheels or not sdists:
        raise MlgoError(f"{dist} has no wheel and source distribution of mlgo {__version__}; run make dist")
    return wheels[0], sdists[0]


def find_pythons(named: Sequence[str], versions: Sequence[str]) -> dict[str, Path | str | None]:
    """Interpreters by version, None where there is none; a text says why one that was named is of no use."""
    found: dict[str, Path | str | None] = dict.fromkeys(versions)
    for path in named:
        try:
            found[_python_version(path)] = Path(path).absolute()
        except MlgoError as error:
            found[path] = str(error)
    for version in versions:
        pyenv = Path(os.environ.get("PYENV_ROOT", "~/.pyenv")).expanduser().glob(f"versions/{version}.*/bin/python3")
        for path in (shutil.which(f"python{version}"), *sorted(pyenv, reverse=True)):
            if path and found[version] is None and _is_python(str(path), version):
                found[version] = Path(path)
    return found


def _is_python(path: str, version: str) -> bool:
    try:
        return _python_version(path) == version
    except MlgoError:  # pyenv has programs of all versions, which start none of those that are not selected
        return False


def _python_version(path: str) -> str:
    return run([path, "-c", "import sys; print('%d.%d' % sys.version_info[:2])"], Path("/"), os.environ, 30).strip()


def try_python(name: str, found: Path | str | None, environment: Environment, beside: Sequence[str]) -> Row:
    """Install the wheel with a Python and use it in an empty folder."""
    row = _row_of(name, found, "installed")
    if not isinstance(found, Path):
        return row
    environment.folder.mkdir()
    with row.step("headers"):
        row.found["headers"] = _headers(found)
    with row.step("installed"):
        installed_s = install(found, environment, beside)
        row.found["installed"] = f"{installed_s:.0f} s"
        with row.step("first compile"):
            row.found["first compile"] = _first(environment, installed_s)
        for step, attempt in STEPS.items():
            with row.step(step):
                row.found[step] = attempt(environment)
    return row


def _row_of(name: str, found: Path | str | None, first_step: str) -> Row:
    """The row of what was looked for, which says so where it is not here or of no use."""
    if found is None:
        return Row(name, here=False, found={first_step: "not here"})
    return Row(name, failed={first_step: found} if isinstance(found, str) else {})


def _headers(python: Path) -> str:
    """Whether recipes of Cython's sources can be built; the tool itself needs no headers."""
    code = "import os, sysconfig; print(os.path.exists(os.path.join(sysconfig.get_path('include'), 'Python.h')))"
    return "yes" if run([str(python), "-c", code], Path("/"), os.environ, 30).strip() == "True" else "none"


def install(python: Path, environment: Environment, beside: Sequence[str]) -> float:
    """Make the environment and install the wheel; returns how many seconds pip took."""
    variables = environment.variables()
    try:
        run([str(python), "-c", "import ensurepip, venv"], Path("/"), variables, 30)
    except StepFailed as error:
        raise StepFailed(f"this Python makes no environments ({error}); install its venv package") from error
    run([str(python), "-m", "venv", str(environment.venv)], environment.folder, variables, _STEP_S)
    if beside:
        environment.pip("install", "--quiet", *beside)
    begin = time.monotonic()
    environment.pip("install", "--quiet", "--find-links", environment.wheel.parent, environment.wheel)
    return time.monotonic() - begin


def _first(environment: Environment, installed_s: float) -> str:
    """The first compile under a policy, in seconds since pip began."""
    begin = time.monotonic()
    decisions = compile_first(environment)
    seconds = installed_s + time.monotonic() - begin
    return f"after {_bounded(seconds, _FIRST_COMPILE_S, 's')}, {decisions} decisions"


def compile_first(environment: Environment) -> int:
    """Compile a file of the sample by `mlgo c++` under the released policy; returns how many decisions it took."""
    for project in ("json", "lz"):
        shutil.copytree(ROOT / "data" / "sample" / project, environment.folder, dirs_exist_ok=True)
    environment.run("mlgo", "c++", "--log", "log.jsonl", "--", "-Oz", "-c", "parser.cpp")
    log = json.loads((environment.folder / "log.jsonl").read_text().splitlines()[-1])
    if log["outcome"] != "advised" or not (environment.folder / "parser.o").is_file():
        raise StepFailed(f"mlgo c++: outcome {log['outcome']} {log.get('reason', '')}")
    return int(log["questions"])


def _size(environment: Environment) -> str:
    """What pip has installed; pip itself and, in Python 3.11, setuptools come with every environment."""
    folders = (one for one in environment.venv.glob("lib/*/site-packages/*") if not one.name.startswith(_OF_VENV))
    files = [path for folder in folders for path in (folder, *folder.rglob("*")) if path.is_file()]
    return _bounded(sum(path.lstat().st_blocks for path in files) / 2048, _MOST_MB, "MB")


def _version(environment: Environment) -> str:
    times = []
    for _ in range(5):
        before = _cpu_s()
        said = environment.run("mlgo", "--version").strip()
        times.append(_cpu_s() - before)
    if said != f"mlgo {__version__}":
        raise StepFailed(f"it says {said}")
    return _bounded(min(times) * 1e3, _VERSION_MS, "ms")


def _cpu_s() -> float:
    """Processor time of all programs so far, which other work on the machine stretches less than a clock's."""
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


def _import(environment: Environment) -> str:
    code = "import time; begin = time.process_time(); import mlgo; print(time.process_time() - begin)"
    seconds = min(float(environment.run("python", "-c", code)) for _ in range(5))
    return _bounded(seconds * 1e3, _IMPORT_MS, "ms")


def _bounded(value: float, most: float, unit: str) -> str:
    if value > most:
        busy = "" if unit == "MB" else f" (load {os.getloadavg()[0]:.1f} on {os.cpu_count()} cores)"
        raise StepFailed(f"{value:,.0f} {unit}, more than {most:,.0f}{busy}")
    return f"{value:,.0f} {unit}"


def _doctor(environment: Environment, *options: str) -> str:
    """What the self-test says; the first thing that is broken otherwise."""
    try:
        said = environment.run("mlgo", "doctor", "--json", *options)
    except StepFailed as error:
        if not error.said.startswith("{"):
            raise
        said = error.said
    checks = json.loads(said)["checks"]
    for check in checks:
        if not check["ok"]:
            raise StepFailed(f"{check['name']}: {check['detail']}")
    (said,) = (check["detail"] for check in checks if check["name"] == "self-test")
    return said.removeprefix("echoing the default reproduces ").removesuffix(" objects")


def _commands(environment: Environment) -> str:
    """A build is captured, evaluated and compared, an episode replayed, an environment stepped."""
    for words in COMMANDS:
        try:
            environment.run(*words)
        except StepFailed as error:
            raise StepFailed(f"{' '.join(words[:2])}: {error}") from error
    return f"{len(COMMANDS)} of {len(COMMANDS)}"


def _requirements(environment: Environment) -> str:
    """Whether all packages have what they want; with ``--beside``, old ones may not."""
    environment.pip("check")
    return "met"


def _another_version(environment: Environment) -> str:
    """Another version in an environment beside this one, on the same caches: each compiles by a driver of its own."""
    other = Environment(Path(f"{environment.venv}.other"), environment.folder)
    (site,) = environment.venv.glob("lib/python*/site-packages")
    environment.run("python", "-m", "venv", other.venv)
    try:
        (others,) = other.venv.glob("lib/python*/site-packages")
        (others / "dependencies.pth").write_text(f"{site}\n")
        other.pip("install", "--quiet", "--no-deps", _renumbered(environment.wheel, other.venv))
        for one, version in ((other, _OTHER_VERSION), (environment, __version__), (other, _OTHER_VERSION)):
            if one.run("mlgo", "--version").strip() != f"mlgo {version}":
                raise StepFailed(f"mlgo {version} answers as another version")
            compile_first(one)
    finally:
        shutil.rmtree(other.venv)
    return "each keeps its own driver"


def _renumbered(wheel: Path, folder: Path) -> Path:
    """The same wheel as another version."""
    target = folder / wheel.name.replace(__version__, _OTHER_VERSION)
    with zipfile.ZipFile(wheel) as archive, zipfile.ZipFile(target, "w") as written:
        for member in archive.infolist():
            content = archive.read(member)
            if member.filename == "mlgo/__init__.py" or member.filename.endswith(("/METADATA", "/RECORD")):
                content = content.replace(__version__.encode(), _OTHER_VERSION.encode())
            member.filename = member.filename.replace(f"mlgo-{__version__}.", f"mlgo-{_OTHER_VERSION}.")
            written.writestr(member, content)
    return target


_EPISODE = """
import gymnasium
env = gymnasium.make("mlgo.envs:mlgo/InlineSize-v0", modules=["parser.cpp"])
_, info = env.reset(seed=0)
over = False
while not over:
    _, reward, terminated, truncated, info = env.step(info["heuristic"])
    over = terminated or truncated
env.close()
assert abs(reward) < 1e-9, reward
"""

_BUILD = "$CC -Oz -fPIC -shared encode.c decode.c match.c -o liblz.so"
"""In C, for which zig needs no library of its own: that of C++ takes it minutes to build."""

COMMANDS = (
    ("mlgo", "--help"),
    ("mlgo", "compile", "parser.cpp", "--policy", "never"),
    ("mlgo", "compile", "parser.cpp", "--log", "parser.episode"),
    ("mlgo", "replay", "episode", "parser.episode"),
    ("mlgo", "c++", "--plain", "--", "-Oz", "-c", "parser.cpp", "-o", "plain.o"),
    ("mlgo", "size-diff", "plain.o", "parser.o"),
    ("/bin/sh", "-c", f"CC='python -m ziglang cc' mlgo capture -o captured -- sh -c '{_BUILD}'"),
    ("mlgo", "corpus", "verify", "--project", "captured"),
    ("mlgo", "evaluate", "--project", "captured", "--policy", "marginal-s0"),
    ("python", "-c", _EPISODE),
)
"""What works in an empty folder with the wheel alone, in this order."""

STEPS: dict[str, Callable[[Environment], str]] = {
    "size": _size,
    "`mlgo --version`": _version,
    "`import mlgo`": _import,
    "self-test": _doctor,
    "requirements": _requirements,
    "commands": _commands,
    "another version": _another_version,
}


def try_sdist(sdist: Path, wheel: Path, scratch: Path) -> Row:
    """Build a wheel from the source distribution: it must hold what the wheel holds."""
    row, built = Row("sdist"), scratch / "from_sdist"
    with row.step("installed"):
        command = [sys.executable, "-m", "pip", "--disable-pip-version-check", "wheel", "--quiet", "--no-deps"]
        run([*command, "--no-cache-dir", "-w", str(built), str(sdist)], scratch, os.environ, _INSTALL_S)
        (again,) = built.glob("*.whl")
        here, there = _members(wheel), _members(again)
        differing = sorted(name for name in here.keys() | there.keys() if here.get(name) != there.get(name))
        if differing:
            raise StepFailed(f"{len(differing)} files differ from the wheel's: {', '.join(differing[:3])}")
        row.found["installed"] = f"makes the same wheel, {len(here)} files"
    return row


_OF_MAKER = (".dist-info/RECORD", ".dist-info/WHEEL")
"""Files that name the version of what made the wheel, or hash what does."""


def _members(wheel: Path) -> dict[str, int]:
    with zipfile.ZipFile(wheel) as archive:
        return {one.filename: one.CRC for one in archive.infolist() if not one.filename.endswith(_OF_MAKER)}


def try_compilers(environment: Environment, offline: bool) -> list[Row]:
    """Try every compiler in an environment."""
    environment.folder.mkdir(exist_ok=True)
    rows = []
    for name, binary in find_compilers(environment, offline):
        rows.append(try_compiler(name, binary, environment))
        _tell(rows[-1])
    return rows


def find_compilers(environment: Environment, offline: bool) -> Iterator[tuple[str, Path | str | None]]:
    """Clangs by name: those of the package index, fetched once, and Debian's; a text says why one cannot be had."""
    cache = Path(os.environ.get("XDG_CACHE_HOME") or Path("~/.cache").expanduser()) / "mlgo" / "release-check"
    installed = environment.run("python", "-c", _INSTALLED_CLANG).split()
    for clang, version in WHEELS.items():
        name, folder = f"clang {clang} (ziglang {version})", cache / f"ziglang-{version}"
        binary = Path(installed[1]) if installed[0] == version else folder / "ziglang" / "zig"
        try:
            if not binary.exists() and not offline:
                part = folder.with_name(f"{folder.name}.{os.getpid()}")
                environment.pip("install", "--quiet", "--no-deps", "--target", part, f"ziglang=={version}")
                part.rename(folder)
            yield name, binary if binary.exists() else None
        except StepFailed as error:
            yield name, str(error)
    yield f"{DEBIAN_CLANG.name} of Debian", DEBIAN_CLANG if DEBIAN_CLANG.exists() else None


_INSTALLED_CLANG = """
import importlib.metadata, pathlib, ziglang
print(importlib.metadata.version("ziglang"), pathlib.Path(ziglang.__file__).with_name("zig"))
"""


def try_compiler(name: str, binary: Path | str | None, environment: Environment) -> Row:
    """Run the self-test with a compiler, and compile a file under a policy for each task."""
    row = _row_of(name, binary, "self-test")
    if not isinstance(binary, Path):
        return row
    with row.step("self-test"):
        row.found["self-test"] = _doctor(environment, "--toolchain", str(binary))
    with row.step("tasks"):
        program = ROOT / "scripts" / "try_compiler.py"
        options = ("--config", ROOT / "config" / "config.yaml", "--policy", ROOT / "data" / "released" / "marginal-s0")
        source = ROOT / "data" / "sample" / "json" / "parser.cpp"
        found = json.loads(environment.run("python", "-P", program, "--toolchain", binary, *options, source))
        for task, record in found.items():
            with row.step(task):
                row.found[task] = _decided(record)
    return row


def _decided(record: Mapping[str, Any]) -> str:
    if "failed" in record:
        raise StepFailed(str(record["failed"]))
    if not record["decisions"]:
        raise StepFailed("asked nothing")
    scores = (record[compiled] for compiled in ("plain", "advised"))
    plain, advised = (f"{score:,.0f}" if score >= 100 else f"{score:.2f}" for score in scores)
    return f"{record['decisions']:,}; {plain} to {advised}"


_ERROR = re.compile(r"(mlgo [\w+]+: )?error: (?!Exception:$)", re.IGNORECASE)


def run(command: Sequence[str], folder: Path, variables: Mapping[str, str], timeout_s: float) -> str:
    """Run a program for so many seconds at most; returns what it prints.

    Raises:
        StepFailed: it failed or took longer; its arguments are the reason and what it had printed.
    """
    with scratch_directory() as scratch:
        output = scratch / "stdout"
        try:
            ended = Child(command, cwd=folder, env=variables, stdout=output, max_memory_bytes=None).finish(timeout_s)
        except MlgoError as error:
            raise StepFailed(str(error)) from error
        said = output.read_text(errors="replace")
    if ended.returncode is None:
        raise StepFailed(f"no end within {timeout_s:.0f} s", said)
    if ended.returncode:
        raise StepFailed(_reason(ended.stderr or said) or f"status {ended.returncode}", said)
    return said


def _reason(said: str) -> str:
    """The line of an output that says why, without folders of this run; what pip found with the index comes first."""
    lines = [line.strip() for line in said.splitlines() if line.strip()]
    errors = [line for line in lines if _ERROR.match(line)] or lines[-1:]
    network = re.search(r"broken by '(\w+)\((?:.*?'(.*?)'|)", said)
    reason = "; ".join(errors[:1] + ([f"{network[1]} {network[2] or ''}".strip()] if network else []))
    reason = reason.replace("(from versions: none)", "(the package index gave none)")
    return re.sub(r"(?<![\w.])/[\w./+-]*/", "", reason)[:240].replace("|", "/")


def _tell(row: Row) -> None:
    said = "; ".join(row.failed.values()) or ("ok" if row.here else "not here")
    print(f"{row.name}: {said}", file=sys.stderr, flush=True)


def _table(title: str, rows: Sequence[Row]) -> str:
    """Markdown with a column for each step that any row has."""
    steps = list(dict.fromkeys(step for row in rows for step in [*row.found, *row.failed]))
    heads = {task: f"`{task}`: decisions; {measure}" for task, measure in TASKS.items()}
    columns = [text_column(title, lambda row: row.name)]
    columns += [text_column(heads.get(step, step), lambda row, step=step: row.cell(step)) for step in steps]  # type: ignore[misc]
    return Table(columns, rows).markdown()


if __name__ == "__main__":
    run_program(main)
