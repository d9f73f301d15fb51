"""Everything that `mlgo capture --from` takes: what it is shows in its content, never in an option."""

import os
from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path

from mlgo.corpus.capture.bitcode import BitcodeUnit, Piece, find_embedded, find_modules, is_bitcode, is_object
from mlgo.corpus.capture.builds import Build, as_text, read_build, unique_names
from mlgo.corpus.capture.commands import CompileStep, LinkStep, Step
from mlgo.corpus.capture.databases import is_cmake, read_cmake, read_database
from mlgo.corpus.capture.llvm_corpora import DESCRIPTION, read_llvm_corpus, unit_of_command
from mlgo.errors import ConfigError, CorpusError, ObjectError
from mlgo.objects import archives

KINDS = (
    "compile_commands.json, the output of ninja -t compdb or of bazel aquery --output=jsonproto, a build folder of "
    f"CMake, a folder with {DESCRIPTION}, a folder of bitcode, an object or archive with embedded bitcode or a folder "
    "of them"
)
"""Kinds of builds that are recognised, for messages."""

_DATABASE = "compile_commands.json"


def import_build(path: Path, root: Path | None = None, options: Sequence[str] = ()) -> Build:
    """The units and programs of what somebody else has written down or built.

    Args:
        root: folder that names of sources are relative to; by default that of a CMake project, else here. Names of
            bitcode are relative to the folder that was given.
        options: of the code generation of bitcode that does not come with its own.
    """
    if not path.exists():
        raise CorpusError(f"{path} is not there")
    if path.name == DESCRIPTION:
        path = path.parent
    is_corpus = (path / DESCRIPTION).is_file()
    database = path / _DATABASE if path.is_dir() else path
    starts_so = database.is_file() and Piece(database).start().lstrip().startswith((b"[", b"{"))
    is_database = database.is_file() and (database.suffix == ".json" or starts_so)
    if options and (is_corpus or is_cmake(path) or is_database):
        raise ConfigError(f"--options are for bitcode without commands, and {path} comes with its own")
    if is_corpus:
        return _of_bitcode(read_llvm_corpus(path))
    if is_cmake(path):
        return read_cmake(path, root)
    if is_database:
        # As a build could do them, one after another: ninja lists links before their archives.
        return read_build(sorted(read_database(database, root), key=_turn), (root or Path()).absolute())
    modules = tuple(_units(path, tuple(options)))
    if not modules:
        raise CorpusError(f"{path} is none of these: {KINDS}")
    return _of_bitcode(modules)


def _of_bitcode(modules: Sequence[BitcodeUnit]) -> Build:
    """A build of modules whose names may be the same."""
    names = unique_names(one.name for one in modules)
    return Build((), (), modules=tuple(replace(one, name=name) for one, name in zip(modules, names, strict=True)))


def _turn(step: Step) -> int:
    if isinstance(step, LinkStep):
        return 1 if step.kind == "relocatable" else 3
    return 0 if isinstance(step, CompileStep) else 2


def _units(path: Path, options: tuple[str, ...]) -> Iterator[BitcodeUnit]:
    """Modules of a file, or of all files of a folder, by the beginnings of their content; other files are passed by."""
    if path.is_dir():
        for folder, folders, files in os.walk(path):
            folders.sort()
            for file in (Path(folder, name) for name in sorted(files)):
                if file.is_file():
                    yield from _of_file(file, as_text(file.relative_to(path).as_posix()), options)
    else:
        yield from _of_file(path, as_text(path.name), options)


def _of_file(file: Path, name: str, options: tuple[str, ...]) -> Iterator[BitcodeUnit]:
    try:
        start = Piece(file).start()
        if start in (archives.MAGIC, archives.THIN_MAGIC):
            for member in archives.read_members(file):
                within = f"{name}({as_text(member.name)})"
                yield from _of_piece(Piece(file, member.offset, member.size), within, options) or [
                    BitcodeUnit(within, Piece(file), problem="format: neither an object nor bitcode")
                ]
        elif is_bitcode(start) or is_object(start):
            yield from _of_piece(Piece(file, 0, file.stat().st_size), name, options)
    except CorpusError as error:
        yield BitcodeUnit(name, Piece(file), problem=f"archive: {error}")
    except OSError as error:  # one that cannot be read is no reason to leave out the others
        yield BitcodeUnit(name, Piece(file), problem=f"file: {error.strerror}")


def _of_piece(piece: Piece, name: str, options: tuple[str, ...]) -> list[BitcodeUnit]:
    """Modules in an object or in bitcode; none if it is neither."""
    start = piece.start()
    if is_bitcode(start) and name.endswith(".thinlto.bc"):
        return [BitcodeUnit(name, piece, problem="index: of ThinLTO, which holds no code")]
    try:
        if is_bitcode(start):
            found = find_modules(piece.read())
            return [BitcodeUnit(name, Piece(piece.path, piece.offset + at, size), options) for at, size in found]
        if is_object(start):
            embedded = find_embedded(piece.read())
            pieces = [Piece(piece.path, piece.offset + one.offset, one.size) for one in embedded]
            return [
                unit_of_command(name, one, what.command) if what.command else BitcodeUnit(name, one, options)
                for one, what in zip(pieces, embedded, strict=True)
            ]
    except ObjectError as error:
        return [BitcodeUnit(name, piece, problem=f"bitcode: {error}")]
    return []
