"""Builds that are written down already: compilation databases, bazel's action graph, build folders of CMake.

Formats: https://clang.llvm.org/docs/JSONCompilationDatabase.html, ``ninja -t compdb``,
``bazel aquery --output=jsonproto``, and object ``codemodel`` version 2 of CMake's file API
(https://cmake.org/cmake/help/latest/manual/cmake-file-api.7.html). A build may come from others, so response files are
read only beneath its folder or the root of its names. A reply of CMake names no objects, so they are called here as
CMake's generators for make and ninja call them.
"""

import os
import re
import shlex
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import chain
from pathlib import Path
from typing import Any, TypeGuard, TypeVar

from pydantic import BaseModel, ValidationError

from mlgo.base.files import MAX_TEXT_BYTES, is_file, joined, parse_json, read_input, write_bytes
from mlgo.corpus.capture.builds import Build, read_build
from mlgo.corpus.capture.commands import CompileStep, Step, steps_of
from mlgo.corpus.capture.invocations import ToolInvocation, response_words, shell_words, tool_called
from mlgo.errors import CorpusError
from mlgo.host.command_line import IN_NO_WORD, SOURCE_LANGUAGES

_PREFIX = re.compile(r"s?ccache|distcc|icecc|env|time|(?:ba|da)?sh|libtool|python[\d.]*|zig|ziglang|mlgo")
_BETWEEN = ("&&", ";", "||", "|")
_COMPILES = ("-c", "/c", "--compile")

_Model = TypeVar("_Model", bound=BaseModel)


@dataclass(frozen=True)
class Responses:
    """Response files, and the folders from which they may be read."""

    folders: tuple[Path, ...]  # files beneath these are read
    contents: Mapping[str, str]  # of files that are known already, by path relative to where a call ran

    def of(self, words: Sequence[str], folder: Path) -> tuple[dict[str, str], str]:
        """Content of response files by argument, and why one of them is not known; empty if all are."""
        found, problem = dict[str, str](), ""
        rest = list(words)
        while rest:
            word = rest.pop()
            if len(word) < 2 or not word.startswith("@") or word in found:
                continue
            path = folder / word[1:]
            if word[1:] in self.contents:
                found[word] = self.contents[word[1:]]
            elif not is_file(path):
                problem = (
                    f"response: {word}, a file with further arguments, is gone; ninja -t compdb -x writes them out, "
                    "and mlgo capture -o DIR -- and the build's command keeps them"
                )
            elif not any(path.resolve().is_relative_to(one.resolve()) for one in self.folders):
                problem = f"response: {word}, a file with further arguments, lies outside of the build's folder"
            else:
                found[word] = read_input(path, MAX_TEXT_BYTES).decode(errors="surrogateescape")
            rest += response_words(found.get(word, "")) or ()
        return found, problem


def read_database(path: Path, root: Path | None = None) -> list[Step]:
    """Steps of a compilation database or of bazel's action graph, in its order."""
    base = path.parent.absolute()
    folders = (base, (root or base).absolute())
    content = read_json_of_others(path)
    if isinstance(content, list):
        responses = Responses(folders, {})
        return [one for number, entry in enumerate(content) for one in _entry_steps(path, number, entry, responses)]
    if isinstance(content, dict) and isinstance(content.get("actions"), list):
        actions = [one for one in content["actions"] if isinstance(one, Mapping) and _is_words(one.get("arguments"))]
        return [
            step
            for one in actions
            for call in call_of(one["arguments"], folders[-1], Responses(folders, _param_files(one)))
            for step in steps_of(call)
        ]
    raise CorpusError(f"{path} is neither a compilation database (a list) nor bazel's action graph (with actions)")


def read_json_of_others(path: Path) -> Any:
    """Read JSON in which paths may hold bytes that are no UTF-8; what no file's name can hold becomes U+FFFD."""
    try:
        return _nameable(parse_json(read_input(path, MAX_TEXT_BYTES).decode("utf-8-sig", "surrogateescape")))
    except (OSError, ValueError) as error:
        raise CorpusError(f"{path} cannot be read as JSON: {getattr(error, 'strerror', error)}") from error


def _nameable(value: Any) -> Any:
    if isinstance(value, str):
        return IN_NO_WORD.sub("\ufffd", value)
    if isinstance(value, dict):
        return {_nameable(key): _nameable(one) for key, one in value.items()}
    return [*map(_nameable, value)] if isinstance(value, list) else value


def read_json_as(path: Path, kind: type[_Model], what: str) -> _Model:
    """Read JSON of a known form, which ``what`` names in messages."""
    try:
        return kind.model_validate(read_json_of_others(path))
    except ValidationError as error:
        first = error.errors()[0]
        raise CorpusError(f"{path} is no {what}: {'.'.join(map(str, first['loc']))}: {first['msg']}") from error


