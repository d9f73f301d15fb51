"""How often 95 % intervals hold the truth, on made-up projects whose modules resemble each other.

Projects are drawn from a population of which the truth is known. ``alike``: gains spread evenly around a mean. ``few
gain``: three of ten projects gain much, the others next to nothing. Intervals are those of the package, and three that
it could have: percentiles as they are, bootstrap-t, and the package's as if each module were a project by itself.

Example:
    python -m benchmarks.coverage --quick
    python -m benchmarks.coverage --trials 2000
"""

import json
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import lru_cache
from itertools import product

import numpy as np

from benchmarks.arguments import benchmark_parser, run_benchmark
from mlgo.cli.options import positive
from mlgo.compare.inference import Bootstrap, by_project, compare, log_ratios, resampled

POPULATIONS = ("alike", "few gain")
FIGURES = ("total", "geomean", "median")
_CONFIDENCE = 0.95
_MOST_MODULES = 24  # of a project
_SPREAD = 0.02  # of the log ratios of a project's modules around the project's own


@dataclass(frozen=True)
class Drawn:
    """Modules of some projects.

    Attributes:
        policies: float64 [num_seeds, num_items], sizes under the policies.
        baseline: float64 [num_items], sizes under the heuristic.
        projects: int64 [num_items].
    """

    policies: np.ndarray
    baseline: np.ndarray
    projects: np.ndarray


def draw(population: str, num_projects: int, num_seeds: int, rng: np.random.Generator) -> Drawn:
    """Draw projects with their modules; several seeds differ a little, everywhere and in each project.

    Args:
        population: one of `POPULATIONS`.
        num_projects: how many.
        num_seeds: policies.
        rng: draws them.
    """
    effects = rng.normal(-0.01, 0.02, num_projects)
    if population == "few gain":
        much = rng.random(num_projects) < 0.3
        effects = np.where(much, rng.normal(-0.05, 0.03, num_projects), rng.normal(0.0, 0.003, num_projects))
    projects = np.repeat(np.arange(num_projects), rng.integers(1, _MOST_MODULES + 1, num_projects))
    scale = rng.normal(0.0, 1.1, num_projects)
    baseline = 1e4 * np.exp(scale[projects] + rng.normal(0.0, 0.8, len(projects)))
    of_seeds = rng.normal(0.0, 0.004, (num_seeds, 1)) + rng.normal(0.0, 0.004, (num_seeds, num_projects))
    if num_seeds == 1:  # what is asked is what this policy does, not what its learner would
        of_seeds = np.zeros((1, num_projects))
    logs = (effects + of_seeds)[:, projects] + rng.normal(0.0, _SPREAD, len(projects))
    return Drawn(baseline * np.exp(logs), baseline, projects)


@lru_cache
def truth(population: str, num: int = 200_000) -> dict[str, float]:
    """The gains of the whole population, by figure, and ``module``, the geometric mean over modules."""
    drawn = draw(population, num, 1, np.random.default_rng(0))
    after, before = by_project(drawn.policies, drawn.projects)[0], by_project(drawn.baseline[None], drawn.projects)[0]
    logs = np.log(after / before)
    of_modules = np.log(drawn.policies[0] / drawn.baseline)
    found = {"total": np.log(after.sum() / before.sum()), "geomean": logs.mean(), "median": np.median(logs)}
    return {name: float(-np.expm1(log)) for name, log in {**found, "module": of_modules.mean()}.items()}


def intervals(drawn: Drawn, bootstrap: Bootstrap) -> Iterator[tuple[str, str, float, float]]:
    """Method, figure and both ends of each interval."""
    arrays = drawn.policies, drawn.baseline
    ours, alone = (
        compare(*arrays, projects, bootstrap) for projects in (drawn.projects, np.arange(len(drawn.baseline)))
    )
    for method, found, figures in (("ours", ours, FIGURES), ("by module", alone, FIGURES[:2])):
        for figure in figures:
            _, low, high = getattr(found, figure)
            yield method, figure, low, high
    after, before = by_project(drawn.policies, drawn.projects), by_project(drawn.baseline[None], drawn.projects)[0]
    tail = 50.0 * (1.0 - bootstrap.confidence)
    for figure, gains in zip(FIGURES, resampled(after, before, bootstrap), strict=True):
        yield "percentile", figure, *np.percentile(gains, [tail, 100.0 - tail])
    yield "bootstrap-t", "geomean", *_bootstrap_t(log_ratios(after, before), bootstrap)


