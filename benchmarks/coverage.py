"""How often 95 % intervals of the gain in total hold the truth: the expanded percentile interval, and BCa.

Projects are drawn from populations of which the truth is known. ``alike``: gains spread evenly around a mean. ``few
gain``: three of ten projects gain much, the others next to nothing. ``sealed``: projects of the kept looks at the
sealed test set, each with a size of its own, so that few of them hold half of all bytes. Nothing is compiled.

Example:
    python -m benchmarks.coverage --quick
    python -m benchmarks.coverage --trials 2000
"""

import json
from collections.abc import Callable
from functools import partial
from itertools import product
from pathlib import Path
from typing import NamedTuple

import numpy as np

from benchmarks.arguments import benchmark_parser, run_benchmark
from mlgo.cli.program import add_options, positive
from mlgo.compare.inference import Bootstrap, by_project, gains, log_ratios
from mlgo.compare.programs import contenders_of, measured_programs
from mlgo.report.headline_page import read_evaluation
from mlgo.report.pages import Column, Table, count_column, text_column

SEALED = Path("docs/results/sealed")
METHODS = {"expanded": 0, "BCa": 3}
"""Intervals of the gain in total, by their place in what `gains` returns."""

_NUM_SEEDS = 5
_CONFIDENCE = 0.95
_POPULATION = 200_000


class Projects(NamedTuple):
    """Sums over projects: log ratios and sizes under the heuristic, float64 [num_projects] each."""

    logs: np.ndarray
    before: np.ndarray


class Missed(NamedTuple):
    """Shares of the intervals of one method that end below the truth, and that begin above it."""

    population: str
    num_projects: int
    method: str
    below: float
    above: float


def alike(num: int, rng: np.random.Generator) -> Projects:
    """Gains spread evenly, sizes as those of programs do."""
    return Projects(rng.normal(-0.01, 0.02, num), np.exp(rng.normal(11.0, 1.3, num)))


def few_gain(num: int, rng: np.random.Generator) -> Projects:
    """Three of ten gain 5 %."""
    logs = np.where(rng.random(num) < 0.3, rng.normal(-0.05, 0.03, num), rng.normal(0.0, 0.003, num))
    return Projects(logs, np.exp(rng.normal(11.0, 1.3, num)))


def resembling(kept: Projects, num: int, rng: np.random.Generator) -> Projects:
    """Projects of a kept evaluation, with sizes that vary by a third and gains by a tenth of their own."""
    drawn = rng.integers(0, len(kept.logs), num)
    varied = Projects(rng.normal(1.0, 0.1, num), np.exp(rng.normal(0.0, 0.3, num)))
    return Projects(kept.logs[drawn] * varied.logs, kept.before[drawn] * varied.before)


def kept_projects(folder: Path) -> Projects:
    """Linked sizes of a kept evaluation, by project, mean over the seeds."""
    shipped, _ = read_evaluation(folder)
    policies = [one for one in contenders_of(shipped) if one.is_policy]
    measured = measured_programs(shipped, policies)
    number = np.unique(measured.projects.astype(str), return_inverse=True)[1]
    after = by_project(measured.scores["total"], number)
    before = by_project(measured.baseline["total"][None], number)[0]
    return Projects(log_ratios(after.mean(axis=0), before), before)


def missed(
    population: str, draw: Callable[[int, np.random.Generator], Projects], num: int, trials: int, resamples: int
) -> list[Missed]:
    """How often each interval misses the truth on samples of a population."""
    everything = draw(_POPULATION, np.random.default_rng(0))
    truth = 1.0 - (everything.before * np.exp(everything.logs)).sum() / everything.before.sum()
    rng, ends = np.random.default_rng(num), np.empty((trials, len(METHODS), 2))
    for trial in range(trials):
        projects = draw(num, rng)
        seeds = rng.normal(0.0, 0.001, (_NUM_SEEDS, 1)) + rng.normal(0.0, 0.004, (_NUM_SEEDS, num))
        after = projects.before * np.exp(projects.logs + seeds)
        found = gains(after, projects.before, Bootstrap(resamples, _CONFIDENCE, trial))
        ends[trial] = [(found[place].low, found[place].high) for place in METHODS.values()]
    below, above = (ends[..., 1] < truth).mean(axis=0), (ends[..., 0] > truth).mean(axis=0)
    return [Missed(population, num, name, below[i], above[i]) for i, name in enumerate(METHODS)]


def main() -> None:
    """Print a row for each population, number of projects and method."""
    parser = benchmark_parser("benchmarks.coverage", __doc__)
    parser.add_argument("--trials", type=positive, default=1000, help="samples of each kind (default: %(default)s)")
    parser.add_argument("--resamples", type=positive, default=1000, help="of an interval (default: %(default)s)")
    parser.add_argument("--quick", action="store_true", help="200 samples of each kind")
    parser.add_argument("--kept", type=Path, default=SEALED, help="evaluation that was kept (default: %(default)s)")
    add_options(parser, "--json")
    args = parser.parse_args()
    populations = {"alike": alike, "few gain": few_gain, args.kept.name: partial(resembling, kept_projects(args.kept))}
    rows = [
        row
        for (name, draw), num in product(populations.items(), (6, 11, 28))
        for row in missed(name, draw, num, 200 if args.quick else args.trials, args.resamples)
    ]
    print(json.dumps([row._asdict() for row in rows], indent=2) if args.json else Table(_COLUMNS, rows).markdown())


_COLUMNS = [
    text_column("population", lambda row: row.population),
    count_column("projects", lambda row: row.num_projects),
    text_column("interval", lambda row: row.method),
    Column("holds the truth", lambda row, style: style.share(1.0 - row.below - row.above)),
    Column("ends below it", lambda row, style: style.share(row.below)),
    Column("begins above it", lambda row, style: style.share(row.above)),
]


if __name__ == "__main__":
    run_benchmark("benchmarks.coverage")
