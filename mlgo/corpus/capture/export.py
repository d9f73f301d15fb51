"""Modules of a project or a corpus in the layout that LLVM's tools and ml-compiler-opt read, see `llvm_corpora`.

A module's command is the call of clang's own front end (``-cc1``) that compiles it here, as clang itself tells it. What
names this machine or the files of one compile is left out of it. A module's file keeps the options around its bitcode,
so a corpus that is read again gives the same bytes.
"""

import os
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path, PurePosixPath

from mlgo.base.scratch import scratch_directory
from mlgo.corpus.capture.builds import free_name
from mlgo.corpus.capture.llvm_corpora import write_llvm_corpus
from mlgo.corpus.capture.objects import driver_plan, front_end_words
from mlgo.errors import CorpusError, ToolchainError
from mlgo.host.module_file import bitcode_of, generation_of, with_options
from mlgo.host.toolchain import Toolchain

_OF_ONE_COMPILE = ("-main-file-name", "-o", "-x", "-dumpdir", "-resource-dir")
"""Options with a value in the next word that a corpus has no use for."""
_OF_THIS_MACHINE = ("-fdebug-compilation-dir=", "-fcoverage-compilation-dir=")


@dataclass(frozen=True)
class Exporter:
    """Writes corpora for other tools.

    Attributes:
        toolchain: compiler that the commands are for.
        optimization: level of the compiles.
        timeout_s: deadline of a question to the compiler.
    """

    toolchain: Toolchain
    optimization: str
    timeout_s: float

    def write(
        self, folder: Path, modules: Iterable[tuple[str, bytes]], done: Callable[[], object] = lambda: None
    ) -> int:
        """Write modules, given as name and file; one is in memory at a time.

        Args:
            folder: of the corpus; it must be empty, or not there.
            modules: names may be absolute or hold ``..``; in the corpus they lie beneath the folder.
            done: called after each.

        Returns:
            Number of modules.

        Raises:
            CorpusError: the folder holds something, there is no module, or only some have an index of ThinLTO.
        """
        if folder.is_dir() and any(folder.iterdir()):
            raise CorpusError(f"{folder} is not empty; name another folder")
        with scratch_directory() as scratch:
            count = write_llvm_corpus(folder, self._members(modules, scratch / "module.bc", done))
        if not count:
            raise CorpusError("there is no module to export")
        return count

    def _members(
        self, modules: Iterable[tuple[str, bytes]], path: Path, done: Callable[[], object]
    ) -> Iterator[tuple[str, bytes, tuple[str, ...] | None, bytes | None]]:
        commands: dict[tuple[str, ...], tuple[str, ...]] = {}
        taken: set[str] = set()
        for name, data in modules:
            path.write_bytes(data)
            generation = generation_of(path)
            if generation.options not in commands:
                commands[generation.options] = self.command(generation.options)
            inside = free_name(_beneath(name), taken)
            bitcode = with_options(bitcode_of(data), generation.options)
            yield inside, bitcode, commands[generation.options], generation.index or None
            done()

    def command(self, options: tuple[str, ...]) -> tuple[str, ...]:
        """Arguments of ``-cc1`` that compile a module with some options of code generation.

        Raises:
            ToolchainError: the compiler does not tell them.
            CompileTimeout: it did not end.
        """
        files = ("-x", "ir", "-c", os.devnull, "-o", "module.o", "-###")
        question = [*self.toolchain.back_end, self.optimization, *options, *files]
        words = front_end_words(driver_plan(question, self.timeout_s))
        if words is None:
            raise ToolchainError(f"{self.toolchain.name} does not say how it compiles with {' '.join(options)}")
        return tuple(_kept(words[words.index("-cc1") : -1]))


def _kept(words: list[str]) -> Iterator[str]:
    rest = iter(words)
    for word in rest:
        if word in _OF_ONE_COMPILE:
            next(rest, None)
        elif not word.startswith(_OF_THIS_MACHINE):
            yield word


def _beneath(name: str) -> str:
    """A name that stays within a folder."""
    return "/".join(part for part in PurePosixPath(name).parts if part not in ("/", "//", "..")) or "module"
