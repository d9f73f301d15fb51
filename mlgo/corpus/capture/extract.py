"""From the units of a build to a project of a corpus: bitcode by the configured clang, one row for each unit.

Bitcode that is there already stays as it is if it is for the configured target and level. A module of another level is
marked anew, see `ir_text`; one of another target is left out.
"""

import hashlib
import os
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

from mlgo.base.languages import LANGUAGES
from mlgo.corpus.build import columns_from, columns_of, columns_without, ir_of
from mlgo.corpus.capture.bitcode import BitcodeUnit, made_by, same_machine, triple_of
from mlgo.corpus.capture.builds import Unit, as_text
from mlgo.corpus.capture.ir_text import is_of_level, language_of, level_of
from mlgo.corpus.capture.levels import mark_anew
from mlgo.corpus.capture.options import compile_portably, portable, profile_of
from mlgo.errors import CompileError, CompilerExit, ConfigError
from mlgo.host.frontend import FrontEnd
from mlgo.host.module_file import bitcode_of, generation_of, with_options

_FOR_THE_LINK = b'!"EnableSplitLTOUnit"'
"""Flag of modules that clang has made for an optimization in the link."""

EDITED = "level"
"""Key of a row, beside the columns of its table: the level that a module had before it was marked anew."""


@dataclass(frozen=True)
class Extraction:
    """How units become modules.

    Attributes:
        project: name in the corpus.
        licence: SPDX identifier, or empty.
        front_end: compiles sources.
        folder: for files while they are in use.
        num_threads: compiles at a time.
        hidden: folders whose names must not get into modules, where they are by chance; the longest first.
    """

    project: str
    licence: str
    front_end: FrontEnd
    folder: Path
    num_threads: int
    hidden: tuple[Path, ...] = ()


def extract(
    extraction: Extraction, units: Sequence[Unit | BitcodeUnit], done: Callable[[], object] = lambda: None
) -> Iterator[dict[str, Any]]:
    """Rows of ``artifacts.PROJECT``, in the order of units; a few of them are in memory at a time.

    A unit that is no C or C++, whose source is gone, or that does not compile is a row with its reason.
    """

    def one(unit: Unit | BitcodeUnit) -> dict[str, Any]:
        row = _row(extraction, unit)
        done()
        return row

    with ThreadPoolExecutor(extraction.num_threads) as pool:
        ahead = 4 * extraction.num_threads
        waiting = [pool.submit(one, unit) for unit in units[:ahead]]
        for unit in units[ahead:]:
            yield waiting.pop(0).result()
            waiting.append(pool.submit(one, unit))
        for future in waiting:
            yield future.result()


def _row(extraction: Extraction, unit: Unit | BitcodeUnit) -> dict[str, Any]:
    if isinstance(unit, Unit):
        one = unit.compile
        language, folder, problem, columns = one.language, one.folder, one.problem, partial(_compiled, unit)
    else:
        language, folder, problem, columns = "", unit.piece.path.parent, unit.problem, partial(_taken, unit)
    row = {"project": extraction.project, "module": unit.name, "language": language, "licence": extraction.licence}
    if problem:
        return row | columns_without(as_text(problem))
    name = hashlib.sha256(unit.name.encode("utf-8", "surrogateescape")).hexdigest()
    bitcode = extraction.folder / f"{name}.bc"
    try:
        return row | columns(extraction, bitcode)
    except ConfigError as error:
        return row | columns_without(as_text(f"options: {error}"))
    except CompileError as error:
        return row | columns_without(as_text(f"{error.kind}: {str(error).replace(f'{folder}/', '')}"))
    finally:
        bitcode.unlink(missing_ok=True)


def _compiled(unit: Unit, extraction: Extraction, bitcode: Path) -> dict[str, Any]:
    one, front_end = unit.compile, extraction.front_end
    if one.language not in LANGUAGES:
        return columns_without(f"language: {one.language or as_text(f'none is known for {Path(one.source).name}')}")
    if not one.folder.is_dir():
        return columns_without(as_text(f"gone: folder {one.folder.name}, where it was compiled, is no longer there"))
    if not (one.folder / one.source).is_file():
        return columns_without(as_text(f"gone: {one.source} is no longer there"))
    options, source, profile = portable(one.options), one.source, profile_of(one.options, one.folder)
    if profile is not None and not profile[1].is_file():
        return columns_without(as_text(f"gone: profile {profile[1].name}, which {profile[0]} names, is not there"))
    hiding = [f"-ffile-prefix-map={folder}=." for folder in extraction.hidden]
    if hiding and Path(source).is_absolute():
        source = os.path.relpath(source, one.folder)
    flags = [*options.front_end, *hiding]
    known = compile_portably(front_end, one.folder, one.language, flags, source, bitcode, profile)
    attached = (profile[0], profile[1].read_bytes()) if profile else None
    bitcode.write_bytes(with_options(bitcode.read_bytes(), (), profile=attached))
    columns = columns_of(front_end, bitcode)
    generation = [option for option in known if option in options.code_generation]
    if front_end.task and front_end.task.in_code_generation:  # its optimization has used the profile
        attached = None
    return columns | {"bitcode": with_options(bitcode_of(columns["bitcode"]), generation, profile=attached)}


def _taken(unit: BitcodeUnit, extraction: Extraction, bitcode: Path) -> dict[str, Any]:
    """Columns of a module that is there already, for the target and the level of the configuration."""
    front_end = extraction.front_end
    toolchain, wanted = front_end.toolchain, front_end.settings.optimization
    try:
        bitcode.write_bytes(unit.piece.read())
        index = unit.index.read() if unit.index else b""
    except OSError as error:
        return columns_without(as_text(f"gone: {unit.piece.path.name} cannot be read: {error.strerror}"))
    own = generation_of(bitcode)
    options, index = own.options or unit.options, own.index or index
    bitcode.write_bytes(bitcode_of(bitcode.read_bytes()))
    try:
        ir = ir_of(front_end, bitcode)
    except CompilerExit:
        version = made_by(bitcode.read_bytes())
        if version is None or version[:1] <= toolchain.version[:1]:
            raise
        made, ours = (".".join(map(str, numbers)) for numbers in (version, toolchain.version))
        return columns_without(
            f"newer: made by LLVM {made}, and LLVM {ours} cannot read it; set toolchain: to a newer clang"
        )
    triple, language, level = triple_of(bitcode.read_bytes()), language_of(ir), level_of(ir)
    if triple and not same_machine(triple, toolchain.target):
        return columns_without(
            as_text(f"target: made for {triple}, not for {toolchain.target}; set target: to take it")
        )
    if language not in LANGUAGES:
        return columns_without(f"language: {language}")
    if level == "-O0":
        return columns_without("level: compiled with -O0, so its functions refuse optimization; compile it with -O1")
    if index and front_end.task and front_end.task.in_code_generation:
        return columns_without(
            f"index: a module of ThinLTO is not optimized yet, and task {front_end.task.name} needs one that is"
        )
    if not index and _FOR_THE_LINK in ir:
        return columns_without(
            "optimized: made with -flto, so its first optimization is done; compile with -Xclang -fembed-bitcode=all"
        )
    edited = {}
    if not is_of_level(level, wanted):
        mark_anew(front_end, ir, wanted, bitcode)
        ir, edited = ir_of(front_end, bitcode), {EDITED: level}
    columns = columns_from(front_end, bitcode, ir)
    return {"language": language} | columns | edited | {"bitcode": with_options(columns["bitcode"], options, index)}
