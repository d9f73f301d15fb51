"""Invocations of compilers, archivers and linkers, recorded by wrappers while a build runs.

A wrapper writes its call to a file of its own and becomes the real tool. It is a shell script: a shell starts in a
millisecond, Python in twenty. Programs that the real tool starts are found as without wrappers, so the linker that a
compiler calls is not recorded a second time.
"""

import functools
import os
import re
import shlex
import shutil
import signal
import subprocess
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal

from mlgo.base.files import joined, read_input
from mlgo.base.output import make_folders
from mlgo.errors import ArtifactError, ConfigError

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
    """Kind of tool by a program's name, such as ``x86_64-linux-gnu-g++-12``; None for anything else."""
    return next((tool for tool, pattern in _PATTERNS.items() if pattern.fullmatch(name)), None)


_MOST_QUOTED, _MOST_WORDS = 1 << 20, 1 << 17
"""Letters of a text with quotes, which is read letter by letter; words of a text."""


@functools.lru_cache(maxsize=16)
def shell_words(text: str) -> list[str] | None:
    """Words of a command for a shell, or of a response file; None where quotes do not end, or there is too much."""
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
    """Name of the tool in a command of several words, and options behind it: of ``ccache gcc -m32``, the last two."""
    places = [place for place, word in enumerate(words) if tool_called(Path(word).name)]
    last = places[-1] if places else 0
    return Path(words[last]).name, tuple(words[last + 1 :]) if places else ()


@dataclass(frozen=True)
class ToolInvocation:
    """One call of a tool."""

    tool: Tool  # what it is for
    program: str  # what ran, one or several words: a compiler may stand behind `ccache`
    folder: Path  # where it ran
    arguments: tuple[str, ...]  # after the name, response files still as `@FILE`
    # Content of these files at that time, by argument.
    responses: Mapping[str, str] = field(default_factory=dict)
    began_ns: int = 0  # when it was written down, in nanoseconds
    # Why what it does is not known whole, such as a response file that is gone: kind, colon, reason.
    problem: str = ""


def read_invocations(records: Path) -> list[ToolInvocation]:
    """Read what wrappers have written, in the order of time; one that a kill has cut off is passed over."""
    calls = [call for path in records.iterdir() if path.is_file() and (call := _read_call(path)) is not None]
    return sorted(calls, key=lambda call: (call.began_ns, call.arguments))


def _read_call(path: Path) -> ToolInvocation | None:
    data = read_input(path)
    if not data.endswith(_END):
        return None
    # Paths may hold any bytes but NUL; Python keeps those that are no UTF-8 as surrogates.
    fields = [os.fsdecode(part) for part in data.removesuffix(_END).split(b"\0")]
    try:
        tool, program, folder, count = fields[:_FIELDS]
        if tool not in _NAMES:
            raise ValueError(f"no tool {tool}")
        shlex.split(program)
        if not Path(folder).is_absolute():
            raise ValueError(f"no folder {folder}")
        arguments, rest = fields[_FIELDS:][: int(count)], fields[_FIELDS + int(count) :]
        responses = dict(zip(rest[::2], rest[1::2], strict=True))
    except ValueError as error:
        raise ArtifactError(f"{path} is no record of a call; delete its folder and capture the build again") from error
    return ToolInvocation(tool, program, Path(folder), tuple(arguments), responses, path.stat().st_mtime_ns)  # type: ignore[arg-type]


RECORDS = "records"
"""Folder of what wrappers write down, in that of a captured project."""

VARIABLES: Mapping[str, Tool] = {"CC": "cc", "CXX": "c++", "AR": "ar", "LD": "ld"}
"""Environment variables that name tools for a build."""

# Several processes write at the same time, and the number of a process may come again: names are counted.
_WRAPPER = """\
#!/bin/sh
# Writes this call down for mlgo capture, then becomes the real tool.
PATH={path}
records={records}
if [ -d "$records" ]; then
  number=0
  while [ -e "$records/$$-$number" ] || [ -L "$records/$$-$number" ]; do number=$((number + 1)); done
  {{
    printf '%s\\0' {tool} {program} "$PWD" "$#" "$@"
    for argument in "$@"; do
      case $argument in
        @?*) if [ -f "${{argument#@}}" ]; then printf '%s\\0' "$argument"; cat "${{argument#@}}"; printf '\\0'; fi ;;
      esac
    done
    printf 'end\\0'
  }} > "$records/$$-$number"
fi
exec {program_words} "$@"
"""


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

    Returns its exit status, negative where a signal ended it.
    """
    joined(folder, RECORDS).mkdir(parents=True, exist_ok=True)
    wrapped = wrap_tools(folder, environment)
    if shutil.which(command[0], path=wrapped["PATH"]) is None:
        raise ConfigError(f"cannot start {command[0]}: no such program")
    process = subprocess.Popen(command, env=wrapped)
    while True:
        try:
            return process.wait()
        except KeyboardInterrupt:  # the build has had it, too, and what it did until then is kept
            process.send_signal(signal.SIGINT)


def wrap_tools(
    folder: Path, environment: Mapping[str, str], commands: Mapping[str, Sequence[str]] | None = None
) -> dict[str, str]:
    """Write a wrapper for each tool that a build could find, and return the build's environment."""
    path = environment.get("PATH", os.defpath)
    tools = folder / "tools"
    make_folders(folder, tools.name)
    found: dict[str, tuple[Tool, Sequence[str]]] = {}  # by name; the first on the path counts
    for place in map(Path, filter(None, path.split(os.pathsep))):
        for file in sorted(place.iterdir()) if place.is_dir() else ():
            kind = tool_called(file.name)
            if kind is not None and file.name not in found and os.access(file, os.X_OK):
                found[file.name] = kind, [str(file)]
    for name, words in (commands or {}).items():
        if (kind := tool_called(name)) is not None:
            found[name] = kind, words
    for name, (tool, words) in found.items():
        _write_wrapper(tools / name, tool, words, path, folder)
    named = {}
    for variable, tool in VARIABLES.items():
        if called := _command(environment.get(variable, "")):
            program = shutil.which(called[0], path=path)
            if program is None:
                raise ConfigError(f"{variable}={environment[variable]}: there is no program {called[0]}")
            # Build systems look at the name to see which compiler it is.
            wrapper = tools / f"{variable.lower()}-is" / tool_and_options([program, *called[1:]])[0]
            wrapper.parent.mkdir()
            _write_wrapper(wrapper, tool, [program, *called[1:]], path, folder)
            named[variable] = str(wrapper.absolute())
    return {**environment, **named, "PATH": f"{tools.absolute()}{os.pathsep}{path}"}


def _write_wrapper(file: Path, tool: Tool, words: Sequence[str], path: str, folder: Path) -> None:
    text = _WRAPPER.format(
        path=shlex.quote(path),
        records=shlex.quote(str((folder / RECORDS).absolute())),
        tool=tool,
        program=shlex.quote(shlex.join(words)),
        program_words=shlex.join(words),
    )
    file.write_bytes(os.fsencode(text))
    file.chmod(0o755)
