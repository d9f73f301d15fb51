"""What a form of a policy is: files that a build or a run of a compiler takes, and a way to ask them."""

from collections.abc import Callable, Mapping
from contextlib import AbstractContextManager
from pathlib import Path
from typing import ClassVar, Protocol

import numpy as np
import pyarrow as pa

from mlgo.policy.policy import Policy

Ask = Callable[[Mapping[str, np.ndarray]], np.ndarray]
"""Maps questions, by feature [num_steps] or [num_steps, num_columns], to decisions, int64 or float32 [num_steps]."""


class Form(Protocol):
    """A form in which policies are exported.

    Attributes:
        name: of its folder, and of its entry in ``parity.json``.
        max_questions: recorded questions that are worth asking it, by the time that one takes; None for all.
    """

    name: ClassVar[str]
    max_questions: ClassVar[int | None]

    def write(self, policy: Policy, trace: pa.Table, folder: Path) -> None:
        """Write a policy; the same policy gives the same bytes.

        Args:
            policy: what to export.
            trace: recorded questions, at least their columns; tells types and shapes of the inputs.
            folder: replaced.

        Raises:
            ArtifactError: the folder cannot be written.
        """
        ...

    def opened(self, folder: Path, policy: Policy) -> AbstractContextManager[Ask]:
        """What `write` has written, ready to be asked one question at a time as a compiler does.

        Raises:
            PolicyError: the files are not what a compiler looks for.
            CompileError: they cannot be compiled or run.
        """
        ...
