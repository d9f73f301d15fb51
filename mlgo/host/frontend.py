"""From sources to bitcode before optimization, with the toolchain's own front end."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from mlgo.base.config import CompileConfig
from mlgo.base.files import read_input, write_bytes
from mlgo.base.names import OF_CLANG
from mlgo.base.scratch import scratch_directory
from mlgo.errors import CompilerExit, CompileTimeout
from mlgo.host.command_line import SOURCE_LANGUAGES, check_options, for_zig, language_words, source_word, words
from mlgo.host.module_file import Generation, generation_flags, module_file
from mlgo.host.process import Child, check_memory, without_folders
from mlgo.host.tasks.task import Task
from mlgo.host.toolchain import Toolchain, zig_environment

# -Oz must be given here as well: it sets function attributes that are part of the bitcode. -g0 because zig would
# add debug information; no UBSan and no frame pointers, which zig adds and clang by itself does not.
_TO_BITCODE = words(
    "-g0 -w -fno-sanitize=all -fomit-frame-pointer -fno-crash-diagnostics -Xclang -disable-llvm-passes -emit-llvm -c"
)


@dataclass(frozen=True)
class FrontEnd:
    """Compiles single sources of a project; modules for a ``task`` in code generation are kept optimized.

    ``cache_dir`` is the folder for zig's caches.
    """

    toolchain: Toolchain
    settings: CompileConfig
    cache_dir: Path
    task: Task | None = None

    def compile_to_bitcode(
        self,
        root: Path,
        language: str,
        arguments: Sequence[str],
        source: str,
        output: Path,
        profile: tuple[str, Path] | None = None,
    ) -> None:
        """Compile a source to unoptimized bitcode.

        Args:
            root: where the compiler runs.
            language: ``c`` or ``c++``.
            arguments: options of the front end.
            source: relative to ``root``; its name decides nothing but what it says of the language.
            output: file for the bitcode.
            profile: option and file. A profile of the front end becomes part of the bitcode here; all others are for
                its optimization, and stand around it.

        Raises:
            CompileError: it does not compile, or not in time; the message holds the first error.
            ConfigError: an option may not pass.
        """
        options, named = check_options(arguments), [*language_words(source, language), source_word(source)]
        options = for_zig(options) if self.toolchain.is_zig else options
        # zig's driver takes -Oz for -Os, so the level goes to clang's own front end as well.
        level = (self.settings.optimization, "-Xclang", self.settings.optimization)
        command = [*self.toolchain.front_end(language), *level, *_TO_BITCODE, *options]
        feedback = [f"{profile[0]}{profile[1].absolute()}"] if profile else []
        self._run([*command, *feedback, *named, "-o", str(output)], root)
        if profile:
            attached = Generation(profile=(profile[0], read_input(profile[1])))
            write_bytes(output, module_file(read_input(output), attached))

    def finished(self, bitcode: Path) -> bytes:
        """A module as it is kept, made of unoptimized bitcode.

        For a task in code generation it is optimized here, once. Code generated from it later is the same, byte for
        byte, as in a compile from the start, which takes some 2.7 times as long.

        Raises:
            CompileError: the bitcode cannot be read or optimized, or not in time.
        """
        if self.task is None or not self.task.in_code_generation:
            return bitcode.read_bytes()
        output = bitcode.with_suffix(".optimized.bc")
        files = ("-x", "ir", str(bitcode), "-c", "-emit-llvm", "-o", str(output))
        try:
            with scratch_directory() as directory:
                options = (self.settings.optimization, *generation_flags(bitcode, directory))
                self._run([*self.toolchain.back_end, *options, *files], bitcode.parent)
            return output.read_bytes()
        finally:
            output.unlink(missing_ok=True)

    def module_of(self, path: Path, output: Path) -> Path:
        """The module that a user's file stands for: a source is compiled to ``output``, all else is one already."""
        language = SOURCE_LANGUAGES.get(path.suffix, "")
        if language not in OF_CLANG:
            source_word(str(path))
            return path
        self.compile_to_bitcode(Path.cwd(), language, [], str(path.absolute()), output)
        write_bytes(output, self.finished(output))
        return output

    def print_ir(self, bitcode: Path, output: Path) -> None:
        """Print bitcode as textual IR, unchanged."""
        self.convert(bitcode, output, "-S")

    def convert(self, module: Path, output: Path, to: Literal["-S", "-c"]) -> None:
        """Write a module as textual IR (``-S``) or as bitcode (``-c``), unchanged."""
        options = (self.settings.optimization, "-x", "ir", str(module), "-Xclang", "-disable-llvm-passes", to)
        self._run([*self.toolchain.back_end, *options, "-emit-llvm", "-o", str(output)], module.parent)

    def _run(self, command: list[str], cwd: Path) -> None:
        limit, environment = int(self.settings.max_memory_gb * 1e9), zig_environment(self.cache_dir)
        compiler = Child(command, cwd=cwd, env=environment, max_memory_bytes=limit)
        await_compiler(compiler, self.settings.compile_timeout_s)


def await_compiler(compiler: Child, timeout_s: float) -> str:
    """Wait for a compiler, and return the last kilobytes of its stderr; CompileError if it refuses or is too late."""
    run = compiler.finish(timeout_s)
    if run.returncode == 0:
        return run.stderr
    check_memory(run.stderr.splitlines(), compiler.max_memory_bytes)  # first: without memory, some hang as they crash
    if run.returncode is None:
        raise CompileTimeout(f"no end within {timeout_s:g} s")
    raise CompilerExit(without_folders(first_error(run.stderr, f"the compiler ended with status {run.returncode}")))


def first_error(stderr: str, default: str) -> str:
    """The first error of what a compiler has said, else its last line, else the default; 300 characters at most."""
    lines = stderr.splitlines() or [default]
    errors = [line for line in lines if "error:" in line] or lines[-1:]
    return errors[0][:300]
