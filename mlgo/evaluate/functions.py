"""What register allocation cost each function: as rows, as lookup, and as what learners see."""

from collections.abc import Callable, Iterable, Mapping
from pathlib import Path

import pyarrow as pa
import pyarrow.compute as pc

from mlgo.base.artifacts import FUNCTIONS, Row, read_table
from mlgo.corpus.store import Module
from mlgo.evaluate.episodes import Episode, episode, function_episodes
from mlgo.evaluate.jobs import CompileOutcome
from mlgo.host.session import CompileResult
from mlgo.host.tasks.task import HEURISTIC
from mlgo.objects.measures import Measure, get_measure
from mlgo.objects.remarks import SpillCosts
from mlgo.policy.policy import Policy

FunctionCosts = Mapping[str, Mapping[str, float]]
"""What functions cost, by key of the module and symbol; a function that is not there cost nothing."""


def function_rows(module: Module, advisor: str, result: CompileResult | None) -> list[Row]:
    """Rows of ``artifacts.FUNCTIONS``: functions with questions in their order, then others that cost anything.

    Args:
        module: what was compiled.
        advisor: who answered.
        result: None where the compile failed; there are no rows then.
    """
    if result is None or result.spills is None:
        return []
    costs = {one.function: one for one in result.spills}
    asked = {name: count for name, count in result.contexts if count}
    return [
        {
            "project": module.project,
            "module": module.name,
            "advisor": advisor,
            "num_questions": asked.get(name, 0),
            **costs.get(name, SpillCosts(name))._asdict(),
        }
        for name in [*asked, *(name for name in costs if name not in asked)]
    ]


def timing_rows(compiled: Iterable[tuple[Module, str, CompileOutcome]]) -> list[Row]:
    """Rows of ``artifacts.TIMINGS`` of modules under an advisor; failed compiles have none."""
    return [
        {"project": module.project, "module": module.name, "advisor": advisor, "seconds": outcome.result.seconds}
        for module, advisor, outcome in compiled
        if outcome.result is not None
    ]


def function_costs(functions: pa.Table, measure: Measure) -> dict[str, dict[str, dict[str, float]]]:
    """Scores of functions by advisor, key of the module and symbol."""
    found: dict[str, dict[str, dict[str, float]]] = {}
    for row in functions.to_pylist():
        costs = SpillCosts(**{name: row[name] for name in SpillCosts._fields})
        by_module = found.setdefault(row["advisor"], {})
        by_module.setdefault(f"{row['project']}/{row['module']}", {})[costs.function] = measure.of_functions([costs])
    return found


def load_function_costs(baseline_dir: Path, measure: Measure, advisor: str = HEURISTIC) -> FunctionCosts:
    """Read what a reference cost each function."""
    functions = read_table(baseline_dir / "functions.parquet", FUNCTIONS)
    return function_costs(functions.filter(pc.field("advisor") == advisor), measure).get(advisor, {})


def episode_reader(policy: Policy, objective: str, baseline_dir: Path) -> Callable[[str, CompileResult], list[Episode]]:
    """How compiles are read: whole, or function by function where the score is a sum over functions.

    Returns:
        Maps the key of a module and its compile to episodes.
    """
    measure = get_measure(objective)
    if not measure.is_by_function:
        return lambda module, result: [episode(module, result, policy, objective)]
    costs = load_function_costs(baseline_dir, measure)
    return lambda module, result: function_episodes(module, result, policy, measure, costs.get(module, {}))
