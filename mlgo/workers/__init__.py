"""Where rollouts run: in this process, in others of this machine, or on a cluster, behind one interface."""

from mlgo.workers.local import LocalPool
from mlgo.workers.opening import open_pool
from mlgo.workers.pool import Pool, WorkerLost
from mlgo.workers.schedule import Hint

__all__ = ["Hint", "LocalPool", "Pool", "WorkerLost", "open_pool"]
