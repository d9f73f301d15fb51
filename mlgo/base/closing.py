"""What holds processes, files or folders until it is closed."""

from abc import ABC, abstractmethod
from typing import Any, Self


class Closing(ABC):
    """A context manager: leaving it closes it."""

    @abstractmethod
    def close(self) -> Any:
        """Let go of everything. Safe to call again."""

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *error: object) -> None:
        self.close()
