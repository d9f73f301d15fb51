"""The corpus in numbers, what was left out of it, and the outcome of the self-test."""

from collections import Counter
from dataclasses import dataclass
from operator import itemgetter
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from mlgo.base.artifacts import Row
from mlgo.compare.scores import SPLITS
from mlgo.errors import ArtifactError
from mlgo.host.process import without_folders
from mlgo.report.pages import Column, Table, count_column, text_column


@dataclass(frozen=True)
class Corpus:
    """Everything the page says about the corpus; ``shared``: bodies and instructions by ``"train/test"`` and so on."""

    splits: Table
    projects: Table
    skipped: list[tuple[str, int]]
    shared: dict[str, tuple[int, int]]


def describe_corpus(modules: pa.Table, summary: Any) -> Corpus:
    """Count modules.

    Args:
        modules: ``artifacts.MODULES``.
        summary: ``corpus/summary.json``.
    """
    try:
        counts = summary["bodies_shared_between_splits"]
        shared = {pair: (int(both["bodies"]), int(both["instructions"])) for pair, both in counts.items()}
    except (KeyError, TypeError, ValueError, AttributeError) as error:
        raise ArtifactError("the corpus summary does not count shared bodies; run the corpus stage again") from error
    by_split = {split: modules.filter(pc.field("split") == split) for split in SPLITS}
    reasons = Counter(reason.split(":")[0] for reason in modules["skip_reason"].to_pylist() if reason)
    counted = [count_column(title, itemgetter(title)) for title in ("modules", "in C", "in C++", "left out")]
    functions, instructions = (count_column(title, itemgetter(title)) for title in ("functions", "instructions"))
    shares = Column("in shared functions", lambda row, style: style.share(row["shared"]))
    split, project = (text_column(title, itemgetter(title)) for title in ("split", "project"))
    licence = text_column("licence", itemgetter("licence"), wrap=True)
    projects = count_column("projects", itemgetter("projects"))
    return Corpus(
        Table(
            [split, projects, *counted, functions, instructions, shares],
            [_counts(members) | {"split": split} for split, members in by_split.items()],
        ),
        Table(
            [project, split, *counted, instructions, shares, licence],
            [
                _counts(members.filter(pc.field("project") == project)) | {"split": split, "project": project}
                for split, members in by_split.items()
                for project in sorted(members["project"].unique().to_pylist())
            ],
        ),
        sorted(reasons.items(), key=lambda item: (-item[1], item[0])),
        shared,
    )


def _counts(modules: pa.Table) -> Row:
    """Figures of some modules by title; ``shared`` is the share of instructions in bodies that another split has."""
    used = modules.filter(pc.field("skip_reason") == "")
    in_c = used.filter(pc.field("language") == "c")
    functions, instructions, shared = (
        pc.sum(used[name]).as_py() or 0 for name in ("num_functions", "num_instructions", "shared_instructions")
    )
    return {
        "projects": len(used["project"].unique()),
        "modules": len(used),
        "in C": len(in_c),
        "in C++": len(used) - len(in_c),
        "left out": len(modules) - len(used),
        "functions": functions,
        "instructions": instructions,
        "shared": shared / max(1, instructions),
        "licence": ", ".join(sorted(modules["licence"].unique().to_pylist())),
    }


@dataclass(frozen=True)
class SelfTest:
    """Outcome over all modules."""

    num_modules: int
    num_passed: int
    differing: list[tuple[str, str]]


def read_self_test(summary: Any) -> SelfTest | None:
    """Take the outcome from ``baseline/summary.json``; None where the task has no such test."""
    try:
        if summary["self_test_passed"] is None:
            return None
        differing = [(item["module"], without_folders(item["cause"])) for item in summary["self_test_failed"]]
        return SelfTest(int(summary["modules"]), int(summary["self_test_passed"]), differing)
    except (KeyError, TypeError, ValueError) as error:
        raise ArtifactError("the baseline summary tells no self-test; run the baseline stage again") from error
