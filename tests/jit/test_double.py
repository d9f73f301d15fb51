"""The SuperPMI of tests/fakes against what is published of the real one, without the client between."""

import os
import signal
import subprocess

import pytest

from tests.fakes.collection import make_collection
from tests.jit.conftest import GOLDEN

HOOK = "JitMetrics=1!JitRLHook=1"


@pytest.fixture
def run(double):
    """Run the double to its end: ``run(text, *arguments, **fields of the collection)``."""

    def start(text: str, *arguments: str, env=None, methods=None, streaming=True, **fields):
        target = double(methods, **fields)
        command = [*target.command, str(target.jit), str(target.collection), "-v", "q", *arguments]
        if streaming:
            command += ["-streaming", "stdin"]
        environment = os.environ | (env or {})
        return subprocess.run(command, input=text, capture_output=True, text=True, timeout=20, env=environment)

    return start


def test_golden_lines(run):
    golden = [one for one in GOLDEN["lines"] if one["request"]]
    assert len(golden) == 7
    done = run("".join(f"{one['request']}\n" for one in golden))
    assert done.stdout.splitlines() == [line for one in golden for line in (one["line"], "[streaming] Done. Status=0")]
    assert (done.returncode, done.stderr) == (0, "")


def test_a_batch_prints_the_same(run):
    done = run("", "-jitoption", "force", "JitMetrics=1", streaming=False)
    heuristic = [one["line"] for one in GOLDEN["lines"] if (one["request"] or "").endswith("!JitMetrics=1")]
    assert done.stdout.splitlines() == heuristic
    assert len(heuristic) == 4
    assert run("", streaming=False).stdout == ""


def first_line(done) -> str:
    return done.stdout.splitlines()[0]


def test_decisions(run):
    for decisions, performed, echoed in [("0", 1, " seq 0 "), ("1,1,5,0", 2, " seq 1,1,5,0 "), ("-1", 0, " seq -1 ")]:
        line = first_line(run(f"1!{HOOK}!JitRLHookCSEDecisions={decisions}\n"))
        assert f"num cse {performed} " in line
        assert echoed in line
    for text in (f"1!{HOOK}\n", f"1!{HOOK}!JitRLHookCSEDecisions=\n"):
        assert " seq " not in first_line(run(text))


@pytest.mark.parametrize(
    ("arguments", "recorded", "request_options", "env", "hook"),
    [
        ([], {}, "", {}, False),
        ([], {}, "!JitRLHook=1", {}, True),
        ([], {}, "!jitrlhook=1", {}, False),
        (["-jitoption", "force", "JitRLHook=1"], {"JitRLHook": "0"}, "", {}, True),
        (["-jitoption", "force", "JitRLHook=1"], {}, "!JitRLHook=0", {}, True),
        ([], {"JitRLHook": "0"}, "!JitRLHook=1", {}, True),
        ([], {"JitRLHook": "1"}, "", {}, True),
        ([], {}, "", {"DOTNET_JitRLHook": "1"}, True),
        ([], {}, "", {"COMPlus_JitRLHook": "1"}, True),
    ],
)
def test_which_option_wins(run, arguments, recorded, request_options, env, hook):
    methods = [{**GOLDEN["methods"][0], "recorded": recorded}]
    done = run(f"1!JitMetrics=1{request_options}\n", *arguments, env=env, methods=methods)
    assert ("features #1" in first_line(done)) == hook


def test_integers_are_read_to_base_16(run):
    assert "features" in first_line(run("1!JitMetrics=a!JitRLHook=1\n"))
    assert "features" not in first_line(run("1!JitMetrics=1!JitRLHook=g\n"))


@pytest.mark.parametrize("text", ["quit\n", "", "0\n", "word\n", "0!JitMetrics=1\n"])
def test_what_ends_it(run, text):
    done = run(text + "1!JitMetrics=1\n" if text else "")
    assert (done.stdout, done.returncode) == ("", 0)


def test_requests_without_a_reply(run, double):
    assert run("99!JitMetrics=1\n").returncode == -signal.SIGSEGV
    contents = double().collection.with_name("demo.mch.mct")
    contents.touch()
    assert run("99!JitMetrics=1\n").returncode == 255
    contents.unlink()
    assert run("1!JitMetrics=1\n", jit="wrong_version").returncode == 254


def test_a_request_without_options_compiles_without_those_forced_on_the_command_line(run):
    forced = ("-jitoption", "force", "JitMetrics=1")
    assert run("3\n", *forced).stdout == "[streaming] Done. Status=0\n"
    assert first_line(run("3!JitRLHook=0\n", *forced)).startswith("; Total bytes")


def test_a_line_longer_than_the_buffer_is_cut(run):
    text = f"1!{HOOK}!JitRLHookCSEDecisions=".ljust(2046, "0") + ",7!JitMetrics=1\n"
    done = run(text)  # the buffer holds 2047 characters; the rest begins after the comma, with 7
    assert done.stdout.splitlines()[1:] == ["[streaming] Done. Status=0"]
    assert done.returncode == -signal.SIGSEGV  # there is no method 7
    assert len(run(text.replace(",7", ",2")).stdout.splitlines()) == 4


def test_a_release_build_knows_no_options(run):
    assert run(f"1!{HOOK}\n", jit="release").stdout == "[streaming] Done. Status=0\n"
    assert "Standard CSE Heuristic" in first_line(run(f"1!{HOOK}\n", jit="no_hook"))


def test_collections_depend_on_their_seed_alone():
    assert make_collection(12, 3) == make_collection(12, 3)
    assert make_collection(12, 3)["methods"] == make_collection(30, 3)["methods"][:12]
    assert make_collection(12, 3) != make_collection(12, 4)
