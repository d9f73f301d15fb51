"""What is found by name: this package's own, and what other packages bring along as entry points."""

from collections.abc import Mapping
from functools import cached_property
from importlib.metadata import EntryPoint, entry_points
from typing import Any, Generic, TypeVar

from mlgo.errors import ConfigError

Entry = TypeVar("Entry")


class Registry(Generic[Entry]):
    """Entries by name. Each is imported when it is first asked for, so a registry may stand beneath what it holds.

    Args:
        group: of entry points, as in ``[project.entry-points."mlgo.learners"]`` of another package.
        what: what an entry is called in messages.
        built_in: ``module:attribute`` of this package's own, by name.
    """

    def __init__(self, group: str, what: str, built_in: Mapping[str, str]) -> None:
        self._group, self._what, self.built_in = group, what, tuple(built_in)
        self._points = {name: EntryPoint(name, value, group) for name, value in built_in.items()}
        self._loaded: dict[str, Entry] = {}

    @cached_property
    def _entries(self) -> Mapping[str, EntryPoint]:
        found = dict(self._points)
        for point in sorted(entry_points(group=self._group), key=lambda one: (one.name, one.value)):
            owner = found.setdefault(point.name, point)
            if owner.value != point.value:
                raise ConfigError(
                    f"{_source(point)} registers {self._what} {point.name!r}, which {_source(owner)} has already; give "
                    f"it another name in the entry points {self._group}, or uninstall the package"
                )
        return found

    def names(self) -> list[str]:
        """All names, sorted.

        Raises:
            ConfigError: two packages claim the same name.
        """
        return sorted(self._entries)

    def get(self, name: str) -> Entry:
        """An entry by its name.

        Raises:
            ConfigError: there is none of that name, or it cannot be imported.
        """
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
