"""What a training cost on its machine: wall time, workers, compiles. Differs between runs, so it is no artifact."""

import os
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Protocol

from mlgo.base.files import read_record, write_record
from mlgo.base.registry import Kind
from mlgo.base.scratch import experiment_origin, shared_folder
from mlgo.errors import ArtifactError

PREFIXES: Mapping[Kind, str] = {"modules": "", "choices": "cse-"}
"""What stands before the names of policies in logs, checkpoints and costs, by what was learnt on."""


class CompileCounts(Protocol):
    """What counts compiles, as `mlgo.evaluate.CompileHost` does."""

    num_asked: int
    num_compiled: int

    @property
    def num_workers(self) -> int: ...


@dataclass(frozen=True)
class TrainingCost:
    """What one training cost, all sessions together if it was stopped and resumed."""

    run: str  # key of the run; sessions of one run have the same
    workers: int  # of the last session; each keeps one core busy, so this is the number of cores
    sessions: int = 0
    seconds: float = 0.0
    evaluations: int = 0  # compiles asked for; a resumed run asks again for what came after its checkpoint
    compiles: int = 0  # of these, the ones that no response tree held
    # False if a session was killed without notice, or is still at work: the figures are lower bounds then.
    complete: bool = True


def cost_path(work: Path, policy: str) -> Path:
    """Where a training keeps its cost."""
    return work / "timings" / "training" / f"{policy}.json"


def experiments_path(work: Path) -> Path:
    """Where costs of DVC's experiments are kept, a folder for each: DVC deletes the copies in which they ran."""
    return shared_folder(work) / "timings" / "experiments"


@contextmanager
def recorded_cost(
    work: Path,
    policy: str,
    cost: TrainingCost,
    counts: CompileCounts | None = None,
    resumed: bool = False,
    started: float | None = None,
) -> Iterator[None]:
    """Write what a training costs, when its block is left in whatever way; a resumed one adds to what the file says.

    ``cost`` has nothing spent yet; time counts from ``started`` on, a ``time.monotonic()``, by default from now on.
    """
    started = time.monotonic() if started is None else started
    before = cost
    if resumed:
        known = read_cost(work, policy) if cost_path(work, policy).exists() else None
        before = known if known is not None and known.run == cost.run else replace(cost, complete=False)
    before = replace(before, workers=cost.workers, sessions=before.sessions + 1)
    _write(work, policy, replace(before, complete=False))  # what remains if nothing can be written at the end
    try:
        yield
    finally:
        total = replace(
            before,
            seconds=round(before.seconds + time.monotonic() - started, 3),
            evaluations=before.evaluations + (counts.num_asked if counts else 0),
            compiles=before.compiles + (counts.num_compiled if counts else 0),
        )
        _write(work, policy, total)


def read_cost(work: Path, policy: str) -> TrainingCost:
    """Read what a training cost."""
    return _read(cost_path(work, policy))


def read_experiments(work: Path) -> dict[str, dict[str, TrainingCost]]:
    """What trainings of DVC's experiments cost, by experiment and policy; the first to start comes first."""
    paths = sorted(experiments_path(work).glob("*/*.json"), key=lambda path: (path.parent.stat().st_mtime_ns, path))
    found: dict[str, dict[str, TrainingCost]] = {}
    for path in paths:
        found.setdefault(path.parent.name, {})[path.stem] = _read(path)
    return found


def _read(path: Path) -> TrainingCost:
    try:
        return TrainingCost(**read_record(path))
    except TypeError as error:
        raise ArtifactError(f"{path} is not the cost of a training ({error}); delete it and train again") from error


def _write(work: Path, policy: str, cost: TrainingCost) -> None:
    write_record(cost_path(work, policy), asdict(cost))
    if experiment_origin(Path.cwd()) is not None:
        experiment = os.environ.get("DVC_EXP_NAME") or Path.cwd().name
        write_record(experiments_path(work) / experiment / f"{policy}.json", asdict(cost))
