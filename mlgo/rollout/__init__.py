"""Many compiles: modules under advisors, in parallel, failures kept as rows."""

from mlgo.rollout.compiles import CompileHost, check_failures
from mlgo.rollout.jobs import CompileJob
from mlgo.rollout.outcome import CompileOutcome

__all__ = ["CompileHost", "CompileJob", "CompileOutcome", "check_failures"]
