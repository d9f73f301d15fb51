"""Policies of each task and questions for them, for what must be true of every action space."""

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from mlgo.base.types import TensorSpec
from mlgo.host.log import Header
from mlgo.host.tasks.task import get_task
from mlgo.policy.features import Normalisation
from mlgo.policy.network import Architecture
from mlgo.policy.policy import Policy

INT, FLOAT = np.dtype(np.int64), np.dtype(np.float32)
COLUMNS = 4


@dataclass(frozen=True)
class Case:
    """A task with questions as a compiler would ask them.

    Attributes:
        task: its name.
        header: features in another order than the policy's, and more.
        features: what the policy looks at.
        draw: makes the raw tensors of a question, in the header's order.
    """

    task: str
    header: Header
    features: tuple[str, ...]
    draw: Callable[[np.random.Generator], list[np.ndarray]]

    def policy(self, seed: int, hidden: tuple[int, ...] = (), groups: int = 1) -> Policy:
        """With random weights."""
        task, size = get_task(self.task), len(self.features)
        unit = np.array([task.units.get(name, 1.0) for name in self.features], np.float32)
        scaling = Normalisation(self.features, np.full(size, 0.5, np.float32), np.full(size, 2, np.float32), unit)
        architecture = Architecture((task.actions.num_inputs(size), *hidden, 1), groups)
        weights = np.random.default_rng(seed).normal(size=architecture.num_params)
        return Policy(self.task, scaling, architecture, weights.astype(np.float32))

    def questions(self, seed: int, count: int = 20) -> list[bytes]:
        """Raw observations."""
        rng = np.random.default_rng(seed)
        return [
            b"".join(
                part.astype(spec.dtype).tobytes()
                for part, spec in zip(self.draw(rng), self.header.features, strict=True)
            )
            for _ in range(count)
        ]


def a_range(size: int, stage: int = 1, weight: float = 0.5) -> bytes:
    """A question of the case scalar."""
    return np.float32(weight).tobytes() + np.array([-7, stage, size], np.int64).tobytes()


def single(kind: np.dtype, *names: str) -> tuple[TensorSpec, ...]:
    """Features that are one number each."""
    return tuple(TensorSpec(name, kind, (1,)) for name in names)


def by_column(kind: np.dtype, *names: str) -> tuple[TensorSpec, ...]:
    """Features with a number for each column."""
    return tuple(TensorSpec(name, kind, (1, COLUMNS)) for name in names)


def _columns(rng: np.random.Generator) -> list[np.ndarray]:
    mask = rng.integers(0, 2, COLUMNS)
    mask[rng.integers(COLUMNS)] = 1
    density = rng.choice([0.0, 0.25, 0.5, 1.0], COLUMNS)  # ties happen
    return [mask, rng.integers(0, 7, COLUMNS) * mask, density * mask, rng.random(1)]


def _range(rng: np.random.Generator) -> list[np.ndarray]:
    weight = 1e6 if rng.random() < 0.2 else rng.lognormal(-4, 4)
    return [np.array([weight]), np.array([-7]), rng.integers(0, 9, 1), rng.integers(0, 10**6, 1)]


CASES = {
    "binary": Case(
        "inline-size",
        Header(single(INT, "other", "b", "a"), *single(INT, "inlining_decision")),
        ("a", "b"),
        lambda rng: [rng.integers(-50, 50, 1) for _ in range(3)],
    ),
    "categorical": Case(
        "regalloc-evict",
        Header(
            (*by_column(INT, "mask", "max_stage"), *by_column(FLOAT, "use_def_density"), *single(FLOAT, "progress")),
            *single(INT, "index_to_evict"),
        ),
        ("use_def_density", "progress", "max_stage"),
        _columns,
    ),
    "scalar": Case(
        "regalloc-priority",
        Header((*single(FLOAT, "weight"), *single(INT, "other", "stage", "li_size")), *single(FLOAT, "priority")),
        ("li_size", "stage", "weight"),
        _range,
    ),
}


def answers(advisor, header: Header, payloads: list[bytes]) -> list[float]:
    """Answers one by one; they must be those that are given all at once, where the advisor is pure."""
    respond = advisor.respond_to(header)
    singly = [float(np.frombuffer(respond(one), header.advice.dtype)[0]) for one in payloads]
    if hasattr(advisor, "decide_for"):
        stacked = np.frombuffer(b"".join(payloads), np.uint8).reshape(len(payloads), -1)
        assert advisor.decide_for(header)(stacked).tolist() == singly
    return singly
