"""What the tests share: the real compiler, small modules, and a check that nothing stays behind."""

import gc
import os
import signal
import subprocess
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from dataclasses import replace
from importlib import metadata
from multiprocessing import resource_tracker
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck
from hypothesis import settings as hypothesis_settings

from mlgo.base.config import CompileConfig
from mlgo.base.scratch import scratch_directory
from mlgo.base.ships import Ships
from mlgo.errors import ToolchainError
from mlgo.host import process
from mlgo.host.frontend import FrontEnd
from mlgo.host.program import Valgrind, find_valgrind
from mlgo.host.tasks.task import Task, get_task
from mlgo.host.toolchain import Toolchain, find_toolchain
from tests.browser import Browser, running_browser
from tests.tensorflow_process import TensorFlowProcess

REPOSITORY = Path(__file__).parent.parent
SAMPLE = REPOSITORY / "data" / "sample"
FLAGS = {
    "c": ["-std=c11", "-nostdinc"],
    "c++": ["-std=c++17", "-fno-exceptions", "-fno-rtti", "-nostdinc", "-nostdinc++"],
}

WITHIN_S = 10.0
"""Deadline for what happens at once unless all cores are busy, in seconds."""

hypothesis_settings.register_profile(
    "mlgo",
    deadline=None,
    max_examples=60,
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.large_base_example],
    derandomize=True,
)
hypothesis_settings.load_profile("mlgo")


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Tests that link programs are slow: on a fresh checkout zig builds its C library first, which takes a minute."""
    for item in items:
        if "zig_cache" in getattr(item, "fixturenames", ()):
            item.add_marker(pytest.mark.slow)


def pytest_collection_finish() -> None:
    """Keep modules and collected tests out of the garbage collector, which `leaves_nothing` runs often."""
    gc.collect()
    gc.freeze()


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_auto_num_workers() -> int:
    """Answer ``-n auto``: one more than the cores that this process may use, as many tests wait for others."""
    return min(8, len(os.sched_getaffinity(0)) + 1)


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config: pytest.Config, log: Any) -> Any:
    """Give files to processes as ``--dist loadfile`` does, but those of some folders to one.

    The pipeline runs there once, and TensorFlow is imported once.
    """
    if config.getoption("dist") != "loadfile":
        return None
    from xdist.scheduler import LoadFileScheduling

    class Scheduling(LoadFileScheduling):
        def _split_scope(self, nodeid: str) -> str:
            file = super()._split_scope(nodeid)
            folder = file.rpartition("/")[0]
            return folder if folder in ("tests/pipeline", "tests/deploy/export") else file

    return Scheduling(config, log)


@pytest.fixture(scope="session", autouse=True)
def interrupts_arrive() -> Iterator[None]:
    """Undo that SIGINT is ignored, as in the background of a script or under nohup; children inherit that."""
    before = signal.getsignal(signal.SIGINT)
    if before is signal.SIG_IGN:
        signal.signal(signal.SIGINT, signal.default_int_handler)
    yield
    signal.signal(signal.SIGINT, before)


@pytest.fixture(scope="session", autouse=True)
def own_temporary_folder(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """Keep scratch folders and core claims of the tests apart from those of real runs.

    Each process of pytest-xdist has a folder of its own, except for the claims: all share the cores.
    """
    folder = tmp_path_factory.mktemp("tmp")
    if "PYTEST_XDIST_WORKER" in os.environ:
        claims = tmp_path_factory.getbasetemp().parent / "cores"
        claims.mkdir(mode=0o700, exist_ok=True)
    else:
        claims = folder
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("TMPDIR", str(folder))
        patch.setenv("XDG_RUNTIME_DIR", str(claims))
        patch.setattr(tempfile, "tempdir", str(folder))
        yield folder


@pytest.fixture(scope="session")
def in_tensorflow() -> Iterator[Callable[..., str]]:
    """Runs the text of a program, with arguments, in a process that may import TensorFlow; gives what it prints."""
    process = TensorFlowProcess()
    yield process.run
    process.close()


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    """A real browser, see `tests.browser`; it ends with the file, as its event loop would be in the way of others."""
    with running_browser() as running:
        yield running


@pytest.fixture(scope="session")
def toolchain() -> Toolchain:
    return find_toolchain("auto", "x86_64-linux-gnu")


@pytest.fixture(scope="session")
def settings() -> CompileConfig:
    return CompileConfig(
        objective="text_bytes",
        optimization="-Oz",
        ships=Ships(form="objects"),
        size_stop_factor=1000.0,
        compile_timeout_s=60.0,
        answer_timeout_s=30.0,
        max_questions=1_000_000,
        ir2vec="",
        tell_heuristic=False,
        max_memory_gb=8.0,
    )


@pytest.fixture(scope="session")
def task() -> Task:
    return get_task("inline-size")


@pytest.fixture(scope="session")
def zig_cache(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder for zig's caches that outlives the tests, so that the C library is not built each time.

    Zig locks what it builds there, so test processes may share it.
    """
    kept = getattr(request.config, "cache", None)  # none under `-p no:cacheprovider`
    return kept.mkdir("zig-cache") if kept else tmp_path_factory.mktemp("zig-cache")


