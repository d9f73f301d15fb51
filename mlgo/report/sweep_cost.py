"""What the trainings of a sweep, or of experiments, cost. Differs from run to run, so it has a page of its own."""

from collections.abc import Sequence
from dataclasses import dataclass

from mlgo.learn.effort import Effort
from mlgo.report.pages import render


@dataclass(frozen=True)
class Cost:
    """What the trainings of one point cost, its seeds together.

    Attributes:
        name: of the point.
        trainings: how many were counted.
        evaluations: compiles asked for.
        compiles: of these, the ones that no decision tree held.
        seconds: wall time.
        complete: False if any training was killed: the figures are lower bounds then.
    """

    name: str
    trainings: int
    evaluations: int
    compiles: int
    seconds: float
    complete: bool

    @property
    def saved(self) -> float | None:
        """Share of the evaluations that the trees answered; None without any."""
        return 1.0 - self.compiles / self.evaluations if self.evaluations else None


def cost_of(name: str, efforts: Sequence[Effort]) -> Cost:
    """Sum of some trainings."""
    return Cost(
        name,
        len(efforts),
        sum(one.evaluations for one in efforts),
        sum(one.compiles for one in efforts),
        round(sum(one.seconds for one in efforts), 1),
        all(one.complete for one in efforts),
    )


def render_costs(costs: Sequence[Cost]) -> str:
    """The page of what every point cost on this machine, which differs from run to run."""
    return render("sweep_cost.html.jinja", costs=costs)
