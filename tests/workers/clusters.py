"""Real Ray clusters of several nodes on this machine, some of which do not see the driver's folders."""

import contextlib
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from pathlib import Path

import pytest

STARTED_WITHIN_S = 120.0

needs_ray = pytest.mark.skipif(
    subprocess.run([sys.executable, "-c", "import ray"], capture_output=True, check=False).returncode != 0,
    reason="needs the extra ray: make setup EXTRA=ray",
)
needs_namespaces = pytest.mark.skipif(
    os.geteuid() != 0
    or shutil.which("unshare") is None
    or subprocess.run(["unshare", "-m", "true"], capture_output=True, check=False).returncode != 0,
    reason="only root can hide folders from a process",
)


class TestCluster:
    """A head without CPUs, and nodes that come and go."""

    __test__ = False

    def __init__(self) -> None:
        from ray.cluster_utils import Cluster

        os.environ["RAY_AUTH_MODE"] = "disabled"
        self._folder = tempfile.mkdtemp(prefix="ray-", dir="/tmp")  # names of sockets have 107 bytes at most
        os.environ["RAY_TMPDIR"] = self._folder
        self._cluster = Cluster(
            initialize_head=True,
            head_node_args={"num_cpus": 0, "include_dashboard": False, "object_store_memory": 300_000_000},
        )
        self.address = self._cluster.address

    def add_node(self, num_cpus: int = 1):
        return self._cluster.add_node(num_cpus=num_cpus, object_store_memory=300_000_000)

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
        os.environ.pop("RAY_TMPDIR")
        shutil.rmtree(self._folder, ignore_errors=True)

    @contextlib.contextmanager
    def node_that_does_not_see(self, *hidden: Path, temporary: Path) -> Iterator[None]:
        """A node for which these folders are empty, with its own folder for temporary files."""
        mounts = " && ".join(f"mount -t tmpfs none '{path}'" for path in hidden)
        ray = Path(sys.executable).with_name("ray")
        log = temporary / "ray-start.log"
        with log.open("wb") as output:
            process = subprocess.Popen(
                ["unshare", "-m", "sh", "-c", f"{mounts} && exec {ray} start --address {self.address} --num-cpus 1 "
                 "--object-store-memory 300000000 --block"],
                stdout=output, stderr=output, start_new_session=True, env=os.environ | {"TMPDIR": str(temporary)},
            )  # fmt: skip
        try:
            self.wait_for_cpus(1.0, log)
            yield
        finally:
            for number in (signal.SIGTERM, signal.SIGKILL):
                with contextlib.suppress(ProcessLookupError):
                    os.killpg(process.pid, number)
                with contextlib.suppress(subprocess.TimeoutExpired):
                    process.wait(20.0)

    def wait_for_cpus(self, count: float, log: Path | None = None) -> None:
        """Wait until the cluster knows of so many CPUs: new nodes have come, and dead ones were noticed."""
        from ray._raylet import GcsClient

        client = GcsClient(address=self.address)
        end = time.monotonic() + STARTED_WITHIN_S
        while time.monotonic() < end:
            cpus = sum(
                node.resources_total.get("CPU", 0.0)
                for node in client.get_all_node_info().values()
                if node.state == 0  # alive
            )
            if cpus == count:
                return
            time.sleep(0.2)
        raise AssertionError(f"{cpus} CPUs, not {count}: {log.read_text() if log else ''}")


def children_of(pid: int) -> list[int]:
    try:
        found = [int(one) for one in Path(f"/proc/{pid}/task/{pid}/children").read_text().split()]
    except FileNotFoundError:  # it has ended
        return []
    return found + [child for one in found for child in children_of(one)]
