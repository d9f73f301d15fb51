"""Modules under every policy and reference advisor beside the heuristic, and those that stand out."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from mlgo.base.artifacts import Row, RowView
from mlgo.base.names import LANGUAGE_TITLES
from mlgo.compare.scores import ALL, Contender, ScoreMatrix, by_language, score_matrix
from mlgo.errors import ArtifactError
from mlgo.host.tasks.task import HEURISTIC, all_tasks
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
        modules: ``artifacts.MODULES``.

    Returns:
        Policies first, in the order of the results. Attribute ``unshared`` of a module tells that none of its function
        bodies also occurs in another split.
    """
    rows = results.to_pylist()
    if not any(row["split"] in ("test", "validation") for row in rows):
        raise ArtifactError(
            f"the evaluation holds no test module and no validation module ({len(rows)} rows); name one of them in "
            "evaluate.splits that has projects, and evaluate again"
        )
    unshared = {_key(row): not row["shared_functions"] for row in modules.to_pylist()}
    missing = next((key for row in rows if (key := _key(row)) not in unshared), None)
    if missing is not None:
        raise ArtifactError(f"{'/'.join(missing)} was evaluated but is not in the corpus; evaluate again")
    return module_scores([*policy_rows(rows), *_reference_rows(rows, scores)], unshared)


def policy_rows(results: Sequence[RowView]) -> Iterator[Row]:
    """Rows of results with their contender, for `module_scores`."""
    return ({**row, "contender": Contender.policy(row["policy"], row["seed"])} for row in results)


def module_scores(
    rows: Sequence[RowView],
    unshared: Mapping[tuple[str, str], bool] | None = None,
    names: Sequence[str] = measures.names(),
) -> ScoreMatrix:
    """Put rows of modules into matrices, with those of the measures that any of them knows."""
    known = {name: measures.get_measure(name).offset for name in names if any(row[name] is not None for row in rows)}
    told = [{**row, "unshared": unshared is None or unshared[_key(row)]} for row in rows]
    return score_matrix(told, _KEY, known, (*_KEY, "language", "split", "unshared"), _DETAILS)


def module_scopes(scores: ScoreMatrix, split: str) -> Iterator[tuple[str, np.ndarray]]:
    """The `SCOPES` with their modules, bool [num_items]."""
    yield from by_language(scores, split)
    yield "unshared", scores.where(unshared=True)


def count_truncated(measured: ScoreMatrix, members: Sequence[int], items: np.ndarray) -> Row:
    """Modules where the size stop ended the questions early under any seed, for `compare`.

    Args:
        items: bool [num_items], which modules count.
    """
    ended = measured.details["truncated"][list(members)][:, items].astype(bool)
    return {"truncated": int(ended.any(axis=0).sum())}


def standouts(
    measured: ScoreMatrix, name: str, split: str, measure: str, count: int
) -> tuple[list[Standout], list[Standout]]:
    """Modules that grew most and modules that shrank most, in relative terms.

    Returns:
        Worst first; best first. Modules of unchanged size are in neither.
    """
    contender, offset = measured.index(name), measures.get_measure(measure).offset
    items, details = measured.items, {key: values[contender] for key, values in measured.details.items()}
    found = [
        Standout(
            items["project"][i],
            items["module"][i],
            measured.scores[measure][contender, i] - offset,
            measured.baseline[measure][i] - offset,
            ratio,
            details["num_questions"][i] or 0,
            details["num_inlined"][i] or 0,
        )
        for i, ratio in ratios(measured, name, split, measure)
    ]
    return [one for one in reversed(found) if one.ratio > 1.0][:count], [one for one in found if one.ratio < 1.0][
        :count
    ]


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


def failures(measured: ScoreMatrix) -> list[Row]:
    """Contender, key, kind and message of each compile that failed."""
    failed, messages = measured.details["failure"], measured.details["message"]
    return [
        {"contender": one.name, "module": measured.keys[j], "failure": failed[i, j], "message": messages[i, j]}
        for i, one in enumerate(measured.contenders)
        for j in np.flatnonzero(failed[i].astype(bool)).tolist()
    ]


def _key(row: RowView) -> tuple[str, str]:
    return row["project"], row["module"]


def _reference_rows(results: Sequence[RowView], scores: pa.Table) -> Iterator[Row]:
    """Rows of the references for the evaluated modules."""
    evaluated = {_key(row): {name: row[name] for name in ("language", "split")} for row in results}
    by_advisor: dict[str, dict[tuple[str, str], Row]] = {}
    for row in scores.to_pylist():
        by_advisor.setdefault(row["advisor"], {})[_key(row)] = row
    plain = by_advisor.get(HEURISTIC, {})
    for advisor in dict.fromkeys(name for task in all_tasks() for name in task.references.advisors):
        for key, row in by_advisor.get(advisor, {}).items():
            if key in evaluated:
                before = {f"baseline_{name}": plain[key][name] if key in plain else None for name in measures.names()}
                yield {**row, **evaluated[key], **before, "num_inlined": None, "contender": Contender(advisor)}
