"""Register allocation function by function: who costs less where, and what the best choice for each would gain.

Functions are allocated one after the other, each by itself. So the best of several ways of allocating can be taken for
each function separately, and costs of modules are sums over their functions.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from mlgo.core.measures.spills import SPILL_COST
from mlgo.report.compare import Bootstrap, Comparison, log_ratios
from mlgo.report.measured import contenders
from mlgo.rollout.functions import function_costs
from mlgo.rollout.references import HEURISTIC

BEST = "best of all"
"""For each function the least cost under the heuristic or any contender."""

_OFFSET = SPILL_COST.offset


@dataclass(frozen=True)
class Functions:
    """Functions of the test modules that anybody was asked about, or that cost anything under anybody.

    Attributes:
        contenders: policies, then references.
        names: project, source path and symbol of each function.
        modules: int64 [num_functions], number of the module that each belongs to.
        baseline: float64 [num_functions], spill cost under the heuristic.
        costs: float64 [num_contenders, num_functions], the same under each contender; NaN where its compile failed.
        compiled: bool [num_contenders, num_modules], whether it did not.
    """

    contenders: Sequence[str]
    names: Sequence[str]
    modules: np.ndarray
    baseline: np.ndarray
    costs: np.ndarray
    compiled: np.ndarray


@dataclass(frozen=True)
class FunctionRow:
    """One contender, function by function.

    Attributes:
        contender: policy with its seed, reference, or `BEST`.
        by_function: comparison over functions, where each counts as one module does elsewhere; the intervals are over
            resampled modules.
        by_module: comparison over modules, costs summed over their functions.
        geomean_share: mean of ``log(contender / heuristic)`` over the modules, as a share of the same of `BEST`; None
            where that gains nothing.
        total_share: ``(heuristic - contender) / (heuristic - best)`` of the sums over the modules; None likewise.
    """

    contender: str
    by_function: Comparison
    by_module: Comparison
    geomean_share: float | None
    total_share: float | None


def collect_functions(measured: pa.Table, baseline: pa.Table, evaluation: pa.Table) -> Functions:
    """Bring functions together under all contenders and the heuristic.

    Args:
        measured: ``measured.MEASURED``; tells the test modules, and which compiles failed.
        baseline: ``artifacts.FUNCTIONS`` of the references.
        evaluation: ``artifacts.FUNCTIONS`` of the policies.
    """
    test = measured.filter((pc.field("split") == "test") & pc.field(f"baseline_{SPILL_COST.name}").is_valid())
    names = [*contenders(measured, policies=True), *contenders(measured, policies=False)]
    compiled = {(row["contender"], _key(row)): row[SPILL_COST.name] is not None for row in test.to_pylist()}
    keys = list(dict.fromkeys(key for _, key in compiled))
    here = pc.field("project").isin(pc.unique(test["project"]))
    known = {**function_costs(baseline.filter(here), SPILL_COST), **function_costs(evaluation.filter(here), SPILL_COST)}
    found = [
        (number, function)
        for number, key in enumerate(keys)
        for function in dict.fromkeys(
            function for name in (HEURISTIC, *names) for function in known.get(name, {}).get(key, {})
        )
    ]

    def costs(name: str) -> list[float]:
        by_module = known.get(name, {})
        return [by_module.get(keys[number], {}).get(function, 0.0) for number, function in found]

    did = np.array([[compiled.get((name, key), False) for key in keys] for name in names], bool)
    modules = np.array([number for number, _ in found], np.int64)
    return Functions(
        names,
        [f"{keys[number]}: {function}" for number, function in found],
        modules,
        np.array(costs(HEURISTIC), np.float64),
        np.where(did[:, modules], np.array([costs(name) for name in names], np.float64), np.nan),
        did,
    )


def function_rows(functions: Functions, bootstrap: Bootstrap) -> list[FunctionRow]:
    """Compare each contender with the heuristic, and with the best of all, which comes last.

    Args:
        functions: as of `collect_functions`.
        bootstrap: makes the intervals, over modules.
    """
    best = np.fmin.reduce(functions.costs, axis=0, initial=np.inf)
    best = np.minimum(best, functions.baseline)
    everywhere = np.ones(functions.compiled.shape[1], bool)
    return [
        _row(functions, name, costs, compiled, best, bootstrap)
        for name, costs, compiled in (
            *zip(functions.contenders, functions.costs, functions.compiled, strict=True),
            (BEST, best, everywhere),
        )
    ]


def _row(
    functions: Functions, name: str, costs: np.ndarray, compiled: np.ndarray, best: np.ndarray, bootstrap: Bootstrap
) -> FunctionRow:
    """Compare costs float64 [num_functions], under a contender that compiled the modules bool [num_modules]."""
    after, before, least = (
        _OFFSET + np.bincount(functions.modules, values, len(compiled)) for values in (costs, functions.baseline, best)
    )
    after = np.where(compiled, after, np.nan)
    logs, least_logs = log_ratios(after, before)[compiled].sum(), log_ratios(least, before)[compiled].sum()
    gained, to_gain = (before - after)[compiled].sum(), (before - least)[compiled].sum()
    return FunctionRow(
        name,
        bootstrap.compare(
            costs + _OFFSET,
            functions.baseline + _OFFSET,
            *(name, "test", "functions", SPILL_COST.name),
            groups=functions.modules,
        ),
        bootstrap.compare(after, before, name, "test", "all", SPILL_COST.name),
        float(logs / least_logs) if least_logs else None,
        float(gained / to_gain) if to_gain else None,
    )


def _key(row: dict[str, str]) -> str:
    return f"{row['project']}/{row['module']}"
