"""Do programs run faster where the compiler's costs say so? Changes and rank correlations over runnable programs."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from mlgo.core.artifacts import PROGRAMS, read_provenance, read_table
from mlgo.core.errors import ArtifactError
from mlgo.core.measures import MEASURES
from mlgo.rollout.references import HEURISTIC

FIGURES = {"spill_cost": "spill cost", "text_bytes": "text", "instructions": "instructions", "accesses": "accesses"}
"""What is compared, with titles; instructions are those executed, accesses to memory are reads and writes together."""

_FEWEST_CONTENDERS = 3
_SETTINGS = ("task", "compiler_sha256", "target", "compile")


@dataclass(frozen=True)
class Change:
    """One contender against the heuristic.

    Attributes:
        program: name, or ``all`` for the geometric mean.
        contender: reference or policy.
        change: new over old minus 1, by figure; 0.01 means one percent more. None where unknown.
    """

    program: str
    contender: str
    change: dict[str, float | None]


@dataclass(frozen=True)
class Agreement:
    """How well one figure ranks the contenders of a program by another.

    Attributes:
        program: name, or ``mean``.
        num_contenders: ranked.
        with_instructions: Spearman's rank correlation of spill cost and executed instructions; None where one of them
            is the same for all contenders.
        with_accesses: the same with memory accesses.
    """

    program: str
    num_contenders: int
    with_instructions: float | None
    with_accesses: float | None


@dataclass(frozen=True)
class Execution:
    """What running the programs showed.

    Attributes:
        changes: by contender; of all programs together first.
        agreements: by program; the mean first.
        wrong: programs that printed something else or failed, with the contender and the reason.
    """

    changes: Sequence[Change]
    agreements: Sequence[Agreement]
    wrong: Sequence[tuple[str, str, str]]


def read_execution(path: Path) -> Execution:
    """Read and compare what ran.

    Args:
        path: ``artifacts.PROGRAMS``.

    Raises:
        ArtifactError: missing, damaged, or without the heuristic.
    """
    rows = read_table(path, PROGRAMS).to_pylist()
    for row in rows:
        row["accesses"] = None if row["reads"] is None else row["reads"] + row["writes"]
    programs = list(dict.fromkeys(row["program"] for row in rows))
    contenders = [name for name in dict.fromkeys(row["contender"] for row in rows) if name != HEURISTIC]
    by_pair = {(row["program"], row["contender"]): row for row in rows}
    if any((program, HEURISTIC) not in by_pair for program in programs) or not rows:
        raise ArtifactError(f"{path} holds no run under the heuristic; run make programs again")
    changes = []
    for contender in contenders:
        single = [
            Change(program, contender, _change(by_pair[program, contender], by_pair[program, HEURISTIC]))
            for program in programs
        ]
        changes += [Change("all", contender, {name: _mean_change(single, name) for name in FIGURES}), *single]
    agreements = [_agreement(program, [row for row in rows if row["program"] == program]) for program in programs]
    mean = Agreement(
        "mean",
        max(one.num_contenders for one in agreements),
        _mean([one.with_instructions for one in agreements]),
        _mean([one.with_accesses for one in agreements]),
    )
    wrong = [
        (row["program"], row["contender"], row["message"] or "printed something else")
        for row in rows
        if row["failure"] or not row["right"]
    ]
    return Execution(changes, [mean, *agreements], wrong)


def read_matching_execution(path: Path, baseline: Mapping[str, Any], evaluation: Mapping[str, Any]) -> Execution | None:
    """Read what ran, if it ran under the evaluated policies, with the compiler and settings of the baseline.

    Args:
        path: ``artifacts.PROGRAMS``.
        baseline: provenance of the scores, tells compiler and settings.
        evaluation: provenance of the results, tells the hash of each policy's weights.

    Returns:
        None when nothing ran, or something else did: programs need valgrind and are not part of the default run.

    Raises:
        ArtifactError: damaged, or without the heuristic.
    """
    if not path.exists():
        return None
    ran = read_provenance(path)
    policies = {name: record["policy_sha256"] for name, record in evaluation.get("policies", {}).items()}
    same = all(ran.get(name) == baseline.get(name) for name in _SETTINGS)
    return read_execution(path) if same and ran.get("policies_sha256") == policies else None


def _change(row: dict[str, Any], heuristic: dict[str, Any]) -> dict[str, float | None]:
    found: dict[str, float | None] = {}
    for name in FIGURES:
        new, old, offset = row[name], heuristic[name], MEASURES[name].offset if name in MEASURES else 0.0
        found[name] = None if new is None or not (old or offset) else (new + offset) / (old + offset) - 1.0
    return found


def _mean_change(changes: Sequence[Change], name: str) -> float | None:
    known = [one.change[name] for one in changes]
    if any(value is None for value in known):
        return None
    return float(np.expm1(np.mean([np.log1p(value) for value in known if value is not None])))


def _agreement(program: str, rows: Sequence[dict[str, Any]]) -> Agreement:
    from scipy.stats import spearmanr

    known = [row for row in rows if row["instructions"] is not None and row["spill_cost"] is not None]
    columns = {name: [row[name] for row in known] for name in ("spill_cost", "instructions", "accesses")}

    def correlation(name: str) -> float | None:
        if len(known) < _FEWEST_CONTENDERS or len(set(columns["spill_cost"])) < 2 or len(set(columns[name])) < 2:
            return None
        return float(spearmanr(columns["spill_cost"], columns[name]).statistic)

    return Agreement(program, len(known), correlation("instructions"), correlation("accesses"))


def _mean(values: Sequence[float | None]) -> float | None:
    known = [value for value in values if value is not None]
    return float(np.mean(known)) if known else None