def call_of(words: Sequence[str], folder: Path, responses: Responses) -> Iterator[ToolInvocation]:
    """The call of a tool that a command is, if it is one; a compiler may stand behind ``ccache`` and the like."""
    for place, word in enumerate(words):
        tool = tool_called(Path(word).name)
        if tool is not None:
            is_ours = any(Path(one).name == "mlgo" for one in words[:place]) and "--" in words[place:]
            end = (words.index("--", place) if is_ours else place) + 1
            arguments = tuple(words[end:])
            contents, problem = responses.of(arguments, folder)
            yield ToolInvocation(tool, shlex.join(words[:end]), folder, arguments, contents, problem=problem)
            return
        if not _PREFIX.fullmatch(Path(word).name) and "=" not in word and not word.startswith("-"):
            return


def shell_commands(text: str, folder: Path) -> Iterator[tuple[list[str], Path]]:
    """Commands of a shell's line, such as ``cd sub && cc -c a.c``, with their folders; none where quotes do not end."""
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


def _entry_steps(path: Path, number: int, entry: Any, responses: Responses) -> Iterator[Step]:
    if not isinstance(entry, Mapping) or not isinstance(entry.get("directory"), str):
        raise CorpusError(f"{path}: entry {number} has no directory")
    folder = responses.folders[0] / entry["directory"]
    arguments, command = entry.get("arguments"), entry.get("command")
    if _is_words(arguments):
        commands = [(arguments, folder)]
    elif isinstance(command, str):
        commands = list(shell_commands(command, folder))
    else:
        raise CorpusError(f"{path}: entry {number} has neither arguments nor a command")
    calls = [call for words, place in commands for call in call_of(words, place, responses)]
    problem = _problem_of(commands, calls)
    source, output = entry.get("file"), entry.get("output")
    language = SOURCE_LANGUAGES.get(Path(source).suffix, "") if isinstance(source, str) else ""
    compiles = any(word in _COMPILES for words, _ in commands for word in words)
    if problem and isinstance(source, str) and (language or compiles):
        made = folder / (output if isinstance(output, str) else f"{Path(source).stem}.o")
        yield CompileStep(folder, source, language, (), made, problem=problem)
    else:
        for call in calls:
            yield from steps_of(call)


def _is_words(found: object) -> TypeGuard[list[str]]:
    return isinstance(found, list) and all(isinstance(word, str) for word in found)


def _problem_of(commands: Sequence[tuple[Sequence[str], Path]], calls: Sequence[ToolInvocation]) -> str:
    """Reason why the source of an entry will not be compiled, where no step of its calls says so itself."""
    if not commands:
        return "command: its quotes do not end"
    compiling = [words for words, _ in commands if any(word in _COMPILES for word in words)]
    if not calls and compiling:
        return f"compiler: {Path(compiling[0][0]).name} is no C or C++ compiler that is known here"
    unknown = [call for call in calls if call.problem]
    compiles = any(isinstance(step, CompileStep) for call in unknown for step in steps_of(call))
    return unknown[0].problem if unknown and not compiles else ""


def _param_files(action: Mapping[str, Any]) -> dict[str, str]:
    """Response files that ``--include_param_files`` wrote into an action, by path."""
    files = action.get("paramFiles")
    return {
        one["execPath"]: shlex.join(map(str, one["arguments"]))
        for one in (files if isinstance(files, list) else [])
        if isinstance(one, Mapping) and isinstance(one.get("execPath"), str) and isinstance(one.get("arguments"), list)
    }


_API = Path(".cmake/api/v1")
_QUERY = f"{_API}/query/client-mlgo/codemodel-v2"
_TOOLS = {"C": "cc", "CXX": "c++"}
_LIBRARY_ROLES = ("libraryPath", "libraries")


class _ReplyObject(BaseModel):
    """An object of the index, or a target of a configuration."""

    kind: str = ""
    jsonFile: str


class _Index(BaseModel):
    objects: list[_ReplyObject]


class _Paths(BaseModel):
    source: str
    build: str


class _Configuration(BaseModel):
    name: str
    targets: list[_ReplyObject]


class _Codemodel(BaseModel):
    paths: _Paths
    configurations: list[_Configuration]


class _Fragment(BaseModel):
    fragment: str
    role: str = ""


class _Define(BaseModel):
    define: str


class _Path(BaseModel):
    path: str
    isSystem: bool = False


class _CompileGroup(BaseModel):
    language: str
    sourceIndexes: list[int]
    compileCommandFragments: list[_Fragment] = []
    defines: list[_Define] = []
    includes: list[_Path] = []


class _LinkInfo(BaseModel):
    language: str = "C"
    commandFragments: list[_Fragment] = []


class _Target(BaseModel):
    name: str
    type: str
    paths: _Paths
    artifacts: list[_Path] = []
    sources: list[_Path] = []
    compileGroups: list[_CompileGroup] = []
    link: _LinkInfo = _LinkInfo()


def is_cmake(folder: Path) -> bool:
    """Whether a folder is one that CMake has configured."""
    return (folder / "CMakeCache.txt").is_file() or (folder / _API / "reply").is_dir()


