"""How the client and the batch run must behave, case by case; those without faults also on a real SuperPMI.

Unless it says otherwise a client of a fault case sends nothing again (``max_restarts=0``), so that the outcome shows.
"""

import signal
import subprocess
import sys
import time
from contextlib import nullcontext
from multiprocessing import get_context

import numpy as np
import pytest

from mlgo.base.files import read_json, write_json
from mlgo.errors import MetricsError, SuperPmiError
from mlgo.jit.client import describe_exit
from mlgo.jit.outcome import MethodMetrics
from mlgo.jit.process import request
from tests.conftest import WITHIN_S, all_end, processes_naming

NAMES = "JitRLHookEmitFeatureNames"


def metrics_of(outcome) -> MethodMetrics:
    assert isinstance(outcome, MethodMetrics), outcome
    return outcome


def test_case_01_the_heuristic(target):
    index, viable = target.method(1)
    with target.client() as client:
        metrics = metrics_of(client.compile(index, None))
    assert metrics.index == index
    assert metrics.heuristic == "Standard CSE Heuristic"
    assert metrics.candidates == metrics.feature_names == ()
    assert metrics.num_cse == len(metrics.requested)
    assert set(metrics.requested) <= set(viable)
    if target.expected_score(index, []) is not None:
        assert metrics.requested == (0,)  # printed as 1,0


def test_case_02_no_cse(target):
    index, _ = target.method(2)
    with target.client() as client:
        metrics = metrics_of(client.compile(index, ()))
    assert (metrics.heuristic, metrics.requested, metrics.num_cse) == (None, (), 0)
    assert {"viable", "cost_ex"} <= set(metrics.feature_names)  # 19 in all, but a later JIT may report others
    assert len(metrics.candidates) == metrics.num_candidates >= 2
    assert {len(features) for features in metrics.candidates} == {len(metrics.feature_names)}


def test_case_03_decisions_in_order(target):
    index, (first, second, *_) = target.method(2)
    with target.client() as client:
        metrics = metrics_of(client.compile(index, [second, first]))
    assert (metrics.requested, metrics.num_cse) == ((second, first), 2)
    expected = target.expected_score(index, [second, first])
    assert expected is None or metrics.perf_score == expected == 72.66  # 73.15 - 0.24 + 0.50 - 0.75


def test_case_04_names_are_asked_for_once(target):
    index, (first, *_) = target.method(1)
    with target.client() as client:
        before = metrics_of(client.compile(index, ()))
        after = metrics_of(client.compile(index, (first,)))
        assert after.feature_names == before.feature_names != ()
        assert metrics_of(client.compile(index, ())) == before


def test_case_04_names_are_learned_again_by_each_process(double):
    target = double(faults=[[2, 1, "kill", 9]])
    with target.client() as client:
        first = metrics_of(client.compile(1, ()))
        metrics_of(client.compile(1, (0,)))
        assert metrics_of(client.compile(2, ())).feature_names == first.feature_names
        metrics_of(client.compile(1, (1,)))
    assert [NAMES in line for line in target.sent if line != "quit"] == [True, False, False, True, False]


def test_case_05_decisions_that_are_skipped(target):
    index, (first, *_) = target.method(1)
    with target.client() as client:
        count = metrics_of(client.compile(index, ())).num_candidates
        metrics = metrics_of(client.compile(index, (count, first, 900)))
    assert metrics.requested == (count, first, 900)
    assert metrics.num_cse == 1


def test_case_05_a_candidate_that_is_not_viable(double):
    with double().client() as client:
        metrics = metrics_of(client.compile(np.int64(2), np.array([1, 0])))
    assert (metrics.requested, metrics.num_cse, metrics.perf_score) == ((1, 0), 1, 1234566.0)


@pytest.mark.parametrize("index", [3, 4])  # compiled without the phase; with it
def test_case_05_decisions_where_there_is_nothing_to_decide(double, index):
    with double().client() as client:
        metrics = metrics_of(client.compile(index, (1, 0)))
        assert (metrics.num_candidates, metrics.num_cse, client.num_starts) == (0, 0, 1)


