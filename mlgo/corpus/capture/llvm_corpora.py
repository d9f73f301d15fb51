"""Corpora in the layout of LLVM's own tools (``llvm/utils/mlgo-utils``) and of google/ml-compiler-opt.

A folder holds ``corpus_description.json`` with the keys ``modules``, ``has_thinlto`` and, where all modules are
compiled alike, ``global_command_override``. Beside it, each module has ``NAME.bc``, without an override ``NAME.cmd``
(arguments of clang's ``-cc1``, each ended by NUL), and with ThinLTO ``NAME.thinlto.bc``, the index of its back end. A
name may hold slashes. Tools that combine corpora compare all keys, so nothing else is written into the description.

Where modules of ours are exported, a command is the call of clang's own front end (``-cc1``) that compiles the module
here, as clang itself prints it, without what names this machine or the files of one compile. A module's file keeps the
options around its bitcode, so a corpus that is read again gives the same bytes.
"""

import json
import os
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path, PurePosixPath
from typing import Any

from mlgo.base.files import write_bytes, write_json
from mlgo.base.scratch import scratch_directory
from mlgo.corpus.capture.bitcode import split_command
from mlgo.corpus.capture.builds import free_name
from mlgo.corpus.capture.objects import driver_plan, front_end_words
from mlgo.errors import CorpusError, ToolchainError
from mlgo.host.module_file import bitcode_of, generation_of, with_options
from mlgo.host.toolchain import Toolchain

DESCRIPTION = "corpus_description.json"
UNSPECIFIED = "<UNSPECIFIED>"
"""The override of a corpus whose command somebody has to write by hand."""


@dataclass(frozen=True)
class LlvmModule:
    """One module."""

    name: str  # relative to the corpus, without suffix
    bitcode: Path  # its file
    # Arguments of `-cc1` that compiled it; None where all modules share the override.
    command: tuple[str, ...] | None
    index: Path | None  # imports of a ThinLTO back end; None without ThinLTO


@dataclass(frozen=True)
class LlvmCorpus:
    """A corpus."""

    modules: tuple[LlvmModule, ...]  # as listed
    has_thinlto: bool  # whether modules have indexes
    override: tuple[str, ...] | None  # command of all modules; None where each has its own


def read_llvm_corpus(folder: Path) -> LlvmCorpus:
    """Read a corpus; bitcode stays in its files."""
    path = folder / DESCRIPTION
    try:
        description = json.loads(path.read_bytes())
    except (OSError, ValueError, RecursionError) as error:
        raise CorpusError(f"{path} cannot be read as JSON: {error}") from error
    names = _strings(path, description, "modules")
    if not names:
        raise CorpusError(f"{path} lists no modules")
    override = (
        _strings(path, description, "global_command_override") if "global_command_override" in description else None
    )
    if override == [UNSPECIFIED]:
        raise CorpusError(f"{path}: global_command_override is {UNSPECIFIED}; write the options of the build there")
    has_thinlto = description.get("has_thinlto")
    if not isinstance(has_thinlto, bool):
        raise CorpusError(f"{path}: has_thinlto must be true or false")
    modules = tuple(_read_module(folder, name, override is None, has_thinlto) for name in names)
    return LlvmCorpus(modules, has_thinlto, None if override is None else tuple(override))


def write_llvm_corpus(
    folder: Path,
    modules: Iterable[tuple[str, bytes, tuple[str, ...] | None, bytes | None]],
    override: tuple[str, ...] | None = None,
) -> int:
    """Write a corpus; the description comes last, so a folder without one is not whole."""
    names, with_index = [], 0
    for name, bitcode, command, index in modules:
        if (command is None) != (override is not None):
            raise CorpusError(f"{name}: a module has its own command exactly where the corpus has none for all")
        write_bytes(folder / f"{name}.bc", bitcode)
        if command is not None:
            write_bytes(
                folder / f"{name}.cmd", "".join(f"{word}\0" for word in command).encode("utf-8", "surrogateescape")
            )
        if index is not None:
            write_bytes(folder / f"{name}.thinlto.bc", index)
            with_index += 1
        names.append(name)
    if with_index not in (0, len(names)):
        raise CorpusError(f"{with_index} of {len(names)} modules have an index of ThinLTO; all or none must")
    description: dict[str, Any] = {"modules": names, "has_thinlto": bool(with_index)}
    if override is not None:
        description["global_command_override"] = list(override)
    write_json(folder / DESCRIPTION, description)
    return len(names)


def _read_module(folder: Path, name: str, with_command: bool, with_index: bool) -> LlvmModule:
    if PurePosixPath(name).is_absolute() or ".." in PurePosixPath(name).parts:
        raise CorpusError(f"{folder / DESCRIPTION}: module {name} lies outside the folder")
    bitcode, index = folder / f"{name}.bc", folder / f"{name}.thinlto.bc"
    for path in [bitcode, *([index] if with_index else [])]:
        if not path.is_file():
            raise CorpusError(f"{path} is missing, which {DESCRIPTION} lists")
    command = None
    if with_command:
        path = folder / f"{name}.cmd"
        try:
            command = split_command(path.read_bytes())
        except OSError as error:
            raise CorpusError(f"{path} cannot be read: {error.strerror}") from error
        if command[:1] != ("-cc1",):
            raise CorpusError(f"{path} does not begin with -cc1; it was not made by clang's -fembed-bitcode=all")
    return LlvmModule(name, bitcode, command, index if with_index else None)


def _strings(path: Path, description: Any, key: str) -> list[str]:
    values = description.get(key) if isinstance(description, dict) else None
    if not isinstance(values, list) or not all(isinstance(value, str) for value in values):
        raise CorpusError(f"{path}: {key} must be a list of names")
    return values


_OF_ONE_COMPILE = ("-main-file-name", "-o", "-x", "-dumpdir", "-resource-dir")
"""Options with a value in the next word that a corpus has no use for."""
_OF_THIS_MACHINE = ("-fdebug-compilation-dir=", "-fcoverage-compilation-dir=")


@dataclass(frozen=True)
class Exporter:
    """Writes corpora for other tools."""

    toolchain: Toolchain  # compiler that the commands are for
    optimization: str  # level of the compiles
    timeout_s: float  # deadline of a question to the compiler

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
        """Arguments of ``-cc1`` that compile a module with some options of code generation."""
        files = ("-x", "ir", "-c", os.devnull, "-o", "module.o", "-###")
        question = [*self.toolchain.back_end, self.optimization, *options, *files]
        words = front_end_words(driver_plan(question, self.timeout_s))
        if words is None:
            raise ToolchainError(f"{self.toolchain.name} does not say how it compiles with {' '.join(options)}")
        return tuple(_portable_words(words[words.index("-cc1") : -1]))


def _portable_words(words: list[str]) -> Iterator[str]:
    rest = iter(words)
    for word in rest:
        if word in _OF_ONE_COMPILE:
            next(rest, None)
        elif not word.startswith(_OF_THIS_MACHINE):
            yield word


def _beneath(name: str) -> str:
    """A name that stays within a folder."""
    return "/".join(part for part in PurePosixPath(name).parts if part not in ("/", "//", "..")) or "module"
