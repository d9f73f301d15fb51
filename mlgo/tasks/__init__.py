"""Decision problems: what is asked, what an answer may be, how the result is scored."""

from mlgo.core.errors import ConfigError
from mlgo.core.problems import PROBLEMS
from mlgo.tasks.base import Advisor, Decide, Guard, PureAdvisor, Remark, Responder, Task


def get_task(name: str) -> Task:
    """Look a task up whose compiles ask questions.

    Raises:
        ConfigError: unknown name, or a task of another kind.
    """
    problem = PROBLEMS.get(name)
    if not isinstance(problem, Task):
        raise ConfigError(f"task {name} asks no questions while a module is compiled; it chooses among candidates")
    return problem


__all__ = ["Advisor", "Decide", "Guard", "PureAdvisor", "Remark", "Responder", "Task", "get_task"]