def test_case_06_the_same_again(target):
    index, (first, *_) = target.method(1)
    requests = [None, (), (first,), (), None]
    with target.client() as client:
        before = [client.compile(index, decisions) for decisions in requests]
        assert client.close() == 0
        after = [client.compile(index, decisions) for decisions in requests[::-1]]
        assert client.num_starts == 2
    assert before == after[::-1]
    assert before[0] == before[4]
    assert before[1] == before[3]


@pytest.mark.parametrize("kind", ["jit_error", "missing_data"])
def test_case_07_and_08_the_jit_fails_or_data_is_missing(double, kind):
    target = double(faults=[[1, 0, kind, None]])
    with target.client() as client:
        outcome = client.compile(1, (1,))
        assert outcome.kind == kind
        metrics_of(client.compile(2, ()))
        assert client.compile(1, (1,)) == outcome
    assert target.num_starts == client.num_starts == 1


def test_case_09_the_first_form_of_streaming(double):
    target = double(old_form=True, faults=[[1, 1, "jit_error", None], [2, 1, "no_metrics", None]])
    with target.client() as client:
        assert client.compile(1, ()).kind == "jit_error"
        metrics_of(client.compile(1, ()))
        assert target.num_starts == 2
        assert client.compile(2, ()).kind == "no_metrics"
        metrics_of(client.compile(2, ()))
    assert target.num_starts == 2


def test_case_10_success_without_metrics(double):
    target = double(faults=[[1, 1, "no_metrics", None]])
    with target.client() as client:
        outcome = client.compile(1, None)
        assert outcome.kind == "no_metrics"
        metrics_of(client.compile(1, None))
    assert target.num_starts == 1


CRASHES = [("kill", 11, -11), ("kill", 6, -6), ("exit", 3, 3), ("half_line", None, -9), ("no_done", None, -9)]


@pytest.mark.parametrize(("what", "value", "returncode"), CRASHES)
def test_case_11_a_crash(double, what, value, returncode):
    target = double(faults=[[1, 1, what, value]])
    with target.client(max_restarts=0) as client:
        metrics_of(client.compile(2, ()))
        outcome = client.compile(1, ())
        assert (outcome.kind, outcome.returncode) == ("crashed", returncode)
        metrics_of(client.compile(2, ()))
    assert target.num_starts == 2
    target.log_path.unlink()
    with target.client(max_restarts=1) as client:  # a crash that does not come again
        assert metrics_of(client.compile(1, ())).index == 1
    assert target.num_starts == 2


def test_case_11_the_end_of_a_crash_is_told(double):
    target = double(faults=[[1, 1, "stderr", 60000], [1, 1, "exit", 134]])
    with target.client(max_restarts=0) as client:
        outcome = client.compile(1, ())
    assert outcome.stderr.endswith("noise\n")
    assert "exit 134" in outcome.message


NOISE = [
    "some text\n",
    "ISSUE: <ASSERT> optcse.cpp (1) - text\n",
    "MISSING: Method context 1 failed to replay: text\n",
    "\n\r\n   \n",
    "\ufffd\x00\x1b[0m\n",
    "[streaming] started\r\n",
]


@pytest.mark.parametrize(
    ("what", "value"), [("replace", ["$", "\r"]), *(("say", noise) for noise in (*NOISE, "".join(NOISE)))]
)
def test_case_12_other_lines_are_passed_over_and_lines_may_end_in_crlf(double, what, value):
    target = double(faults=[[1, 1, what, value]])
    with target.client() as client:
        noisy = client.compile(1, ())
        assert client.compile(1, ()) == noisy
        metrics_of(noisy)
    assert target.num_starts == 1


BROKEN = [
    ("prolog size [0-9]+, ", ""),
    (",3,7 ", ",3 "),
    ("prolog size 15", "prolog size many"),
    ("PerfScore [^,]*", "PerfScore inf"),
    ("num cand 2", "num cand 3"),
    (r"\(Tier1\)", ""),
]


