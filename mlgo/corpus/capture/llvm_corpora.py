"""Corpora in the layout of LLVM's own tools (``llvm/utils/mlgo-utils``) and of google/ml-compiler-opt.

A folder holds ``corpus_description.json`` with the keys ``modules``, ``has_thinlto`` and, where all modules are
compiled alike, ``global_command_override``. Beside it, each module has ``NAME.bc``, without an override ``NAME.cmd``
(arguments of clang's ``-cc1``, each ended by NUL), and with ThinLTO ``NAME.thinlto.bc``, the index of its back end. A
name may hold slashes. Tools that combine corpora compare all keys, so nothing else is written into the description.

Where modules of ours are exported, a command is the call of clang's own front end (``-cc1``) that compiles the module
here, as clang itself prints it, without what names this machine or the files of one compile. A module's file keeps the
options around its bitcode, so a corpus that is read again gives the same bytes.
"""

import functools
import os
from collections.abc import Iterable
from functools import partial
from pathlib import Path

from pydantic import BaseModel, ConfigDict

from mlgo.base.config import CompileConfig
from mlgo.base.files import MAX_TEXT_BYTES, beneath, read_input, relative, write_bytes, write_json
from mlgo.corpus.capture.bitcode import BitcodeUnit, Piece, split_command
from mlgo.corpus.capture.builds import as_text, free_name
from mlgo.corpus.capture.databases import read_json_as
from mlgo.corpus.capture.objects import driver_plan, front_end_words
from mlgo.corpus.capture.options import options_in_command
from mlgo.errors import ArtifactError, ConfigError, CorpusError, ToolchainError
from mlgo.host.module_file import Generation, bitcode_of, generation_of, module_file
from mlgo.host.toolchain import Toolchain

DESCRIPTION = "corpus_description.json"
UNSPECIFIED = "<UNSPECIFIED>"
"""The override of a corpus whose command somebody has to write by hand."""


class _Description(BaseModel):
    model_config = ConfigDict(strict=True)

    modules: list[str]
    has_thinlto: bool
    global_command_override: list[str] | None = None


def read_llvm_corpus(folder: Path) -> list[BitcodeUnit]:
    """The modules of a corpus as listed; bitcode stays in its files."""
    path = folder / DESCRIPTION
    description = read_json_as(path, _Description, "description of a corpus")
    override = description.global_command_override
    if not description.modules:
        raise CorpusError(f"{path} lists no modules")
    if override == [UNSPECIFIED]:
        raise CorpusError(f"{path}: global_command_override is {UNSPECIFIED}; write the options of the build there")
    try:
        shared = None if override is None else options_in_command(override)
    except ConfigError as error:
        raise CorpusError(f"{path}: global_command_override: {error}") from error
    return [_read_module(folder, name, shared, description.has_thinlto) for name in description.modules]


def _read_module(folder: Path, name: str, shared: tuple[str, ...] | None, with_index: bool) -> BitcodeUnit:
    try:
        index = folder / relative(f"{name}.thinlto.bc")
    except ArtifactError as error:
        raise CorpusError(f"{folder / DESCRIPTION}: module {name} lies outside the folder, or nowhere") from error
    bitcode = folder / f"{name}.bc"
    for path in [bitcode, *([index] if with_index else [])]:
        if not path.is_file():
            raise CorpusError(f"{path} is missing, which {DESCRIPTION} lists")
    imports = Piece(index) if with_index else None
    if shared is not None:
        return BitcodeUnit(as_text(name), Piece(bitcode), shared, imports)
    path = folder / f"{name}.cmd"
    try:
        command = split_command(read_input(path, MAX_TEXT_BYTES))
    except OSError as error:
        raise CorpusError(f"{path} cannot be read: {error.strerror}") from error
    if command[:1] != ("-cc1",):
        raise CorpusError(f"{path} does not begin with -cc1; it was not made by clang's -fembed-bitcode=all")
    return unit_of_command(as_text(name), Piece(bitcode), command, imports)


def unit_of_command(name: str, piece: Piece, command: Iterable[str], index: Piece | None = None) -> BitcodeUnit:
    """A module with the code generation of the ``-cc1`` command that made it."""
    try:
        return BitcodeUnit(name, piece, options_in_command(command), index)
    except ConfigError as error:
        return BitcodeUnit(name, piece, index=index, problem=f"options: {error}")


_OF_ONE_COMPILE = ("-main-file-name", "-o", "-x", "-dumpdir", "-resource-dir")
"""Options with a value in the next word that a corpus has no use for."""
_OF_THIS_MACHINE = ("-fdebug-compilation-dir=", "-fcoverage-compilation-dir=")


def export_corpus(
    folder: Path, modules: Iterable[tuple[str, Path]], toolchain: Toolchain, settings: CompileConfig
) -> int:
    """Write modules, given as name and file, to a new folder, and return their number; one is in memory at a time.

    Names may be absolute or hold ``..``; in the corpus they lie beneath the folder. The description comes last, so a
    folder without one is not whole.
    """
    if folder.is_dir() and any(folder.iterdir()):
        raise CorpusError(f"{folder} is not empty; name another folder")
    command = functools.cache(partial(_command, toolchain, settings))
    names, with_index, taken = [], 0, dict[str, int]()
    for name, module in modules:
        names.append(free_name(beneath(name) or "module", taken))
        relative(f"{names[-1]}.thinlto.bc", "module")
        path, generation = folder / names[-1], generation_of(module)
        bitcode = module_file(bitcode_of(module.read_bytes()), Generation(generation.options))
        write_bytes(path.with_name(f"{path.name}.bc"), bitcode)
        write_bytes(path.with_name(f"{path.name}.cmd"), command(generation.options))
        if generation.index:
            write_bytes(path.with_name(f"{path.name}.thinlto.bc"), generation.index)
            with_index += 1
    if not names:
        raise CorpusError("there is no module to export")
    if with_index not in (0, len(names)):
        raise CorpusError(f"{with_index} of {len(names)} modules have an index of ThinLTO; all or none must")
    write_json(folder / DESCRIPTION, {"modules": names, "has_thinlto": bool(with_index)})
    return len(names)


def _command(toolchain: Toolchain, settings: CompileConfig, options: tuple[str, ...]) -> bytes:
    """Arguments of ``-cc1`` that compile a module with some options of code generation, each ended by NUL."""
    files = ("-x", "ir", "-c", os.devnull, "-o", "module.o", "-###")
    question = [*toolchain.back_end, settings.optimization, *options, *files]
    words = front_end_words(driver_plan(question, settings.compile_timeout_s))
    if words is None:
        raise ToolchainError(f"{toolchain.name} does not say how it compiles with {' '.join(options)}")
    portable, rest = [], iter(words[words.index("-cc1") : -1])
    for word in rest:
        if word in _OF_ONE_COMPILE:
            next(rest, None)
        elif not word.startswith(_OF_THIS_MACHINE):
            portable.append(f"{word}\0")
    return "".join(portable).encode("utf-8", "surrogateescape")
