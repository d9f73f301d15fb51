"""The SuperPMI of tests/fakes against what is published of the real one, without the client between."""

import json
import math
import os
import subprocess
import sys

import pytest

from tests.fakes.collection import make_collection
from tests.fakes.superpmi import parse_int_array, perf_score, performable
from tests.jit.conftest import GOLDEN

HOOK = "JitMetrics=1!JitRLHook=1"


@pytest.fixture
def run(double):
    """Run the double to its end: ``run(text, *arguments, **fields of the collection)``."""

    def start(text: str, *arguments: str, env=None, methods=None, streaming="stdin", **fields):
        target = double(methods, **fields)
        command = [*target.command, str(target.jit), str(target.collection), "-v", "q", *arguments]
        if streaming:
            command += ["-streaming", streaming]
        return subprocess.run(
            command, input=text, capture_output=True, text=True, timeout=20, env={**os.environ, **(env or {})}
        )

    return start


def test_golden_lines(run):
    golden = [one for one in GOLDEN["lines"] if one["request"]]
    assert len(golden) == 7
    done = run("".join(f"{one['request']}\n" for one in golden))
    assert done.stdout.splitlines() == [line for one in golden for line in (one["line"], "[streaming] Done. Status=0")]
    assert (done.returncode, done.stderr) == (0, "")


def test_a_batch_prints_the_same(run):
    done = run("", "-jitoption", "JitMetrics=1", streaming=False)
    heuristic = [one["line"] for one in GOLDEN["lines"] if (one["request"] or "").endswith("!JitMetrics=1")]
    assert done.stdout.splitlines() == heuristic
    assert len(heuristic) == 4
    done = run("", "-jitoption", "JitMetrics=1", "-compile", "2-3,1", streaming=False)
    assert done.stdout.splitlines() == heuristic[:3]
    assert run("", streaming=False).stdout == ""


@pytest.mark.parametrize(
    ("text", "values"),
    [
        ("", []),
        ("1,2,3", [1, 2, 3]),
        ("1,2,None", [1, 2]),
        ("1;2 3", [1, 2, 3]),
        ("1,-2,3", [1, -2, -3]),
        ("-1", [-1]),
    ],
)
def test_lists_of_numbers(text, values):
    assert parse_int_array(text) == values


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
        (["-jitoption", "JitRLHook=1"], {}, "", {}, True),
        (["-jitoption", "JitRLHook=1"], {"JitRLHook": "0"}, "", {}, False),
        (["-jitoption", "force", "JitRLHook=1"], {"JitRLHook": "0"}, "", {}, True),
        (["-jitoption", "force", "JitRLHook=1"], {}, "!JitRLHook=0", {}, False),
        ([], {"JitRLHook": "0"}, "!JitRLHook=1", {}, True),
        ([], {"JitRLHook": "1"}, "", {}, True),
        ([], {}, "", {"DOTNET_JitRLHook": "1"}, True),
        ([], {}, "", {"COMPlus_JitRLHook": "1"}, True),
        (["-jitoption", "JitRLHook=0"], {}, "", {"DOTNET_JitRLHook": "1"}, False),
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


def test_requests_without_a_reply(run):
    done = run("# a comment\r\n1!JitMetrics\n1!JitMetrics=1\r\n")
    assert len(done.stdout.splitlines()) == 2
    assert [run(text).returncode for text in ("\n", "!\n")] == [-11, -11]
    assert run("99!JitMetrics=1\n").returncode == 255
    assert run("1!JitMetrics=1\n", jit="wrong_version").returncode == 254


def test_options_are_read_then_the_method_is_looked_up_then_the_jit_is_loaded(run):
    broken = {"jit": "wrong_version"}
    assert run("1!JitMetrics\nquit\n", **broken).returncode == 0
    assert run("99!JitMetrics\nquit\n").returncode == 0
    assert run("99!JitMetrics=1\n", **broken).returncode == 255


@pytest.mark.parametrize("request_line", ["1!!JitMetrics=1", "1!JitMetrics=1!", "!1!JitMetrics=1"])
def test_separators_in_a_row_are_one(run, request_line):
    assert run(f"{request_line}\n").stdout == run("1!JitMetrics=1\n").stdout


def test_a_request_without_options_compiles_without_those_forced_on_the_command_line(run):
    forced = ("-jitoption", "force", "JitMetrics=1")
    for text in ("3\n", "3!\n"):
        assert run(text, *forced).stdout == "[streaming] Done. Status=0\n"
        assert first_line(run(text, "-jitoption", "JitMetrics=1")).startswith("; Total bytes")
    assert first_line(run("3!JitRLHook=0\n", *forced)).startswith("; Total bytes")


def test_requests_from_a_file(run, tmp_path):
    (tmp_path / "requests").write_text("1!JitMetrics=1\n2!JitMetrics=1\n")
    done = run("", streaming=str(tmp_path / "requests"))
    assert done.stdout == run("1!JitMetrics=1\n2!JitMetrics=1\n").stdout
    assert run("", streaming=str(tmp_path / "missing")).returncode == 1