@pytest.fixture(scope="session")
def valgrind() -> Valgrind:
    """That of this machine; tests that count what runs are skipped without one."""
    try:
        return find_valgrind()
    except ToolchainError as error:
        pytest.skip(str(error))


@pytest.fixture(scope="session")
def front_end(toolchain: Toolchain, settings: CompileConfig, tmp_path_factory: pytest.TempPathFactory) -> FrontEnd:
    return FrontEnd(toolchain, settings, tmp_path_factory.mktemp("zig-cache"))


@pytest.fixture(scope="session")
def sample(front_end: FrontEnd, tmp_path_factory: pytest.TempPathFactory) -> Callable[[str], Path]:
    """Bitcode of a source of data/sample by its path there."""
    folder = tmp_path_factory.mktemp("sample")

    def compile_sample(source: str) -> Path:
        output = folder / (source.replace("/", "-") + ".bc")
        if not output.exists():
            language = "c" if source.endswith(".c") else "c++"
            front_end.compile_to_bitcode(SAMPLE, language, FLAGS[language], source, output)
        return output

    return compile_sample


@pytest.fixture
def without(monkeypatch: pytest.MonkeyPatch) -> Callable[..., None]:
    """Let a package seem to be missing, or to be there in some version."""

    def go(name: str, found: str = "") -> None:
        version = metadata.version

        def answer(asked: str) -> str:
            if asked == name and not found:
                raise metadata.PackageNotFoundError(name)
            return found if asked == name else version(asked)

        monkeypatch.setattr(metadata, "version", answer)

    return go


def almost(sha256: str) -> str:
    """Another hash, of which only the last digit differs."""
    return sha256[:-1] + ("0" if sha256[-1] != "0" else "1")


@pytest.fixture
def bitcode(front_end: FrontEnd, tmp_path: Path) -> Callable[..., Path]:
    """Bitcode of a source text."""
    count = 0

    def compile_text(text: str, language: str = "c") -> Path:
        nonlocal count
        count += 1
        source = tmp_path / f"text{count}.{'c' if language == 'c' else 'cpp'}"
        source.write_text(text)
        output = source.with_suffix(".bc")
        front_end.compile_to_bitcode(tmp_path, language, FLAGS[language], source.name, output)
        return output

    return compile_text


@pytest.fixture
def compiled(toolchain: Toolchain, tmp_path: Path) -> Callable[..., Path]:
    """An ELF object of a source text, by the compiler's own heuristics."""
    count = 0

    def compile_text(text: str, *options: str, language: str = "c", target: str = "x86_64-linux-gnu") -> Path:
        nonlocal count
        count += 1
        source = tmp_path / f"source{count}.{'c' if language == 'c' else 'cpp'}"
        source.write_text(text)
        output = source.with_suffix(".o")
        command = [*replace(toolchain, target=target).back_end, *FLAGS[language], *options, "-c", source, "-o", output]
        subprocess.run(command, check=True, capture_output=True, timeout=60)
        return output

    return compile_text


@pytest.fixture
def script(tmp_path: Path) -> Callable[[str], str]:
    """An executable that runs a shell text."""

    def make(text: str) -> str:
        path = tmp_path / "some-clang"
        path.write_text(f"#!/bin/sh\n{text}\n")
        path.chmod(0o755)
        return str(path)

    return make


