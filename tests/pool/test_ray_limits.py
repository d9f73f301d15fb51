"""Ray at its limits: nodes that come and go by need, 10,000 candidates, full stores, read-only folders."""

import json
import subprocess
import sys

import pytest

from mlgo.base.config import LOCAL_WORKERS
from mlgo.base.files import file_sha256
from mlgo.errors import WorkerError
from mlgo.evaluate import CompileHost, CompileJob
from mlgo.evaluate.worker import tree_key
from mlgo.host.tasks.task import EchoAdvisor, get_task
from mlgo.pool import Pool, open_pool
from mlgo.pool.tree_store import ReplayStore
from tests.conftest import REPOSITORY
from tests.pool.clusters import GrowingCluster, TestCluster, needs_namespaces, needs_ray, workers_on
from tests.pool.handlers import make_misbehaving, make_reader

ECHO = EchoAdvisor("inlining_default")
pytestmark = [needs_ray, pytest.mark.slow, pytest.mark.timeout(600)]


@pytest.fixture
def cluster():
    one = TestCluster()
    yield one
    one.close()


def test_a_cluster_that_grows_and_shrinks(tmp_path):
    from mlgo.pool.ray_backend import RayBackend

    growing = GrowingCluster(tmp_path, max_nodes=2, idle_s=3.0)
    try:
        with Pool(RayBackend(make_misbehaving, workers_on(growing), release_after_s=1.0), 2) as pool:
            for _ in range(2):
                sizes, results = set(), {}
                for position, result in pool.map(["slow"] * 100):
                    results[position] = result
                    sizes.add(growing.num_cpus)
                assert results == dict.fromkeys(range(100), "slow")
                assert 2.0 in sizes
                growing.wait_for_cpus(0.0)
            assert pool.num_lost == 0
    finally:
        growing.close()


def test_ten_thousand_candidates_do_not_fill_memory(cluster):
    """What a generation adds to the driver's memory: jobs that wait, at most 10,000, and rewards."""

    def generation(workers, candidates):
        command = [sys.executable, "-m", "tests.pool.large_generation", workers.model_dump_json(), str(candidates)]
        run = subprocess.run(command, cwd=REPOSITORY, capture_output=True, text=True, timeout=500.0, check=False)
        assert run.returncode == 0, run.stderr[-3000:]
        print(workers.kind, candidates, run.stdout)
        return json.loads(run.stdout)

    nodes = [cluster.add_node(), cluster.add_node()]
    ray, local = generation(workers_on(cluster), 10_000), generation(LOCAL_WORKERS, 10_000)
    assert ray["finite"] == ray["evaluations"] == 30_000
    assert (ray["sha256"], ray["compiled"]) == (local["sha256"], local["compiled"])
    for one in (ray, local):
        assert one["grown_bytes"] < 150_000_000  # 17 kB for each evaluation, if outcomes were kept: 500 MB
    for node in nodes:
        cluster.remove(node)


def test_a_full_store_is_said(tmp_path, monkeypatch):
    monkeypatch.setenv("RAY_local_fs_capacity_threshold", "0.01")  # the disk counts as full, so nothing is spilled
    cluster = TestCluster(store_bytes=80_000_000)
    data, temporary = tmp_path / "data", tmp_path / "node"
    data.mkdir()
    temporary.mkdir()
    file = data / "large"
    file.write_bytes(bytes(150_000_000))
    try:
        with cluster.node_that_does_not_see(data, temporary=temporary):
            with open_pool(workers_on(cluster, files="send"), 1, make_reader) as pool:
                with pytest.raises(WorkerError, match=r"object store is full; .*workers.kind: local"):
                    list(pool.map([file]))
    finally:
        cluster.close()


@needs_namespaces
def test_a_shared_folder_that_a_node_may_not_write_is_said(cluster, tmp_path, toolchain, settings, sample):
    store = ReplayStore(tmp_path / "trees", tree_key(toolchain, get_task("inline-size"), settings))
    store.check_writable()
    bitcode, temporary = sample("codec/base64.c"), tmp_path / "node"
    job = CompileJob("codec/base64.c", bitcode, ECHO, with_heuristic_feature=True, sha256=file_sha256(bitcode))
    temporary.mkdir()
    with cluster.node_that_may_not_write(tmp_path / "trees", temporary=temporary):
        with CompileHost(toolchain, "inline-size", settings, 1, store, workers=workers_on(cluster)) as host:
            with pytest.raises(WorkerError, match=f"^node .*: cannot write to {tmp_path}/trees/.*, where response trees"
                               " are kept: Read-only file system; or set workers.kind: local"):  # fmt: skip
                host.compile_all([job])
    with CompileHost(toolchain, "inline-size", settings, 1, store) as host:  # which would do here
        assert not host.compile_all([job])[0].reason