def test_switches_may_be_cut_short(run, tmp_path):
    metrics = ("-jito", "JitMetrics=1")
    everything = run("", *metrics, streaming=False).stdout.splitlines()
    assert len(everything) == 4
    assert run("", *metrics, "-c", "2-3", streaming=False).stdout.splitlines() == everything[1:3]
    (tmp_path / "some.mcl").write_text("3\n1\n")
    found = run("", *metrics, "-c", str(tmp_path / "some.mcl"), streaming=False).stdout.splitlines()
    assert found == [everything[0], everything[2]]
    for workers in (("-p",), ("-p", "2"), ("-parallel", "3")):
        assert sorted(run("", *metrics, *workers, streaming=False).stdout.splitlines()) == sorted(everything)
    assert run("", *metrics, "-p", "2", streaming=False).stdout.splitlines() == [everything[i] for i in (0, 2, 1, 3)]


def test_a_line_longer_than_the_buffer_is_cut(run):
    text = f"1!{HOOK}!JitRLHookCSEDecisions=".ljust(2046, "0") + ",7!JitMetrics=1\n"
    done = run(text)  # the buffer holds 2047 characters; the rest begins after the comma, with 7
    assert done.stdout.splitlines()[1:] == ["[streaming] Done. Status=0"]
    assert done.returncode == 255
    assert len(run(text.replace(",7", ",2")).stdout.splitlines()) == 4


def test_what_is_printed_besides(run):
    faults = [[1, 0, "jit_error", None], [2, 0, "missing_data", None]]
    done = run("1!JitMetrics=1\n2!JitMetrics=1\n", "-v", "eim", faults=faults)
    lines = done.stdout.splitlines()
    assert [line.split()[0] for line in lines] == ["ISSUE:", "[streaming]", "MISSING:", "[streaming]"]
    assert done.stderr.startswith("ERROR: Method 1 of size ")
    done = run("1!JitMetrics=1\n2!JitMetrics=1\n", "-v", "q", faults=faults)
    assert done.stdout.splitlines() == ["[streaming] Done. Status=1", "[streaming] Done. Status=2"]
    assert done.stderr == ""


@pytest.mark.parametrize("arguments", [["other.txt"], ["-jitoption", "k"], ["-unknown"], ["-c", "x"], ["-c"]])
def test_usage(run, arguments):
    done = run("", *arguments)
    assert done.returncode == 255
    assert done.stderr.startswith("ERROR: ")


def test_a_release_build_knows_no_options(run):
    assert run(f"1!{HOOK}\n", jit="release").stdout == "[streaming] Done. Status=0\n"
    assert "Standard CSE Heuristic" in first_line(run(f"1!{HOOK}\n", jit="no_hook"))


def test_collections_depend_on_their_seed_alone(tmp_path):
    assert make_collection(12, 3) == make_collection(12, 3)
    assert make_collection(12, 3)["methods"] == make_collection(30, 3)["methods"][:12]
    assert make_collection(12, 3) != make_collection(12, 4)
    output = tmp_path / "made.mch"
    command = [sys.executable, "-m", "tests.fakes.collection", str(output), "--methods", "12", "--seed", "3"]
    subprocess.run(command, check=True, timeout=60)
    assert json.loads(output.read_text()) == make_collection(12, 3)


def hill_climb(method: dict, score: float, chosen: list[int], viable: list[int]) -> float:
    """Flip single candidates while that helps."""
    improved = True
    while improved:
        improved = False
        for one in viable:
            flipped = [other for other in chosen if other != one] if one in chosen else [*chosen, one]
            if perf_score(method, flipped) < score:
                score, chosen, improved = perf_score(method, flipped), flipped, True
    return score


def geometric_mean(ratios: list[float]) -> float:
    return math.exp(sum(map(math.log, ratios)) / len(ratios))


@pytest.mark.parametrize("seed", [0, 1])
def test_the_heuristic_of_a_collection_is_good_and_can_be_beaten(seed):
    methods = [method for method in make_collection(150, seed)["methods"] if method["candidates"]]
    assert len(methods) > 100
    assert max(len(method["candidates"]) for method in methods) == 20
    heuristic, everything, found = [], [], []
    for method in methods:
        viable = performable(method, list(range(len(method["candidates"]))))
        none, own = perf_score(method, []), perf_score(method, performable(method, method["heuristic"]))
        heuristic.append(own / none)
        everything.append(perf_score(method, viable) / own)
        found.append(hill_climb(method, own, method["heuristic"], viable) / own)
    assert geometric_mean(heuristic) < 0.97
    assert geometric_mean(everything) > 1.01
    assert geometric_mean(found) < 0.99
    assert sum(ratio == 1.0 for ratio in found) > 10  # for some it is right
