"""Compilers that break the channel's rules, and drivers that are killed: the build goes on, and nothing stays."""

import os
import pty
import select
import shlex
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from mlgo.deploy import drivers
from tests.conftest import WITHIN_S, all_end, begins

PLAIN = '[ -z "$base" ] && { echo plain; exit 0; }\n'


def run(command):
    return subprocess.run(command, capture_output=True, text=True, timeout=60)


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        pytest.param(
            "echo '{\"odd\":1}' >$base.out; sleep 60", "what LLVM 17 to 22 do not send", marks=pytest.mark.slow
        ),
        ("echo nonsense >$base.out; sleep 60", "what LLVM 17 to 22 do not send"),
        ('echo \'{"features":[{"name":"x"}]}\' >$base.out; sleep 60', "names its features in a way"),
        pytest.param(
            "echo '{\"observation\":0}' >$base.out; sleep 60", "before it named its features", marks=pytest.mark.slow
        ),
        pytest.param("head -c 3000000 /dev/zero >$base.out; sleep 60", "a line without an end", marks=pytest.mark.slow),
        pytest.param(
            "header | sed 's/callsite_height/other/' >$base.out; sleep 60", "lacks a feature", marks=pytest.mark.slow
        ),
        pytest.param(
            'header | sed \'s/"shape":\\[1\\]/"shape":[2]/\' >$base.out; sleep 60',
            "another size",
            marks=pytest.mark.slow,
        ),
        pytest.param(
            "header | sed 's/inlining_decision/other/' >$base.out; sleep 60",
            "another kind of answer",
            marks=pytest.mark.slow,
        ),
        pytest.param(
            "{ header; question | sed '$ s/$/x/'; } >$base.out; sleep 60", "longer than it said", marks=pytest.mark.slow
        ),
        pytest.param("{ header; question; } >$base.out; exit 3", "failed while it was advised", marks=pytest.mark.slow),
        ("{ header; question; } >$base.out; kill -SEGV $$", "crashed while it was advised"),
        pytest.param(
            "echo '-mllvm is not supported' >&2; exit 1", "failed while it was advised", marks=pytest.mark.slow
        ),
    ],
)
def test_a_compiler_that_breaks_the_rules(faulty, text, reason):
    found = run(faulty(PLAIN + text))
    assert (found.returncode, found.stdout) == (0, "plain\n")
    (line,) = found.stderr.splitlines()
    assert line.startswith("mlgo cc: warning: ")
    assert reason in line


@pytest.mark.parametrize(
    "channel", ['[ -n "$base" ] && { header; question; } >$base.out; ', ""], ids=["opened", "never opened"]
)
def test_an_error_that_has_nothing_to_do_with_the_advice_is_said_once(faulty, channel):
    found = run(faulty(f'{channel}echo "undefined symbol: f" >&2; exit 4'))
    assert (found.returncode, found.stderr) == (4, "undefined symbol: f\n")


def test_a_terminal_that_stops_what_writes_in_the_background(faulty):
    """`stty tostop` stops process groups other than the terminal's at their first output, by SIGTTOU."""
    driver = faulty("echo warned >&2; { header; question; } >$base.out; exit 0")
    script = f"stty tostop; {shlex.join(driver)}; echo status $?"
    pid, terminal = pty.fork()
    if pid == 0:
        os.execv("/bin/sh", ["sh", "-c", script])
    said, end = b"", time.monotonic() + WITHIN_S
    while b"status" not in said and select.select([terminal], [], [], end - time.monotonic())[0]:
        said += os.read(terminal, 4096)
    os.kill(pid, signal.SIGKILL)
    os.waitpid(pid, 0)
    os.close(terminal)
    assert b"warned" in said
    assert b"status 0" in said


def test_nobody_is_left_to_be_waited_for(faulty):
    """Where process 1 collects no orphans, as in many containers, each would stay for ever."""
    program = (
        "import ctypes, os, subprocess, sys\n"
        "ctypes.CDLL(None).prctl(36, 1, 0, 0, 0)\n"  # PR_SET_CHILD_SUBREAPER: orphans come here
        "subprocess.run(sys.argv[1:], check=True)\n"
        "try:\n    print(os.waitpid(-1, os.WNOHANG))\nexcept ChildProcessError:\n    print('none')\n"
    )
    found = run([sys.executable, "-c", program, *faulty("{ header; question; } >$base.out; exit 0")])
    assert found.stdout == "none\n"


def test_answers_come_in_pieces_and_after_a_second_header(faulty):
    first = "header >&3; question | { head -c 30; sleep 0.1; cat; } >&3; head -c 8 <&4 | wc -c\n"
    second = "header >&3; { question; question; } >&3; head -c 16 <&4 | wc -c\n"
    found = run(faulty(f"{PLAIN}exec 3>$base.out 4<$base.in\n{first}{second}"))
    assert (found.returncode, found.stdout.split(), found.stderr) == (0, ["8", "16"], "")


@pytest.mark.parametrize(
    "number", [signal.SIGTERM, *(pytest.param(one, marks=pytest.mark.slow) for one in (signal.SIGINT, signal.SIGHUP))]
)
def test_a_signal_ends_driver_and_compiler(faulty, number):
    driver = faulty("header >$base.out; sleep 61.25")
    heeded = ["env", "--default-signal", *driver]  # the tests may ignore some
    with subprocess.Popen(heeded, stdout=subprocess.PIPE) as process:
        assert begins("sleep\x0061.25")
        process.send_signal(number)
        assert process.wait(10) == -number
    assert all_end("sleep\x0061.25")


def test_a_signal_that_is_ignored_stays_ignored(faulty):
    driver = faulty(PLAIN + "exec 3>$base.out 4<$base.in; header >&3; question >&3; head -c 8 <&4 | wc -c; sleep 0.5")
    with subprocess.Popen(["nohup", *driver], stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True) as process:
        assert process.stdout.readline() == "8\n"
        process.send_signal(signal.SIGHUP)
        assert process.wait(10) == 0


def test_a_killed_driver_takes_its_compiler_along(faulty):
    driver = faulty("trap '' TERM; header >$base.out; sleep 61.75; sleep 61.75")
    with subprocess.Popen(driver, stdout=subprocess.PIPE) as process:
        assert begins("sleep\x0061.75")
        os.kill(process.pid, signal.SIGKILL)
        process.wait(10)
        assert process.stdout.read() == b""  # nobody holds its output open
    assert all_end("61.75")


def test_what_the_compiler_leaves_running_is_killed(faulty):
    assert run(faulty("sleep 62.25 >/dev/null 2>&1 & exit 0")).returncode == 0
    assert all_end("sleep\x0062.25")


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(4))
def test_damaged_streams_under_sanitizers(tmp_path, seed):
    compiler = shutil.which("g++")
    if compiler is None:
        pytest.skip("there is no g++, and the wheel's clang has no AddressSanitizer")
    program, source = tmp_path / "damaged", Path(__file__).with_name("damaged.cpp")
    (tmp_path / "options.h").write_text(drivers.options_header())
    flags = ["-std=c++17", f"-I{tmp_path}", "-g", "-O1", "-fsanitize=address,undefined", "-fno-sanitize-recover=all"]
    subprocess.run([compiler, *flags, f"-I{drivers._SOURCES}", source, "-o", program], check=True)
    found = subprocess.run(
        [program, str(seed), tmp_path], capture_output=True, text=True, env={"ASAN_OPTIONS": "detect_leaks=0"}
    )
    assert (found.returncode, found.stderr) == (0, "")
