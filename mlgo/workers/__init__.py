"""Where rollouts run. Now: processes of this machine. Anything with `map` of the same form can take its place."""

from mlgo.workers.local import LocalPool, WorkerLost

__all__ = ["LocalPool", "WorkerLost"]
