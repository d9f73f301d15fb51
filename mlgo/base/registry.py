"""Decision problems and learners by name: this package's own, and what other packages bring along as entry points.

Each package of tasks names its problems in ``PROBLEMS``, as ``module:attribute`` by name. Other packages register
problems in the group ``mlgo.problems`` of their entry points, and learners in ``mlgo.learners``.
"""

from collections.abc import Mapping
from functools import cached_property
from importlib import import_module
from importlib.metadata import EntryPoint, entry_points
from typing import Any, Generic, Literal, Protocol, TypeVar

from mlgo.errors import ConfigError

Entry = TypeVar("Entry")


class Registry(Generic[Entry]):
    """Entries by name: ``built_in`` ones, ``module:attribute`` each, and those of a ``group`` of entry points.

    Each is imported when it is first asked for, so a registry may stand beneath what it holds.
    """

    def __init__(self, group: str, what: str, built_in: Mapping[str, str]) -> None:
        self._group, self._what, self.built_in = group, what, built_in
        self._loaded: dict[str, Entry] = {}

    @cached_property
    def _entries(self) -> Mapping[str, EntryPoint]:
        found = {name: EntryPoint(name, value, self._group) for name, value in self.built_in.items()}
        for point in sorted(entry_points(group=self._group), key=lambda one: (one.name, one.value)):
            owner = found.setdefault(point.name, point)
            if owner.value != point.value:
                raise ConfigError(
                    f"{_source(point)} registers {self._what} {point.name!r}, which {_source(owner)} has already; give "
                    f"it another name in the entry points {self._group}, or uninstall the package"
                )
        return found

    def names(self) -> list[str]:
        """All names, sorted."""
        return sorted(self._entries)

    def get(self, name: str) -> Entry:
        """An entry by its name."""
        if name not in self._entries:
            raise ConfigError(f"unknown {self._what} {name!r}; known: {', '.join(self.names())}")
        if name not in self._loaded:
            self._loaded[name] = self._load(self._entries[name])
        return self._loaded[name]

    def _load(self, point: EntryPoint) -> Any:
        try:
            entry = point.load()
        except Exception as error:  # a module may raise anything while it is imported
            reason = f"{type(error).__name__}: {' '.join(str(error).split())}"
            raise ConfigError(
                f"{self._what} {point.name!r} of {_source(point)} cannot be loaded from {point.value} ({reason}); mend "
                "or uninstall the package"
            ) from error
        if getattr(entry, "name", None) != point.name:
            raise ConfigError(
                f"{point.value} of {_source(point)} is no {self._what} called {point.name!r}; its attribute name must "
                "be the name of the entry point"
            )
        return entry


def _source(point: EntryPoint) -> str:
    return f"package {point.dist.name}" if point.dist is not None else "mlgo"


Kind = Literal["modules", "choices"]
"""What is learnt on: modules whose compiles ask questions, or units of whose candidates some are chosen."""


class Problem(Protocol):
    """A decision problem as it is registered; the rest depends on its kind.

    Attributes:
        name: of ``task`` in the configuration, and of policies and artifacts.
        environment: ``module:function`` that makes its Gymnasium environment.
        environment_arguments: of that function.
    """

    @property
    def name(self) -> str: ...

    @property
    def kind(self) -> Kind: ...

    @property
    def title(self) -> str: ...

    @property
    def environment(self) -> str: ...

    @property
    def environment_arguments(self) -> Mapping[str, str]: ...


_PACKAGES = ("mlgo.host.tasks", "mlgo.jit")
_BUILT_IN = {name: place for package in _PACKAGES for name, place in import_module(package).PROBLEMS.items()}
PROBLEMS: Registry[Problem] = Registry("mlgo.problems", "task", _BUILT_IN)
"""All problems."""


class Learner(Protocol):
    """Something that trains policies.

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
        return None

    def train(self, context: Any) -> Any:
        """Train one policy: takes a `mlgo.learn.context.TrainContext`, gives a `mlgo.learn.base.Trained`."""


LEARNERS: Registry[Learner] = Registry(
    "mlgo.learners",
    "learner",
    {
        "bc": "mlgo.learn.bc:LEARNER",
        "bcmax": "mlgo.learn.bcmax:LEARNER",
        "es": "mlgo.learn.es:LEARNER",
        "marginal": "mlgo.learn.marginal:LEARNER",
        "ppo": "mlgo.learn.ppo:LEARNER",
        "sb3": "mlgo.learn.sb3:LEARNER",
    },
)
"""All learners."""


def training_chain(learner: str, config: Mapping[str, Any]) -> list[str]:
    """Learners that a training follows from, the first first, itself last.

    Args:
        config: a whole configuration as plain values; a learner whose section it lacks is the first.

    Raises:
        ValueError: one of them would start from an unknown learner, or in the end from itself.
    """
    chain = [learner]
    while LEARNERS.get(chain[0]).section is None or config.get(chain[0]) is not None:
        start = LEARNERS.get(chain[0]).start(config)
        if start is None:
            break
        if start not in LEARNERS.names():
            raise ValueError(f"{chain[0]}.start: unknown learner {start!r}; known: {', '.join(LEARNERS.names())}")
        if start in chain:
            named = " and ".join(f"{one}.start" for one in chain[chain.index(start) :: -1])
            raise ValueError(f"{named} name each other; let one of them start from bc")
        chain.insert(0, start)
    return chain
