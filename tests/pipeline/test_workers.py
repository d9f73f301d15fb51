"""The same training on every kind of worker, disturbed and undisturbed: the same bytes."""

import os
import signal
import subprocess
import threading
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from pathlib import Path

import pytest

from mlgo.learn.cost import read_cost
from mlgo.pool.nested import serve_workers
from tests.pipeline.conftest import wait_for_state
from tests.pool.clusters import GrowingCluster, TestCluster, children_of, needs_namespaces, needs_ray

FILES = ("policy.json", "weights.npy", "history.csv", "failures.parquet")


def on_ray(within_s: int) -> Callable[[Callable], Callable]:
    """Mark a test that needs a cluster of Ray."""
    return lambda test: pytest.mark.slow(needs_ray(pytest.mark.timeout(within_s)(test)))


def command(checkout, name: str, cores: int, generations: int = 2, pairs: int = 2, **where) -> list[str]:
    sections = {"es": {"generations": generations, "pairs": pairs}, "workers": where}
    return checkout.training("es", name, "--workers", str(cores), **sections)


def outcome(checkout, name: str) -> dict[str, bytes]:
    return {file: (checkout.root / "data" / name / "es-s0" / file).read_bytes() for file in FILES}


def train(checkout, name: str, cores: int, **options) -> dict[str, bytes]:
    checkout.succeed(*command(checkout, name, cores, **options))
    return outcome(checkout, name)


@pytest.fixture(scope="module")
def expected(finished) -> dict[str, bytes]:
    """What the run of the workflow has left."""
    return {file: (finished.root / "data/policies/es-s0" / file).read_bytes() for file in FILES}


@pytest.mark.parametrize(("kind", "num_workers"), [pytest.param("serial", 1, marks=pytest.mark.slow), ("local", 3)])
def test_the_same_bytes_on_this_machine(finished, expected, kind, num_workers):
    assert train(finished, f"{kind}{num_workers}", num_workers, kind=kind) == expected


@pytest.fixture(scope="module")
def cluster():
    one = TestCluster()
    yield one
    one.close()


@pytest.fixture
def nodes(cluster):
    """Two nodes of the cluster; a test may put others in their places."""
    running = [cluster.add_node(), cluster.add_node()]
    yield running
    for node in running:
        cluster.remove(node)
    cluster.wait_for_cpus(0.0)


@on_ray(within_s=600)
def test_the_same_bytes_on_a_cluster(finished, expected, cluster, nodes):
    assert train(finished, "ray-shared", 1, kind="ray", address=cluster.address, files="shared") == expected
    work = finished.root / "data/ray-shared/work"
    assert read_cost(work, "es-s0").workers == len(nodes)
    assert list((work / "replay").rglob("*.tree"))  # here, wherever Ray was started


@on_ray(within_s=600)
def test_the_same_bytes_on_nested_workers(finished, expected, cluster):
    with serve_workers(cluster.address, 2), ThreadPoolExecutor(2) as threads:
        nested = {"kind": "nested", "address": cluster.address}
        both = [threads.submit(train, finished, name, 1, **nested) for name in ("nested-one", "nested-other")]
        assert [one.result() for one in both] == [expected, expected]


@on_ray(within_s=600)
@needs_namespaces
def test_the_same_bytes_on_a_node_that_sees_neither_corpus_nor_compiler(
    finished, expected, cluster, tmp_path, toolchain
):
    ray = {"kind": "ray", "address": cluster.address, "num_workers": 1}
    compiler, temporary = toolchain.binary.parent, tmp_path / "node"
    temporary.mkdir()
    with cluster.node_that_does_not_see(finished.root / "data", compiler, temporary=temporary):  # it sees the code
        run = finished.run(*command(finished, "ray-missing", 1, **ray, files="shared"))
        assert run.returncode == 1
        message = next(line for line in run.stderr.splitlines() if line.startswith("error: "))
        assert f"there is no {toolchain.binary}, the compiler of this run" in message
        assert message.startswith("error: node ")
        assert message.endswith("or set workers.kind: local to use the processes of this machine")
    with cluster.node_that_does_not_see(finished.root, compiler, temporary=temporary):
        assert train(finished, "ray-send", 1, **ray, files="send") == expected
    trees = list((finished.root / "data/ray-send/work/replay").rglob("*.tree"))
    assert trees  # what the node has found out is kept here
    assert list(temporary.glob("mlgo-*/ray-*")) == []


