"""Modules of two features that no compiler has seen: sizes follow from answers, rewards of validations from a plan."""

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from mlgo.base.artifacts import MODULES, SCORES, VOCABULARY, provenance, trace_schema, write_rows, write_table
from mlgo.base.config import LOCAL_WORKERS, Settings, load_config
from mlgo.base.registry import LEARNERS
from mlgo.base.types import TensorSpec
from mlgo.evaluate import CompileOutcome
from mlgo.host.log import Header
from mlgo.host.session import CompileResult
from mlgo.learn.checkpoint import load_state, save_state
from mlgo.learn.cloning import BCConfig
from mlgo.learn.context import TrainOrder
from mlgo.learn.modules import ModuleContext
from mlgo.policy.network import Architecture
from mlgo.policy.policy import Policy
from mlgo.policy.vocabulary import build_vocabulary
from tests.conftest import REPOSITORY
from tests.fakes.scores import scores
from tests.pipeline.test_merge_baseline import blank

PLANNED = (-0.5, -0.125, -0.25, -0.375, -0.75)
"""Rewards of one validation after the other, sixteenths so that sizes give them exactly; the second is the best."""
SPLITS = {"learnt": "train", "checked": "validation", "judged": "test"}
FEATURES = ("f", "g")
HEADER = Header(
    tuple(TensorSpec(name, np.dtype(np.int64), (1,)) for name in FEATURES),
    TensorSpec("inlining_decision", np.dtype(np.int64), (1,)),
)
NUM_MODULES, NUM_QUESTIONS, SIZE = 3, 8, 1600

SMALL: dict[str, dict[str, Any]] = {
    "bc": {"max_epochs": 3, "patience": 3, "batch_size": 8, "learning_rate": 0.3},
    "bcmax": {"rounds": 4, "hidden": [3], "modules": 2, "clone_epochs": 2, "epochs": 2, "references": []}
    | {"flipped": 1, "perturbed": 1},
    "es": {"generations": 4, "pairs": 4, "modules": 2, "validate_every": 1, "step_size": 3.0, "trainable_layers": 1},
    "marginal": {"rounds": 4, "modules": 2, "hidden": [3], "members": 2, "compiles": 3, "max_epochs": 2},
    "ppo": {"iterations": 4, "modules": 2, "episodes": 2, "validate_every": 1, "baseline": "siblings", "epochs": 1},
}


def questions(project: str, number: int) -> np.ndarray:
    """Features of a module's questions: int64 [NUM_QUESTIONS, 2]."""
    return np.random.default_rng([len(project), number]).integers(1, 100, (NUM_QUESTIONS, 2))


def write_home(home: Path, altered: str = "") -> None:
    """Corpus and baseline; ``altered`` is a split whose answers and sizes are others, of test the features, too."""
    origin = provenance(task="inline-size")
    modules, rows, steps = [], [], []
    for project, split in SPLITS.items():
        for number in range(NUM_MODULES):
            key = {"project": project, "module": f"m{number}.c"}
            sha256 = f"{project}{number}".ljust(64, "0")
            modules.append({**blank(MODULES), **key, "language": "c", "split": split, "bitcode_sha256": sha256})
            size = SIZE * (3 if split == altered else 1)
            known = {"text_bytes": size, "num_questions": NUM_QUESTIONS, "truncated": False}
            rows += [{**blank(SCORES), **key, "advisor": name, **known} for name in ("heuristic", "echo")]
            features = questions(project, number) * (1000 if split == altered == "test" else 1)
            answers = (features[:, 0] > features[:, 1]) ^ (split == altered)
            steps += [
                {**key, "context": "", "step": i, "f": int(f), "g": int(g), "answer": int(answer)}
                for i, ((f, g), answer) in enumerate(zip(features, answers, strict=True))
            ]
    write_rows(home / "corpus/modules.parquet", modules, MODULES, origin)
    write_rows(home / "baseline/scores.parquet", rows, SCORES, origin)
    write_rows(home / "baseline/trace.parquet", steps, trace_schema(FEATURES), origin)
    of_train = np.concatenate([questions("learnt", number) for number in range(NUM_MODULES)])
    vocabulary = build_vocabulary({name: of_train[:, i] for i, name in enumerate(FEATURES)}, 5)
    write_table(home / "baseline/vocabulary.parquet", vocabulary, VOCABULARY, origin)


