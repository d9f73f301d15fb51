"""Finding a compiler and knowing its quirks."""

import os
import re
import shutil
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from importlib.util import find_spec
from pathlib import Path

from mlgo.base.files import file_sha256
from mlgo.base.scratch import scratch_directory
from mlgo.errors import ToolchainError
from mlgo.host.process import Child

OLDEST_LLVM = 17
_VERSION_TIMEOUT_S = 30.0


@dataclass(frozen=True)
class Quirks:
    """How one LLVM version departs from the newest: the feature that carries the built-in inlining decision.

    LLVM 17 to 20 overwrite ``callee_basic_block_count`` with it and leave ``inlining_default`` at 0 (fixed by
    llvm-project pull request 141453, first released in 21).
    """

    default_slot: str = "inlining_default"

    @property
    def default_hides_a_feature(self) -> bool:
        """Whether asking for the default decision destroys another feature."""
        return self.default_slot != "inlining_default"

    @classmethod
    def of(cls, llvm: tuple[int, int, int]) -> "Quirks":
        """Those of a version."""
        return cls("callee_basic_block_count") if llvm[0] < 21 else cls()


@dataclass(frozen=True)
class Toolchain:
    """A clang that can be driven."""

    binary: Path  # the executable
    is_zig: bool  # whether it is the multi-tool of the ziglang wheel, which holds clang as a sub-command
    version: tuple[int, int, int]  # LLVM version
    target: str  # triple that everything is compiled for

    @property
    def name(self) -> str:
        """Short description without any path, for reports and provenance."""
        return f"{'ziglang ' if self.is_zig else ''}clang {'.'.join(map(str, self.version))}"

    @property
    def quirks(self) -> Quirks:
        """What to know about this LLVM version."""
        return Quirks.of(self.version)

    @property
    def sha256(self) -> str:
        """Hash of the executable on this machine."""
        status = self.binary.stat()
        return _hash_of(self.binary, status.st_mtime_ns, status.st_size)

    @property
    def provenance(self) -> dict[str, str]:
        """What the provenance of results says of it: ``compiler``, ``compiler_sha256`` and ``target``."""
        return {"compiler": self.name, "compiler_sha256": self.sha256, "target": self.target}

    def check_hash(self, sha256: str) -> None:
        """See that the executable is on this machine, runs, and is the one whose hash was taken on another."""
        if not self.binary.is_file():
            raise ToolchainError(f"there is no {self.binary}, the compiler of this run")
        if self.sha256 != sha256:
            raise ToolchainError(f"{self.binary} is another compiler than the one of this run")
        _read_version(self.clang)

    @property
    def clang(self) -> list[str]:
        """Start of a command of clang itself."""
        return [str(self.binary), *(["clang"] if self.is_zig else [])]

    @property
    def back_end(self) -> list[str]:
        """Start of a command that compiles bitcode."""
        return [*self.clang, f"--target={self.target}", "-Wno-override-module", "-fno-crash-diagnostics"]

    def driver(self, language: str) -> list[str]:
        """The compiler itself, as a build starts it; ``language`` is ``c`` or ``c++``.

        By itself zig compiles for the very machine that it runs on, and clang for all of its kind; so does this one.
        """
        if self.is_zig:
            return [str(self.binary), "c++" if language == "c++" else "cc", "-mcpu=baseline"]
        return [str(self.binary), *(["--driver-mode=g++"] if language == "c++" else [])]

    def front_end(self, language: str) -> list[str]:
        """Start of a command that compiles sources for the target; ``language`` is ``c`` or ``c++``."""
        target = ["-target", self.target] if self.is_zig else [f"--target={self.target}"]
        return [*self.driver(language), *target]


def find_toolchain(setting: str, target: str) -> Toolchain:
    """Find the compiler that the configuration names and read its version; ToolchainError without a usable one.

    Args:
        setting: ``auto`` or ``ziglang`` for the wheel, else the name or path of a clang, or of a ``zig``.
        target: triple to compile for.
    """
    from_wheel = setting in ("auto", "ziglang")
    if from_wheel:
        binary = find_linker()
    elif found := shutil.which(setting):
        binary = Path(found).absolute()
    else:
        raise ToolchainError(
            f"toolchain: {setting} is not an executable; give the path of a clang {OLDEST_LLVM} or newer, or auto"
        )
    is_zig = from_wheel or binary.name == "zig"
    version = _read_version([str(binary), "clang"] if is_zig else [str(binary)])
    if version[0] < OLDEST_LLVM:
        raise ToolchainError(
            f"{binary} is LLVM {version[0]}, but the interactive channel needs {OLDEST_LLVM} or newer; "
            "set toolchain: auto to use the compiler of the ziglang wheel"
        )
    return Toolchain(binary, is_zig, version, target)


@cache
def _hash_of(binary: Path, mtime_ns: int, num_bytes: int) -> str:
    """Hash of an executable, which takes a quarter of a second: once in a process, unless the file changes."""
    return file_sha256(binary)


def zig_environment(cache_dir: Path) -> dict[str, str]:
    """Environment in which zig keeps all its caches in ``cache_dir``."""
    cache = str(cache_dir.absolute())
    return {**os.environ, "ZIG_GLOBAL_CACHE_DIR": cache, "ZIG_LOCAL_CACHE_DIR": cache}


def find_linker() -> Path:
    """The multi-tool of the ziglang wheel, whose sub-commands ``ld.lld`` and ``cc`` link the objects of any clang."""
    spec = find_spec("ziglang")
    binary = Path(spec.origin).parent / "zig" if spec is not None and spec.origin else None
    if binary is None or not os.access(binary, os.X_OK):
        from mlgo.base.packages import install_command  # workers, which import this module, never need it

        raise ToolchainError(f"ziglang is not installed; run {install_command()}, or set toolchain: to a clang")
    return binary


def ask_version(command: Sequence[str]) -> str:
    """What a program prints for ``--version``; see `print_of`."""
    return print_of([*command, "--version"])


def print_of(command: Sequence[str]) -> str:
    """What a program prints, within half a minute; empty where it fails."""
    with scratch_directory() as folder:
        output = folder / "version"
        run = Child(command, stdout=output, max_file_bytes=1 << 16).finish(_VERSION_TIMEOUT_S)
        if run.returncode is None:
            raise ToolchainError(f"{' '.join(command)} did not end within {_VERSION_TIMEOUT_S:g} s")
        return output.read_text(errors="replace") if run.returncode == 0 else ""


def _read_version(command: list[str]) -> tuple[int, int, int]:
    match = re.search(r"clang version (\d+)\.(\d+)\.(\d+)", ask_version(command))
    if match is None:
        raise ToolchainError(f"{command[0]} does not say which clang it is; is it one?")
    major, minor, patch = (int(part) for part in match.groups())
    return major, minor, patch
