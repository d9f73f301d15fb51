"""Many compiles: modules under advisors, in parallel, failures kept as rows."""

from mlgo.evaluate.compiles import CompileHost, check_failures
from mlgo.evaluate.worker import CompileJob, CompileOutcome

__all__ = ["CompileHost", "CompileJob", "CompileOutcome", "check_failures"]