class ToyHost:
    """A host whose compiles are sums: inlining saves where the first feature is large, and costs where it is not.

    Attributes:
        batches: modules and advisors of what was asked for, one entry for each time.
        validated: policies in the order of their validations.
        failing: modules that do not compile.
    """

    num_workers = 1

    def __init__(self) -> None:
        self.num_asked = self.num_compiled = 0
        self.batches: list[list[str]] = []
        self.validated: list[Any] = []
        self.failing: set[str] = set()

    def compile_each(self, jobs, label=""):
        jobs = list(jobs)
        self.num_asked += len(jobs)
        self.num_compiled += len(jobs)
        self.batches.append([job.module for job in jobs])
        validates = all(job.module.startswith("checked/") for job in jobs)
        if validates:
            self.validated.append(jobs[0].advisor)
        for position, job in enumerate(jobs):
            if job.module in self.failing:
                yield position, CompileOutcome(None, "crash", "it was to fail")
                continue
            project, _, name = job.module.partition("/")
            rows = questions(project, int(name[1]))
            answers = job.advisor.decide_for(HEADER)(rows.view(np.uint8).reshape(len(rows), -1)).astype(np.int64)
            size = SIZE + int((answers * (50 - rows[:, 0])).sum())
            if validates:
                size = int(SIZE * (1 - PLANNED[len(self.validated) - 1]))
            result = CompileResult(
                scores(size, size),
                job.module,
                0.0,
                header=HEADER,
                contexts=(("", len(rows)),),
                answers=answers.tobytes(),
                observations=rows.tobytes() if job.record else b"",
            )
            yield position, CompileOutcome(result, read=None if job.read is None else job.read(job.module, result))


class ToyModules(ModuleContext):
    """A context of LLVM's tasks with corpus and baseline of `write_home`, and `ToyHost` for a compiler."""

    def __init__(self, order: TrainOrder) -> None:
        super().__init__(order)
        self.host = ToyHost()
        origin = {"compiler": "toy", "compiler_sha256": "0" * 64, "target": "toy"}
        self.toolchain = SimpleNamespace(name="toy", provenance=origin)

    @property
    def start(self) -> Policy:
        return Policy("inline-size", self.normalise, Architecture((2, 1)), np.array([1.0, -0.5, 0.25], np.float32))

    def _open(self, stack):
        self.bitcode = {one.module.key: Path("none") for one in (*self.train, *self.validation)}
        return self.host


class Stopped(Exception):
    pass


def stopped(run: Callable[[Callable[..., None]], Any], stop: int, path: Path, kinds: tuple[type, ...]) -> Any:
    """What a checkpoint holds once so many steps are done; ``run`` takes who is told of each state."""

    def keep(state, *_):
        save_state(state, path, {"n": state.done})
        if state.done == stop:
            raise Stopped

    with pytest.raises(Stopped):
        run(keep)
    state, extra = load_state(path, *kinds)
    assert (state.done, extra) == (stop, {"n": stop})
    return state


def cloning_config(max_epochs: int, patience: int, batch_size: int, learning_rate: float) -> BCConfig:
    return BCConfig(
        max_epochs=max_epochs,
        patience=patience,
        batch_size=batch_size,
        learning_rate=learning_rate,
        max_steps_per_module=1000,
        weighting="question",
        balance=False,
    )


@dataclass(frozen=True)
class Toy:
    """A training that has ended."""

    context: ToyModules
    trained: Any

    @property
    def host(self) -> ToyHost:
        return self.context.host


def module_order(home: Path, learner: str, output: Path, **changes: Any) -> TrainOrder:
    values = load_config(REPOSITORY / "config/config.yaml").model_dump()
    for name, small in SMALL.items():
        values[name] |= small
    values[learner] |= changes
    values["compile"] |= {"objective": "text_bytes"}
    work = output.parent / f"{output.name}-work"
    return TrainOrder(LEARNERS.get(learner), Settings(values), 0, home, work, output, workers=1, where=LOCAL_WORKERS)


def es_context(folder: Path) -> ToyModules:
    """Evolution strategies on data of `write_home`, before they begin."""
    write_home(folder / "home")
    return ToyModules(module_order(folder / "home", "es", folder / "es-s0"))


def train_on_modules(folder: Path, learner: str, altered: str = "", **changes: Any) -> Toy:
    """Train as the driver does, on data as `write_home` alters them, with changes of the learner's section."""
    write_home(folder / f"home-{altered}", altered)
    context = ToyModules(module_order(folder / f"home-{altered}", learner, folder / f"{learner}-{altered}", **changes))
    trained = context.order.learner.train(context)
    context.write(trained)
    return Toy(context, trained)
