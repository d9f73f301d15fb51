"""Register allocation function by function: who costs less where, and what the best choice for each would gain.

Functions are allocated one after the other, each by itself. So the best of several ways of allocating can be taken for
each function separately, and costs of modules are sums over their functions.
"""

from dataclasses import replace

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from mlgo.compare.inference import Bootstrap
from mlgo.compare.scores import ALL, ComparisonRow, Contender, ScoreMatrix, compare, parts
from mlgo.evaluate.baseline_modules import function_costs
from mlgo.host.tasks.task import HEURISTIC
from mlgo.objects.measures import Measure, get_measure

BEST = "best of all"
"""For each function the least cost under the heuristic or any contender."""


def function_measure(modules: ScoreMatrix) -> Measure | None:
    """The measure that is a sum over functions, if modules were measured by such a one."""
    return next((one for name in modules.measures if (one := get_measure(name)).is_by_function), None)


def measured_functions(modules: ScoreMatrix, measure: Measure, baseline: pa.Table, evaluation: pa.Table) -> ScoreMatrix:
    """Bring functions of the judged modules together that anybody was asked about, or that cost anything under anybody.

    Args:
        baseline: ``artifacts.FUNCTIONS`` of the references.
        evaluation: ``artifacts.FUNCTIONS`` of the policies.

    Returns:
        Functions as items, with their project, ``number`` of the module and ``cost`` under the heuristic; costs without
        the offset as detail ``cost``. `BEST` is the last contender.
    """
    judged = np.flatnonzero(modules.where(split=modules.judged) & np.isfinite(modules.baseline[measure.name])).tolist()
    here = pc.field("project").isin(pa.array(sorted(set(modules.items["project"][judged])), pa.string()))
    known = function_costs(baseline.filter(here), measure) | function_costs(evaluation.filter(here), measure)
    by_advisor = [known.get(name, {}) for name in (HEURISTIC, *(one.name for one in modules.contenders))]
    found = [
        (module, function)
        for module in judged
        for function in dict.fromkeys(one for costs in by_advisor for one in costs.get(modules.keys[module], ()))
    ]
    costs = [[costs.get(modules.keys[i], {}).get(name, 0.0) for i, name in found] for costs in by_advisor]
    plain, *under = np.array(costs, np.float64).reshape(len(costs), len(found))
    number = np.array([module for module, _ in found], np.int64)
    compiled = np.isfinite(modules.scores[measure.name])
    advised = np.where(compiled[:, number], under, np.nan)
    best = np.minimum(np.fmin.reduce(advised, axis=0, initial=np.inf), plain)
    advised = np.vstack([advised, best])
    return ScoreMatrix(
        [*modules.contenders, Contender(BEST)],
        [f"{modules.keys[module]}: {function}" for module, function in found],
        {
            "split": np.full(len(found), modules.judged, object),
            "project": modules.items["project"][number],
            "number": number,
            "cost": plain,
        },
        {measure.name: advised + measure.offset},
        {measure.name: plain + measure.offset},
        np.ones(advised.shape, bool),
        {"cost": advised},
        {measure.name: best + measure.offset},
    )


def function_rows(
    functions: ScoreMatrix, modules: ScoreMatrix, measure: Measure, bootstrap: Bootstrap
) -> list[tuple[ComparisonRow, ComparisonRow]]:
    """Compare each contender by function, and by module, with costs summed over functions."""
    number, name = functions.items["number"], measure.name
    judged = modules.where(split=modules.judged) & np.isfinite(modules.baseline[name])

    def summed(costs: np.ndarray) -> np.ndarray:
        return measure.offset + np.bincount(number, costs, len(judged))

    under = functions.details["cost"]
    compiled = np.vstack([np.isfinite(modules.scores[name]), judged])
    by_module = replace(
        functions,
        keys=modules.keys,
        items={"project": modules.items["project"]},
        scores={name: np.where(compiled, np.array([summed(costs) for costs in under]), np.nan)},
        baseline={name: summed(functions.items["cost"])},
        asked=np.ones(compiled.shape, bool),
        best={name: summed(under[-1])},
    )
    one_by_one = compare(functions, parts("functions"), bootstrap, split=modules.judged)
    whole = compare(by_module, lambda scores, split: [(ALL, judged)], bootstrap, split=modules.judged)
    return list(zip(one_by_one, whole, strict=True))
