"""Decision problems: what is asked, what an answer may be, how the result is scored."""

from mlgo.core.errors import ConfigError
from mlgo.core.problems import PROBLEMS
from mlgo.tasks.base import (
    HEURISTIC,
    Advisor,
    Decide,
    Guard,
    PureAdvisor,
    References,
    Remark,
    Responder,
    Setting,
    Task,
)


def get_task(name: str) -> Task:
    """Look a task up whose compiles ask questions.

    Raises:
        ConfigError: unknown name, or a task of another kind.
    """
    problem = PROBLEMS.get(name)
    if not isinstance(problem, Task):
        raise ConfigError(f"task {name} asks no questions while a module is compiled; it chooses among candidates")
    return problem


def all_tasks() -> list[Task]:
    """All tasks whose compiles ask questions."""
    return [get_task(name) for name in PROBLEMS.names() if PROBLEMS.get(name).kind == "modules"]


__all__ = [
    "HEURISTIC",
    "Advisor",
    "Decide",
    "Guard",
    "PureAdvisor",
    "References",
    "Remark",
    "Responder",
    "Setting",
    "Task",
    "all_tasks",
    "get_task",
]
