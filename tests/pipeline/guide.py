"""A guide whose steps a program can take: files to create, lines to change, commands to run."""

import re
import shlex
from dataclasses import dataclass
from pathlib import Path

_STEP = re.compile(
    r"^\*\*(?P<verb>Create|Change|Run)\*\*(?: `(?P<path>[^`]+)`)?[^\n]*\n\n```(?P<language>\w+)\n(?P<text>.*?)^```$",
    re.MULTILINE | re.DOTALL,
)
_LANGUAGES = {"Change": {"diff"}, "Run": {"bash"}, "Create": {"python", "yaml"}}


@dataclass(frozen=True)
class Step:
    """One step of a guide.

    Attributes:
        verb: ``Create``, ``Change`` or ``Run``.
        path: of the file, from the root of the checkout; empty for commands.
        text: a whole file, lines with their marks (blank, ``+``, ``-``), or commands.
    """

    verb: str
    path: str
    text: str

    def apply(self, root: Path) -> None:
        """Create or change the file.

        Raises:
            AssertionError: the file to create is there, or the lines to change do not occur exactly once.
        """
        file = root / self.path
        if self.verb == "Create":
            assert not file.exists(), f"{self.path} exists already"
            file.write_text(self.text)
            return
        marked = [(line[:1], line[1:]) for line in self.text.splitlines(keepends=True)]
        assert {mark for mark, _ in marked} <= {" ", "+", "-"}, f"{self.path}: a line without a mark"
        before = "".join(line for mark, line in marked if mark != "+")
        after = "".join(line for mark, line in marked if mark != "-")
        old = "\n" + file.read_text()  # anchors are whole lines
        found = old.count("\n" + before)
        assert before, f"{self.path}: lines to add, but not where"
        assert found == 1, f"{self.path} has these lines {found} times instead of once:\n{before}"
        file.write_text(old.replace("\n" + before, "\n" + after)[1:])

    def commands(self) -> list[list[str]]:
        """Words of each command."""
        return [shlex.split(line) for line in self.text.splitlines()]


def read_steps(guide: str) -> list[Step]:
    """Steps of a guide in their order.

    Raises:
        AssertionError: a block of code belongs to no step, or is of another language than its step.
    """
    found = list(_STEP.finditer(guide))
    assert len(found) == len(re.findall(r"^```\w+$", guide, re.MULTILINE)), "a block of code without its step"
    for one in found:
        assert one["language"] in _LANGUAGES[one["verb"]], f"{one['verb']} {one['path']}: a block in {one['language']}"
        assert bool(one["path"]) == (one["verb"] != "Run"), f"{one['verb']} {one['path']}"
    return [Step(one["verb"], one["path"] or "", one["text"]) for one in found]


def commands_under(guide: str, heading: str) -> str:
    """Indented lines of a section, without comments: a text for the shell.

    Raises:
        AssertionError: there is no such section, or there are no commands in it.
    """
    found = re.search(rf"^## {re.escape(heading)}\n(.*?)(?=^## |\Z)", guide, re.MULTILINE | re.DOTALL)
    assert found, f"no section {heading!r}"
    lines = re.findall(r"^    (\S.*)$", found[1], re.MULTILINE)
    assert lines, f"no commands in section {heading!r}"
    return "".join(f"{line.partition(' #')[0].rstrip()}\n" for line in lines)


def follow(steps: list[Step], checkout) -> None:
    """Apply the changes of a guide to a checkout and run its commands, in order; each must succeed."""
    for step in steps:
        if step.verb != "Run":
            step.apply(checkout.root)
            continue
        for command in step.commands():
            checkout.succeed(*command)
