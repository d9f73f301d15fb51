"""The corpus in numbers: what was used, from where, under which licence, and what was left out."""

from collections import Counter
from dataclasses import dataclass
from typing import Any

import pyarrow as pa

from mlgo.core.errors import ArtifactError
from mlgo.experiments.measured import SPLITS


@dataclass(frozen=True)
class Share:
    """Modules of a split or project.

    Attributes:
        split: train, validation or test.
        project: empty for a whole split.
        licence: SPDX expression; empty for a whole split.
        num_projects: projects with at least one module.
        num_c: modules in C.
        num_cpp: modules in C++.
        num_skipped: sources that did not become modules.
        num_functions: defined functions.
        num_instructions: instructions before optimization.
        shared_share: share of the instructions in functions whose body also occurs in another split, 0 to 1.
    """

    split: str
    project: str
    licence: str
    num_projects: int
    num_c: int
    num_cpp: int
    num_skipped: int
    num_functions: int
    num_instructions: int
    shared_share: float

    @property
    def num_modules(self) -> int:
        """Modules in either language."""
        return self.num_c + self.num_cpp


@dataclass(frozen=True)
class Corpus:
    """Everything the page tells about the corpus.

    Attributes:
        splits: one entry per split, test first.
        projects: one entry per project, by split and name.
        skipped: sources left out by reason, most frequent first.
        shared: bodies and instructions that two splits have in common, by ``"train/test"`` and so on.
    """

    splits: list[Share]
    projects: list[Share]
    skipped: list[tuple[str, int]]
    shared: dict[str, tuple[int, int]]


def describe_corpus(modules: pa.Table, summary: Any) -> Corpus:
    """Count modules.

    Args:
        modules: ``artifacts.MODULES``.
        summary: ``corpus/summary.json``.

    Raises:
        ArtifactError: the summary does not tell the shared bodies.
    """
    try:
        counts = summary["bodies_shared_between_splits"]
        shared = {pair: (int(both["bodies"]), int(both["instructions"])) for pair, both in counts.items()}
    except (KeyError, TypeError, ValueError, AttributeError) as error:
        raise ArtifactError("the corpus summary does not count shared bodies; run the corpus stage again") from error
    rows = modules.drop_columns(["bitcode_sha256"]).to_pylist()
    by_split = {split: [row for row in rows if row["split"] == split] for split in SPLITS}
    reasons = Counter(row["skip_reason"].split(":")[0] for row in rows if row["skip_reason"])
    return Corpus(
        [_share(members, split) for split, members in by_split.items()],
        [
            _share([row for row in members if row["project"] == project], split, project)
            for split, members in by_split.items()
            for project in sorted({row["project"] for row in members})
        ],
        sorted(reasons.items(), key=lambda item: (-item[1], item[0])),
        shared,
    )


def _share(rows: list[dict[str, Any]], split: str, project: str = "") -> Share:
    used = [row for row in rows if not row["skip_reason"]]
    num_instructions = sum(row["num_instructions"] for row in used)
    return Share(
        split=split,
        project=project,
        licence=", ".join(sorted({row["licence"] for row in rows})) if project else "",
        num_projects=len({row["project"] for row in used}),
        num_c=sum(row["language"] == "c" for row in used),
        num_cpp=sum(row["language"] != "c" for row in used),
        num_skipped=len(rows) - len(used),
        num_functions=sum(row["num_functions"] for row in used),
        num_instructions=num_instructions,
        shared_share=sum(row["shared_instructions"] for row in used) / max(1, num_instructions),
    )
