"""Invocations of compilers, archivers and linkers, recorded by wrappers while a build runs.

A wrapper writes its call to a file of its own, runs the real tool, and adds checksums of the files that the call names:
objects may be renamed, or gone, when the build ends. It is a shell script: a shell starts in a millisecond, Python in
twenty. Programs that the real tool starts are found as without wrappers, so the linker that a compiler calls is not
recorded a second time.
"""

import functools
import os
import re
import shlex
import shutil
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal

from mlgo.base.files import joined, read_input
from mlgo.base.output import make_folders
from mlgo.errors import ArtifactError, ConfigError
from mlgo.host.process import run_for_user

Tool = Literal["cc", "c++", "ar", "ld", "rustc"]

_NAMES: Mapping[Tool, str] = {
    "c++": r"c\+\+|g\+\+|clang\+\+",
    "cc": r"cc|gcc|clang|c89|c99",
    "ar": r"ar|gcc-ar|llvm-ar",
    "ld": r"ld|ld\.lld|ld\.bfd|ld\.gold|ld\.mold|mold",
}
RUSTC = "rustc"
"""A compiler that is not wrapped by its name: cargo starts a wrapper that it is told of, with the real one's path."""
_NAME_FOR_CARGO = "rustc-wrapper"
_PATTERNS = {tool: re.compile(rf"(?:[\w.]+-)*(?:{names})(?:-[\d.]+)?") for tool, names in _NAMES.items()}
_FIELDS = 4
_END = b"\0end\0"
"""Last word of a record. To rename a finished one would cost as much as all the rest of a wrapper."""


def tool_called(name: str) -> Tool | None:
    """Kind of tool by a program's name, such as ``x86_64-linux-gnu-g++-12``; None for anything else."""
    return next((tool for tool, pattern in _PATTERNS.items() if pattern.fullmatch(name)), None)


_MOST_QUOTED, _MOST_WORDS = 1 << 20, 1 << 17
"""Letters of a text with quotes, which is read letter by letter; words of a text."""


_SPACES = " \t\n\v\f\r"
_RESPONSE_WORD = re.compile(
    rf"""(?:[^{_SPACES}'"\\]+|\\.?|'(?:[^'\\]|\\.)*(?:'|\\?\Z)|"(?:[^"\\]|\\.)*(?:"|\\?\Z))+""", re.DOTALL
)
_RESPONSE_PIECE = re.compile(r"""\\(.?)|'((?:[^'\\]|\\.)*)(?:'|\\?\Z)|"((?:[^"\\]|\\.)*)(?:"|\\?\Z)""", re.DOTALL)
_ESCAPED = re.compile(r"\\(.)", re.DOTALL)


@functools.lru_cache(maxsize=16)
def response_words(text: str) -> list[str] | None:
    """Words of a response file as GCC and clang read it; None where there are too many.

    A backslash stands before any character, in quotes, too. Quotes that do not end go on to the end of the file.
    """

    def plain(piece: re.Match[str]) -> str:
        return _ESCAPED.sub(r"\1", piece[1] or piece[2] or piece[3] or "")

    found = [_RESPONSE_PIECE.sub(plain, match[0]) for match in _RESPONSE_WORD.finditer(text)]
    return found if len(found) <= _MOST_WORDS else None


@functools.lru_cache(maxsize=16)
def shell_words(text: str) -> list[str] | None:
    """Words of a command for a shell; None where quotes do not end, or there is too much."""
    if not re.search(r"""['"\\]""", text):
        found = [word for word in re.split("[ \\t\\r\\n]+", text) if word]
        return found if len(found) <= _MOST_WORDS else None
    if len(text) > _MOST_QUOTED:
        return None
    try:
        return shlex.split(text)
    except ValueError:
        return None


def _command(text: str) -> list[str]:
    """Words of a program that the user names; ConfigError where quotes do not end."""
    if (words := shell_words(text)) is None:
        raise ConfigError(f"the quotes in {text} do not end; mend what names this program")
    return words


def tool_and_options(words: Sequence[str]) -> tuple[str, tuple[str, ...]]:
    """Name of the tool in a command of several words, and options behind it: of ``ccache gcc -m32``, the last two.

    What stands before ``--`` is for ``mlgo cc`` itself.
    """
    places = [place for place, word in enumerate(words) if tool_called(Path(word).name)]
    last = places[-1] if places else 0
    end = words.index("--") if "--" in words else last
    return Path(words[last]).name, tuple(words[end + 1 :]) if places else ()


