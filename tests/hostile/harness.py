"""Runs hostile inputs in folders of their own and judges what each has left behind."""

import copy
import fnmatch
import hashlib
import os
import pickle
import shutil
import stat
import subprocess
import tempfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from tests.hostile.server import LENGTH

REPOSITORY = Path(__file__).parent.parent.parent
CHECKOUT = Path(os.environ.get("MLGO_HOSTILE_CHECKOUT", REPOSITORY)).absolute()
"""The checkout under test; it runs by its own ``.venv``, if it has one."""
FAULTS = ("canary", "outside", "traceback", "hang", "crash", "memory", "left", "content", "display", "control")
"""What may be wrong with an outcome. A display is a name that speaks to the terminal, a control does not show its
effect where it must."""
_FIRED = (".so.fired", ".sh.fired", "outside/fired")
"""Ends of the names of what canaries write."""
_CANARY = """
#define _GNU_SOURCE
#include <dlfcn.h>
#include <fcntl.h>
#include <string.h>
__attribute__((constructor)) static void fire(void) {
  static char path[4096];
  Dl_info here;
  if (dladdr((void *)&fire, &here) && strlen(here.dli_fname) < sizeof path - 8)
    open(strcat(strcpy(path, here.dli_fname), ".fired"), O_WRONLY | O_CREAT, 0600);
}
"""


@dataclass(frozen=True)
class Request:
    """One start of a program.

    Attributes:
        words: ``mlgo`` or a script, and its arguments; or see ``call``.
        may_write: patterns of paths in the place, besides the output, that it may make or change.
        call: a function of `tests.hostile.server` to call instead; ``words`` are its arguments.
        options: further keys of a request to the server.
        finish: ends what the input needs beside it, such as a writer of a FIFO.
    """

    words: Sequence[Any]
    environment: Mapping[str, str] = field(default_factory=dict)
    may_write: Sequence[str] = ()
    seconds: float = 20.0
    cwd: Path | None = None
    call: str = ""
    options: Mapping[str, Any] = field(default_factory=dict)
    finish: Callable[[], object] = lambda: None


@dataclass(frozen=True)
class Outcome:
    """How a program ended."""

    status: int
    reason: str
    left: list[str]
    peak: int
    cpu: float
    stdout: bytes
    stderr: bytes

    @property
    def text(self) -> str:
        return (self.stdout + self.stderr).decode(errors="replace")


@dataclass(frozen=True)
class Input:
    """One hostile input.

    Attributes:
        kind: letter of the kind of defect that it looks for, A to K.
        make: writes it into a place and says what to run.
        judge: what else is wrong with an outcome, as fault and words; None if nothing is.
        needs_plugins: only a clang that loads plug-ins can show this defect.
    """

    kind: str
    surface: str
    name: str
    make: "Callable[[Place], Request]"
    judge: "Callable[[Place, Outcome], tuple[str, str] | None]" = lambda place, outcome: None
    needs_plugins: bool = False

    @property
    def key(self) -> str:
        return f"{self.kind}-{self.surface}-{self.name}"


Tables = dict[str, list[dict[str, Any]]]
"""Rows of tables by schema."""
TABLES = {"PROJECT": "project", "OBJECTS_OF_BUILD": "objects", "PROGRAMS_OF_PROJECT": "programs"}
"""Tables of a captured project."""


class Server:
    """A server of a checkout, see `tests.hostile.server`."""

    def __init__(self, checkout: Path = CHECKOUT) -> None:
        own = checkout / ".venv/bin/python"
        self.python = str(own) if own.exists() else shutil.which("python") or "python"
        self.checkout = checkout
        script = Path(__file__).with_name("server.py")
        quiet = {"OMP_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1", "TF_NUM_INTRAOP_THREADS": "1"}
        self._process = subprocess.Popen(
            [self.python, script],
            cwd=checkout,
            env={**os.environ, **quiet, "PYTHONPATH": str(checkout), "PYTHONUTF8": "1"},
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
        )

    def ask(self, request: Mapping[str, Any]) -> dict[str, Any]:
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        data = pickle.dumps(dict(request))
        self._process.stdin.write(LENGTH.pack(len(data)) + data)
        self._process.stdin.flush()
        header = self._process.stdout.read(LENGTH.size)
        assert len(header) == LENGTH.size, f"the server has died with status {self._process.wait()}"
        answer: dict[str, Any] = pickle.loads(self._process.stdout.read(LENGTH.unpack(header)[0]))
        return answer

    def close(self) -> None:
        assert self._process.stdin is not None
        self._process.stdin.close()
        self._process.wait(30)


