"""Modules under every policy and reference advisor beside the heuristic, and those that stand out."""

from collections.abc import Iterator, Sequence
from dataclasses import replace

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from mlgo.base.names import LANGUAGE_TITLES
from mlgo.compare.inference import Bootstrap
from mlgo.compare.scores import (
    ALL,
    ComparisonRow,
    Contender,
    ScoreMatrix,
    by_language,
    compare,
    item_keys,
    parts,
    score_matrix,
)
from mlgo.errors import ArtifactError
from mlgo.host.tasks.task import HEURISTIC, all_tasks
from mlgo.objects import measures
from mlgo.objects.measures import Measure, get_measure

SCOPES = {ALL: "all modules", **LANGUAGE_TITLES, "unshared": "nothing shared"}
"""Parts of a split that are compared by themselves, with their titles."""

_KEY = ("project", "module")
_DETAILS = ("num_questions", "num_inlined", "truncated", "failure", "message")


def measured_modules(results: pa.Table, scores: pa.Table, modules: pa.Table) -> ScoreMatrix:
    """Bring policies and references together; references on the modules that some policy was evaluated on.

    Args:
        results: ``artifacts.RESULTS``.
        scores: ``artifacts.SCORES``.
        modules: ``artifacts.MODULES``, of which a module is ``unshared`` if no other split has one of its bodies.

    Returns:
        Policies first, in the order of the results.
    """
    if not {"test", "validation"} & set(results["split"].to_pylist()):
        raise ArtifactError(
            f"the evaluation holds no test module and no validation module ({len(results)} rows); name one of them in "
            "evaluate.splits that has projects, and evaluate again"
        )
    evaluated = pc.is_in(item_keys(scores, _KEY), item_keys(results, _KEY).combine_chunks())
    scores = scores.filter(evaluated).rename_columns({"advisor": "contender"})
    advisors = dict.fromkeys(name for task in all_tasks() for name in task.references.advisors)
    references = [scores.filter(pc.field("contender") == name) for name in advisors]
    measured = module_scores(pa.concat_tables([with_contenders(results), *references], promote_options="default"))
    shared = dict(zip(item_keys(modules, _KEY).to_pylist(), modules["shared_functions"].to_pylist(), strict=True))
    if missing := next((key for key in measured.keys if key not in shared), None):
        raise ArtifactError(f"{missing} was evaluated but is not in the corpus; evaluate again")
    unshared = np.array([not shared[key] for key in measured.keys], object)
    return replace(measured, items={**measured.items, "unshared": unshared})


def with_contenders(results: pa.Table) -> pa.Table:
    """Results with the name of each row's policy, with its seed, as ``contender``."""
    names = pc.binary_join_element_wise(results["policy"], results["seed"].cast(pa.string()), "-s")
    return results.append_column("contender", names)


def policy_scores(results: pa.Table, names: Sequence[str] = measures.names()) -> ScoreMatrix:
    """Modules under policies: ``artifacts.RESULTS`` as matrices."""
    return module_scores(with_contenders(results), names)


def module_scores(rows: pa.Table, names: Sequence[str] = measures.names()) -> ScoreMatrix:
    """Put rows of modules with their contenders into matrices, by those of the measures that any of them knows."""
    known = {name: measures.get_measure(name).offset for name in names if rows[name].null_count < len(rows)}
    return score_matrix(rows, _KEY, known, (*_KEY, "language", "split"), _DETAILS)


def module_scopes(scores: ScoreMatrix, split: str) -> Iterator[tuple[str, np.ndarray]]:
    """The `SCOPES` with their modules, bool [num_items]."""
    yield from by_language(scores, split)
    yield "unshared", scores.where(unshared=True)


def count_truncated(measured: ScoreMatrix, members: Sequence[int], items: np.ndarray) -> dict[str, int]:
    """Modules where the size stop ended the questions early under any seed, for `compare`."""
    ended = measured.details["truncated"][list(members)][:, items].astype(bool)
    return {"truncated": int(ended.any(axis=0).sum())}


def standouts(
    measured: ScoreMatrix, name: str, split: str, measure: str, count: int
) -> tuple[list[tuple[int, float]], list[tuple[int, float]]]:
    """`ratios` of the modules that grew most, worst first, and of those that shrank most, best first."""
    found = ratios(measured, name, split, measure)
    grown, shrunk = [one for one in found if one[1] > 1.0], [one for one in found if one[1] < 1.0]
    return grown[::-1][:count], shrunk[:count]


def ratios(measured: ScoreMatrix, name: str, split: str, measure: str) -> list[tuple[int, float]]:
    """Numbers of items with policy over heuristic, ascending by that and by key.

    Items whose score is 0 under either, and those that failed, are left out.
    """
    score, baseline = measured.scores[measure][measured.index(name)], measured.baseline[measure]
    good = measured.where(split=split) & (score > 0) & (baseline > 0)  # False for NaN
    return sorted(
        ((int(i), float(score[i] / baseline[i])) for i in np.flatnonzero(good)),
        key=lambda pair: (pair[1], measured.keys[pair[0]]),
    )


def failures(measured: ScoreMatrix) -> list[dict[str, str]]:
    """Contender, key, kind and message of each compile that failed."""
    failed, messages = measured.details["failure"], measured.details["message"]
    return [
        {"contender": one.name, "module": measured.keys[j], "failure": failed[i, j], "message": messages[i, j]}
        for i, one in enumerate(measured.contenders)
        for j in np.flatnonzero(failed[i].astype(bool)).tolist()
    ]


BEST = "best of all"
"""For each function the least cost under the heuristic or any contender."""


def function_measure(modules: ScoreMatrix) -> Measure | None:
    """The measure that is a sum over functions, if modules were measured by such a one."""
    return next((one for name in modules.scores if (one := get_measure(name)).is_by_function), None)


def measured_functions(modules: ScoreMatrix, measure: Measure, baseline: pa.Table, evaluation: pa.Table) -> ScoreMatrix:
    """Bring functions of the judged modules together that anybody was asked about, or that cost anything under anybody.

    Args:
        baseline: ``artifacts.FUNCTIONS`` of the references.
        evaluation: ``artifacts.FUNCTIONS`` of the policies.

    Returns:
        Functions as items, with their project, ``number`` of the module and ``cost`` under the heuristic; costs without
        the offset as detail ``cost``. `BEST` is the last contender.
    """
    from mlgo.evaluate.baseline import function_costs  # here, since pages without functions need no compilers

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
    advised = np.where(np.isfinite(modules.scores[measure.name])[:, number], under, np.nan)
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
