"""Decision problems: what is asked, what an answer may be, how the result is scored."""

from mlgo.core.errors import ConfigError
from mlgo.tasks.base import Advisor, Decide, Guard, PureAdvisor, Remark, Responder, Task
from mlgo.tasks.inline_size import INLINE_SIZE
from mlgo.tasks.regalloc_evict import REGALLOC_EVICT
from mlgo.tasks.regalloc_priority import REGALLOC_PRIORITY

TASKS: dict[str, Task] = {task.name: task for task in (INLINE_SIZE, REGALLOC_EVICT, REGALLOC_PRIORITY)}


def get_task(name: str) -> Task:
    """Look a task up by its name.

    Raises:
        ConfigError: unknown name.
    """
    if name not in TASKS:
        raise ConfigError(f"unknown task {name!r}; known: {', '.join(sorted(TASKS))}")
    return TASKS[name]


__all__ = ["TASKS", "Advisor", "Decide", "Guard", "PureAdvisor", "Remark", "Responder", "Task", "get_task"]
