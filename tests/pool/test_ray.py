"""Workers on real Ray clusters: the pool's promises kept, nodes lost, files brought, mistakes named."""

import os
import pickle
import shutil
import socket
import subprocess
import sys
import tempfile
import time
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path

import pytest

from mlgo.errors import WorkerCrashed, WorkerError
from mlgo.pool import Pool, open_pool
from mlgo.pool.cluster import Inbox, check_versions, connect, disconnect, is_listening, versions
from mlgo.pool.local import WorkerEnvironment
from mlgo.pool.nesting import PROTOCOL, NestingWorker
from tests.conftest import REPOSITORY, WITHIN_S, wait_for
from tests.pool.clusters import (
    TestCluster,
    free_port,
    ip_address,
    needs_namespaces,
    needs_ray,
    ray_process,
    workers_on,
)
from tests.pool.handlers import make_dying_once, make_failing, make_misbehaving, make_reader, make_square

pytestmark = [needs_ray, pytest.mark.timeout(600)]


@pytest.fixture(scope="module")
def cluster():
    one = TestCluster()
    yield one
    one.close()


@pytest.fixture
def nodes(cluster):
    """Those that a test adds; they are taken away."""
    some = []
    yield some
    for node in some:
        cluster.remove(node)
    cluster.wait_for_cpus(0.0)


@pytest.fixture
def two_nodes(cluster, nodes):
    nodes += [cluster.add_node(), cluster.add_node()]
    return nodes


def test_a_pool_of_actors_is_a_pool(cluster, nodes):
    """The whole in one pool, since each start of an actor costs as much as hundreds of compiles."""
    nodes.append(cluster.add_node(num_cpus=2))
    taken = 0

    def jobs():
        nonlocal taken
        for i in range(500):
            taken += 1
            yield i

    with open_pool(workers_on(cluster), 1, make_misbehaving) as pool:
        assert pool.num_workers == 2  # as many as the cluster has CPUs
        for done, (i, result) in enumerate(pool.map(jobs(), lookahead=10), 1):
            assert result == i * i
            assert taken <= done + 10 + 2 * 2 * 10 + 1  # no more are on their way than workers can hold
        assert done == 500
        with pytest.raises(LookupError, match="from the handler"):
            list(pool.map([1, "raise"]))
        assert dict(pool.map(range(50))) == {i: i * i for i in range(50)}


@pytest.mark.slow
def test_actors_that_die_are_replaced(cluster, two_nodes, tmp_path):
    with open_pool(workers_on(cluster, num_workers=1), 1, make_misbehaving) as pool:
        lost = dict(pool.map([2, "exit"]))[1]  # and two retries
        assert lost.attempts == 3
        assert "actor" in str(lost).lower()
    with open_pool(workers_on(cluster), 1, make_dying_once(tmp_path)) as pool:
        assert dict(pool.map(range(3))) == {i: i for i in range(3)}
    with open_pool(workers_on(cluster), 1, make_failing) as pool:
        with pytest.raises(OSError, match="no such thing here"):
            list(pool.map([1]))


@pytest.mark.slow
def test_a_node_that_dies_loses_nothing(cluster, two_nodes):
    with open_pool(workers_on(cluster), 1, make_misbehaving) as pool:
        assert len(dict(pool.map(["pid", "pid", "slow", "slow"]))) == 4
        results = {}
        for position, result in pool.map(["slow"] * 20):
            results[position] = result
            if len(results) == 3:
                cluster.kill(two_nodes[0])
        assert results == dict.fromkeys(range(20), "slow")
        assert pool.num_lost >= 1


@pytest.mark.slow
def test_an_actor_hosts_many_workers(cluster, two_nodes):
    ray = connect(cluster.address, "send")

    def submit(host, name, job):
        return host.submit.remote("own", name, [0], pickle.dumps([(0, job)]), 60.0)

    def answers(calls):
        return [pickle.loads(answer)[0][0] for answer in ray.get(calls)]

    try:
        hosts = [ray.remote(num_cpus=1)(NestingWorker).remote(at_once=2) for _ in range(2)]
        for host in hosts:
            place, alive = WorkerEnvironment.here(), [host.ended.remote()]
            ray.get(host.join.remote("own", PROTOCOL, pickle.dumps(make_misbehaving), place, {}, alive))
        pids = answers([submit(host, name, "pid") for host in hosts for name in ("one", "other")])
        assert len(set(pids)) == 4
        crash, sibling = submit(hosts[0], "one", "exit"), submit(hosts[0], "other", "slow")
        with pytest.raises(WorkerCrashed, match="worker one crashed with exit code 7"):
            ray.get(crash)
        assert answers([sibling, submit(hosts[1], "one", 3)]) == ["slow", 9]
        ray.get(hosts[0].release.remote("one"))
        assert ray.get(hosts[0].outstanding.remote()) == {"other": 0}
        for host in hosts:
            ray.kill(host)
        wait_for(lambda: not any(Path(f"/proc/{pid}").exists() for pid in pids))  # they end with their host
    finally:
        disconnect()


