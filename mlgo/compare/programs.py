"""Programs under policies beside the heuristic: sizes as they are linked, and what they execute as they run."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from mlgo.base import artifacts
from mlgo.base.artifacts import Row, RowView, read_provenance, read_table
from mlgo.base.names import LANGUAGES
from mlgo.compare.inference import POINTS_ONLY, Bootstrap
from mlgo.compare.scores import (
    ALL,
    BEST,
    ComparisonRow,
    Contender,
    ScoreMatrix,
    compare,
    item_keys,
    parts,
    score_matrix,
    whole,
    with_baseline,
)
from mlgo.errors import ArtifactError
from mlgo.host.tasks.task import HEURISTIC
from mlgo.objects import measures
from mlgo.objects.symbols import SHIPPED

FIGURES = (*SHIPPED, "folded", "without_unwind")
"""What is compared: sizes of a linked file, the total once functions with identical code are folded into one, and code
and constants alone."""

PROGRAMS = "programs"
"""Scope of all programs of a split."""

BEST_LEVEL = "best of -Os and -Oz"
"""What ships if each program is built at the level at which it is smaller."""

GUARDED = "smaller of both"
"""What ships if each program is linked under the policy and under the heuristic, and the smaller file is kept."""

_SIZE_LEVELS = ("-Oz", "-Os")
_KEY = ("project", "program")
_ROW_KEY = ("contender", *_KEY)

ATTRIBUTES = ("project", "program", "split", "kind", "language", "num_modules", "num_foreign")
"""What is known of a linked file."""


def measured_programs(shipped: pa.Table, policies: Sequence[Contender]) -> ScoreMatrix:
    """Bring each policy's sizes and the heuristic's together, in the order of ``artifacts.SHIPPED_SIZES``."""
    plain, folded = (shipped.filter(pc.field("folded") == one) for one in (False, True))
    place = pc.index_in(item_keys(plain, _ROW_KEY), item_keys(folded, _ROW_KEY).combine_chunks())
    sizes = plain.drop_columns("folded").append_column("folded", folded["total"].take(place))
    sizes = sizes.append_column("without_unwind", pc.add(sizes["text"], sizes["read_only"]))
    rows = pa.concat_tables([sizes.slice(0, 0), *(sizes.filter(pc.field("contender") == p.name) for p in policies)])
    rows = with_baseline(rows, sizes.filter(pc.field("contender") == HEURISTIC), _KEY, FIGURES)
    return score_matrix(rows, _KEY, dict.fromkeys(FIGURES, 0.0), ATTRIBUTES)


def as_folded(shipped: pa.Table) -> pa.Table:
    """The same linked files, of which only those with identical functions folded ship."""
    folded = shipped.filter(pc.field("folded"))
    place = shipped.column_names.index("folded")
    plain = folded.set_column(place, shipped.schema.field(place), pa.repeat(False, folded.num_rows))
    return pa.concat_tables([plain, folded])


def measured_everywhere(shipped: Sequence[pa.Table], contenders: Sequence[str]) -> frozenset[str]:
    """Names of the linked files that are in all tables, and were measured there under these contenders."""
    wanted = [table.filter(pc.field("contender").isin(contenders)) for table in shipped]
    names = [frozenset(item_keys(table, _KEY).to_pylist()) for table in wanted]
    failed = [item_keys(table.filter(pc.field("failure") != ""), _KEY).to_pylist() for table in wanted]
    return frozenset.intersection(*names).difference(*failed)


def only_programs(shipped: pa.Table, names: frozenset[str]) -> pa.Table:
    """Rows of linked files with these names, see `measured_everywhere`."""
    return shipped.filter(pc.is_in(item_keys(shipped, _KEY), pa.array(sorted(names), pa.string())))


def contenders_of(shipped: pa.Table) -> list[Contender]:
    """Contenders under which linked files were measured, in table order."""
    return [Contender.named(name) for name in dict.fromkeys(shipped["contender"].to_pylist())]


def ship_references(shipped: pa.Table) -> list[Contender]:
    """Contenders beside the heuristic and the policies: other levels, and other ways to answer; in table order."""
    return [one for one in contenders_of(shipped) if not one.is_policy and one.name != HEURISTIC]


def complete_programs(measured: ScoreMatrix) -> ScoreMatrix:
    """The same without sizes of programs that are not known in full, so that all figures are of the same programs."""
    known = np.all([np.isfinite(scores) for scores in measured.scores.values()], axis=0)
    return replace(measured, scores={name: np.where(known, one, np.nan) for name, one in measured.scores.items()})


def best_level(measured: ScoreMatrix) -> dict[str, np.ndarray] | None:
    """Sizes of each program at the level for size at which its total is smaller, float64 [num_items] by figure.

    The baseline is one of these levels unless both are among the contenders. None where the other was not measured.
    """
    there = [measured.index(level) for level in _SIZE_LEVELS if level in measured.references]
    if not there:
        return None
    ways = [{name: scores[number] for name, scores in measured.scores.items()} for number in there]
    if len(there) < len(_SIZE_LEVELS):
        ways.insert(0, dict(measured.baseline))
    totals = np.array([way["total"] for way in ways])
    best = np.argmin(np.where(np.isfinite(totals), totals, np.inf), axis=0)
    return {name: np.choose(best, [way[name] for way in ways]) for name in measured.scores}


def with_best_known(measured: ScoreMatrix, searched: str) -> ScoreMatrix:
    """The same with the smallest known total of each program, of the search and of all others; shares refer to it.

    Programs without the contender that searched have no best; nor has any where nothing was searched.
    """
    if searched not in measured.references:
        return measured
    totals, baseline = measured.scores["total"], measured.baseline["total"]
    least = np.fmin(np.fmin.reduce(totals, axis=0), baseline)
    known = np.isfinite(totals[measured.index(searched)])
    return replace(measured, best={"total": np.where(known, least, np.nan)})


def guarded(measured: ScoreMatrix) -> ScoreMatrix:
    """The same contenders with a guard: sizes of the heuristic's program where its total is not larger, or alone known.

    A build with the guard compiles twice. It never ships a larger program.
    """
    smaller = measured.scores["total"] < measured.baseline["total"]
    scores = {name: np.where(smaller, one, measured.baseline[name]) for name, one in measured.scores.items()}
    return replace(measured, scores=scores)


def program_rows(measured: ScoreMatrix) -> list[ComparisonRow]:
    """Compare each policy on each program; counts tell project, program, kind and modules."""

    def attributes(measured: ScoreMatrix, members: Sequence[int], items: np.ndarray) -> RowView:
        return {name: measured.items[name][items].item() for name in ATTRIBUTES}

    return compare(measured, _one_by_one, POINTS_ONLY, count=attributes, together=False)


def shipped_totals(measured: ScoreMatrix, bootstrap: Bootstrap) -> list[ComparisonRow]:
    """Compare policies, and learners over their seeds, over the programs of each split whose sizes are all known."""
    return compare(complete_programs(measured), parts(PROGRAMS), bootstrap)


def shares_by_part(measured: ScoreMatrix) -> list[ComparisonRow]:
    """Compare contenders, and `BEST`, over all programs, those of each language and of each project.

    ``measured`` is of `with_best_known`. Programs without a best known total do not count; without a search none does.
    """
    best = measured.best.get("total")
    if best is None:
        return []
    known = np.isfinite(best)

    def scopes(scores: ScoreMatrix, split: str) -> Iterator[tuple[str, np.ndarray]]:
        yield PROGRAMS, known
        for language in LANGUAGES:
            yield language, known & measured.where(language=language)
        for project, items in measured.by_project(split):
            yield project, known & items

    return compare(measured.with_contender(BEST, {"total": best}), scopes, POINTS_ONLY, together=False)


def ship_failures(shipped: pa.Table) -> list[Row]:
    """Rows of ``artifacts.SHIPPED_SIZES`` without sizes; of a program that fails both ways, the first."""
    failed = shipped.filter(pc.field("failure") != "")
    places = np.unique(item_keys(failed, _ROW_KEY).to_pylist(), return_index=True)[1]
    return list(failed.take(np.sort(places)).to_pylist())


def _one_by_one(measured: ScoreMatrix, split: str) -> Iterator[tuple[str, np.ndarray]]:
    for number, key in enumerate(measured.keys):
        yield key, np.arange(len(measured.keys)) == number


_COSTS = sorted((one for one in measures.MEASURES.values() if one.of_program), key=lambda one: not one.is_by_function)

EXECUTED = {**{one.name: one.words.title for one in _COSTS}, "instructions": "instructions", "accesses": "accesses"}
"""What is compared, with titles; instructions are those executed, accesses to memory are reads and writes together."""

PAIRS = {f"{_COSTS[0].name}_{executed}": (_COSTS[0].name, executed) for executed in ("instructions", "accesses")}
"""Does the cost in front rank contenders as what is executed does? By key of its rank correlation."""

_NOT_RUN = "valgrind"  # kind of failure where nothing could run, see `mlgo.evaluate.programs`
_MIN_RANKED = 3  # fewest figures with a rank correlation; of two it could only be 1 or -1
_RUN_KEY = ("program",)
_IS_PLAIN = pc.field("contender") == HEURISTIC
_SETTINGS = ("task", "compiler_sha256", "target", "compile")


@dataclass(frozen=True)
class Programs:
    """What running the programs showed."""

    rows: Sequence[ComparisonRow]  # each contender over all programs, then on each of them; measures are the `EXECUTED`
    # Name of each `program`, number of its `contenders`, and how far figures agree on their order, by the keys of
    # `PAIRS`, see `spearman`; the mean first.
    correlations: Sequence[RowView]
    # Programs that printed something else or failed, with the contender and the reason.
    wrong: Sequence[tuple[str, str, str]]
    measured: ScoreMatrix
    not_run: str = ""  # why none ran; empty if they did


def executed_gain(row: ComparisonRow, figure: str) -> float | None:
    """Geometric mean over the programs; None where the figure is unknown of any of them."""
    comparison = row.by(figure)
    return None if comparison.num_failed else comparison.geomean.value


def find_programs(data: Path) -> Path:
    """Table of programs that ran: of the evaluation, or else of ``make programs``."""
    part_of_the_run = data / "evaluation" / "programs.parquet"
    return part_of_the_run if part_of_the_run.exists() else data / "execution" / "programs.parquet"


def read_programs(path: Path) -> Programs:
    """Read and compare what ran, ``artifacts.PROGRAMS``."""
    table = read_table(path, artifacts.PROGRAMS)
    table = table.append_column("accesses", pc.add(table["reads"], table["writes"]))
    plain, others = (table.filter(one) for one in (_IS_PLAIN, ~_IS_PLAIN))
    rows, programs = table.to_pylist(), plain["program"].to_pylist()
    if not rows or not {row["program"] for row in rows} <= set(programs):
        raise ArtifactError(f"{path} holds no run under the heuristic; run make programs again")
    offsets = {name: measures.MEASURES[name].offset if name in measures.MEASURES else 0.0 for name in EXECUTED}
    measured = score_matrix(with_baseline(others, plain, _RUN_KEY, EXECUTED), _RUN_KEY, offsets, _RUN_KEY)
    correlations = [_correlation(program, [row for row in rows if row["program"] == program]) for program in programs]
    mean: Row = {"program": "mean", "contenders": max(one["contenders"] for one in correlations)}
    for pair in PAIRS:
        ranks = [one[pair] for one in correlations if one[pair] is not None]
        mean[pair] = float(np.mean(ranks)) if ranks else None
    return Programs(
        [row for by in (whole, _one_by_one) for row in compare(measured, by, POINTS_ONLY, together=False, split=ALL)],
        [mean, *correlations],
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
    return float(np.corrcoef(np.stack([_ranks(first), _ranks(second)], axis=1), rowvar=False)[1, 0])


def _ranks(values: np.ndarray) -> np.ndarray:
    """Ranks of figures, from 1; equal ones share the mean of theirs."""
    _, number, counts = np.unique(values, return_inverse=True, return_counts=True)
    ranks: np.ndarray = (np.cumsum(counts) - (counts - 1) / 2.0)[number]
    return ranks


def _correlation(program: str, rows: Sequence[RowView]) -> Row:
    known = [row for row in rows if row["instructions"] is not None and row[_COSTS[0].name] is not None]
    columns = {name: np.array([row[name] for row in known], np.float64) for name in EXECUTED}
    ranks = {pair: spearman(columns[a], columns[b]) for pair, (a, b) in PAIRS.items()}
    return {"program": program, "contenders": len(known), **ranks}