def _bootstrap_t(logs: np.ndarray, bootstrap: Bootstrap) -> tuple[float, float]:
    """Both ends of the interval of the mean that divides each resample by its own standard error.

    Args:
        logs: float64 [num_seeds, num_projects].
        bootstrap: number and seed of the draws.
    """
    (num_seeds, num), rng = logs.shape, np.random.default_rng(bootstrap.seed)
    seeds = rng.integers(0, num_seeds, (bootstrap.resamples, num_seeds, 1))
    samples = logs[seeds, rng.integers(0, num, (bootstrap.resamples, 1, num))]
    mean, error = _mean_and_error(samples)
    (centre,), (spread,) = _mean_and_error(logs[None])
    tail = 50.0 * (1.0 - bootstrap.confidence)
    t = np.percentile((mean - centre) / np.maximum(error, 1e-12), [100.0 - tail, tail])
    high, low = -np.expm1(centre - spread * t)
    return float(low), float(high)


def _mean_and_error(samples: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Mean and standard error of samples float64 [num_samples, num_seeds, num_projects], seeds and projects apart."""
    _, num_seeds, num = samples.shape
    error = samples.mean(axis=1).var(axis=1, ddof=1) / num
    if num_seeds > 1:
        error = error + samples.mean(axis=2).var(axis=1, ddof=1) / num_seeds
    return samples.mean(axis=(1, 2)), np.sqrt(error)


def coverage(
    population: str, num_projects: int, num_seeds: int, trials: int, resamples: int
) -> dict[tuple[str, str], float]:
    """Share of the intervals that hold the truth, by method and figure."""
    known, rng = truth(population), np.random.default_rng([num_projects, num_seeds])
    held: dict[tuple[str, str], list[bool]] = {}
    for trial in range(trials):
        drawn = draw(population, num_projects, num_seeds, rng)
        for method, figure, low, high in intervals(drawn, Bootstrap(resamples, _CONFIDENCE, trial)):
            value = known["module" if (method, figure) == ("by module", "geomean") else figure]
            held.setdefault((method, figure), []).append(low <= value <= high)
    return {key: float(np.mean(values)) for key, values in held.items()}


def main() -> None:
    """Print a line for each population, number of projects and number of seeds."""
    parser = benchmark_parser("benchmarks.coverage", __doc__)
    parser.add_argument("--trials", type=positive, default=1000, help="samples of each kind")
    parser.add_argument("--resamples", type=positive, default=1000, help="resamples of an interval")
    parser.add_argument("--quick", action="store_true", help="100 samples of each kind")
    parser.add_argument("--json", action="store_true", help="print a line of JSON for each kind")
    args = parser.parse_args()
    head = ["population", "projects", "seeds"]
    for number, kind in enumerate(product(POPULATIONS, (6, 10, 24), (1, 5))):
        found = coverage(*kind, 100 if args.quick else args.trials, args.resamples)
        if args.json:
            shares = {f"{method}, {figure}": share for (method, figure), share in found.items()}
            print(json.dumps(dict(zip(head, kind, strict=True)) | shares), flush=True)
            continue
        if not number:
            print(_line([*head, *(f"{method}, {figure}" for method, figure in found)]))
            print(_line(["---"] * (len(head) + len(found))))
        print(_line([*kind, *(f"{100 * share:.1f}" for share in found.values())]), flush=True)


def _line(cells: Sequence[object]) -> str:
    return f"| {' | '.join(map(str, cells))} |"


if __name__ == "__main__":
    run_benchmark("benchmarks.coverage")
