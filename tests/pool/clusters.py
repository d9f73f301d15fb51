"""Real Ray clusters of several nodes on this machine, some of which do not see the driver's folders."""

import contextlib
import json
import os
import shlex
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from contextlib import AbstractContextManager
from importlib.util import find_spec
from pathlib import Path

import pytest

from mlgo.base.config import LOCAL_WORKERS, WorkersConfig

STARTED_WITHIN_S = 120.0

needs_ray = pytest.mark.skipif(
    find_spec("ray") is None,
    reason="needs the extra ray: make setup EXTRA=ray",
)
needs_namespaces = pytest.mark.skipif(
    os.geteuid() != 0
    or shutil.which("unshare") is None
    or subprocess.run(["unshare", "-m", "true"], capture_output=True, check=False).returncode != 0,
    reason="only root can hide folders from a process",
)


class TestCluster:
    """A head without CPUs, and nodes that come and go.

    Args:
        store_bytes: object store of each node.
    """

    __test__ = False

    def __init__(self, store_bytes: int = 300_000_000) -> None:
        from ray.cluster_utils import Cluster

        os.environ["RAY_AUTH_MODE"] = "disabled"
        self._folder = tempfile.mkdtemp(prefix="ray-", dir="/tmp")  # names of sockets have 107 bytes at most
        os.environ["RAY_TMPDIR"] = self._folder
        self._cluster = Cluster(
            initialize_head=True,
            head_node_args={"num_cpus": 0, "include_dashboard": False, "object_store_memory": store_bytes},
        )
        self._store_bytes = store_bytes
        self.address = self._cluster.address

    def add_node(self, num_cpus: int = 1):
        return self._cluster.add_node(num_cpus=num_cpus, object_store_memory=self._store_bytes)

    def remove(self, node) -> None:
        """Take a node away as its owner would, unless it is gone."""
        if node.live_processes():
            self._cluster.remove_node(node, allow_graceful=True)

    def kill(self, node) -> None:
        """As if the machine's power had failed: all of its processes at once, without a word."""
        workers = [child for one in node.all_processes.get("raylet", []) for child in children_of(one.process.pid)]
        self._cluster.remove_node(node, allow_graceful=False)
        for process in workers:
            with contextlib.suppress(ProcessLookupError):
                os.kill(process, signal.SIGKILL)

    def kill_head(self) -> None:
        """End what keeps the cluster together; its nodes live on for a while."""
        self._cluster.head_node.kill_gcs_server()

    @contextlib.contextmanager
    def frozen(self, nodes: Sequence) -> Iterator[None]:
        """Nodes whose processes stand still, which Ray notices by and by."""
        processes = [one.process.pid for node in nodes for group in node.all_processes.values() for one in group]
        processes += [child for one in processes for child in children_of(one)]
        for process in processes:
            os.kill(process, signal.SIGSTOP)
        try:
            yield
        finally:
            for process in processes:
                with contextlib.suppress(ProcessLookupError):
                    os.kill(process, signal.SIGKILL)

    def close(self) -> None:
        self._cluster.shutdown()
        os.environ.pop("RAY_TMPDIR", None)
        shutil.rmtree(self._folder, ignore_errors=True)

    def node_that_does_not_see(self, *hidden: Path, temporary: Path) -> AbstractContextManager[None]:
        """A node for which these folders are empty, with its own folder for temporary files."""
        return self._node_with([f"mount -t tmpfs none '{path}'" for path in hidden], temporary)

    def node_that_may_not_write(self, *folders: Path, temporary: Path) -> AbstractContextManager[None]:
        """A node for which these folders are read-only, with its own folder for temporary files."""
        return self._node_with(
            [f"mount --bind '{one}' '{one}' && mount -o remount,ro,bind '{one}'" for one in folders], temporary
        )

    @contextlib.contextmanager
    def _node_with(self, mounts: Sequence[str], temporary: Path) -> Iterator[None]:
        log = temporary / "ray-start.log"
        node = ["--address", self.address, "--num-cpus", "1", "--object-store-memory", str(self._store_bytes)]
        with ray_process(node, log, {"TMPDIR": str(temporary)}, mounts):
            wait_for_cpus(self.address, 1.0, log)
            yield

    def wait_for_cpus(self, count: float) -> None:
        """Wait until the cluster knows of so many CPUs: new nodes have come, and dead ones were noticed."""
        wait_for_cpus(self.address, count)


