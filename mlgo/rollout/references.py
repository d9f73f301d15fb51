"""The ways of answering that every policy of a task is held against."""

from collections.abc import Callable
from dataclasses import dataclass

from mlgo.compiler.toolchain import Quirks
from mlgo.policy.advisors import ConstantAdvisor, EchoAdvisor, RandomAdvisor
from mlgo.policy.column_advisors import FirstLegalAdvisor, LightestAdvisor, RandomLegalAdvisor
from mlgo.policy.priority_advisors import LongestAdvisor, RandomPriorityAdvisor
from mlgo.tasks import Advisor

HEURISTIC = "heuristic"
"""Plain compile, without a channel. The baseline of all gains."""


@dataclass(frozen=True)
class Luck:
    """What a random reference needs.

    Attributes:
        seed: root seed.
        stream: name of the module.
        inline_share: probability that it inlines.
    """

    seed: int
    stream: str
    inline_share: float


@dataclass(frozen=True)
class References:
    """Reference advisors of a task.

    Attributes:
        traced: the one whose questions and answers are recorded, and with which a module must compile.
        is_heuristic: whether the traced one decides as the compiler does, so that the same objects are expected.
        advisors: how each is made; the heuristic itself is not among them.
    """

    traced: str
    is_heuristic: bool
    advisors: dict[str, Callable[[Quirks, Luck], Advisor]]

    @property
    def names(self) -> tuple[str, ...]:
        """All references, the heuristic first."""
        return (HEURISTIC, *self.advisors)


REFERENCES = {
    "inline-size": References(
        "echo",
        True,
        {
            "echo": lambda quirks, luck: EchoAdvisor(quirks.default_slot),
            "never": lambda quirks, luck: ConstantAdvisor(0),
            "random": lambda quirks, luck: RandomAdvisor(luck.inline_share, luck.seed, luck.stream),
        },
    ),
    "regalloc-evict": References(
        "lightest",
        False,
        {
            "lightest": lambda quirks, luck: LightestAdvisor(),
            "first": lambda quirks, luck: FirstLegalAdvisor(),
            "random": lambda quirks, luck: RandomLegalAdvisor(luck.seed, luck.stream),
        },
    ),
    "regalloc-priority": References(
        "longest",
        False,
        {
            "longest": lambda quirks, luck: LongestAdvisor(),
            "equal": lambda quirks, luck: ConstantAdvisor(0),
            "random": lambda quirks, luck: RandomPriorityAdvisor(luck.seed, luck.stream),
        },
    ),
}
"""By task."""