@pytest.mark.slow
def test_nodes_that_freeze_are_done_without(cluster, nodes):
    """Ray starts actors there until it misses the nodes' heartbeats; often more than may fail for other reasons."""
    nodes += [cluster.add_node() for _ in range(6)]
    with cluster.frozen(nodes), open_pool(workers_on(cluster), 1, make_square) as pool:
        with ThreadPoolExecutor(1) as thread:
            results = thread.submit(lambda: dict(pool.map(range(20))))
            time.sleep(5.0)  # all places have asked for their actors
            nodes.append(cluster.add_node())
        assert results.result() == {i: i * i for i in range(20)}
        assert pool.num_lost >= 1


@needs_namespaces
@pytest.mark.slow
def test_files_reach_a_node_that_does_not_see_them(cluster, tmp_path):
    data, temporary = tmp_path / "data", tmp_path / "node"
    data.mkdir()
    temporary.mkdir()
    files = [data / "one", data / "two"]
    for file in files:
        file.write_text(file.name)
    with cluster.node_that_does_not_see(data, temporary=temporary):
        with open_pool(workers_on(cluster, files="shared"), 1, make_reader) as pool:
            assert set(dict(pool.map(files)).values()) == {"missing"}  # it really does not
        with open_pool(workers_on(cluster, files="send"), 1, make_reader) as pool:
            assert dict(pool.map([*files, *files])) == {0: "one", 1: "two", 2: "one", 3: "two"}
        kept = list(temporary.glob("mlgo-*/ray-*"))
        assert kept == []  # nothing stays on the node


@pytest.mark.slow
def test_relative_paths_are_those_of_the_driver(cluster, two_nodes, tmp_path, monkeypatch):
    here = tmp_path / "here"
    here.mkdir()
    (here / "words").write_text("found")
    monkeypatch.chdir(here)
    make_measurer = partial(partial, os.path.getsize)
    with open_pool(workers_on(cluster, files="shared"), 1, make_measurer) as pool:
        assert dict(pool.map(["words"])) == {0: 5}
    with open_pool(workers_on(cluster, files="shared"), 1, make_measurer) as pool:
        (here / "words").unlink()
        here.rmdir()
        with pytest.raises(WorkerError, match=f"there is no {here}, where the training works"):
            list(pool.map(["words"]))


@pytest.mark.slow
def test_actors_end_when_there_is_no_work_and_come_back(cluster, two_nodes):
    import ray

    from mlgo.pool.ray_backend import RayBackend

    backend = RayBackend(make_square, workers_on(cluster), release_after_s=0.5)
    with Pool(backend, 2) as pool:
        assert dict(pool.map([3])) == {0: 9}
        wait_for(lambda: ray.available_resources().get("CPU") == 2.0)  # an autoscaler would now take the nodes away
        assert dict(pool.map([4, 5])) == {0: 16, 1: 25}


@pytest.mark.slow
def test_nobody_free_is_said_in_time(cluster):
    with open_pool(workers_on(cluster, start_timeout_s=2.0), 1, make_square) as pool:
        with pytest.raises(WorkerError, match=r"no Ray worker has started within .* \(2 s\).*workers.kind: local"):
            list(pool.map([1]))


INSTEAD = "or set workers.kind: local to use the processes of this machine"


@pytest.mark.parametrize(
    ("code", "begins", "ends"),
    [
        ("connect('127.0.0.1:1', 'shared')", "error: no Ray cluster at 127.0.0.1:1: ", INSTEAD),
        ("connect('nowhere', 'shared')", "error: workers.address is host:port, auto or empty, not 'nowhere'", ""),
        ("sys.modules['ray'] = None; connect('', 'shared')", "error: a Ray cluster needs ray", f"EXTRA=ray, {INSTEAD}"),
    ],
)
def test_no_cluster_is_said(code, begins, ends, tmp_path):
    run = _in_a_process(code, RAY_TMPDIR=str(tmp_path))
    assert run.startswith(begins)
    assert run.endswith(ends)


JOINS = """
import sys
import tempfile
from mlgo.errors import WorkerError
from mlgo.pool.cluster import connect, disconnect
try:
    connect(sys.argv[1], "shared")
    disconnect()
    print("joined")
except WorkerError as error:
    print(error)
"""


