"""Modules under every policy and reference advisor beside the heuristic, and those that stand out."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from mlgo.base.names import LANGUAGE_TITLES
from mlgo.compare.scores import ALL, ScoreMatrix, by_language, item_keys, score_matrix
from mlgo.errors import ArtifactError
from mlgo.host.tasks.task import all_tasks
from mlgo.objects import measures

SCOPES = {ALL: "all modules", **LANGUAGE_TITLES, "unshared": "nothing shared"}
"""Parts of a split that are compared by themselves, with their titles."""

_KEY = ("project", "module")
_DETAILS = ("num_questions", "num_inlined", "truncated", "failure", "message")


@dataclass(frozen=True)
class Standout:
    """One module whose score changed a lot."""

    project: str
    module: str
    score: float
    baseline: float
    ratio: float
    num_questions: int
    num_inlined: int


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
    measured = score_matrix(rows, _KEY, known, (*_KEY, "language", "split"), _DETAILS)
    return replace(measured, items={**measured.items, "unshared": np.full(len(measured.keys), True, object)})


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
) -> tuple[list[Standout], list[Standout]]:
    """Modules that grew most, worst first, and modules that shrank most, best first, in relative terms."""
    contender, offset = measured.index(name), measures.get_measure(measure).offset
    found = [
        Standout(
            measured.items["project"][i],
            measured.items["module"][i],
            measured.scores[measure][contender, i] - offset,
            measured.baseline[measure][i] - offset,
            ratio,
            measured.details["num_questions"][contender, i] or 0,
            measured.details["num_inlined"][contender, i] or 0,
        )
        for i, ratio in ratios(measured, name, split, measure)
    ]
    grown, shrunk = [one for one in found if one.ratio > 1.0], [one for one in found if one.ratio < 1.0]
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
