"""Builds that are written down already: compilation databases of CMake, Meson and ninja, and bazel's action graph.

Formats: https://clang.llvm.org/docs/JSONCompilationDatabase.html, ``ninja -t compdb``,
``bazel aquery --output=jsonproto``.
"""

import json
import shlex
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from mlgo.capture.calls import Call, tool_called
from mlgo.core.errors import CorpusError

_PREFIXES = ("ccache", "sccache", "distcc", "icecc", "env", "time", "libtool")
_BETWEEN = ("&&", ";", "||", "|")


def read_database(path: Path, folder: Path | None = None) -> list[Call]:
    """Calls of a compilation database or of bazel's action graph.

    Args:
        path: JSON file.
        folder: where relative folders of the file start; by default the file's own. Bazel's actions run here.

    Raises:
        CorpusError: neither of the two.
    """
    base = (folder or path.parent).absolute()
    try:
        content = json.loads(path.read_bytes())
    except (OSError, ValueError, RecursionError) as error:
        raise CorpusError(f"{path} cannot be read as JSON: {error}") from error
    if isinstance(content, list):
        return [call for number, entry in enumerate(content) for call in _entry_calls(path, number, entry, base)]
    if isinstance(content, dict) and isinstance(content.get("actions"), list):
        return [call for action in content["actions"] for call in _action_calls(action, base)]
    raise CorpusError(f"{path} is neither a compilation database (a list) nor bazel's action graph (with actions)")


def shell_calls(text: str, folder: Path) -> Iterator[Call]:
    """Calls of tools in a line for a shell, such as ``cd sub && ccache cc -c a.c -o a.o``."""
    lexer = shlex.shlex(text, posix=True, punctuation_chars=";&|")
    lexer.whitespace_split = True
    lexer.commenters = ""
    try:
        words = list(lexer)
    except ValueError:  # quotes that do not end
        return
    command: list[str] = []
    for word in [*words, ";"]:
        if word not in _BETWEEN:
            command.append(word)
            continue
        if command[:1] == ["cd"] and len(command) == 2:
            folder = folder / command[1]
        else:
            yield from call_of(command, folder)
        command = []


def call_of(words: Sequence[str], folder: Path) -> Iterator[Call]:
    """The call of a tool that a command is, if it is one; a compiler may stand behind ``ccache`` and the like."""
    for place, word in enumerate(words):
        tool = tool_called(Path(word).name)
        if tool is not None:
            responses = _responses(words[place + 1 :], folder)
            yield Call(tool, shlex.join(words[: place + 1]), folder, tuple(words[place + 1 :]), responses)
            return
        if Path(word).name not in _PREFIXES and "=" not in word and not word.startswith("-"):
            return


def _entry_calls(path: Path, number: int, entry: Any, base: Path) -> Iterator[Call]:
    if not isinstance(entry, Mapping) or not isinstance(entry.get("directory"), str):
        raise CorpusError(f"{path}: entry {number} has no directory")
    folder = base / entry["directory"]
    arguments, command = entry.get("arguments"), entry.get("command")
    if isinstance(arguments, list) and all(isinstance(word, str) for word in arguments):
        yield from call_of(arguments, folder)
    elif isinstance(command, str):
        yield from shell_calls(command, folder)
    else:
        raise CorpusError(f"{path}: entry {number} has neither arguments nor a command")


def _action_calls(action: Any, folder: Path) -> Iterator[Call]:
    arguments = action.get("arguments") if isinstance(action, Mapping) else None
    if isinstance(arguments, list) and all(isinstance(word, str) for word in arguments):
        yield from call_of(arguments, folder)


def _responses(words: Sequence[str], folder: Path) -> dict[str, str]:
    """Content of response files that are still there."""
    found = {}
    for word in words:
        if word.startswith("@") and (folder / word[1:]).is_file():
            found[word] = (folder / word[1:]).read_text(errors="surrogateescape")
    return found