@dataclass(frozen=True)
class ToolInvocation:
    """One call of a tool."""

    tool: Tool  # what it is for
    program: str  # what ran, one or several words: a compiler may stand behind `ccache`
    folder: Path  # where it ran
    arguments: tuple[str, ...]  # after the name, response files still as `@FILE`
    # Content of these files at that time, by argument.
    responses: Mapping[str, str] = field(default_factory=dict)
    ended_ns: int = 0  # when it had ended, in nanoseconds
    # Why what it does is not known whole, such as a response file that is gone: kind, colon, reason.
    problem: str = ""
    # SHA-256 of files that it names, when it had ended, by the names that it has for them.
    contents: Mapping[str, str] = field(default_factory=dict)


def read_invocations(records: Path) -> list[ToolInvocation]:
    """Read what wrappers have written, in the order of time; one that a kill has cut off is passed over."""
    calls = [call for path in records.iterdir() if path.is_file() and (call := _read_call(path)) is not None]
    return sorted(calls, key=lambda call: (call.ended_ns, call.arguments))


def _read_call(path: Path) -> ToolInvocation | None:
    data = read_input(path)
    if not data.endswith(_END):
        return None
    # Paths may hold any bytes but NUL; Python keeps those that are no UTF-8 as surrogates.
    fields = [os.fsdecode(part) for part in data.removesuffix(_END).split(b"\0")]
    try:
        tool, program, folder, count = fields[:_FIELDS]
        if tool not in _NAMES and tool != RUSTC:
            raise ValueError(f"no tool {tool}")
        shlex.split(program)
        if not Path(folder).is_absolute():
            raise ValueError(f"no folder {folder}")
        arguments, rest = fields[_FIELDS:][: int(count)], fields[_FIELDS + int(count) :]
        responses = dict(zip(rest[::2], rest[1::2], strict=True))
        sums = (line.partition("  ") for line in responses.pop("", "").splitlines())
        contents = {file: content for content, _, file in sums if not content.startswith("\\")}
    except ValueError as error:
        raise ArtifactError(f"{path} is no record of a call; delete its folder and capture the build again") from error
    ended_ns = path.stat().st_mtime_ns
    return ToolInvocation(tool, program, Path(folder), tuple(arguments), responses, ended_ns, "", contents)  # type: ignore[arg-type]


RECORDS, CRATES = "records", "crates"
"""Folders of a captured project: of what wrappers write down, and of bitcode of crates, by the names of records."""

VARIABLES: Mapping[str, Tool] = {"CC": "cc", "CXX": "c++", "AR": "ar", "LD": "ld"}
"""Environment variables that name tools for a build."""

_WRAPPER = """\
#!/bin/sh
PATH={path} records={records} tool={tool} program={program}
[ -d "$records" ] || exec {program_words} "$@"
run() {{ {program_words} "$@"; }}
{prepare}
"""
_RUSTC_WRAPPER = """\
#!/bin/sh
PATH={path} records={records} crates={crates} tool=rustc program=rustc rustc=$1
[ -d "$records" ] || exec "$@"
shift
run() {{ "$rustc" "$@"; }}
"""
_REST_OF_WRAPPER = Path(__file__).with_name("wrapper.sh")


def named_tools(tools: Iterable[str], environment: Mapping[str, str] = os.environ) -> set[tuple[str, ...]]:
    """Words of the programs that a user names, and of those in the environment variables of `VARIABLES`."""
    found = [_command(text) for text in (*tools, *(environment.get(name, "") for name in VARIABLES))]
    return {(shutil.which(words[0]) or words[0], *words[1:]) for words in found if words}


def is_own(program: str, environment: Mapping[str, str] = os.environ) -> bool:
    """Whether a program of a record is one that a build in this environment runs: on PATH, or named by a variable."""
    words = tuple(shell_words(program) or [program])
    on_path = str(Path(words[0]).parent) in environment.get("PATH", os.defpath).split(os.pathsep)
    is_tool = len(words) == 1 and on_path and tool_called(Path(words[0]).name) is not None
    return is_tool or words in named_tools((), environment)


