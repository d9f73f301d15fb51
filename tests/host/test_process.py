"""Children that hang, flood, crash or have children of their own."""

import contextlib
import os
import shutil
import signal
import subprocess
import sys
import time

import pytest

from mlgo.errors import ToolchainError
from mlgo.host import process
from mlgo.host.process import Child, without_folders
from tests.conftest import REPOSITORY, WITHIN_S, all_end, begins, process_states, processes_naming, wait_for


@pytest.fixture(autouse=True, params=["with setpriv", "without"])
def launcher(request, monkeypatch):
    if request.param == "without":
        monkeypatch.setattr(process, "_setpriv", lambda: None)
    elif process._setpriv() is None:
        pytest.skip("there is no setpriv here")


def test_it_dies_with_its_parent(tmp_path, launcher, request):
    program = (
        "import sys, time\nfrom mlgo.host import process\n"
        f"if {'without' in request.node.name}: process._setpriv = lambda: None\n"
        "process.Child(['sleep', '123.875'])\nprint('started', flush=True)\ntime.sleep(100)\n"
    )
    with subprocess.Popen([sys.executable, "-c", program], stdout=subprocess.PIPE, cwd=REPOSITORY) as parent:
        assert parent.stdout.readline() == b"started\n"
        parent.kill()
    assert all_end("123.875")


@pytest.mark.parametrize(
    ("script", "returncode", "stderr"),
    [
        *((f"exit {status}", status, "") for status in (0, 1, 42, 255)),
        *((f"kill -{number} $$", -number, "") for number in (signal.SIGKILL, signal.SIGTERM, signal.SIGABRT)),
        (r"printf 'a\377b' >&2", 0, "a\ufffdb"),
        ("cat; yes | head -c 1000000; echo done >&2", 0, "done\n"),  # neither stdin nor stdout can be reached
    ],
)
def test_how_a_run_ends(script, returncode, stderr, leaves_nothing):
    with leaves_nothing():
        run = Child(["sh", "-c", script]).finish(20.0)
    assert run == (returncode, stderr)


@pytest.mark.timeout(20)
@pytest.mark.parametrize(
    ("script", "returncode", "name"),
    [
        ("trap '' TERM INT HUP; sleep 123.5; sleep 123.5", None, "123.5"),
        ("sleep 123.25 & sleep 123.25", None, "123.25"),
        ("yes 123.125 >&2", None, "123.125"),
        ("sleep 125.25 & exit 0", 0, "sleep\x00125.25"),
    ],
    ids=["ignores SIGTERM", "grandchildren", "flood", "ends well"],
)
def test_nothing_runs_on_after_the_end_or_the_deadline(script, returncode, name, leaves_nothing):
    with leaves_nothing():
        start = time.monotonic()
        run = Child(["sh", "-c", script]).finish(0.3 if returncode is None else 5.0)
        assert (0.3 if returncode is None else 0.0) <= time.monotonic() - start < WITHIN_S
    assert run.returncode == returncode
    assert all_end(name)


def test_stderr_is_kept_to_its_tail(leaves_nothing):
    with leaves_nothing():
        run = Child(["sh", "-c", "yes noise | head -c 3000000 >&2; echo the end >&2; exit 7"]).finish(20.0)
    assert run.returncode == 7
    assert run.stderr.endswith("the end\n")
    assert 100 < len(run.stderr) <= 1 << 14


def test_stdout_goes_to_a_file_of_limited_size(tmp_path, leaves_nothing):
    output = tmp_path / "output"
    with leaves_nothing():
        run = Child(["sh", "-c", "echo first; echo noise >&2; echo second"], stdout=output).finish(10.0)
    assert (run.returncode, run.stderr, output.read_bytes()) == (0, "noise\n", b"first\nsecond\n")
    with leaves_nothing():  # the pause because the limit comes right after the start
        run = Child(["sh", "-c", "sleep 0.2; exec yes"], stdout=output, max_file_bytes=10000).finish(10.0)
    assert (run.returncode, output.stat().st_size) == (-signal.SIGXFSZ, 10000)


def test_folder_and_environment(script, tmp_path):
    script("pwd -P >&2; echo $NAME >&2; exit 3")
    (name,) = (path.name for path in tmp_path.iterdir())
    run = Child([f"./{name}"], cwd=tmp_path, env={"NAME": "value"}).finish(10.0)
    assert run == (3, f"{tmp_path.resolve()}\nvalue\n")


def test_a_command_that_cannot_start(tmp_path, leaves_nothing):
    (tmp_path / "text").write_text("hello")
    for command in (tmp_path / "missing", tmp_path / "text", tmp_path):
        with leaves_nothing(), pytest.raises(ToolchainError, match="cannot start"):
            Child([str(command)]).finish(1.0)
    for words in (["true", "\0"], ["tr\0ue"], ["true", "\ud800"]):
        with leaves_nothing(), pytest.raises(ToolchainError, match="cannot start"):
            Child(words).finish(1.0)


@pytest.mark.parametrize(
    ("script", "marker", "count"),
    [
        ("printf 'needle nee' >&2; sleep 0.1; printf 'dle needl' >&2; sleep 0.1; printf 'e needl' >&2", b"needle", 3),
        ("printf x >&2; sleep 0.1; printf y >&2", b"x", 1),
    ],
)
def test_matches_are_counted_across_pieces(script, marker, count, leaves_nothing):
    with leaves_nothing(), Child(["sh", "-c", script], watch_for=marker) as child:
        assert child.wait(time.monotonic() + 10.0) == 0
        assert child.num_matches == count