class GrowingCluster:
    """A head without CPUs, and Ray's autoscaler, to which processes of this machine are nodes of one CPU each.

    Args:
        folder: for its configuration and log.
        max_nodes: how many it may start.
        idle_s: after which a node goes.
    """

    def __init__(self, folder: Path, max_nodes: int, idle_s: float) -> None:
        self._folder = tempfile.mkdtemp(prefix="ray-", dir="/tmp")
        ip = ip_address()
        port = free_port(ip)
        self.address = f"{ip}:{port}"
        resources = {"CPU": 1, "object_store_memory": 100_000_000}
        nothing_to_do = ("cluster_synced_files", "initialization_commands", "setup_commands", "head_setup_commands",
                         "worker_setup_commands", "head_start_ray_commands", "worker_start_ray_commands")  # fmt: skip
        config = {
            "cluster_name": "growing",
            "max_workers": max_nodes,
            "upscaling_speed": 10.0,
            "idle_timeout_minutes": idle_s / 60.0,
            "provider": {
                "type": "fake_multinode",
                "gcs_address": self.address,
                "launch_multiple": True,
                "use_node_id_as_ip": True,
                "disable_node_updaters": True,
                "disable_launch_config_check": True,
            },
            "head_node_type": "ray.head.default",
            "auth": {},
            "docker": {},
            "file_mounts": {},
            **{name: [] for name in nothing_to_do},
            "available_node_types": {
                "ray.head.default": {"node_config": {}, "resources": {}, "max_workers": 0},
                "node": {"node_config": {}, "resources": resources, "min_workers": 0, "max_workers": max_nodes},
            },
        }
        file, self.log = folder / "growing.json", folder / "growing.log"
        file.write_text(json.dumps(config))
        head = ["--head", "--port", str(port), "--num-cpus", "0", "--include-dashboard", "false",
                "--object-store-memory", "100000000", "--autoscaling-config", str(file)]  # fmt: skip
        environment = {"RAY_TMPDIR": self._folder, "RAY_FAKE_CLUSTER": "1", "AUTOSCALER_UPDATE_INTERVAL_S": "1"}
        self._running = contextlib.ExitStack()
        self._running.callback(shutil.rmtree, self._folder, ignore_errors=True)
        self._running.enter_context(ray_process(head, self.log, environment))
        wait_for_cpus(self.address, 0.0, self.log)

    @property
    def num_cpus(self) -> float:
        """Nodes that are there."""
        return num_cpus(self.address)

    def wait_for_cpus(self, count: float) -> None:
        """Wait until so many nodes are there."""
        wait_for_cpus(self.address, count, self.log)

    def close(self) -> None:
        self._running.close()


def workers_on(cluster: TestCluster | GrowingCluster, **changes) -> WorkersConfig:
    """Settings of workers on a cluster, where all nodes see the same files."""
    changes = {"kind": "ray", "address": cluster.address, "files": "shared", "start_timeout_s": 120.0, **changes}
    return LOCAL_WORKERS.model_copy(update=changes)


@contextlib.contextmanager
def ray_process(
    arguments: Sequence[str], log: Path, environment: dict[str, str], mounts: Sequence[str] = ()
) -> Iterator[None]:
    """``ray start`` with all that it starts, which sees other folders after ``mounts``."""
    ray = [str(Path(sys.executable).with_name("ray")), "start", *arguments, "--block"]
    command = ["unshare", "-m", "sh", "-c", " && ".join([*mounts, f"exec {shlex.join(ray)}"])] if mounts else ray
    with log.open("wb") as output:
        process = subprocess.Popen(
            command,
            stdout=output,
            stderr=output,
            start_new_session=True,
            env=os.environ | {"RAY_AUTH_MODE": "disabled"} | environment,
        )
    try:
        yield
    finally:
        for number in (signal.SIGTERM, signal.SIGKILL):
            with contextlib.suppress(ProcessLookupError):
                os.killpg(process.pid, number)
            with contextlib.suppress(subprocess.TimeoutExpired):
                process.wait(20.0)


def num_cpus(address: str) -> float:
    """CPUs of the living nodes of a cluster."""
    from ray._raylet import GcsClient

    nodes = GcsClient(address=address).get_all_node_info(timeout=5.0).values()
    return sum(node.resources_total.get("CPU", 0.0) for node in nodes if node.state == 0)  # alive


def wait_for_cpus(address: str, count: float, log: Path | None = None) -> None:
    """Wait until the living nodes of a cluster have so many CPUs."""
    end = time.monotonic() + STARTED_WITHIN_S
    found = None
    while time.monotonic() < end:
        try:
            found = num_cpus(address)
        except Exception as error:  # nobody listens yet
            found = error
        if found == count:
            return
        time.sleep(0.2)
    raise AssertionError(f"{found} CPUs, not {count}: {log.read_text() if log else ''}")


def ip_address() -> str:
    from ray.util import get_node_ip_address

    return get_node_ip_address()


def free_port(ip: str) -> int:
    with socket.socket() as one:
        one.bind((ip, 0))
        return one.getsockname()[1]


def children_of(pid: int) -> list[int]:
    try:
        found = [int(one) for one in Path(f"/proc/{pid}/task/{pid}/children").read_text().split()]
    except FileNotFoundError:  # it has ended
        return []
    return found + [child for one in found for child in children_of(one)]
