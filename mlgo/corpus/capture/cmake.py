"""CMake's build folders, by the reply of its file API: targets, their groups of sources, what they link.

Format: https://cmake.org/cmake/help/latest/manual/cmake-file-api.7.html, object ``codemodel`` version 2. A reply names
no objects, so they are called here as CMake's generators for make and ninja call them.
"""

import os
import shlex
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TypeVar

from pydantic import BaseModel, ConfigDict, ValidationError

from mlgo.base.files import write_bytes
from mlgo.corpus.capture.databases import Responses, read_json_of_others
from mlgo.corpus.capture.invocations import Tool, ToolInvocation
from mlgo.errors import CorpusError

_API = Path(".cmake/api/v1")
_QUERY = _API / "query/client-mlgo/codemodel-v2"
_TOOLS: dict[str, Tool] = {"C": "cc", "CXX": "c++"}


class _ReplyPart(BaseModel):
    model_config = ConfigDict(frozen=True, extra="ignore")


class _ReplyObject(_ReplyPart):
    kind: str
    jsonFile: str


class _Index(_ReplyPart):
    objects: list[_ReplyObject]


class _Paths(_ReplyPart):
    source: str
    build: str


class _Named(_ReplyPart):
    name: str
    jsonFile: str


class _Configuration(_ReplyPart):
    name: str
    targets: list[_Named]


class _Codemodel(_ReplyPart):
    paths: _Paths
    configurations: list[_Configuration]


class _Fragment(_ReplyPart):
    fragment: str
    role: str = ""


class _Define(_ReplyPart):
    define: str


class _Include(_ReplyPart):
    path: str
    isSystem: bool = False


class _CompileGroup(_ReplyPart):
    language: str
    sourceIndexes: list[int]
    compileCommandFragments: list[_Fragment] = []
    defines: list[_Define] = []
    includes: list[_Include] = []


class _Path(_ReplyPart):
    path: str


class _LinkInfo(_ReplyPart):
    language: str = "C"
    commandFragments: list[_Fragment] = []


class _Target(_ReplyPart):
    name: str
    type: str
    paths: _Paths
    artifacts: list[_Path] = []
    sources: list[_Path] = []
    compileGroups: list[_CompileGroup] = []
    link: _LinkInfo = _LinkInfo()


_ReplyKind = TypeVar("_ReplyKind", bound=_ReplyPart)


@dataclass(frozen=True)
class CMakeBuild:
    """A build folder of CMake."""

    calls: list[ToolInvocation]  # compiles first, then archives, then links
    source: Path  # the project's folder
    notes: tuple[str, ...]  # what a user should know, a line each


def is_cmake(folder: Path) -> bool:
    """Whether a folder is one that CMake has configured."""
    return (folder / "CMakeCache.txt").is_file() or (folder / _API / "reply").is_dir()


def read_cmake(folder: Path) -> CMakeBuild:
    """Read the reply of CMake's file API; where there is none, the question is written into the folder."""
    reply = folder / _API / "reply"
    indexes = sorted(path.name for path in reply.glob("index-*.json"))
    if not indexes:
        write_bytes(folder / _QUERY, b"")
        raise CorpusError(
            f"{folder} has no reply of CMake's file API. The question is written now: run cmake {folder}, then this "
            "again"
        )
    found = [one.jsonFile for one in _read(reply, indexes[-1], _Index).objects if one.kind == "codemodel"]
    if not found:
        write_bytes(folder / _QUERY, b"")
        raise CorpusError(f"{reply / indexes[-1]} has no codemodel; run cmake {folder}, then this again")
    model = _read(reply, found[0], _Codemodel)
    if not model.configurations:
        raise CorpusError(f"{reply / found[0]} has no configuration")
    configuration = model.configurations[0]
    names = [one.name for one in model.configurations]
    notes = (f"of the configurations {', '.join(names)}, the first is taken",) if len(names) > 1 else ()
    targets = [_read(reply, one.jsonFile, _Target) for one in configuration.targets]
    source, build = Path(model.paths.source), Path(model.paths.build)
    return CMakeBuild(list(_calls(targets, source, build, configuration.name)), source, notes)