@pytest.mark.parametrize(
    ("faults", "num_starts"),
    [
        ([[1, 1, "replace", BROKEN[0]], [1, 2, "say", "[streaming] Done. Status=7\n"]], 3),
        ([[1, 1, "hang", None]], 2),
    ],
)
def test_case_13_and_17_a_fault_that_does_not_come_again(double, faults, num_starts):
    target = double(faults=faults)
    with target.client(max_restarts=num_starts - 1, request_timeout_s=0.5) as client:
        metrics_of(client.compile(2, ()))
        metrics_of(client.compile(1, ()))
    assert target.num_starts == num_starts


def test_case_13_a_line_without_end(double):
    target = double(faults=[[1, 0, "say", "x" * 3_000_000]])
    with target.client(max_restarts=0) as client:
        assert client.compile(1, ()).kind == "protocol_error"
    with target.batch() as run, pytest.raises(MetricsError, match="a line of more than"):
        next(run)


@pytest.mark.parametrize(
    ("what", "value"),
    [
        *(("replace", broken) for broken in BROKEN),
        *(("replace", ["spmi index 1 ", "spmi index 2 "]), ("twice", None), ("replace", [" seq 1,0", " seq 0,1"])),
    ],
)
def test_case_13_and_14_a_broken_line_and_a_reply_to_another_request(double, what, value):
    target = double(faults=[[1, 1, what, value]])
    with target.client(max_restarts=0) as client:
        assert client.compile(1, (1, 0)).kind == "protocol_error"
        metrics_of(client.compile(2, ()))
    assert target.num_starts == 2
    target.log_path.unlink()
    with target.client(max_restarts=1) as client:
        assert metrics_of(client.compile(1, (1, 0))).requested == (1, 0)
    assert target.num_starts == 2


@pytest.mark.parametrize("has_contents", [False, True])
def test_case_15_a_method_that_does_not_exist(double, has_contents):
    """With a table of contents SuperPMI ends with status 255, without one by SIGSEGV."""
    target = double()
    if has_contents:
        target.collection.with_name("demo.mch.mct").touch()
    with target.client() as client:
        metrics_of(client.compile(1, None))
        outcome = client.compile(99, None)
        assert outcome.kind == "unknown_method"
        assert has_contents or outcome.message == "the collection has 4 methods"
        assert target.num_starts == 2  # asked twice
        metrics_of(client.compile(1, None))
        assert client.compile(99, ()) == outcome
    assert target.num_starts == 3
    assert sum(line.startswith("99!") for line in target.sent) == 2


@pytest.mark.parametrize(
    ("index", "decisions", "named"),
    [
        *((index, decisions, "index") for index in (0, -1, 1 << 31, 1.0, "1", True, None) for decisions in (None, ())),
        *((1, decisions, "decision") for decisions in ((-1,), (0, 1.0), (True,), ("1",), (None,), range(700))),
    ],
)
def test_case_16_a_request_that_is_refused(double, index, decisions, named):
    target = double()
    with target.client() as client:
        with pytest.raises(SuperPmiError, match=named):
            client.compile(index, decisions)
    assert target.log == []


@pytest.mark.parametrize(
    ("key", "value"),
    [("", "1"), ("a=b", "1"), ("#a", "1"), ("k" * 1024, "1"), ("k", "a!b"), ("k", "a\nb"), ("k", "a#b"), ("k", "\xe9")],
)
def test_case_16_options_that_are_refused(double, key, value):
    target = double()
    with pytest.raises(SuperPmiError, match="JIT option"):
        target.client(jit_options={key: value})