class Place:
    """Folder of one input: ``in`` holds it and is where it runs, ``out`` is for output, all else must stay as it is."""

    def __init__(self, root: Path, world: "World") -> None:
        self.root, self.world = root, world
        self.work, self.out = root / "in", root / "out"
        for name in ("in", "tmp", "home", "outside"):
            (root / name).mkdir(parents=True)
        (root / "outside/precious").write_text("do not touch\n")
        (self.work / "a.c").write_text("int f(int x) { return x; }\nint g(int x) { return f(x) + 1; }\n")

    @property
    def plugin(self) -> Path:
        """A plug-in beside the input that fires a canary when it is loaded."""
        path = self.work / "canary.so"
        if not path.exists() and self.world.plugin is not None:
            shutil.copy(self.world.plugin, path)
        return path

    @property
    def program(self) -> Path:
        """A program that fires a canary when it runs."""
        path = self.work / "canary.sh"
        path.write_text('#!/bin/sh\n: > "$0.fired"\n')
        path.chmod(0o755)
        return path

    @property
    def forbidden(self) -> Path:
        """A file that must not be written."""
        return self.root / "outside/fired"

    def write(self, name: str, content: str | bytes) -> Path:
        """Write a file of the input."""
        path = self.work / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(content if isinstance(content, bytes) else content.encode(errors="surrogateescape"))
        return path

    def copy(self, name: str, to: str = "") -> Path:
        """Copy an honest artifact of the world into the input."""
        path = self.work / (to or name)
        path.parent.mkdir(parents=True, exist_ok=True)
        if (self.world.folder / name).is_dir():
            shutil.copytree(self.world.folder / name, path, symlinks=True)
        else:
            shutil.copy(self.world.folder / name, path)
        return path

    def table(self, name: str, schema: str, rows: list[dict[str, Any]], **origin: Any) -> Path:
        """Write a table by the writer of the checkout under test."""
        path = self.work / name
        path.parent.mkdir(parents=True, exist_ok=True)
        self.world.call("write_rows", str(path), schema, rows, origin)
        return path

    def project(self, edit: Callable[[Tables], object], to: str = "p", *, clang: bool = False) -> Path:
        """Write an honest project whose rows a function has changed; of one module, if the other clang made it."""
        tables, origins = copy.deepcopy(self.world.tables("of-clang" if clang and self.world.clang else "project"))
        edit(tables)
        for schema, name in TABLES.items():
            self.table(f"{to}/{name}.parquet", schema, tables[schema], **origins[schema])
        return self.work / to

    def state(self) -> dict[str, tuple[Any, ...]]:
        """What is in the place besides the output: kind and content by path."""
        return dict(_entries(self.root, skip=("out", "tmp", "log")))


def _entries(root: Path, skip: Sequence[str]) -> Iterator[tuple[str, tuple[Any, ...]]]:
    for folder, folders, files in os.walk(root):
        if Path(folder) == root:
            folders[:], files = ([name for name in some if name not in skip] for some in (folders, files))
        for name in [*folders, *files]:
            path = os.path.join(folder, name)  # noqa: PTH118 (names may be no text)
            status = os.lstat(path)
            content: Any = None
            if stat.S_ISLNK(status.st_mode):
                content = os.readlink(path)  # noqa: PTH115
            elif stat.S_ISREG(status.st_mode) and status.st_size < 1 << 22 and os.access(path, os.R_OK):
                with open(path, "rb") as file:  # noqa: PTH123
                    content = hashlib.sha256(file.read()).hexdigest()
            yield os.path.relpath(path, root), (stat.S_IFMT(status.st_mode), content)


