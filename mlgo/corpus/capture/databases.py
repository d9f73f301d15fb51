"""Builds that are written down already: compilation databases of CMake, Meson and ninja, and bazel's action graph.

Formats: https://clang.llvm.org/docs/JSONCompilationDatabase.html, ``ninja -t compdb``,
``bazel aquery --output=jsonproto``. A database may come from others, so response files are read only beneath the
build's folder or the root of its names.
"""

import json
import shlex
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from mlgo.corpus.capture.commands import SOURCE_LANGUAGES, CompileStep, steps_of
from mlgo.corpus.capture.invocations import ToolInvocation, tool_called
from mlgo.errors import CorpusError

_PREFIXES = ("ccache", "sccache", "distcc", "icecc", "env", "time", "libtool", "zig")
_BETWEEN = ("&&", ";", "||", "|")
_COMPILES = ("-c", "/c", "--compile")


@dataclass(frozen=True)
class Responses:
    """Response files, and the folders from which they may be read."""

    folders: tuple[Path, ...]  # files beneath these are read
    contents: Mapping[str, str]  # of files that are known already, by path relative to where a call ran

    def of(self, words: Sequence[str], folder: Path) -> tuple[dict[str, str], str]:
        """Content of response files by argument, and why one of them is not known; empty if all are."""
        found, problem = dict[str, str](), ""
        for word in words:
            if len(word) < 2 or not word.startswith("@"):
                continue
            path = folder / word[1:]
            if word[1:] in self.contents:
                found[word] = self.contents[word[1:]]
            elif not path.is_file():
                problem = (
                    f"response: {word}, a file with further arguments, is gone; ninja -t compdb -x writes them out, "
                    "and mlgo capture -o DIR -- and the build's command keeps them"
                )
            elif not any(path.resolve().is_relative_to(one.resolve()) for one in self.folders):
                problem = f"response: {word}, a file with further arguments, lies outside of the build's folder"
            else:
                found[word] = path.read_text(errors="surrogateescape")
        return found, problem


def read_database(path: Path, root: Path | None = None) -> list[ToolInvocation | CompileStep]:
    """Calls of a compilation database or of bazel's action graph; what is already known to fail is a `CompileStep`."""
    base = path.parent.absolute()
    folders = (base, (root or base).absolute())
    content = read_json_of_others(path)
    if isinstance(content, list):
        responses = Responses(folders, {})
        return [one for number, entry in enumerate(content) for one in _entry_calls(path, number, entry, responses)]
    if isinstance(content, dict) and isinstance(content.get("actions"), list):
        return [call for action in content["actions"] for call in _action_calls(action, folders)]
    raise CorpusError(f"{path} is neither a compilation database (a list) nor bazel's action graph (with actions)")


def read_json_of_others(path: Path) -> Any:
    """Read JSON in which paths may hold bytes that are no UTF-8."""
    try:
        return json.loads(path.read_bytes().decode("utf-8-sig", "surrogateescape"))
    except (OSError, ValueError, RecursionError) as error:
        raise CorpusError(f"{path} cannot be read as JSON: {error}") from error


def shell_calls(text: str, folder: Path, responses: Responses | None = None) -> Iterator[ToolInvocation]:
    """Calls of tools in a line for a shell, such as ``cd sub && ccache cc -c a.c -o a.o``."""
    for command, place in _shell_commands(text, folder):
        yield from call_of(command, place, responses)


def call_of(words: Sequence[str], folder: Path, responses: Responses | None = None) -> Iterator[ToolInvocation]:
    """The call of a tool that a command is, if it is one; a compiler may stand behind ``ccache`` and the like."""
    for place, word in enumerate(words):
        tool = tool_called(Path(word).name)
        if tool is not None:
            arguments = tuple(words[place + 1 :])
            contents, problem = (responses or Responses((folder,), {})).of(arguments, folder)
            yield ToolInvocation(tool, shlex.join(words[: place + 1]), folder, arguments, contents, problem=problem)
            return
        if Path(word).name not in _PREFIXES and "=" not in word and not word.startswith("-"):
            return


def _shell_commands(text: str, folder: Path) -> Iterator[tuple[list[str], Path]]:
    """Commands of a line, with the folder of each; nothing where quotes do not end."""
    lexer = shlex.shlex(text, posix=True, punctuation_chars=";&|")
    lexer.whitespace_split = True
    lexer.commenters = ""
    try:
        words = list(lexer)
    except ValueError:
        return
    command: list[str] = []
    for word in [*words, ";"]:
        if word not in _BETWEEN:
            command.append(word)
            continue
        if command[:1] == ["cd"] and len(command) == 2:
            folder = folder / command[1]
        elif command:
            yield command, folder
        command = []


def _entry_calls(path: Path, number: int, entry: Any, responses: Responses) -> Iterator[ToolInvocation | CompileStep]:
    if not isinstance(entry, Mapping) or not isinstance(entry.get("directory"), str):
        raise CorpusError(f"{path}: entry {number} has no directory")
    folder = responses.folders[0] / entry["directory"]
    arguments, command = entry.get("arguments"), entry.get("command")
    if isinstance(arguments, list) and all(isinstance(word, str) for word in arguments):
        commands = [(arguments, folder)]
    elif isinstance(command, str):
        commands = list(_shell_commands(command, folder))
    else:
        raise CorpusError(f"{path}: entry {number} has neither arguments nor a command")
    calls = [call for words, place in commands for call in call_of(words, place, responses)]
    problem = _problem_of(commands, calls)
    source, output = entry.get("file"), entry.get("output")
    if problem and isinstance(source, str) and (language := SOURCE_LANGUAGES.get(Path(source).suffix)):
        made = folder / (output if isinstance(output, str) else f"{Path(source).stem}.o")
        yield CompileStep(folder, source, language, (), made, problem=problem)
    else:
        yield from calls


def _problem_of(commands: Sequence[tuple[Sequence[str], Path]], calls: Sequence[ToolInvocation]) -> str:
    """Reason why the source of an entry will not be compiled, where no step of its calls says so itself."""
    if not commands:
        return "command: its quotes do not end"
    compiling = [words for words, _ in commands if any(word in _COMPILES for word in words)]
    if not calls and compiling:
        return f"compiler: {Path(compiling[0][0]).name} is no C or C++ compiler that is known here"
    unknown = [call for call in calls if call.problem]
    said = any(isinstance(step, CompileStep) for call in unknown for step in steps_of(call))
    return unknown[0].problem if unknown and not said else ""


def _action_calls(action: Any, folders: tuple[Path, ...]) -> Iterator[ToolInvocation]:
    arguments = action.get("arguments") if isinstance(action, Mapping) else None
    if isinstance(arguments, list) and all(isinstance(word, str) for word in arguments):
        yield from call_of(arguments, folders[-1], Responses(folders, _param_files(action)))


def _param_files(action: Mapping[str, Any]) -> dict[str, str]:
    """Response files that ``--include_param_files`` wrote into an action, by path."""
    files = action.get("paramFiles")
    return {
        one["execPath"]: shlex.join(map(str, one["arguments"]))
        for one in (files if isinstance(files, list) else [])
        if isinstance(one, Mapping) and isinstance(one.get("execPath"), str) and isinstance(one.get("arguments"), list)
    }