def test_case_16_the_longest_line(double):
    decisions = [0] * ((2046 - len(request(1, [0], feature_names=True))) // 2 + 1)
    target = double()
    with target.client() as client:
        assert metrics_of(client.compile(1, decisions)).requested == tuple(decisions)
        with pytest.raises(SuperPmiError, match="fewer decisions"):
            client.compile(1, [*decisions, 0])
    assert len(target.sent[0]) in (2045, 2046)
    assert [line[:2] for line in target.sent] == ["1!", "qu"]


def test_case_17_a_hang(double):
    target = double(faults=[[1, 1, "hang", 127.25]])
    with target.client(max_restarts=0, request_timeout_s=0.5) as client:
        metrics_of(client.compile(2, ()))
        start = time.monotonic()
        outcome = client.compile(1, ())
        assert 0.5 <= time.monotonic() - start < WITHIN_S
        assert outcome.kind == "timeout"
        assert not processes_naming(str(target.collection))
        assert all_end("sleep\x00127.25")  # its child
        metrics_of(client.compile(2, ()))


def test_case_17_output_ends_but_the_process_does_not(double, monkeypatch):
    monkeypatch.setattr("mlgo.jit.process._GRACE_S", 0.3)
    target = double(faults=[[1, 1, "linger", None]])
    with target.client(max_restarts=0) as client:
        start = time.monotonic()
        outcome = client.compile(1, ())
        assert time.monotonic() - start < WITHIN_S
        assert outcome.kind == "crashed"
        assert outcome.returncode == -signal.SIGKILL


def test_case_18_a_slow_start(double):
    target = double(start_s=0.5)
    with target.client(max_restarts=0, request_timeout_s=0.2) as client:
        metrics_of(client.compile(1, ()))
    with target.client(max_restarts=0, request_timeout_s=10.0, startup_timeout_s=0.2) as client:
        assert client.compile(1, ()).kind == "timeout"


def test_case_19_quarantine(double):
    target = double(faults=[[1, 0, "kill", 11]])
    with target.client(max_restarts=2) as client:
        outcome = client.compile(1, ())
        assert outcome.kind == "crashed"
        assert target.num_starts == 3
        metrics_of(client.compile(2, ()))
        for decisions in ((), (0,), None):
            refused = client.compile(1, decisions)
            assert refused.kind == "quarantined"
            assert refused.message == f"method 1 has ended too many processes; the last time: {outcome.message}"
        metrics_of(client.compile(2, ()))
    assert target.num_starts == 4
    assert sum(line.startswith("1!") for line in target.sent) == 3


def test_case_20_a_reply_that_comes_too_late(double):
    target = double(faults=[[1, 1, "late", 0.6]])
    with target.client(max_restarts=0, request_timeout_s=0.3) as client:
        metrics_of(client.compile(2, ()))
        assert client.compile(1, ()).kind == "timeout"
        time.sleep(0.4)
        assert metrics_of(client.compile(2, (0,))).index == 2
        assert metrics_of(client.compile(2, ())).requested == ()


def test_case_21_odd_values(double):
    with double().client() as client:
        metrics = metrics_of(client.compile(2, ()))
        assert metrics.candidates[0][12] == -2147483648
        metrics = metrics_of(client.compile(3, ()))
        assert (metrics.perf_score, metrics.candidates, metrics.feature_names) == (0.0, (), ())


def test_case_22_64_candidates(double):
    row = [2000000000] * 19
    row[1] = 1
    candidates = [{"features": row, "score": -1.0, "bytes": -1} for _ in range(64)]
    method = {"name": "A:B()", "hash": "00000000", "tier": "Tier1", "base_score": 100, "base_bytes": 100}
    target = double([{**method, "candidates": candidates, "heuristic": []}])
    with target.client() as client:
        metrics = metrics_of(client.compile(1, range(64)))
    assert (len(metrics.candidates), metrics.num_cse, metrics.perf_score) == (64, 64, 36.0)
    assert len(str(metrics)) > 10000


def test_case_23_a_flood_on_stderr(double):
    target = double(faults=[[1, 1, "stderr", 1 << 20]])
    with target.client() as client:
        metrics_of(client.compile(1, ()))
        metrics_of(client.compile(1, ()))
    assert target.num_starts == 1
    with double(faults=[[1, 1, "stderr", 1 << 20]]).batch() as run:
        assert [metrics.index for metrics in run] == [1, 2, 3, 4]


def test_case_24_a_batch(target, caplog):
    with target.batch(no_cse=True) as run:
        none = {metrics.index: metrics for metrics in run}
    assert caplog.records == []  # no line that cannot be read
    with target.batch(no_cse=False) as run:
        heuristic = {metrics.index: metrics for metrics in run}
    assert list(none) == sorted(none)
    assert list(heuristic) == sorted(heuristic)
    assert {metrics.num_cse for metrics in none.values()} == {0}
    assert not any(metrics.candidates for metrics in heuristic.values())
    with target.client() as client:
        for index in list(none)[:5]:
            assert metrics_of(client.compile(index, ())) == none[index]
        for index in list(heuristic)[:5]:
            assert metrics_of(client.compile(index, None)) == heuristic[index]


def test_case_24_failures_in_between(double):
    faults = [[2, 0, "jit_error", None], [3, 0, "missing_data", None]]
    with double(faults=faults).batch() as run:
        assert [metrics.index for metrics in run] == [1, 4]
        assert list(run) == []


def test_case_24_broken_lines_in_between(double, caplog):
    with double(faults=[[2, 0, "replace", BROKEN[0]], [4, 0, "say", "text\n\n"]]).batch() as run:
        assert [metrics.index for metrics in run] == [1, 3, 4]
    (record,) = caplog.records
    assert "1 of 4 lines of metrics cannot be read; the first: not a line of metrics: '; Total bytes" in record.message


@pytest.mark.parametrize(
    ("fields", "expected", "returncode"),
    [
        ({}, [1, 2, 3, 4], 0),
        ({"faults": [[1, 0, "jit_error", None]]}, [2, 3, 4], 1),
        ({"faults": [[4, 0, "missing_data", None]]}, [1, 2, 3], 3),
        ({"jit": "wrong_version"}, [], 254),
        ({"faults": [[3, 0, "exit", 255]]}, [1, 2], 255),
        ({"faults": [[3, 0, "kill", 11]]}, [1, 2], -11),
        ({"faults": [[3, 0, "half_line", None]]}, [1, 2], -9),
    ],
)
def test_case_24_exit_codes(double, fields, expected, returncode):
    failed = pytest.raises(SuperPmiError, match=f"superpmi ended with exit status {returncode} while reading")
    found = []
    with double(**fields).batch() as run, nullcontext() if returncode in (0, 1, 3) else failed:
        found += (metrics.index for metrics in run)
    assert found == expected
    assert str(abs(returncode)) in describe_exit(returncode)


def test_case_24_stopping_early(double):
    target = double([*double().methods * 2000])  # more than a pipe holds
    with target.batch() as run:
        assert next(run).index == 1
        assert next(run).index == 2
        assert processes_naming(str(target.collection))
    assert not processes_naming(str(target.collection))
    assert list(run) == []
    run.close()


def test_case_24_silence(double):
    start = time.monotonic()
    target = double(faults=[[3, 0, "hang", None]])
    with target.batch(startup_timeout_s=0.8) as run:
        assert [next(run).index, next(run).index] == [1, 2]
        with pytest.raises(SuperPmiError, match=r"0\.8 s"):
            next(run)
        assert not processes_naming(str(target.collection))
    assert time.monotonic() - start < WITHIN_S
    target = double(faults=[[i, 0, "late", 0.3] for i in (1, 2, 3, 4)])
    with target.batch(startup_timeout_s=1.0) as run:  # less than all of it takes
        assert len(list(run)) == 4


def test_case_25_stopping(target):
    index, _ = target.method(1)
    client = target.client()
    assert client.close() is None
    with client:
        metrics_of(client.compile(index, None))
        assert [client.close(), client.close()] == [0, None]
        metrics_of(client.compile(index, None))
    assert client.close() is None


def test_case_25_stopping_after_a_crash(double):
    target = double(faults=[[1, 0, "exit_later", 0.1], [2, 0, "kill", 11]])
    client = target.client(max_restarts=0)
    metrics_of(client.compile(1, None))
    time.sleep(0.4)
    assert client.close() == -signal.SIGKILL
    assert client.compile(2, None).kind == "crashed"
    assert client.close() is None


def test_case_25_a_process_that_ended_between_two_requests_is_replaced(double):
    target = double(faults=[[1, 0, "exit_later", 0.1]])
    with target.client(max_restarts=0) as client:
        metrics_of(client.compile(1, ()))
        time.sleep(0.4)
        assert len(metrics_of(client.compile(2, ())).feature_names) == 19
    assert target.num_starts == 2


def test_case_25_an_interrupt_leaves_nothing(double):
    target = double(faults=[[1, 1, "hang", None]])
    client = target.client()
    metrics_of(client.compile(2, ()))

    def interrupt(number, frame):
        raise KeyboardInterrupt

    before = signal.signal(signal.SIGALRM, interrupt)
    signal.setitimer(signal.ITIMER_REAL, 0.3)
    try:
        with pytest.raises(KeyboardInterrupt):
            client.compile(1, ())
    finally:
        signal.signal(signal.SIGALRM, before)
    assert not processes_naming(str(target.collection))
    metrics_of(client.compile(1, ()))
    client.close()


def test_case_25_nothing_is_left_open(double, leaves_nothing):
    target = double(faults=[[1, 1, "kill", 11], [2, 1, "exit", 255], [3, 1, "hang", None], [4, 1, "jit_error", None]])
    with leaves_nothing():
        with target.client(request_timeout_s=0.3) as client:
            for index in (1, 2, 3, 4):
                client.compile(index, ())
        with target.batch() as run:
            next(run)
        with pytest.raises(SuperPmiError), target.client() as client:
            client.compile(0, ())
        client = target.client()  # one that is forgotten
        metrics_of(client.compile(1, ()))
        del client


def test_case_25_superpmi_dies_with_its_parent(double):
    target = double(faults=[[1, 1, "hang", None]])
    program = (
        "import sys\nfrom pathlib import Path\nfrom mlgo.jit.client import SuperPmiClient\n"
        "from mlgo.jit.process import SuperPmi\n"
        "client = SuperPmiClient(SuperPmi(sys.argv[3:], *map(Path, sys.argv[1:3])))\nclient.compile(2, ())\n"
        "print('ready', flush=True)\nclient.compile(1, ())\n"
    )
    arguments = [str(target.jit), str(target.collection), *target.command]
    with subprocess.Popen([sys.executable, "-c", program, *arguments], stdout=subprocess.PIPE) as parent:
        assert parent.stdout.readline() == b"ready\n"
        assert len(processes_naming(str(target.collection))) == 2
        parent.kill()
    assert all_end(str(target.collection))


def test_case_26_two_clients_of_one_collection(target, tmp_path):
    index, (first, *_) = target.method(1)
    requests = [None, (), (first,)] * 5
    cache = tmp_path / "cache.json"

    def compile_all(number: int) -> None:
        with target.client() as client:
            outcomes = []
            for decisions in requests:
                outcomes.append(client.compile(index, decisions))
                write_json(cache, [metrics_of(outcome).perf_score for outcome in outcomes])
                assert read_json(cache)  # whole, whoever wrote it last
        (tmp_path / f"outcomes{number}").write_text(repr(outcomes))

    processes = [get_context("fork").Process(target=compile_all, args=(number,)) for number in range(2)]
    for process in processes:
        process.start()
    for process in processes:
        process.join()
        assert process.exitcode == 0
        process.close()
    assert len(read_json(cache)) == len(requests)
    assert (tmp_path / "outcomes0").read_text() == (tmp_path / "outcomes1").read_text()


def test_case_26_a_fault_of_one_client_is_not_the_others(double):
    target = double(faults=[[1, 1, "kill", 11]])
    with target.client(max_restarts=0) as one, target.client(max_restarts=0) as other:
        metrics_of(other.compile(2, ()))
        assert one.compile(1, ()).kind == "crashed"
        metrics_of(other.compile(1, ()))
        assert one.compile(1, ()).kind == "quarantined"
        assert other.num_starts == 1
