"""The learners there are, by name; what configuration and workflow want to know of them.

A learner of another package is registered as an entry point of the group ``mlgo.learners``.
"""

from collections.abc import Mapping
from typing import Any, Protocol

from mlgo.base.problems import Kind
from mlgo.base.registry import Registry


class LearnerInfo(Protocol):
    """A learner as it is registered; `mlgo.learn.base.Learner` is the rest of it.

    Attributes:
        name: also of its section of the configuration, and of its policies, ``<name>-s<seed>``.
        section: its part of the configuration; None for a learner without one.
        sections: all that it reads of the configuration, by the kinds of tasks that it learns.
        compiles: kinds of tasks on which it compiles; on others one thread is enough, and nothing can fail.
    """

    name: str
    section: Any
    sections: Mapping[Kind, tuple[str, ...]]
    compiles: tuple[Kind, ...]

    def start(self, config: Mapping[str, Any]) -> str | None:
        """Learner whose policy it goes on from, by a whole configuration as plain values; None for none."""
        ...


LEARNERS: Registry[LearnerInfo] = Registry(
    "mlgo.learners",
    "learner",
    {
        "bc": "mlgo.learn.bc.learner:LEARNER",
        "bcmax": "mlgo.learn.bcmax.learner:LEARNER",
        "es": "mlgo.learn.es.learner:LEARNER",
        "marginal": "mlgo.learn.marginal.learner:LEARNER",
        "ppo": "mlgo.learn.ppo.learner:LEARNER",
        "sb3": "mlgo.learn.sb3.learner:LEARNER",
    },
)
"""All learners."""


def training_chain(learner: str, config: Mapping[str, Any]) -> list[str]:
    """Learners that a training follows from, the first first, itself last.

    Args:
        learner: name.
        config: a whole configuration as plain values, checked.
    """
    chain = [learner]
    while (start := LEARNERS.get(chain[0]).start(config)) is not None:
        chain.insert(0, start)
    return chain
