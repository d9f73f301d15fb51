"""Cost regression: fits what inlining one call adds to the size, from the sizes of whole compiles."""

from mlgo.learn.marginal.compile_file import CompileFile
from mlgo.learn.marginal.equations import EquationFile, Equations, Evidence, join
from mlgo.learn.marginal.fit import FitResult, fit_costs
from mlgo.learn.marginal.loop import MarginalState, learn_costs
from mlgo.learn.marginal.start import heuristic_evidence, linear_clone, sure_clones

__all__ = [
    "CompileFile",
    "EquationFile",
    "Equations",
    "Evidence",
    "FitResult",
    "MarginalState",
    "fit_costs",
    "heuristic_evidence",
    "join",
    "learn_costs",
    "linear_clone",
    "sure_clones",
]
