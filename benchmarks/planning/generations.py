"""What a training asks for, generation by generation: drawn from a workload, or as it was seen."""

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from benchmarks.planning.novelty import Outcomes
from benchmarks.planning.workload import Workload, enlarged
from mlgo.base.seeding import generator


@dataclass(frozen=True)
class Generation:
    """Evaluations in the order in which they are asked for: all modules under the first candidate, and so on.

    Attributes:
        modules: number of the module in the workload, int64 [num].
        outcomes: number of the outcome among those of the module, int64 [num]; equal ones are compiled once if it
            can be known in time.
        seconds: what a compile takes, float64 [num].
        num_candidates: how many.
    """

    modules: np.ndarray
    outcomes: np.ndarray
    seconds: np.ndarray
    num_candidates: int

    def __len__(self) -> int:
        return len(self.modules)


@dataclass(frozen=True)
class Shape:
    """Size of a training.

    Attributes:
        candidates: of a generation.
        modules: under each of which they are evaluated.
        generations: how many.
    """

    candidates: int
    modules: int
    generations: int = 3

    def __str__(self) -> str:
        return f"{self.candidates}x{self.modules}"


def drawn(workload: Workload, shape: Shape, seed: int, name: str = "") -> Iterator[Generation]:
    """Generations of a training whose modules are drawn anew for each, as evolution strategies do.

    A corpus with fewer modules than a generation has is taken several times over; copies of a module have trees of
    their own.

    Args:
        workload: what to draw from.
        shape: how much.
        seed: root seed.
        name: of the training; others draw otherwise.
    """
    known = len(workload.modules)
    outcomes: dict[int, Outcomes] = {}
    for number in range(shape.generations):
        rng = generator(seed, "planning", name, number)
        chosen, copies = [], dict.fromkeys(range(known), 0)
        for module in enlarged(workload.modules, shape.modules, rng):
            chosen.append(int(module) + known * copies[int(module)])
            copies[int(module)] += 1
        for one in chosen:
            outcomes.setdefault(one, Outcomes(workload.novelties[one % known]))
        columns = [outcomes[one].draw(rng, shape.candidates) for one in chosen]
        expected = np.array([workload.modules[one % known].compile_s for one in chosen])
        noise = rng.standard_normal((shape.candidates, shape.modules)) * workload.spread - 0.5 * workload.spread**2
        yield Generation(
            np.tile(np.array(chosen, np.int64), shape.candidates),
            np.stack(columns, axis=1).ravel(),
            (np.exp(noise) * expected).ravel(),
            shape.candidates,
        )
