"""Processes as /proc tells of them."""

import os
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

_TICKS_PER_S = os.sysconf("SC_CLK_TCK")


@dataclass(frozen=True)
class Process:
    """A line of ``/proc/<number>/stat``, as far as it matters here.

    Attributes:
        number: its id.
        parent: that of its parent.
        cpu_s: processor time of its own and of children that it has reaped, in seconds.
    """

    number: int
    parent: int
    cpu_s: float


def all_processes() -> Iterator[Process]:
    """Those of the machine."""
    for entry in Path("/proc").glob("[0-9]*"):
        with suppress(OSError):  # it has ended
            fields = (entry / "stat").read_text().rpartition(")")[2].split()
            yield Process(int(entry.name), int(fields[1]), sum(map(int, fields[11:15])) / _TICKS_PER_S)


def descendants(root: int) -> list[Process]:
    """A process and all that descends from it; nothing when it has ended."""
    everything = {one.number: one for one in all_processes()}
    children: dict[int, list[int]] = {}
    for one in everything.values():
        children.setdefault(one.parent, []).append(one.number)
    found, left = [], [root] if root in everything else []
    while left:
        number = left.pop()
        found.append(everything[number])
        left += children.get(number, [])
    return found