@on_ray(within_s=600)
def test_the_same_bytes_on_a_cluster_that_grows_from_nothing(finished, expected, tmp_path):
    growing = GrowingCluster(tmp_path, max_nodes=2, idle_s=3.0)
    try:
        ray = {"kind": "ray", "address": growing.address, "num_workers": 2}
        assert train(finished, "ray-growing", 1, **ray, files="shared") == expected
        growing.wait_for_cpus(0.0)
    finally:
        growing.close()


GENERATIONS, PAIRS = 10, 6


@pytest.fixture(scope="module")
def undisturbed(finished):
    return train(finished, "undisturbed", 2, generations=GENERATIONS, pairs=PAIRS)


def disturbed(checkout, name: str, kill, every_s: float, **options) -> int:
    """Train while somebody kills; tell how often."""
    kills = 0
    process = checkout.start(*command(checkout, name, 2, generations=GENERATIONS, pairs=PAIRS, **options))
    with process:
        reader = threading.Thread(target=lambda: process.stdout.read(), daemon=True)
        reader.start()
        end = time.monotonic() + 280.0
        while process.poll() is None:
            assert time.monotonic() < end
            kills += kill(process)
            with suppress(subprocess.TimeoutExpired):
                process.wait(every_s)
        reader.join(10.0)
    assert process.returncode == 0
    return kills


@pytest.mark.slow
@pytest.mark.timeout(900)
def test_workers_killed_while_training(finished, undisturbed):
    """Every kill hits a worker with its compiler; no compile fails, nothing changes."""

    def kill(process) -> int:
        for pid in children_of(process.pid):
            with suppress(OSError):
                if b"mlgo.pool.worker" in Path(f"/proc/{pid}/cmdline").read_bytes():
                    os.kill(pid, signal.SIGKILL)
                    return 1
        return 0

    kills = disturbed(finished, "killed", kill, 1.5, retries=50)
    print(f"{kills} workers killed")
    assert kills >= 3
    assert outcome(finished, "killed") == undisturbed


@on_ray(within_s=900)
def test_nodes_killed_while_training(finished, undisturbed, cluster, nodes):
    begun = finished.root / "data/nodes/work/timings"

    def kill(process) -> int:
        if not begun.exists():
            return 0
        cluster.kill(nodes.pop(0))
        nodes.append(cluster.add_node())
        return 1

    kills = disturbed(
        finished, "nodes", kill, 4.0, kind="ray", address=cluster.address, files="shared", retries=50, num_workers=2
    )
    print(f"{kills} nodes killed")
    assert kills >= 1
    assert outcome(finished, "nodes") == undisturbed


@on_ray(within_s=900)
def test_a_cluster_that_shrinks_and_grows_while_training(finished, undisturbed, cluster, nodes):
    """Nodes take their leave and come back, while there is work."""
    begun = finished.root / "data/breathing/work/timings"

    def change(process) -> int:
        if not begun.exists():
            return 0
        if len(nodes) == 2:
            cluster.remove(nodes.pop(0))
            return 1
        nodes.append(cluster.add_node())
        return 0

    where = {"kind": "ray", "address": cluster.address, "num_workers": 2}
    shrunk = disturbed(finished, "breathing", change, 4.0, **where, files="shared", retries=50)
    print(f"shrunk {shrunk} times")
    assert shrunk >= 1
    assert outcome(finished, "breathing") == undisturbed


@on_ray(within_s=600)
def test_the_head_dies_while_training_and_others_finish_it(finished):
    one = TestCluster()
    try:
        one.add_node()
        where = {"kind": "ray", "address": one.address, "num_workers": 1, "files": "shared"}
        train_it = command(finished, "headless", 1, generations=3 * GENERATIONS, pairs=PAIRS, **where)
        with finished.start(*train_it) as process:
            wait_for_state(process, finished.root / "data/headless/work")
            one.kill_head()
            said, _ = process.communicate(timeout=90.0)
        assert process.returncode == 1
        message = next((line for line in said.splitlines() if line.startswith("error: ")), said[-2000:])
        assert message.startswith(f"error: the head of the Ray cluster at {one.address} is gone")
        assert "go on from the last checkpoint" in message
        assert [command for command in finished.processes() if not command.startswith("ray::")] == []
    finally:
        one.close()
    goes_on = train(finished, "headless", 2, generations=3 * GENERATIONS, pairs=PAIRS)
    assert goes_on == train(finished, "never-headless", 2, generations=3 * GENERATIONS, pairs=PAIRS)
