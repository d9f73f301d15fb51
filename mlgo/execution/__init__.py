"""Where rollouts run: in this process, in others of this machine, or on a cluster, behind one interface."""

from mlgo.execution.factory import open_pool
from mlgo.execution.local import LocalBackend
from mlgo.execution.pool import Pool, WorkerLost
from mlgo.execution.schedule import Hint

__all__ = ["Hint", "LocalBackend", "Pool", "WorkerLost", "open_pool"]