class World:
    """Honest artifacts, made once by the checkout under test, and the server that runs inputs."""

    def __init__(self, folder: Path, server: Server, plugin: Path | None = None, clang: str = "") -> None:
        self.folder, self.server, self.plugin, self.clang = folder, server, plugin, clang
        (folder / "places").mkdir(parents=True, exist_ok=True)
        self._count = 0
        self._tables: dict[str, tuple[Tables, dict[str, dict[str, Any]]]] = {}

    def tables(self, project: str) -> tuple[Tables, dict[str, dict[str, Any]]]:
        """Rows and provenance of an honest project's tables, not to be changed."""
        if project not in self._tables:
            paths = {schema: str(self.folder / project / f"{name}.parquet") for schema, name in TABLES.items()}
            rows = {schema: self.call("read_rows", path, schema) for schema, path in paths.items()}
            origins = {schema: self.call("read_origin", path) for schema, path in paths.items()}
            self._tables[project] = rows, origins
        return self._tables[project]

    @property
    def config(self) -> list[str]:
        """Options that name a configuration with small bounds, by the wheel's compiler."""
        return ["--config", str(self.folder / "config.yaml")]

    @property
    def plugins(self) -> list[str]:
        """The same by a clang that loads plug-ins, where there is one."""
        return [*self.config, *(["--toolchain", self.clang] if self.clang else [])]

    def start(self, place: Place, request: Request) -> Outcome:
        """Run a request in a place."""
        log = place.root / "log"
        log.mkdir(exist_ok=True)
        environment = {
            "PATH": f"{Path(self.server.python).parent}:/usr/local/bin:/usr/bin:/bin",
            "HOME": str(place.root / "home"),
            "TMPDIR": str(place.root / "tmp"),
            "MLGO_SHARED": str(self.folder / "shared"),
            "LANG": "C.UTF-8",
            **request.environment,
        }
        number = len(list(log.iterdir()))
        stdout, stderr = log / f"{number}.out", log / f"{number}.err"
        what = {"call": request.call, "arguments": request.words} if request.call else {"words": request.words}
        answer = self.server.ask(
            {
                **what,
                "env": environment,
                "cwd": str(request.cwd or place.work),
                "seconds": request.seconds,
                "stdout": str(stdout),
                "stderr": str(stderr),
                **request.options,
            }
        )
        request.finish()
        texts = [path.read_bytes() if path.exists() else b"" for path in (stdout, stderr)]
        return Outcome(**answer, stdout=texts[0], stderr=texts[1])

    def call(self, function: str, *arguments: Any) -> Any:
        """Call a function of the server; an error is what is raised here."""
        with tempfile.TemporaryDirectory(dir=self.folder) as folder:
            place = Place(Path(folder) / "call", self)
            found = self.start(place, Request(arguments, call=function))
        if found.status:
            raise ValueError(found.text)
        return self.unpickled(found.stdout)

    @staticmethod
    def unpickled(data: bytes) -> Any:
        """What a function of the server has given."""
        return pickle.loads(data)

    def place(self) -> Place:
        """A new place."""
        self._count += 1
        return Place(Path(tempfile.mkdtemp(prefix=f"{self._count}-", dir=self.folder / "places")), self)

    def judge(self, one: Input) -> tuple[list[tuple[str, str]], Outcome]:
        """Run an input; faults with words, none if it was taken as data."""
        place = self.place()
        try:
            request = one.make(place)
            before = place.state()
            outcome = self.start(place, replace(request, words=[*map(_plain, request.words)]))
            return list(_faults(one, place, request, before, outcome)), outcome
        finally:
            for folder, _, _ in os.walk(place.root):
                if os.lstat(folder).st_mode & 0o700 != 0o700:
                    os.chmod(folder, 0o700)  # noqa: PTH101
            shutil.rmtree(place.root, ignore_errors=True)


def _plain(word: Any) -> Any:
    return str(word) if isinstance(word, Path) else word


def _faults(
    one: Input, place: Place, request: Request, before: Mapping[str, Any], outcome: Outcome
) -> Iterator[tuple[str, str]]:
    for path, _ in _entries(place.root, skip=("log",)):
        if path.endswith(_FIRED):
            yield "canary", path
    after = place.state()
    for path in sorted(before.keys() | after.keys()):
        allowed = path.endswith(_FIRED) or any(fnmatch.fnmatchcase(path, one) for one in request.may_write)
        if before.get(path) != after.get(path) and not allowed:
            yield "outside", path
    if "Traceback (most recent call last)" in outcome.text or "panic:" in outcome.text:
        yield "traceback", outcome.text.strip()[-400:]
    if outcome.reason == "clock":
        yield "hang", f"{request.seconds:g} s"
    elif outcome.reason == "memory":
        yield "memory", f"{outcome.peak:,} bytes"
    elif outcome.status < 0 and "kill_after" not in request.options:
        yield "crash", f"signal {-outcome.status}"
    if outcome.left:
        yield "left", "; ".join(outcome.left)
    if found := one.judge(place, outcome):
        yield found


def make_plugin(folder: Path) -> tuple[Path, str] | None:
    """The canary plug-in and a clang that loads it, shown by a plain ``-fplugin=``; None where there is none."""
    source, plugin, fired = folder / "canary.c", folder / "canary.so", folder / "canary.so.fired"
    source.write_text(_CANARY)
    (folder / "empty.c").write_text("")
    for clang in filter(None, (os.environ.get("MLGO_PLUGIN_CLANG"), "clang-19", "clang")):
        path = shutil.which(clang)
        if path is None:
            continue
        subprocess.run([path, "-shared", "-fPIC", source, "-o", plugin, "-ldl"], check=False, capture_output=True)
        loading = [path, f"-fplugin={plugin}", "-fsyntax-only", folder / "empty.c"]
        subprocess.run(loading, check=False, capture_output=True)
        if fired.exists():
            fired.unlink()
            return plugin, path
    return None
