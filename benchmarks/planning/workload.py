"""What there is to compile: modules with their measured times and sizes, and how often outcomes repeat."""

from collections.abc import Mapping, Sequence
from dataclasses import asdict, astuple, dataclass
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.planning.novelty import Novelty
from mlgo.base.artifacts import MODULES, SCORES, TIMINGS, read_table
from mlgo.errors import ArtifactError


@dataclass(frozen=True)
class ModuleLoad:
    """One module.

    Attributes:
        name: project and source.
        compile_s: time of a compile under a policy, recorded for the trees, alone on a core.
        num_questions: what the compiler asks then.
        bitcode_bytes: size of its bitcode.
        tree_bytes: size of its tree on disk when the training begins.
        leaf_bytes: what one more compile adds to it.
    """

    name: str
    compile_s: float
    num_questions: int
    bitcode_bytes: int
    tree_bytes: float = 0.0
    leaf_bytes: float = 0.0


@dataclass(frozen=True)
class Workload:
    """Modules, and what their evaluations are like.

    Attributes:
        modules: what generations draw from.
        spread: standard deviation of the logarithm of a module's compile time, from candidate to candidate.
        novelties: how often outcomes of each module are new.
    """

    modules: tuple[ModuleLoad, ...]
    spread: float
    novelties: tuple[Novelty, ...]

    def record(self) -> dict[str, Any]:
        """As plain values."""
        return {
            "spread": self.spread,
            "modules": [
                [*asdict(one).values(), *astuple(novelty)]
                for one, novelty in zip(self.modules, self.novelties, strict=True)
            ],
        }


def workload_of(record: Mapping[str, Any]) -> Workload:
    """Read it back.

    Raises:
        ArtifactError: it is not one of these records.
    """
    try:
        modules = tuple(ModuleLoad(*values) for *values, _, _ in record["modules"])
        novelties = tuple(Novelty(*values[-2:]) for values in record["modules"])
        return Workload(modules, float(record["spread"]), novelties)
    except (KeyError, TypeError, ValueError) as error:
        raise ArtifactError(
            f"the workload cannot be read ({error}); measure it anew: python -m benchmarks.planning --measure"
        ) from error


def read_modules(data: Path, advisor: str, max_questions: int, split: str = "train") -> list[ModuleLoad]:
    """The modules that a training would draw from, with the wall times that the baseline has left.

    Args:
        data: folder with corpus/, baseline/ and work/timings/.
        advisor: the traced reference of the task.
        max_questions: modules that ask more, or nothing, are left out, as in trainings.
        split: of the corpus.

    Raises:
        ArtifactError: a table is missing, or no module is left.
    """
    scores = read_table(data / "baseline" / "scores.parquet", SCORES).to_pylist()
    questions = {(row["project"], row["module"]): row["num_questions"] for row in scores if row["advisor"] == advisor}
    seconds = {}
    for path in sorted((data / "work" / "timings" / "baseline").glob("*.parquet")):
        for row in read_table(path, TIMINGS).to_pylist():
            if row["advisor"] == advisor:
                seconds[row["project"], row["module"]] = row["seconds"]
    found = []
    for row in read_table(data / "corpus" / "modules.parquet", MODULES).to_pylist():
        key = (row["project"], row["module"])
        if row["split"] == split and key in seconds and 0 < (questions.get(key) or 0) <= max_questions:
            found.append(ModuleLoad("/".join(key), round(seconds[key], 5), questions[key], row["bitcode_bytes"]))
    if not found:
        raise ArtifactError(
            f"{data} holds no timed {split} module with 1 to {max_questions} questions; run the pipeline: make"
        )
    return found


def enlarged(modules: Sequence[ModuleLoad], num: int, rng: np.random.Generator) -> list[int]:
    """Numbers of a generation's modules, none more than once oftener than any other, so a small corpus will do."""
    whole, rest = divmod(num, len(modules))
    return [*(number for _ in range(whole) for number in range(len(modules))), *rng.permutation(len(modules))[:rest]]
