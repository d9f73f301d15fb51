"""What trainings asked for and cost: compiles by their histories, time by what each left on its machine."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from mlgo.base.names import PolicyName
from mlgo.base.registry import Kind
from mlgo.errors import ArtifactError
from mlgo.learn.cost import PREFIXES, TrainingCost, cost_path, read_cost, read_experiments
from mlgo.report.pages import Column, Table, count_column, render, text_column


@dataclass(frozen=True)
class Cost:
    """What some trainings cost together, on their machine; it differs from run to run.

    Attributes:
        compiles: of the evaluations, those that no response tree held.
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


def cost_of(name: str, costs: Sequence[TrainingCost]) -> Cost:
    """Sum of some trainings."""
    return Cost(
        name,
        len(costs),
        sum(one.evaluations for one in costs),
        sum(one.compiles for one in costs),
        round(sum(one.seconds for one in costs), 1),
        all(one.complete for one in costs),
    )


def cost_of_seeds(work: Path, learner: str, seeds: Sequence[int], kind: Kind = "modules") -> Cost | None:
    """What a learner's trainings on this kind of task cost; None if that is not known of all of them."""
    policies = [f"{PREFIXES[kind]}{PolicyName(learner, seed)}" for seed in seeds]
    if not all(cost_path(work, policy).exists() for policy in policies):
        return None
    return cost_of(learner, [read_cost(work, policy) for policy in policies])


def experiment_costs(work: Path) -> list[Cost]:
    """What each of DVC's experiments cost, all of its trainings together."""
    found = read_experiments(work)
    if not found:
        raise ArtifactError("no experiment has left its cost; run some with: dvc exp run --queue, and dvc queue start")
    return [cost_of(name, list(costs.values())) for name, costs in found.items()]


def render_costs(costs: Sequence[Cost]) -> str:
    """The page of what every point cost on this machine, which differs from run to run."""
    return render("sweep_cost.html.jinja", costs=cost_table(costs, "point"))


def cost_table(costs: Sequence[Cost], what: str) -> Table:
    """Costs of points or experiments, all trainings together."""
    columns = [text_column(what, lambda one: one.name), count_column("trainings", lambda one: one.trainings)]
    return Table([*columns, *cost_columns(mean=False)], costs)


def cost_columns(mean: bool) -> list[Column]:
    """Evaluations, compiles, share of the trees and minutes; means over the trainings, or sums."""

    def number(one: Cost, value: float, digits: int, lower_bound: bool = True) -> str:
        least = "" if one.complete or not lower_bound else "≥ "
        return f"{least}{value / (one.trainings if mean else 1):,.{digits}f}"

    return [
        Column("evaluations", lambda one, style: number(one, one.evaluations, 0, lower_bound=False)),
        Column("compiles", lambda one, style: number(one, one.compiles, 0)),
        Column("by trees", lambda one, style: style.share(one.saved)),
        Column("minutes", lambda one, style: number(one, one.seconds / 60, 1)),
    ]
