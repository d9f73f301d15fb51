"""Many compiles: modules under advisors, in parallel, failures kept as rows."""

from mlgo.rollout.compiles import CompileHost, CompileOutcome, check_failures
from mlgo.rollout.jobs import CompileJob

__all__ = ["CompileHost", "CompileJob", "CompileOutcome", "check_failures"]
