"""Policies on other languages and under other compilers: gains by what was learnt from and what was tested on."""

import argparse
from collections.abc import Sequence
from functools import partial
from itertools import groupby, product
from operator import attrgetter, itemgetter
from pathlib import Path

import pyarrow as pa
import pyarrow.compute as pc

from mlgo.base.artifacts import GENERALISATION, Row, provenance_in, read_provenance, read_table
from mlgo.base.config import EvaluateConfig, judged_split
from mlgo.base.files import read_record
from mlgo.base.names import LANGUAGE_TITLES, LANGUAGES, PolicyName, train_set_of
from mlgo.compare.inference import Bootstrap, compare_scores
from mlgo.compare.modules import with_contenders
from mlgo.compare.scores import ALL, ComparisonRow, Contender, ScoreMatrix, corrected, score_matrix
from mlgo.compare.trainings import check_seeds, count_evaluations
from mlgo.errors import ArtifactError
from mlgo.objects.measures import get_measure
from mlgo.report import pages

_TITLES = {ALL: "all modules", **LANGUAGE_TITLES}
_EVALUATIONS = "evaluations of one training"


def read_matrices(path: Path, split: str | None, measure: str) -> dict[str, list[ComparisonRow]]:
    """Matrices of ``artifacts.GENERALISATION`` by title: languages, projects, then compilers, for each language too.

    What was learnt from is the contender, what was tested on the scope; all lines of a matrix have the same scopes.
    """
    if not path.exists():
        raise ArtifactError(f"{path} is missing; make it with: make generalisation")
    results = read_table(path, GENERALISATION)
    split = split or judged_split(pc.unique(results["split"]).to_pylist())
    results = results.filter(pc.field("split") == split)
    if not results.num_rows:
        raise ArtifactError(f"{path} holds nothing about the {split} projects; add {split} to evaluate.splits")
    origin = provenance_in(path, results.schema)
    check_seeds(path.parent / "policies" / name for name in dict.fromkeys(part["policy"] for part in origin["parts"]))
    settings = EvaluateConfig.model_validate(origin["evaluate"])
    bootstrap = Bootstrap(settings.resamples, settings.confidence, origin["seed"])

    def cells(title: str, modules: pa.Table, row: str, column: str) -> list[ComparisonRow]:
        found = []
        for trained, tested in product(_distinct(modules, row), _distinct(modules, column)):
            measured = _scores(_where(modules, **{row: trained, column: tested}), trained, measure)
            if not measured.keys or not measured.asked.all():
                raise ArtifactError(
                    f"{title}: the seeds of {trained} were not tested on the same modules of {tested}; delete "
                    "data/generalisation/results.parquet and run: make generalisation"
                )
            contender = Contender(trained, trained, tuple(one.seeds[0] for one in measured.contenders))
            scores, baseline = measured.scores[measure], measured.baseline[measure]
            one = compare_scores(scores, baseline, measured.projects, bootstrap, measured.keys)
            found.append(ComparisonRow(contender, split, tested, {measure: one}, claim=True))
        return corrected(found, lambda row: title)

    main = _distinct(results, "trained_with")[0]
    carried = _distinct(results.filter(pc.field("tested_with") != main), "train_set")
    place = results.column_names.index("language")
    every = results.set_column(place, "language", pa.repeat(ALL, len(results))).cast(results.schema)
    results = pa.concat_tables([every, *(_where(results, language=language) for language in LANGUAGES)])
    at_home = _where(results, trained_with=main, tested_with=main)
    across = results.filter(pc.is_in(pc.field("train_set"), pa.array(carried, pa.string())))
    compared = {
        f"Languages, {main}": (at_home, "train_set", "language"),
        f"Projects, {main}": (_where(at_home, language=ALL), "train_set", "project"),
    }
    for language in _distinct(across, "language"):
        compared[f"Compilers, {_TITLES[language]}"] = _where(across, language=language), "trained_with", "tested_with"
    return {title: cells(title, *modules) for title, modules in compared.items()}


