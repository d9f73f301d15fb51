"""The decision problems there are, by name; what the configuration, the workflow and the environments want to know.

Each package of tasks names its own in ``PROBLEMS``, as ``module:attribute`` by name. A problem of another
package is registered as an entry point of the group ``mlgo.problems``.
"""

from collections.abc import Mapping
from importlib import import_module
from typing import Literal, Protocol

from mlgo.base.registry import Registry

Kind = Literal["modules", "choices"]
"""What is learnt on: modules whose compiles ask questions, or units of whose candidates some are chosen."""


class Problem(Protocol):
    """A decision problem as it is registered; the rest depends on its kind.

    Attributes:
        name: of ``task`` in the configuration, and of policies and artifacts.
        kind: what is learnt on.
        title: of its report.
        environment: ``module:function`` that makes its Gymnasium environment.
        environment_arguments: of that function.
    """

    @property
    def name(self) -> str:
        """See the class."""

    @property
    def kind(self) -> Kind:
        """See the class."""

    @property
    def title(self) -> str:
        """See the class."""

    @property
    def environment(self) -> str:
        """See the class."""

    @property
    def environment_arguments(self) -> Mapping[str, str]:
        """See the class."""


def _built_in() -> dict[str, str]:
    found: dict[str, str] = {}
    for package in ("mlgo.host.tasks", "mlgo.jit"):
        found.update(import_module(package).PROBLEMS)
    return found


PROBLEMS: Registry[Problem] = Registry("mlgo.problems", "task", _built_in())
"""All problems."""