@pytest.mark.slow
@pytest.mark.timeout(300)
@pytest.mark.parametrize(
    ("head", "ip", "driver", "token", "says"),
    [
        ("disabled", None, None, None, "lets in whoever reaches it"),
        ("disabled", None, "disabled", None, "joined"),
        ("disabled", "127.0.0.1", None, None, "joined"),
        ("token", None, None, "a" * 64, "joined"),
        ("token", None, None, "b" * 64, "auth_token"),
        ("token", None, None, None, "auth_token"),
    ],
)
def test_only_a_cluster_that_is_closed_is_joined(head, ip, driver, token, says, tmp_path):
    temporary = tempfile.mkdtemp(prefix="ray-", dir="/tmp")
    at = ip or ip_address()
    port = free_port(at)
    options = ["--head", f"--node-ip-address={at}", f"--port={port}", "--num-cpus=1", "--include-dashboard=false"]
    common = {name: text for name, text in os.environ.items() if not name.startswith("RAY_AUTH")}
    environment = {"RAY_TMPDIR": temporary, "RAY_AUTH_MODE": head, "RAY_AUTH_TOKEN": "a" * 64}
    home = {"HOME": str(tmp_path), "PYTHONPATH": str(REPOSITORY)}
    home |= {"RAY_AUTH_MODE": driver} if driver else {}
    home |= {"RAY_AUTH_TOKEN": token} if token else {}
    try:
        with ray_process(options, tmp_path / "log", environment):
            wait_for(lambda: is_listening(f"{at}:{port}"), 60.0)
            command = [sys.executable, "-c", JOINS, f"{at}:{port}"]
            run = subprocess.run(command, capture_output=True, text=True, timeout=120.0, check=True, env=common | home)
        assert says in run.stdout
    finally:
        shutil.rmtree(temporary, ignore_errors=True)


@pytest.mark.slow
def test_the_token_of_a_cluster_that_is_started_here_is_for_its_user_alone(tmp_path):
    common = {name: text for name, text in os.environ.items() if not name.startswith("RAY_AUTH")}
    environment = common | {"HOME": str(tmp_path), "PYTHONPATH": str(REPOSITORY)}
    command = [sys.executable, "-c", JOINS, ""]
    with tempfile.TemporaryDirectory(prefix="ray-", dir="/tmp") as short:  # names of sockets have 107 bytes at most
        environment["RAY_TMPDIR"] = short
        run = subprocess.run(command, capture_output=True, text=True, timeout=120.0, check=True, env=environment)
    assert run.stdout == "joined\n"
    assert (tmp_path / ".ray" / "auth_token").stat().st_mode & 0o777 == 0o600


def _in_a_process(code: str, **environment: str) -> str:
    program = (
        "import sys\nfrom mlgo.cli.program import run_program\nfrom mlgo.pool.cluster import connect\n"
        f"def main():\n    {code}\nrun_program(main)\n"
    )
    variables = os.environ | {"PYTHONPATH": str(REPOSITORY)} | environment
    command = [sys.executable, "-c", program]
    run = subprocess.run(command, capture_output=True, text=True, timeout=120.0, check=False, env=variables)
    assert run.returncode == 1, run.stderr
    return next(line for line in run.stderr.splitlines() if line.startswith("error: "))


def test_another_version_on_a_node_is_named():
    here = versions()
    check_versions(here, dict(here), "n1")
    with pytest.raises(WorkerError, match=r"node n1 has numpy 1\.0 instead of .*; install the same there"):
        check_versions(here, here | {"numpy": "1.0"}, "n1")


def test_a_file_that_is_the_same_is_not_copied(tmp_path):
    from mlgo.pool.ray_worker import FileStamp, local_copy, pack, unpack

    file = tmp_path / "file"
    file.write_text("content")

    def local(stamp):
        return local_copy(stamp, tmp_path / "node", lambda stamp: Path(stamp.path).read_bytes())

    assert unpack(pack({"file": file, "folder": tmp_path}), local) == {"file": file, "folder": tmp_path}
    stamp = FileStamp.of(file)._replace(mtime_ns=1)  # the driver's is another one
    copy = local(stamp)
    assert copy != file
    assert (copy.name, copy.read_text(), local(stamp)) == ("file", "content", copy)


@pytest.mark.slow
def test_a_head_that_is_gone_is_said_after_a_while(monkeypatch):
    monkeypatch.setattr("mlgo.pool.cluster._HEAD_GONE_S", 0.5)
    monkeypatch.setattr("mlgo.pool.cluster._HEAD_ASKED_S", 0.05)
    with socket.create_server(("127.0.0.1", 0)) as server:
        inbox = Inbox(f"127.0.0.1:{server.getsockname()[1]}")
        begin = time.monotonic()
        while time.monotonic() < begin + 0.6:
            assert inbox.take() == []  # there, however long nothing comes
        time.sleep(0.6)
        assert inbox.take() == []  # there, however long it was not asked
    begin = time.monotonic()
    with pytest.raises(WorkerError, match=r"the head of the Ray cluster at 127\.0\.0\.1:\d+ is gone"):
        while time.monotonic() < begin + WITHIN_S:
            assert inbox.take() == []  # gone, but it may come back
    assert time.monotonic() - begin > 0.3
