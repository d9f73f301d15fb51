"""A machine or cluster as the simulation sees it."""

from dataclasses import dataclass

from mlgo.pool.messages import MOST
from mlgo.pool.pool import LOOKAHEAD

_FOREVER = float("inf")


@dataclass(frozen=True)
class Network:
    """What lies between a driver and its workers.

    Attributes:
        bytes_per_s: of the driver's link, each way.
        latency_s: one way.
    """

    bytes_per_s: float = _FOREVER
    latency_s: float = 0.0


@dataclass(frozen=True)
class Store:
    """What the trees lie on.

    Attributes:
        operation_s: how long an operation takes beyond what it takes on a local disk: the way to a file server.
        operations_per_s: how many the server does for all workers together.
        bytes_per_s: how many it delivers.
        recall_operations: operations of a look at a tree: open, state, identity, read, close.
        keep_operations: of an addition: open, lock, state, identity, read, truncate, write, close.
    """

    operation_s: float = 0.0
    operations_per_s: float = _FOREVER
    bytes_per_s: float = _FOREVER
    recall_operations: int = 5
    keep_operations: int = 8


LOCAL_NETWORK, LOCAL_STORE = Network(), Store()
"""Pipes and a local disk: all that they cost is in the measured unit costs."""

CLUSTER_NETWORK = Network(bytes_per_s=1.25e9, latency_s=1e-4)
"""An assumption: 10 Gbit/s, 0.1 ms."""

CLUSTER_STORE = Store(operation_s=5e-4, operations_per_s=5e4, bytes_per_s=1.25e9)
"""An assumption about a file server with NFS: 0.5 ms for an operation, 50,000 operations and 1.25 GB a second."""


@dataclass(frozen=True)
class Placing:
    """Arguments of `mlgo.pool.schedule.Schedule`."""

    affinity: bool = True
    stealing: bool = True
    large_first: bool = True

    def __str__(self) -> str:
        if not self.affinity:
            return "large first" if self.large_first else "arrival order"
        extras = [word for word in ("stealing", "large_first") if getattr(self, word)]
        return " + ".join(["affinity", *extras]).replace("_", " ")


@dataclass(frozen=True)
class Cluster:
    """What a training runs on.

    Attributes:
        cores: each belongs to one worker and its compilers.
        drivers: each has an equal share of the workers and of the candidates.
        most: jobs in a message, see `mlgo.pool.messages`.
        depth: messages that a worker may hold, the one at work included.
        lookahead: jobs that a driver lets wait at once.
        network: between drivers and workers.
        store: of the trees.
    """

    cores: int
    drivers: int = 1
    most: int = MOST
    depth: int = 1
    lookahead: int = LOOKAHEAD
    network: Network = LOCAL_NETWORK
    store: Store = LOCAL_STORE
