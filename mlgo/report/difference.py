"""The page of two trainings side by side: by how much the first gains more than the second."""

import argparse
from dataclasses import asdict
from pathlib import Path

from mlgo.base.artifacts import RESULTS, SHIPPED_SIZES, read_table
from mlgo.compare.difference import Difference, Side, compare_sides
from mlgo.compare.measured import Contender
from mlgo.compare.truth import SHIP_COLUMNS, main_learner
from mlgo.errors import ConfigError
from mlgo.report.pages import Column, Shown, Table, gain_column, text_column
from mlgo.report.truth import bootstrap_of

_NOTE = (
    "Gains over the heuristic, positive is smaller. Differences are first minus second, in points of percent. "
    "Intervals resample projects and seeds, the same for both."
)


def show(args: argparse.Namespace) -> Shown:
    """The table; the same as Markdown."""
    if args.against is None:
        raise ConfigError("mlgo report difference needs --against DIR, the folder of the results to compare with")
    first, second = (read_side(folder, args.learner or "") for folder in (args.data, args.against))
    found = compare_sides(first, second, bootstrap_of(args.preset))
    head = [
        f"First: {first.learner} of {args.data}. Second: {second.learner} of {args.against}. "
        f"Seeds {', '.join(map(str, found[0].seeds))}."
    ]
    table = difference_table(found)
    return Shown(
        "\n".join([*head, "", table.aligned(), "", _NOTE]),
        {"first": str(args.data), "second": str(args.against), "lines": [asdict(one) for one in found]},
        "\n".join([*head, "", table.markdown(), "", _NOTE, ""]),
    )


def read_side(data: Path, learner: str = "") -> Side:
    """Tables of a run.

    Args:
        data: folder of its results.
        learner: whose policies; empty for the last that was trained.

    Raises:
        ArtifactError: a table is missing or damaged, or holds no policy.
    """
    shipped = read_table(data / "evaluation" / "shipped.parquet", SHIPPED_SIZES, list(SHIP_COLUMNS))
    results = read_table(data / "evaluation" / "results.parquet", RESULTS)
    contenders = [Contender.named(name) for name in dict.fromkeys(shipped["contender"].to_pylist())]
    return Side(shipped, results, learner or main_learner(contenders))


def difference_table(found: list[Difference]) -> Table:
    """What is compared, line by line."""
    return Table(
        [
            text_column("", lambda row: row.asked),
            gain_column("first", lambda row: row.first),
            gain_column("second", lambda row: row.second),
            gain_column("difference", lambda row: row.gain),
            text_column("first is ahead", lambda row: f"in {row.ahead} of {len(row.seeds)} seeds"),
            Column(
                "of",
                lambda row, style: (
                    f"{style.count(row.num_items)} {row.items} of {style.count(row.num_projects)} projects"
                ),
                left=True,
            ),
        ],
        found,
    )
