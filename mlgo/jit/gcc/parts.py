"""What GCC does with a translation unit by itself: its sizes, and the candidates of its functions."""

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Any, NamedTuple

import numpy as np

from mlgo.base.files import content_hash
from mlgo.jit.choices.compiler import Candidates
from mlgo.jit.gcc.compile import GccObject
from mlgo.jit.gcc.features import FEATURES
from mlgo.jit.gcc.rtl import Candidates as Eliminations


@dataclass(frozen=True)
class Part:
    """Candidates of a translation unit that are chosen together.

    Attributes:
        function: symbol of their function; empty where they are all of the translation unit.
        numbers: of each candidate, the eliminations of the translation unit that it stands for.
        candidates: themselves.
        body_sha256: equal for functions with the same eliminations, feature for feature and expression for expression.
    """

    function: str
    numbers: tuple[tuple[int, ...], ...]
    candidates: Candidates
    body_sha256: str


@dataclass(frozen=True)
class Own:
    """A compile in which all eliminations are performed, which is what GCC does.

    Attributes:
        text_bytes: of its object, as in `GccObject`.
        function_bytes: likewise.
        function_sizes: likewise.
        parts: of its functions in their order; a single one where candidates are all of the translation unit.
    """

    text_bytes: int
    function_bytes: int
    function_sizes: dict[str, int]
    parts: tuple[Part, ...]

    @staticmethod
    def read(found: GccObject, *, by_function: bool, by_expression: bool) -> "Own":
        """From a compile whose candidates were wanted.

        Args:
            found: what it gave.
            by_function: whether each function is a part.
            by_expression: whether a candidate is an expression with all its eliminations, or each of these.
        """
        assert found.candidates is not None
        functions = [one.function for one in found.candidates.candidates]
        spans = _spans(functions) if by_function else [("", 0, len(functions))]
        parts = tuple(_part(name, found.candidates, range(start, end), by_expression) for name, start, end in spans)
        return Own(found.text_bytes, found.function_bytes, found.function_sizes, parts)

    @property
    def num_eliminations(self) -> int:
        """Of all parts."""
        return sum(len(numbers) for part in self.parts for numbers in part.numbers)

    def plain(self) -> dict[str, Any]:
        """As plain JSON values."""
        parts = [
            {"function": part.function, "numbers": part.numbers, "body_sha256": part.body_sha256}
            | {"values": part.candidates.values.tolist()}
            for part in self.parts
        ]
        return {**asdict(self), "parts": parts}

    @staticmethod
    def of(plain: Any) -> "Own":
        """From what `plain` gave; raises one of `records.MALFORMED` where it is something else."""
        parts = []
        for part in plain["parts"]:
            numbers = tuple(tuple(int(number) for number in group) for group in part["numbers"])
            values = np.array(part["values"], np.int64).reshape(len(numbers), len(FEATURES))
            candidates = Candidates(FEATURES, values, np.ones(len(numbers), bool))
            parts.append(Part(str(part["function"]), numbers, candidates, str(part["body_sha256"])))
        sizes = {str(name): int(size) for name, size in plain["function_sizes"].items()}
        return Own(int(plain["text_bytes"]), int(plain["function_bytes"]), sizes, tuple(parts))


class ProgramRun(NamedTuple):
    """What a run of a program came to.

    Attributes:
        instructions: executed.
        exit_status: 0 to 255.
        output_sha256: hash of what it printed.
        function_bytes: code of all its functions.
    """

    instructions: int
    exit_status: int
    output_sha256: str
    function_bytes: int


def _part(function: str, found: Eliminations, numbers: range, by_expression: bool) -> Part:
    """Eliminations as candidates; those of an expression have the features of the one that is executed most."""
    groups: dict[object, list[int]] = {}
    for number in numbers:
        one = found.candidates[number]
        groups.setdefault((one.function, one.expression) if by_expression else number, []).append(number)
    frequency = found.features[:, FEATURES.index("frequency")]
    rows = [max(group, key=lambda number: (frequency[number], -number)) for group in groups.values()]
    values = found.features[rows].reshape(len(rows), len(FEATURES))
    told = [[found.candidates[number].rtl, found.features[number].tolist()] for number in numbers]
    return Part(
        function,
        tuple(tuple(group) for group in groups.values()),
        Candidates(FEATURES, values, np.ones(len(rows), bool)),
        content_hash(told),
    )


def _spans(functions: Sequence[str]) -> list[tuple[str, int, int]]:
    """Stretches of equal names, with their ends; GCC compiles functions one after another."""
    starts = [i for i, name in enumerate(functions) if i == 0 or functions[i - 1] != name]
    ends = [*starts[1:], len(functions)][: len(starts)]
    return [(functions[start], start, end) for start, end in zip(starts, ends, strict=True)]
