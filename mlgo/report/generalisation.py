"""Policies on other languages and under other compilers: gains by what was learnt from and what was tested on."""

from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from mlgo.core.artifacts import GENERALISATION, read_provenance, read_table
from mlgo.core.config import EvaluateConfig
from mlgo.core.errors import ArtifactError
from mlgo.core.files import read_json
from mlgo.core.names import PolicyName
from mlgo.report.compare import Bootstrap, Comparison
from mlgo.report.measured import sizes
from mlgo.report.scoreboard import count_evaluations

_TITLES = {"all": "all modules", "c": "C", "c++": "C++"}


@dataclass(frozen=True)
class Cell:
    """Policies of one training, all seeds together, on one set of modules.

    Attributes:
        trained: what sets the policies of a matrix apart: train set or compiler.
        tested: what sets its modules apart: language, project or compiler.
        seeds: of the policies, ascending.
        comparison: with the same compiler's own heuristic, see `compare_seeds`.
    """

    trained: str
    tested: str
    seeds: tuple[int, ...]
    comparison: Comparison


@dataclass(frozen=True)
class Matrix:
    """Cells by row, what was learnt from, and column, what was tested on.

    Attributes:
        title: what all cells share.
        cells: row by row; every row has the same columns.
    """

    title: str
    cells: tuple[tuple[Cell, ...], ...]


@dataclass(frozen=True)
class Training:
    """Policies that differ in their seed alone.

    Attributes:
        compiler: they were trained with.
        train_set: they were trained on.
        languages: of its modules.
        seeds: ascending.
        evaluations: compiles that one training asked for, validations included, mean over the seeds.
    """

    compiler: str
    train_set: str
    languages: tuple[str, ...]
    seeds: tuple[int, ...]
    evaluations: float


def read_matrices(path: Path, split: str, measure: str) -> list[Matrix]:
    """Make the matrices of a finished run: by language, by project, then by compiler, for each language too.

    Intervals and sign tests are those of `compare_seeds`, with the resamples and the confidence of the run.

    Args:
        path: ``results.parquet``.
        split: where the gain is measured, one of ``evaluate.splits``.
        measure: one of ``measured.MEASURES``.

    Raises:
        ArtifactError: the file is missing, of another version, or lacks modules that it should hold.
    """
    if not path.exists():
        raise ArtifactError(f"{path} is missing; make it with: make generalisation")
    results = read_table(path, GENERALISATION).filter(pc.field("split") == split)
    if not results.num_rows:
        raise ArtifactError(f"{path} holds nothing about the {split} projects; add {split} to evaluate.splits")
    origin = read_provenance(path)
    settings = EvaluateConfig.model_validate(origin["evaluate"])
    bootstrap = Bootstrap(settings.resamples, settings.confidence, origin["seed"])

    def matrix(title: str, modules: pa.Table, row: str, column: str) -> Matrix:
        rows, columns = _distinct(modules, row), _distinct(modules, column)
        return Matrix(
            title,
            tuple(
                tuple(
                    _cell(_where(modules, **{row: one, column: other}), one, other, measure, bootstrap, title)
                    for other in columns
                )
                for one in rows
            ),
        )

    main = _distinct(results, "trained_with")[0]
    carried = _distinct(results.filter(pc.field("tested_with") != main), "train_set")
    results = _with_all(results)
    at_home = _where(results, trained_with=main, tested_with=main)
    across = results.filter(pc.is_in(pc.field("train_set"), pa.array(carried, pa.string())))
    return [
        matrix(f"Languages, {main}", at_home, "train_set", "language"),
        matrix(f"Projects, {main}", _where(at_home, language="all"), "train_set", "project"),
        *(
            matrix(f"Compilers, {_TITLES[language]}", _where(across, language=language), "trained_with", "tested_with")
            for language in _distinct(across, "language")
        ),
    ]


def read_trainings(folder: Path) -> list[Training]:
    """What the trainings behind ``results.parquet`` cost, in the order of the run.

    Args:
        folder: with ``results.parquet`` and ``policies``.

    Raises:
        ArtifactError: a file is missing.
    """
    by_name: dict[str, dict[str, None]] = {}  # policies of one training, each once, in order
    for part in read_provenance(folder / "results.parquet")["parts"]:
        by_name.setdefault(PolicyName.of(part["policy"]).learner, {})[part["policy"]] = None
    trainings = []
    for name, policies in by_name.items():
        origins = [read_json(folder / "policies" / policy / "policy.json")["provenance"] for policy in policies]
        counts = [count_evaluations(folder / "policies", policy) for policy in policies]
        trainings.append(
            Training(
                origins[0]["compiler"],
                name.rpartition("-")[2],
                tuple(origins[0]["languages"]),
                tuple(origin["seed"] for origin in origins),
                sum(counts) / len(counts),
            )
        )
    return trainings


def _with_all(results: pa.Table) -> pa.Table:
    """Every row twice: as one of language ``all``, and as it is, C before C++."""
    every = results.set_column(
        results.column_names.index("language"), "language", pa.repeat("all", results.num_rows)
    ).cast(results.schema)
    return pa.concat_tables([every, *(_where(results, language=language) for language in ("c", "c++"))])


def _distinct(table: pa.Table, column: str) -> list[str]:
    """Values in the order in which they come."""
    found: list[str] = pc.unique(table[column]).to_pylist()
    return found


def _where(table: pa.Table, **values: str) -> pa.Table:
    for column, value in values.items():
        table = table.filter(pc.field(column) == value)
    return table


def _cell(rows: pa.Table, trained: str, tested: str, measure: str, bootstrap: Bootstrap, title: str) -> Cell:
    keys = [("project", "ascending"), ("module", "ascending")]
    seeds = sorted(pc.unique(rows["seed"]).to_pylist())
    of_seeds = [rows.filter(pc.field("seed") == seed).sort_by(keys) for seed in seeds]
    modules = [one.select(["project", "module"]).to_pylist() for one in of_seeds]
    if not modules or any(one != modules[0] for one in modules):
        raise ArtifactError(
            f"{title}: the seeds of {trained} were not tested on the same modules of {tested}; delete "
            "data/generalisation/results.parquet and run: make generalisation"
        )
    policies, (_, baseline) = [sizes(one, measure)[0] for one in of_seeds], sizes(of_seeds[0], measure)
    # The same draws for every cell, so that a cell has one interval, in whichever matrix it stands.
    return Cell(trained, tested, tuple(seeds), bootstrap.compare_seeds(np.stack(policies), baseline, "generalisation"))
