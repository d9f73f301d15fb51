"""Finding a GCC, and whether it has the debug counter that a policy decides through."""

import re
import shutil
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

from mlgo.base.files import file_sha256
from mlgo.base.scratch import scratch_directory
from mlgo.errors import CompileError, ToolchainError
from mlgo.jit.gcc.counters import COUNTER, read_counts
from mlgo.jit.gcc.invoke import run_gcc

OLDEST_GCC = 10
"""First release whose counters take several closed intervals (``-fdbg-cnt=name:1-3:7-7``)."""

_PROBE_TIMEOUT_S = 30.0
_PROBE = "int probe(int x) { return x + 1; }\n"
_REMEDY = f"install GCC {OLDEST_GCC} or newer (the packages gcc and g++), or name one"
_MACROS = {"__GNUC__": r"\d+", "__clang__": r"\d+", "__VERSION__": r'"[^"\n]*"'}
_COMPILER_PROPER = {"c": "cc1", "c++": "cc1plus"}


@dataclass(frozen=True)
class Gcc:
    """A GCC that can be driven.

    Attributes:
        binary: the driver for C.
        version: of the release, such as ``12.2.0``.
        cxx_binary: the driver for C++ of the same release; None where there is none.
        target: triple that it compiles for.
    """

    binary: Path
    version: str
    cxx_binary: Path | None = None
    target: str = "x86_64-linux-gnu"

    @property
    def name(self) -> str:
        """Short description without any path, for reports and provenance."""
        return f"gcc {self.version}"

    def driver(self, language: str) -> Path:
        """The driver that compiles a language, ``c`` or ``c++``.

        Raises:
            ToolchainError: C++, and its driver is missing.
        """
        if language == "c":
            return self.binary
        if self.cxx_binary is None:
            name = _cxx_name(self.binary.name)
            raise ToolchainError(f"there is no {name} {self.version} beside {self.binary}; install the package g++")
        return self.cxx_binary

    @cached_property
    def sha256(self) -> dict[str, str]:
        """Hash of the compiler proper by language (cc1, cc1plus): the drivers only start them, they decide."""
        languages = ["c", *(["c++"] if self.cxx_binary is not None else [])]
        return {language: file_sha256(_compiler_proper(self.driver(language), language)) for language in languages}


def find_gcc(command: str = "auto") -> Gcc:
    """Find a GCC, read its version and check that the debug counter takes intervals.

    Args:
        command: name or path of the driver for C; ``auto`` is ``gcc``. The driver for C++ bears the same name with
            ``g++`` for ``gcc`` and lies in the same folder.

    Raises:
        ToolchainError: missing, another compiler under this name, too old, or built without that counter.
    """
    name = "gcc" if command == "auto" else command
    found = shutil.which(name)
    if found is None:
        raise ToolchainError(f"{name} is not an executable; {_REMEDY}")
    binary = Path(found).absolute()
    version = _read_version(binary)
    if int(version.split(".")[0]) < OLDEST_GCC:
        raise ToolchainError(f"{binary} is GCC {version}, whose debug counters take one interval only; {_REMEDY}")
    counts = list_counters(binary)
    if COUNTER not in counts:
        raise ToolchainError(f"GCC {version} at {binary} has no debug counter {COUNTER}; {_REMEDY}")
    return Gcc(binary, version, _find_cxx(binary, version), _printed(binary, "-dumpmachine"))


def list_counters(binary: Path) -> dict[str, int]:
    """All debug counters of a GCC with the values that they reached in a tiny function.

    Raises:
        ToolchainError: the driver does not know ``-fdbg-cnt-list``, or knows no closed intervals.
    """
    intervals = f"-fdbg-cnt={COUNTER}:1-2:4-4"
    with scratch_directory() as directory:
        (directory / "probe.c").write_text(_PROBE)
        try:
            stderr = run_gcc(
                [str(binary), "-O2", intervals, "-fdbg-cnt-list", "-c", "probe.c", "-o", "probe.o"],
                directory,
                _PROBE_TIMEOUT_S,
            )
        except CompileError as error:
            raise ToolchainError(f"{binary} cannot compile with debug counters ({error}); {_REMEDY}") from error
    return read_counts(stderr)


def _read_version(binary: Path) -> str:
    """Version of a GCC by the macros it defines: clang defines GNU's as well, but also its own."""
    with scratch_directory() as directory:
        (directory / "probe.c").write_text("".join(f"mlgo {name}\n" for name in _MACROS))
        try:
            run_gcc([str(binary), "-E", "-P", "probe.c", "-o", "probe.i"], directory, _PROBE_TIMEOUT_S)
            text = (directory / "probe.i").read_text(errors="replace")
        except (CompileError, OSError) as error:
            raise ToolchainError(f"{binary} does not work as a compiler ({error}); {_REMEDY}") from error
    values = [line.removeprefix("mlgo ") for line in text.splitlines() if line.startswith("mlgo ")]
    known = {
        name: value
        for (name, pattern), value in zip(_MACROS.items(), values, strict=False)
        if re.fullmatch(pattern, value)
    }
    release = re.match(r'"(\d+\.\d+\.\d+)', known.get("__VERSION__", ""))
    if "__clang__" in known:
        raise ToolchainError(f"{binary} is clang under the name of GCC; {_REMEDY}")
    if "__GNUC__" not in known or release is None:
        raise ToolchainError(f"{binary} is no GCC; {_REMEDY}")
    return release[1]


def _find_cxx(binary: Path, version: str) -> Path | None:
    found = shutil.which(str(binary.with_name(_cxx_name(binary.name))))
    if found is None:
        return None
    try:
        return Path(found) if _read_version(Path(found)) == version else None
    except ToolchainError:
        return None


def _cxx_name(name: str) -> str:
    return "g++".join(name.rsplit("gcc", 1))


def _compiler_proper(driver: Path, language: str) -> Path:
    """Where a driver finds the compiler proper; without one it prints the bare name."""
    program = _COMPILER_PROPER[language]
    path = Path(_printed(driver, f"-print-prog-name={program}"))
    if not path.is_absolute() or not path.is_file():
        raise ToolchainError(f"{driver} has no {program}; install its package anew")
    return path


def _printed(driver: Path, option: str) -> str:
    with scratch_directory() as directory:
        output = directory / "stdout"
        try:
            run_gcc([str(driver), option], directory, _PROBE_TIMEOUT_S, stdout=output)
        except CompileError as error:
            raise ToolchainError(f"{driver} does not answer {option} ({error}); {_REMEDY}") from error
        return output.read_text(errors="replace").strip()
