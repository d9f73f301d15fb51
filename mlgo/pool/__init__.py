"""Where rollouts run: in this process, in others of this machine, or on a cluster, behind one interface."""

from mlgo.pool.local import LocalBackend
from mlgo.pool.pool import Pool, WorkerLost, open_pool
from mlgo.pool.schedule import Hint

__all__ = ["Hint", "LocalBackend", "Pool", "WorkerLost", "open_pool"]
