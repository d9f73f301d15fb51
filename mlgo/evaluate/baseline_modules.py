"""A baseline as learners read it: modules with their scores under the heuristic, copies, costs of functions."""

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path

import pyarrow as pa
import pyarrow.compute as pc

from mlgo.base.artifacts import COPIES, FUNCTIONS, SCORES, Row, read_provenance, read_table
from mlgo.corpus.store import Module, load_modules
from mlgo.errors import ArtifactError, TrainingError
from mlgo.evaluate.copies import Copies
from mlgo.evaluate.episodes import Episode, episode, function_episodes
from mlgo.host.session import CompileResult
from mlgo.host.tasks.task import HEURISTIC, Task, get_task
from mlgo.objects.measures import Measure, Scores, get_measure, known_score, scores_of
from mlgo.objects.remarks import SpillCosts
from mlgo.policy.policy import Policy


@dataclass(frozen=True)
class ScoredModule:
    """A module that compiles under the heuristic.

    Attributes:
        scores: what it comes to under the heuristic, by measure.
        num_questions: what the traced reference was asked; the heuristic itself, where the compiler tells.
    """

    module: Module
    scores: Scores
    num_questions: int

    def score(self, measure: str) -> float:
        """What it comes to by one measure.

        Raises:
            ValueError: modules of the task do not have it.
        """
        return known_score(self.scores, measure)


def baseline_origin(baseline_dir: Path) -> tuple[Task, Row]:
    """The task that a baseline was measured for, and the provenance of its scores."""
    path = baseline_dir / "scores.parquet"
    origin = read_provenance(path)
    if "task" not in origin:
        raise ArtifactError(f"{path} does not tell its task, an old version made it; run its stage again")
    return get_task(origin["task"]), origin


def load_scored_modules(
    corpus_dir: Path, baseline_dir: Path, split: str, languages: Iterable[str] | None = None
) -> list[ScoredModule]:
    """List a split's modules that compiled both plain and under the traced reference, in manifest order."""
    path = baseline_dir / "scores.parquet"
    rows = read_table(path, SCORES).filter(pc.field("failure") == "").to_pylist()
    by_advisor = {(row["advisor"], row["project"], row["module"]): row for row in rows}
    traced = baseline_origin(baseline_dir)[0].references.traced
    scored = []
    for module in load_modules(corpus_dir, splits=[split], languages=languages):
        plain = by_advisor.get((HEURISTIC, module.project, module.name))
        asked = by_advisor.get((traced, module.project, module.name))
        if plain is not None and asked is not None:
            scored.append(ScoredModule(module, scores_of(plain), asked["num_questions"]))
    return scored


def load_copies(baseline_dir: Path) -> Copies:
    """Read what several modules of a project carry under the heuristic."""
    found: dict[str, dict[bytes, int]] = {}
    for row in read_table(baseline_dir / "copies.parquet", COPIES).to_pylist():
        found.setdefault(row["project"], {})[row["signature"]] = row["num_modules"]
    return Copies(found)


def baselines(scored: Iterable[ScoredModule], objective: str) -> dict[str, float]:
    """Scores under the heuristic by module key; ``objective`` as in ``compile.objective``."""
    return {one.module.key: one.score(objective) for one in scored}


def with_questions(
    scored: list[ScoredModule], max_questions: int, purpose: str, section: str = "es"
) -> list[ScoredModule]:
    """Keep modules that ask at least one question and at most ``max_questions``, a setting of ``section``."""
    kept = [one for one in scored if 0 < one.num_questions <= max_questions]
    if not kept:
        raise TrainingError(
            f"no {purpose} module asks between 1 and {max_questions} questions; raise {section}.max_questions"
        )
    return kept


FunctionCosts = Mapping[str, Mapping[str, float]]
"""What functions cost, by key of the module and symbol; a function that is not there cost nothing."""


def function_costs(functions: pa.Table, measure: Measure) -> dict[str, dict[str, dict[str, float]]]:
    """Scores of functions by advisor, key of the module and symbol."""
    found: dict[str, dict[str, dict[str, float]]] = {}
    for row in functions.to_pylist():
        costs = SpillCosts(**{name: row[name] for name in SpillCosts._fields})
        by_module = found.setdefault(row["advisor"], {})
        by_module.setdefault(f"{row['project']}/{row['module']}", {})[costs.function] = measure.of_functions([costs])
    return found


def load_function_costs(baseline_dir: Path, measure: Measure, advisor: str = HEURISTIC) -> FunctionCosts:
    """Read what a reference cost each function."""
    functions = read_table(baseline_dir / "functions.parquet", FUNCTIONS)
    return function_costs(functions.filter(pc.field("advisor") == advisor), measure).get(advisor, {})


def episode_reader(policy: Policy, objective: str, baseline_dir: Path) -> Callable[[str, CompileResult], list[Episode]]:
    """How compiles are read: whole, or function by function where the score is a sum over functions.

    Returns:
        Maps the key of a module and its compile to episodes.
    """
    measure = get_measure(objective)
    if not measure.is_by_function:
        return lambda module, result: [episode(module, result, policy, objective)]
    costs = load_function_costs(baseline_dir, measure)
    return lambda module, result: function_episodes(module, result, policy, measure, costs.get(module, {}))