@pytest.fixture
def clang_without_channel(script: Callable[[str], str]) -> str:
    """A clang of a new version that was built without the interactive channel."""
    message = "clang (LLVM option parsing): Unknown command line argument '-enable-ml-inliner=release'."
    return script(f'case "$1" in --version) echo clang version 22.1.8;; *) echo "error: {message}" >&2; exit 1;; esac')


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[Path]:
    """A file system of one megabyte."""
    folder = tmp_path / "disk"
    folder.mkdir()
    try:
        subprocess.run(["mount", "-t", "tmpfs", "-o", "size=1m", "tmpfs", folder], check=True, capture_output=True)
    except (OSError, subprocess.CalledProcessError):
        pytest.skip("mounting is not permitted here")
    try:
        yield folder
    finally:
        subprocess.run(["umount", folder], check=True)


def process_states() -> Iterator[tuple[int, list[str]]]:
    """Process ids with the fields after the name in ``/proc/<id>/stat``: state, parent, group, session, ..."""
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit():
            try:
                yield int(entry.name), (entry / "stat").read_text().rpartition(")")[2].split()
            except OSError:
                continue


def children() -> set[int]:
    """Process ids whose parent is this process."""
    return {process for process, fields in process_states() if int(fields[1]) == os.getpid()}


def lasting_children() -> set[int]:
    """As `children`, with those that whatever a test does may start, and that stay."""
    resource_tracker.ensure_running()  # multiprocessing starts one for all
    process.watch.ensure_running()
    return children()


def processes_naming(text: str) -> set[int]:
    """Ids of the processes with a text in their command line that this one started, orphans too.

    They are known by their environment, which holds a temporary folder of these tests.
    """
    mine, found = os.fsencode(Path(os.environ["TMPDIR"]).parent) + b"/", set()
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit() and int(entry.name) != os.getpid():
            try:
                if text.encode() in (entry / "cmdline").read_bytes() and mine in (entry / "environ").read_bytes():
                    found.add(int(entry.name))
            except OSError:
                continue
    return found


def wait_for(condition: Callable[[], Any], within_s: float = 30.0) -> None:
    """Wait until a condition holds once; it may not hold any more when it is looked at again."""
    end = time.monotonic() + within_s
    while not condition():
        assert time.monotonic() < end, "it did not come in time"
        time.sleep(0.01)


def begins(text: str) -> set[int]:
    """Ids of the processes naming a text, waited for.

    Whoever looks twice may see none the second time: a process that becomes another program has no command line for a
    moment.
    """
    end = time.monotonic() + WITHIN_S
    while not (found := processes_naming(text)) and time.monotonic() < end:
        time.sleep(0.01)
    return found


def all_end(text: str) -> bool:
    """Whether the processes naming a text end, which a kill begins and the kernel ends when it has a core for it."""
    end = time.monotonic() + WITHIN_S
    while (left := processes_naming(text)) and time.monotonic() < end:
        time.sleep(0.02)
    return not left


def session_members(session: int) -> set[int]:
    """Process ids of a session: all descendants of a program started with ``start_new_session``, orphans too."""
    return {process for process, fields in process_states() if int(fields[3]) == session and fields[0] != "Z"}


@pytest.fixture
def leaves_nothing() -> Callable[..., AbstractContextManager[None]]:
    """A block that must leave no child process, descriptor, scratch folder or FIFO behind."""

    @contextmanager
    def check(*, descriptors: bool = True) -> Iterator[None]:
        lasting = lasting_children()
        gc.collect()
        with scratch_directory() as directory:
            root = directory.parent
        before = (os.listdir("/proc/self/fd"), sorted(os.listdir(root)), lasting)  # noqa: PTH208
        yield
        end = time.monotonic() + WITHIN_S
        while children() - before[2] and time.monotonic() < end:
            time.sleep(0.02)
        assert children() == before[2]
        assert sorted(os.listdir(root)) == before[1]  # noqa: PTH208
        if descriptors:
            gc.collect()
            assert len(os.listdir("/proc/self/fd")) == len(before[0])  # noqa: PTH208

    return check
