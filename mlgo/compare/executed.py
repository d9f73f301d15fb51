"""Do programs run faster where the compiler's costs say so? Changes and rank correlations over runnable programs."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from mlgo.base.artifacts import PROGRAMS, RowView, read_provenance, read_table
from mlgo.compare.inference import POINTS_ONLY
from mlgo.compare.scores import ALL, ComparisonRow, ScoreMatrix, compare, score_matrix, with_baseline
from mlgo.errors import ArtifactError
from mlgo.host.tasks.task import HEURISTIC
from mlgo.objects import measures

_COSTS = sorted((one for one in measures.MEASURES.values() if one.of_program), key=lambda one: not one.is_by_function)

FIGURES = {**{one.name: one.words.title for one in _COSTS}, "instructions": "instructions", "accesses": "accesses"}
"""What is compared, with titles; instructions are those executed, accesses to memory are reads and writes together."""

PAIRS = tuple((_COSTS[0].name, executed) for executed in ("instructions", "accesses"))
"""Does the cost in front rank contenders as what is executed does?"""

_NOT_RUN = "valgrind"
"""Kind of failure where nothing could run, see `mlgo.evaluate.programs`."""

_MIN_RANKED = 3
"""Fewest figures with a rank correlation; of two it could only be 1 or -1."""

_KEY = ("program",)
_IS_PLAIN = pc.field("contender") == HEURISTIC
_SETTINGS = ("task", "compiler_sha256", "target", "compile")


@dataclass(frozen=True)
class RankCorrelation:
    """How far figures agree on an order.

    Attributes:
        by_pair: Spearman's coefficient, -1 to 1, by pair of figures; see `spearman`.
    """

    scope: str
    number: int
    by_pair: Mapping[tuple[str, str], float | None]


@dataclass(frozen=True)
class Programs:
    """What running the programs showed.

    Attributes:
        rows: each contender over all programs, then on each of them; measures are the `FIGURES`.
        correlations: of the contenders of each program, by `PAIRS`; the mean first.
        wrong: programs that printed something else or failed, with the contender and the reason.
        not_run: why none ran; empty if they did.
    """

    rows: Sequence[ComparisonRow]
    correlations: Sequence[RankCorrelation]
    wrong: Sequence[tuple[str, str, str]]
    measured: ScoreMatrix
    not_run: str = ""

    def changes(self, together: bool) -> list[ComparisonRow]:
        """Rows over all programs, or those of single ones."""
        return [row for row in self.rows if (row.scope == ALL) is together]


def change(row: ComparisonRow, figure: str) -> float | None:
    """New over old minus 1, geometric mean over the programs: 0.01 means one percent more.

    None where it is unknown of any program.
    """
    comparison = row.by(figure)
    gain = None if comparison.num_failed else comparison.geomean.value
    return None if gain is None else 0.0 - gain


def find_programs(data: Path) -> Path:
    """Table of programs that ran: of the evaluation, or else of ``make programs``."""
    part_of_the_run = data / "evaluation" / "programs.parquet"
    return part_of_the_run if part_of_the_run.exists() else data / "execution" / "programs.parquet"


def read_programs(path: Path) -> Programs:
    """Read and compare what ran.

    Args:
        path: ``artifacts.PROGRAMS``.
    """
    table = read_table(path, PROGRAMS)
    table = table.append_column("accesses", pc.add(table["reads"], table["writes"]))
    rows, plain = table.to_pylist(), table.filter(_IS_PLAIN)["program"].to_pylist()
    if not rows or not {row["program"] for row in rows} <= set(plain):
        raise ArtifactError(f"{path} holds no run under the heuristic; run make programs again")
    measured = _measured(table)
    correlations = [_correlation(program, [row for row in rows if row["program"] == program]) for program in plain]
    mean = {pair: _mean([one.by_pair[pair] for one in correlations]) for pair in PAIRS}
    return Programs(
        compare(measured, _by_program, POINTS_ONLY, together=False, split=ALL),
        [RankCorrelation("mean", max(one.number for one in correlations), mean), *correlations],
        [
            (row["program"], row["contender"], row["message"] or "printed something else")
            for row in rows
            if row["failure"] != _NOT_RUN and (row["failure"] or not row["right"])
        ],
        measured,
        next((row["message"] for row in rows if row["failure"] == _NOT_RUN), ""),
    )


def read_matching_programs(path: Path, baseline: RowView, evaluation: RowView) -> Programs | None:
    """Read what ran, if it ran under the evaluated policies, with the compiler and settings of the baseline.

    Args:
        path: ``artifacts.PROGRAMS``.
        evaluation: provenance of the results, tells the hash of each policy's weights.

    Returns:
        None when nothing ran, or something else did: programs need valgrind and are not part of the default run.
    """
    if not path.exists():
        return None
    ran = read_provenance(path)
    policies = {name: record["policy_sha256"] for name, record in evaluation.get("policies", {}).items()}
    same = all(ran.get(name) == baseline.get(name) for name in _SETTINGS)
    return read_programs(path) if same and ran.get("policies_sha256") == policies else None


def spearman(first: np.ndarray, second: np.ndarray) -> float | None:
    """Spearman's coefficient of figures float64 [num]; None for fewer than 3, or if all of one side are equal."""
    if len(first) < _MIN_RANKED or len(set(first)) == 1 or len(set(second)) == 1:
        return None
    from scipy.stats import spearmanr

    return float(spearmanr(first, second).statistic)


def _measured(programs: pa.Table) -> ScoreMatrix:
    offsets = {name: measures.MEASURES[name].offset if name in measures.MEASURES else 0.0 for name in FIGURES}
    plain, others = (programs.filter(one) for one in (_IS_PLAIN, ~_IS_PLAIN))
    return score_matrix(with_baseline(others, plain, _KEY, FIGURES), _KEY, offsets, _KEY)


def _by_program(measured: ScoreMatrix, split: str) -> Iterator[tuple[str, np.ndarray]]:
    yield ALL, measured.where()
    for program in measured.keys:
        yield program, measured.where(program=program)


def _correlation(program: str, rows: Sequence[RowView]) -> RankCorrelation:
    known = [row for row in rows if row["instructions"] is not None and row[PAIRS[0][0]] is not None]
    columns = {name: np.array([row[name] for row in known], np.float64) for name in FIGURES}
    return RankCorrelation(program, len(known), {(a, b): spearman(columns[a], columns[b]) for a, b in PAIRS})


def _mean(values: Sequence[float | None]) -> float | None:
    known = [value for value in values if value is not None]
    return float(np.mean(known)) if known else None
