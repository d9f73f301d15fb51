"""Many compiles: modules under advisors, in parallel, failures kept as rows."""

from mlgo.rollout.compiles import CompileHost, CompileJob, CompileOutcome, check_failures

__all__ = ["CompileHost", "CompileJob", "CompileOutcome", "check_failures"]
