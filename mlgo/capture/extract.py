"""From the units of a build to a project of a corpus: bitcode by the configured clang, one row for each source."""

import hashlib
import os
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from mlgo.capture.builds import Unit, as_text
from mlgo.capture.options import compile_portably, portable
from mlgo.compiler.frontend import FrontEnd
from mlgo.compiler.module_file import with_options
from mlgo.core.errors import CompileError, ConfigError
from mlgo.corpus.build import columns_of, columns_without

_LANGUAGES = ("c", "c++")


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
    extraction: Extraction, units: Sequence[Unit], done: Callable[[], object] = lambda: None
) -> Iterator[dict[str, Any]]:
    """Rows of ``artifacts.PROJECT``, in the order of units; a few of them are in memory at a time.

    A unit that is no C or C++, whose source is gone, or that does not compile is a row with its reason.
    """

    def one(unit: Unit) -> dict[str, Any]:
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


def _row(extraction: Extraction, unit: Unit) -> dict[str, Any]:
    row = {
        "project": extraction.project,
        "module": unit.name,
        "language": unit.compile.language,
        "licence": extraction.licence,
    }
    try:
        return row | _columns(extraction, unit)
    except ConfigError as error:
        return row | columns_without(as_text(f"options: {error}"))
    except CompileError as error:
        return row | columns_without(as_text(f"{error.kind}: {str(error).replace(f'{unit.compile.folder}/', '')}"))


def _columns(extraction: Extraction, unit: Unit) -> dict[str, Any]:
    one, front_end = unit.compile, extraction.front_end
    if one.problem:
        return columns_without(as_text(one.problem))
    if one.language not in _LANGUAGES:
        return columns_without(f"language: {one.language or as_text(f'none is known for {Path(one.source).name}')}")
    if not one.folder.is_dir():
        return columns_without(as_text(f"gone: folder {one.folder.name}, where it was compiled, is no longer there"))
    if not (one.folder / one.source).is_file():
        return columns_without(as_text(f"gone: {one.source} is no longer there"))
    options, source = portable(one.options), one.source
    hiding = [f"-ffile-prefix-map={folder}=." for folder in extraction.hidden]
    if hiding and Path(source).is_absolute():
        source = os.path.relpath(source, one.folder)
    name = hashlib.sha256(unit.name.encode("utf-8", "surrogateescape")).hexdigest()
    bitcode = extraction.folder / f"{name}.bc"
    try:
        known = compile_portably(front_end, one.folder, one.language, [*options.front_end, *hiding], source, bitcode)
        columns = columns_of(front_end, bitcode)
    finally:
        bitcode.unlink(missing_ok=True)
    generation = [option for option in known if option in options.code_generation]
    return columns | {"bitcode": with_options(columns["bitcode"], generation)}