def read_trainings(folder: Path) -> list[Row]:
    """What the trainings behind ``results.parquet`` asked for, in the order of the run; seeds of a learner together."""
    by_learner: dict[str, dict[str, None]] = {}  # policies of one training, each once, in order
    for part in read_provenance(folder / "results.parquet")["parts"]:
        by_learner.setdefault(PolicyName.of(part["policy"]).learner, {})[part["policy"]] = None
    trainings = []
    for learner, policies in by_learner.items():
        origins = [read_record(folder / "policies" / policy / "policy.json")["provenance"] for policy in policies]
        counts = [count_evaluations(folder / "policies", policy) for policy in policies]
        trainings.append(
            {
                "compiler": origins[0]["compiler"],
                "train set": train_set_of(learner),
                "languages": ", ".join(origins[0]["languages"]),
                "seeds": ", ".join(str(origin["seed"]) for origin in origins),
                _EVALUATIONS: sum(counts) / len(counts),
            }
        )
    return trainings


def _distinct(table: pa.Table, column: str) -> list[str]:
    """Values in the order in which they come."""
    found: list[str] = pc.unique(table[column]).to_pylist()
    return found


def _where(table: pa.Table, **values: str) -> pa.Table:
    for column, value in values.items():
        table = table.filter(pc.field(column) == value)
    return table


def _scores(cell: pa.Table, trained: str, measure: str) -> ScoreMatrix:
    """Scores of the modules of a cell under what was trained, seed by seed."""
    key = ("project", "module")
    rows = cell.sort_by([(name, "ascending") for name in ("seed", *key)])
    rows = with_contenders(rows.append_column("policy", pa.repeat(trained, len(rows))))
    return score_matrix(rows, key, {measure: get_measure(measure).offset}, key)


def show(args: argparse.Namespace) -> pages.RenderedPage:
    """A line for each cell; as a page, the matrices themselves and what the trainings asked for."""
    folder, measure = args.data / "generalisation", args.measure
    matrices = read_matrices(folder / "results.parquet", args.split, measure)
    columns = [
        pages.text_column("trained", lambda row: row.name),
        pages.text_column("tested", lambda row: row.scope),
        pages.gain_column("gain (interval)", lambda row: row.by(measure).geomean),
        pages.gain_column("in total", lambda row: row.by(measure).total),
        pages.Column("projects smaller / larger / equal", lambda row, style: style.tally(row.by(measure).projects)),
        pages.count_column("modules", lambda row: row.by(measure).num_compared),
        *pages.verdict_columns(lambda row: row.by(measure)),
    ]
    text = "\n\n".join(f"{title}\n{pages.Table(columns, cells).aligned()}" for title, cells in matrices.items())
    record = [
        {"title": title, "cells": [record for cell in cells for record in cell.records()]}
        for title, cells in matrices.items()
    ]
    page = ""
    if args.markdown:
        words = [
            pages.text_column(title, itemgetter(title)) for title in ("compiler", "train set", "languages", "seeds")
        ]
        page = pages.render(
            "generalisation.md.jinja",
            measure=measure,
            split=next(cell.split for cells in matrices.values() for cell in cells),
            matrices={title: _square(cells, measure) for title, cells in matrices.items()},
            trainings=pages.Table(
                [*words, pages.count_column(_EVALUATIONS, itemgetter(_EVALUATIONS))], read_trainings(folder)
            ),
        )
    return pages.RenderedPage(text, record, page)


def _square(cells: Sequence[ComparisonRow], measure: str) -> pages.Table:
    """A matrix as it is, each cell in two lines."""

    def cell(line: Sequence[ComparisonRow], number: int) -> str:
        one = line[number].by(measure)
        p = "" if one.corrected_p is None else f", p = {pages.PLAIN.probability(one.corrected_p)}"
        projects = f"{one.projects.smaller} : {one.projects.larger} of {one.num_projects}"
        return f"{pages.PLAIN.gain(one.geomean)}<br>{projects}, {one.finding}{p}"

    lines = [list(line) for _, line in groupby(cells, attrgetter("name"))]
    tested = [pages.text_column(row.scope, partial(cell, number=i)) for i, row in enumerate(lines[0])]
    return pages.Table([pages.text_column("trained \\ tested", lambda line: line[0].name), *tested], lines)