def read_cmake(folder: Path, root: Path | None = None) -> Build:
    """Read the reply of CMake's file API; where there is none, the question is written into the folder."""
    reply = folder / _API / "reply"
    indexes = sorted(path.name for path in reply.glob("index-*.json"))
    if not indexes:
        write_bytes(joined(folder, _QUERY), b"")
        raise CorpusError(
            f"{folder} has no reply of CMake's file API. The question is written now: run cmake {folder}, then this "
            "again"
        )
    found = [one.jsonFile for one in _read(reply, indexes[-1], _Index).objects if one.kind == "codemodel"]
    if not found:
        write_bytes(joined(folder, _QUERY), b"")
        raise CorpusError(f"{reply / indexes[-1]} has no codemodel; run cmake {folder}, then this again")
    model = _read(reply, found[0], _Codemodel)
    if not model.configurations:
        raise CorpusError(f"{reply / found[0]} has no configuration")
    configuration = model.configurations[0]
    names = [one.name for one in model.configurations]
    notes = (f"of the configurations {', '.join(names)}, the first is taken",) if len(names) > 1 else ()
    targets = [_read(reply, one.jsonFile, _Target) for one in configuration.targets]
    source, build = Path(model.paths.source), Path(model.paths.build)
    steps = chain.from_iterable(map(steps_of, _calls(targets, source, build, configuration.name)))
    return replace(read_build(steps, (root or source).absolute()), notes=notes)


def _read(reply: Path, name: str, kind: type[_Model]) -> _Model:
    if Path(name).name != name:
        raise CorpusError(f"{reply}: {name} lies outside of the reply")
    return read_json_as(reply / name, kind, "reply of CMake's file API")


def _calls(targets: Sequence[_Target], source: Path, build: Path, configuration: str) -> Iterator[ToolInvocation]:
    """Compiles, then archives, then links."""
    responses = Responses((source, build), {})
    objects: dict[str, list[Path]] = {one.name: [] for one in targets}
    for target in targets:
        for group in target.compileGroups:
            for number in group.sourceIndexes:
                if 0 <= number < len(target.sources):
                    path = source / target.sources[number].path
                    objects[target.name].append(_object(target, path, source, build))
                    words = [*_options(group), "-c", str(path), "-o", str(objects[target.name][-1])]
                    yield from call_of([_TOOLS.get(group.language, "cc"), *words], build, responses)
    made_here = {path for paths in objects.values() for path in paths}
    archives = {build / one.path for target in targets for one in target.artifacts}

    def listed(path: Path) -> Path:
        """An object that a target lists; generators for several configurations add a folder to its path."""
        path = Path(os.path.normpath(source / path))
        return path if path in made_here else Path(*(part for part in path.parts if part != configuration))

    for target in sorted(targets, key=lambda one: one.type != "STATIC_LIBRARY"):
        if not target.artifacts:
            continue
        others = [listed(Path(one.path)) for one in target.sources]
        inputs = [*objects[target.name], *(path for path in others if path in made_here)]
        output = str(build / target.artifacts[0].path)
        if target.type == "STATIC_LIBRARY":
            yield from call_of(["ar", "rcs", output, *map(str, inputs)], build, responses)
        elif target.type in ("EXECUTABLE", "SHARED_LIBRARY", "MODULE_LIBRARY"):
            shared = () if target.type == "EXECUTABLE" else ("-shared",)
            words = [*shared, *_link_words(target, "flags", build, archives), *map(str, inputs), "-o", output]
            words += [word for role in _LIBRARY_ROLES for word in _link_words(target, role, build, archives)]
            yield from call_of([_TOOLS.get(target.link.language, "cc"), *words], build, responses)


def _object(target: _Target, path: Path, source: Path, build: Path) -> Path:
    """Path that CMake's generators give the object of a source."""
    places = (source / target.paths.source, build / target.paths.build)
    inside = next((place for place in reversed(places) if path.is_relative_to(place)), places[0])
    name = os.path.relpath(path, inside).replace("..", "__")
    return Path(os.path.normpath(build / target.paths.build / "CMakeFiles" / f"{target.name}.dir" / f"{name}.o"))


def _options(group: _CompileGroup) -> list[str]:
    language = {"C": ["-x", "c"], "CXX": ["-x", "c++"]}.get(group.language, [])
    words = [*language, *(f"-D{one.define}" for one in group.defines)]
    for one in group.includes:
        words += ["-isystem", one.path] if one.isSystem else [f"-I{one.path}"]
    return words + [word for one in group.compileCommandFragments for word in _split(one.fragment)]


def _link_words(target: _Target, role: str, build: Path, archives: set[Path]) -> Iterator[str]:
    for fragment in target.link.commandFragments:
        for word in _split(fragment.fragment) if fragment.role == role else ():
            path = Path(os.path.normpath(build / target.paths.build / word))  # where make runs the link
            yield str(path) if not word.startswith("-") and path in archives else word


def _split(fragment: str) -> list[str]:
    words = shell_words(fragment)
    return fragment.split() if words is None else words