def test_leaving_the_block_kills(leaves_nothing):
    with leaves_nothing():
        with pytest.raises(KeyboardInterrupt), Child(["sleep", "123.75"]) as child:
            assert begins("123.75")  # it becomes what it is to run
            raise KeyboardInterrupt
        assert child.pidfd >= 0
    assert not processes_naming("123.75")


def test_pipes(leaves_nothing):
    with leaves_nothing(), Child(["sh", "-c", "read x; echo got $x; echo noise >&2; exit 4"], piped=True) as child:
        child.stdin.write(b"text\n")
        assert child.wait(time.monotonic() + 10.0) == 4
        assert (child.stdout.read(), child.stderr_tail) == (b"got text\n", "noise\n")


def test_terminate(leaves_nothing):
    with leaves_nothing(), Child(["sleep", "123.625"]) as child:
        assert child.stdin is child.stdout is None
        child.terminate()
        assert child.wait(time.monotonic() + 10.0) == -signal.SIGTERM


@pytest.mark.slow
def test_no_child_survives_whenever_its_parent_is_killed():
    """Also between its fork and its wish to die with the parent, of which the kernel then knew nothing."""
    program = (
        "from mlgo.host.process import Child\nprint('ready', flush=True)\n"
        "while True:\n    with Child(['sleep', '124.75']):\n        pass\n"
    )
    for attempt in range(25):
        with subprocess.Popen([sys.executable, "-c", program], stdout=subprocess.PIPE) as parent:
            assert parent.stdout.readline() == b"ready\n"
            time.sleep(0.0007 * attempt)
            parent.kill()
    ended = all_end("sleep\x00124.75")
    for pid in processes_naming("sleep\x00124.75"):
        os.kill(pid, signal.SIGKILL)
    assert ended


def test_grandchildren_die_with_a_killed_host_and_so_does_who_sees_to_it(tmp_path):
    """Also those that have left the group of the child."""
    script = "(sleep 122.5; :) & setsid sleep 122.5 & (sleep 122.5 &) & sleep 122.5"
    program = (
        "import os, time\nfrom mlgo.host import process\nfrom mlgo.host.process import Child\n"
        f"Child(['true']).finish(9.0)\nheld = [Child(['sh', '-c', {script!r}]) for _ in range(3)]\n"
        "if os.fork() == 0:\n    time.sleep(122.5)\n"  # holds nothing that the watch waits for
        "print(process.watch._process.pid, flush=True)\ntime.sleep(100)\n"
    )
    with subprocess.Popen([sys.executable, "-c", program], stdout=subprocess.PIPE, process_group=0) as parent:
        watch = int(parent.stdout.readline())
        assert begins("sleep\x00122.5")
        parent.kill()
        assert all_end("sleep\x00122.5")
        wait_for(lambda: _state(watch) == "Z", WITHIN_S)
        with contextlib.suppress(ProcessLookupError):
            os.killpg(parent.pid, signal.SIGKILL)


def _state(pid):
    return dict(process_states()).get(pid, ["Z"])[0]


def test_a_watch_that_was_killed_is_started_again(leaves_nothing):
    with Child(["sleep", "122.25"]):
        process.watch._process.kill()
        process.watch._process.wait()
        assert Child(["true"]).finish(10.0).returncode == 0
        assert process.watch._process.poll() is None


LIMITED = """
import resource, sys
from mlgo.host.process import Child
resource.setrlimit(resource.RLIMIT_AS, (3 * 10**9,) * 2)
for limit, expected in ((8 * 10**9, 3 * 10**9), (2 * 10**9, 2 * 10**9)):
    run = Child(["sh", "-c", "sleep 0.2; sh -c 'ulimit -H -v >&2'"], max_memory_bytes=limit).finish(10.0)
    assert (run.returncode, run.stderr) == (0, f"{expected // 1024}\\n"), run
"""


def test_a_limit_of_the_host_that_is_lower_stays(launcher, request):
    """Root may raise it, others may not, and got no compile at all."""
    without = ["setpriv", "--bounding-set=-sys_resource", "--inh-caps=-sys_resource"] if shutil.which("setpriv") else []
    run = subprocess.run([*without, sys.executable, "-c", LIMITED], capture_output=True, text=True, check=False)
    assert run.returncode == 0, run.stderr


def test_all_have_a_memory_limit():
    run = Child(["sh", "-c", "sleep 0.2; sh -c 'ulimit -v >&2'"]).finish(10.0)
    assert run == (0, f"{process.MAX_MEMORY_BYTES // 1024}\n")


@pytest.mark.parametrize(
    ("message", "expected"),
    [
        ("/tmp/mlgo-0/ab12/module.o: error: no", "module.o: error: no"),
        ("src/a.cc:3:1: error: '/usr/include/x.h' missing", "src/a.cc:3:1: error: 'x.h' missing"),
        ("a/b and ./c/d stay", "a/b and ./c/d stay"),
    ],
)
def test_messages_hold_no_folder_of_this_machine(message, expected):
    assert without_folders(message) == expected
