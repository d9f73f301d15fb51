"""Calls of compilers, archivers and linkers, as wrappers write them down during a build."""

import os
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal

from mlgo.errors import ArtifactError

Tool = Literal["cc", "c++", "ar", "ld"]

_NAMES: Mapping[Tool, str] = {
    "c++": r"c\+\+|g\+\+|clang\+\+",
    "cc": r"cc|gcc|clang|c89|c99",
    "ar": r"ar|gcc-ar|llvm-ar",
    "ld": r"ld|ld\.lld|ld\.bfd|ld\.gold|ld\.mold|mold",
}
_PATTERNS = {tool: re.compile(rf"(?:[\w.]+-)*(?:{names})(?:-[\d.]+)?") for tool, names in _NAMES.items()}
_FIELDS = 4
_END = b"\0end\0"
"""Last word of a record. To rename a finished one would cost as much as all the rest of a wrapper."""


def tool_called(name: str) -> Tool | None:
    """Which tool a program is by its name, such as ``x86_64-linux-gnu-g++-12``; None for anything else."""
    return next((tool for tool, pattern in _PATTERNS.items() if pattern.fullmatch(name)), None)


def tool_and_options(words: Sequence[str]) -> tuple[str, tuple[str, ...]]:
    """Name of the tool in a command of several words, and options behind it: of ``ccache gcc -m32``, the last two."""
    places = [place for place, word in enumerate(words) if tool_called(Path(word).name)]
    last = places[-1] if places else 0
    return Path(words[last]).name, tuple(words[last + 1 :]) if places else ()


@dataclass(frozen=True)
class Call:
    """One call of a tool.

    Attributes:
        tool: what it is for.
        program: what ran, one or several words: a compiler may stand behind ``ccache``.
        folder: where it ran.
        arguments: after the name, response files still as ``@FILE``.
        responses: content of these files at that time, by argument.
        began_ns: when it was written down, in nanoseconds.
        problem: why what it does is not known whole, such as a response file that is gone: kind, colon, reason.
    """

    tool: Tool
    program: str
    folder: Path
    arguments: tuple[str, ...]
    responses: Mapping[str, str] = field(default_factory=dict)
    began_ns: int = 0
    problem: str = ""


def read_calls(records: Path) -> list[Call]:
    """Read what wrappers have written, in the order of time; one that a kill has cut off is passed over.

    Raises:
        ArtifactError: a record that no wrapper wrote.
    """
    calls = [call for path in records.iterdir() if (call := _read_call(path)) is not None]
    return sorted(calls, key=lambda call: (call.began_ns, call.arguments))


def _read_call(path: Path) -> Call | None:
    data = path.read_bytes()
    if not data.endswith(_END):
        return None
    # Paths may hold any bytes but NUL; Python keeps those that are no UTF-8 as surrogates.
    fields = [os.fsdecode(part) for part in data.removesuffix(_END).split(b"\0")]
    try:
        tool, program, folder, count = fields[:_FIELDS]
        if tool not in _NAMES:
            raise ValueError(f"no tool {tool}")
        arguments, rest = fields[_FIELDS:][: int(count)], fields[_FIELDS + int(count) :]
        responses = dict(zip(rest[::2], rest[1::2], strict=True))
    except ValueError as error:
        raise ArtifactError(f"{path} is no record of a call; delete its folder and capture the build again") from error
    return Call(tool, program, Path(folder), tuple(arguments), responses, path.stat().st_mtime_ns)  # type: ignore[arg-type]