def run_build(command: Sequence[str], folder: Path, environment: Mapping[str, str] = os.environ) -> int:
    """Run a build whose calls are recorded in ``folder/records``; wrappers in it are replaced, records are kept.

    Returns its exit status, as a shell has it where a signal ended it.
    """
    joined(folder, RECORDS).mkdir(parents=True, exist_ok=True)
    wrapped = wrap_tools(folder, environment)
    if shutil.which(command[0], path=wrapped["PATH"]) is None:
        raise ConfigError(f"cannot start {command[0]}: no such program")
    return run_for_user(command, wrapped)


def wrap_tools(
    folder: Path, environment: Mapping[str, str], commands: Mapping[str, Sequence[str]] | None = None, prepare: str = ""
) -> dict[str, str]:
    """Write a wrapper for each tool that a build could find, and return the build's environment.

    Args:
        commands: tools by name, before those on the path.
        prepare: line for a shell that changes the arguments before they are written down and used.
    """
    path = environment.get("PATH", os.defpath)
    tools = folder / "tools"
    if os.pathsep in str(tools.absolute()):
        raise ConfigError(f"{tools.absolute()} cannot stand in PATH, as it has {os.pathsep} in it; name another folder")
    make_folders(folder, tools.name)
    found: dict[str, tuple[Tool, Sequence[str]]] = {}  # by name; the first on the path counts
    for place in filter(None, path.split(os.pathsep)):
        for file in (Path(place, name).absolute() for name in _listed(place)):
            kind = tool_called(file.name)
            if kind is not None and file.name not in found and os.access(file, os.X_OK) and file.is_file():
                found[file.name] = kind, [str(file)]
    for name, words in (commands or {}).items():
        if (kind := tool_called(name)) is not None:
            found[name] = kind, words
    for name, (tool, words) in found.items():
        _write_wrapper(tools / name, tool, words, path, folder, prepare)
    named = {}
    for variable, tool in VARIABLES.items():
        if called := _command(environment.get(variable, "")):
            program = shutil.which(called[0], path=path)
            if program is None:
                raise ConfigError(f"{variable}={environment[variable]}: there is no program {called[0]}")
            # Build systems look at the name to see which compiler it is.
            name = tool_and_options([program, *called[1:]])[0]
            wrapper = tools.absolute() / f"{variable.lower()}-is" / name
            named[variable] = str(wrapper)
            if shlex.quote(named[variable]) != named[variable]:  # make and shells take it for several words
                named[variable] = f"{variable.lower()}-is-{name}"
                wrapper = tools / named[variable]
            wrapper.parent.mkdir(exist_ok=True)
            _write_wrapper(wrapper, tool, [program, *called[1:]], path, folder, prepare)
    with_tools = f"{tools.absolute()}{os.pathsep}{path}"
    if shutil.which(RUSTC, path=path):
        named["RUSTC_WRAPPER"] = str(tools.absolute() / _NAME_FOR_CARGO)
        places = {
            "path": with_tools,
            "records": str((folder / RECORDS).absolute()),
            "crates": str((folder / CRATES).absolute()),
        }
        _write(
            tools / _NAME_FOR_CARGO,
            _RUSTC_WRAPPER.format(**{name: shlex.quote(value) for name, value in places.items()}),
        )
    return {**environment, **named, "PATH": with_tools}


def _listed(folder: str) -> list[str]:
    """Names of programs in a folder of PATH: of one that may be searched but not read, those that are looked for."""
    try:
        return sorted(file.name for file in Path(folder).iterdir())
    except OSError:
        return ["ar", "c++", "cc", "clang", "clang++", "g++", "gcc", "ld"]


def _write_wrapper(file: Path, tool: Tool, words: Sequence[str], path: str, folder: Path, prepare: str) -> None:
    text = _WRAPPER.format(
        path=shlex.quote(path),
        records=shlex.quote(str((folder / RECORDS).absolute())),
        tool=tool,
        program=shlex.quote(shlex.join(words)),
        program_words=shlex.join(words),
        prepare=prepare,
    )
    _write(file, text)


def _write(file: Path, beginning: str) -> None:
    file.write_bytes(os.fsencode(beginning) + read_input(_REST_OF_WRAPPER))
    file.chmod(0o755)