def _read(reply: Path, name: str, kind: type[_ReplyKind]) -> _ReplyKind:
    if Path(name).name != name:
        raise CorpusError(f"{reply}: {name} lies outside of the reply")
    content = read_json_of_others(reply / name)
    try:
        return kind.model_validate(content)
    except ValidationError as error:
        first = error.errors()[0]
        place = ".".join(map(str, first["loc"]))
        raise CorpusError(f"{reply / name} is no reply of CMake's file API: {place}: {first['msg']}") from error


def _calls(targets: Sequence[_Target], source: Path, build: Path, configuration: str) -> Iterator[ToolInvocation]:
    responses = Responses((source, build), {})
    objects: dict[str, list[Path]] = {one.name: [] for one in targets}
    for target in targets:
        for group in target.compileGroups:
            for number in group.sourceIndexes:
                if 0 <= number < len(target.sources):
                    path = source / target.sources[number].path
                    made = _object(target, path, source, build)
                    objects[target.name].append(made)
                    yield _call(_TOOLS.get(group.language, "cc"), _compile_words(group, path, made), build, responses)
    made_here = {path for paths in objects.values() for path in paths}
    archives = {build / one.path for target in targets for one in target.artifacts}
    for target in sorted(targets, key=lambda one: one.type != "STATIC_LIBRARY"):
        if not target.artifacts:
            continue
        listed = [_without(source / one.path, configuration, made_here) for one in target.sources]
        inputs = [*objects[target.name], *(path for path in listed if path in made_here)]
        output = str(build / target.artifacts[0].path)
        if target.type == "STATIC_LIBRARY":
            yield ToolInvocation("ar", "ar", build, ("rcs", output, *map(str, inputs)))
        elif target.type in ("EXECUTABLE", "SHARED_LIBRARY", "MODULE_LIBRARY"):
            shared = () if target.type == "EXECUTABLE" else ("-shared",)
            words = [*shared, *_link_words(target, "flags", build, archives), *map(str, inputs), "-o", output]
            words += [word for role in _LIBRARY_ROLES for word in _link_words(target, role, build, archives)]
            yield _call(_TOOLS.get(target.link.language, "cc"), words, build, responses)


_LIBRARY_ROLES = ("libraryPath", "libraries")


def _call(tool: Tool, words: Sequence[str], folder: Path, responses: Responses) -> ToolInvocation:
    contents, problem = responses.of(words, folder)
    return ToolInvocation(tool, tool, folder, tuple(words), contents, problem=problem)


def _compile_words(group: _CompileGroup, source: Path, output: Path) -> list[str]:
    language = {"C": ["-x", "c"], "CXX": ["-x", "c++"]}.get(group.language, [])
    words = [*language, *(f"-D{one.define}" for one in group.defines)]
    for one in group.includes:
        words += ["-isystem", one.path] if one.isSystem else [f"-I{one.path}"]
    words += [word for one in group.compileCommandFragments for word in _split(one.fragment)]
    return [*words, "-c", str(source), "-o", str(output)]


def _link_words(target: _Target, role: str, build: Path, archives: set[Path]) -> Iterator[str]:
    for fragment in target.link.commandFragments:
        for word in _split(fragment.fragment) if fragment.role == role else ():
            path = Path(os.path.normpath(build / target.paths.build / word))  # where make runs the link
            yield str(path) if not word.startswith("-") and path in archives else word


def _split(fragment: str) -> list[str]:
    try:
        return shlex.split(fragment)
    except ValueError:  # quotes that do not end
        return fragment.split()


def _object(target: _Target, path: Path, source: Path, build: Path) -> Path:
    """Path that CMake's generators give the object of a source."""
    places = (source / target.paths.source, build / target.paths.build)
    inside = next((place for place in reversed(places) if path.is_relative_to(place)), places[0])
    name = os.path.relpath(path, inside).replace("..", "__")
    return Path(os.path.normpath(build / target.paths.build / "CMakeFiles" / f"{target.name}.dir" / f"{name}.o"))


def _without(path: Path, configuration: str, known: set[Path]) -> Path:
    """An object that a target lists, as it is called here: generators for several configurations add a folder."""
    path = Path(os.path.normpath(path))
    shorter = Path(*(part for part in path.parts if part != configuration))
    return path if path in known else shorter
