"""Programs and shared objects as they ship: linked as their build links them, and measured.

The linker is that of the ziglang wheel, whatever the build used, so every machine gives the same bytes. Libraries that
the build did not compile are left out, their symbols stay open. So what is measured is the project's own code.
"""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Literal

import pyarrow as pa

from mlgo.base.scratch import scratch_directory
from mlgo.errors import LinkError
from mlgo.host.linker import link
from mlgo.objects.elf import read_sections
from mlgo.objects.placed import Placed, placed_functions, section_kinds

NOTHING_LEFT = "nothing is left: no entry point and no export needs any of its functions"
"""Why a link gave nothing."""

_OWN = (
    "--gc-sections",
    "--no-gc-sections",
    "--icf",
    "-O",
    "-Bsymbolic",
    "--Bsymbolic",
    "--exclude-libs",
    "--no-eh-frame-hdr",
)
"""Beginnings of options of a build's link that change what is linked, and that this linker has, too."""

_COMPRESSION_LEVEL = 19


@dataclass(frozen=True)
class LinkedFile:
    """How a build makes a linked file; a row of ``artifacts.PROGRAMS_OF_PROJECT``.

    Attributes:
        project: its project.
        name: path within the build.
        kind: what it is.
        parts: in the order of linking: kind of the part, and names of its modules.
        options: further options of the build's link.
        version_script: which symbols are exported; empty for all.
        export_dynamic: a program that exports its symbols.
        entry: entry point; empty for the usual one.
    """

    project: str
    name: str
    kind: Literal["program", "shared"]
    parts: tuple[tuple[str, tuple[str, ...]], ...]
    options: tuple[str, ...] = ()
    version_script: str = ""
    export_dynamic: bool = False
    entry: str = ""

    @classmethod
    def of_row(cls, row: Mapping[str, Any]) -> "LinkedFile":
        """Read a row of the table."""
        parts = tuple((part["kind"], tuple(part["modules"])) for part in row["parts"])
        names = ("project", "kind", "version_script", "export_dynamic", "entry")
        return cls(
            name=row["program"], parts=parts, options=tuple(row["options"]), **{name: row[name] for name in names}
        )

    @property
    def modules(self) -> tuple[str, ...]:
        """Names of all modules, each once, in order."""
        return tuple(dict.fromkeys(name for _, names in self.parts for name in names))


@dataclass(frozen=True)
class Linked:
    """A linked file.

    Attributes:
        sizes: bytes by measure, see `SHIPPED`.
        functions: what is in it, by address; their inputs are names of modules.
    """

    sizes: dict[str, int]
    functions: list[Placed]


def shipped_sizes(
    linker: Path, file: LinkedFile, objects: Mapping[str, Path], timeout_s: float, *, fold: bool = False
) -> dict[str, int]:
    """Link a file and measure it.

    Args:
        linker: what `toolchain.find_linker` gives.
        file: what to link.
        objects: object file by name of the module.
        timeout_s: deadline of the link.
        fold: fold functions with identical code into one (``--icf=all``).

    Returns:
        Bytes by measure, see `SHIPPED`.

    Raises:
        LinkError: the linker refuses, or nothing is left of a program because nothing calls it.
        CompileTimeout: it took too long.
        ObjectError: what it wrote is not an ELF file that can be measured.
    """
    return _not_empty(measure_file(_link(linker, file, objects, timeout_s, fold=fold)))


def linked_total(linker: Path, file: LinkedFile, objects: Mapping[str, Path], timeout_s: float) -> int:
    """The total of `shipped_sizes` alone, without what compressing takes; arguments and errors are the same."""
    return _not_empty(section_sizes(_link(linker, file, objects, timeout_s)))["total"]


def link_and_place(linker: Path, file: LinkedFile, objects: Mapping[str, Path], timeout_s: float) -> Linked:
    """Link a file, measure it, and tell its functions. Arguments and errors are those of `shipped_sizes`."""
    names = {str(path): name for name, path in objects.items()}
    with scratch_directory() as folder:
        arguments = [*link_options(file, folder), *link_inputs(file, objects)]
        data = link(linker, arguments, timeout_s, link_map=folder / "map")
        placed = placed_functions(data, (folder / "map").read_text(errors="replace"))
    sizes = _not_empty(measure_file(data))
    return Linked(sizes, [replace(one, input=names[one.input]) for one in placed if one.input in names])


def _link(
    linker: Path, file: LinkedFile, objects: Mapping[str, Path], timeout_s: float, *, fold: bool = False
) -> bytes:
    with scratch_directory() as folder:
        arguments = [*link_options(file, folder), *link_inputs(file, objects)]
        return link(linker, arguments, timeout_s, fold=fold)


def _not_empty(sizes: dict[str, int]) -> dict[str, int]:
    if not sizes["text"]:
        raise LinkError(NOTHING_LEFT)
    return sizes


def measure_file(data: bytes) -> dict[str, int]:
    """Sizes of a linked file, see `SHIPPED`.

    Raises:
        ObjectError: not an ELF file that can be measured.
    """
    compressed = pa.Codec("zstd", compression_level=_COMPRESSION_LEVEL).compress(data)
    return section_sizes(data) | {"compressed": len(compressed)}


def section_sizes(data: bytes) -> dict[str, int]:
    """The same without the compressed size.

    Raises:
        ObjectError: not an ELF file that can be measured.
    """
    sections = read_sections(data)
    sizes = {kind: int(sections["size"][mask].sum()) for kind, mask in section_kinds(data, sections).items()}
    return sizes | {"total": sum(sizes.values())}


def link_options(file: LinkedFile, folder: Path) -> list[str]:
    """Options of a build's link that change what is linked: its kind, what it exports, what may go.

    Args:
        file: what to link.
        folder: for the version script.
    """
    options = [option for option in file.options if option.startswith(_OWN)]
    if file.kind == "shared":
        options += ["-shared", "--undefined-version"]
    else:
        options += ["-e", file.entry or "main", *(["--export-dynamic"] if file.export_dynamic else [])]
    if file.version_script:
        (folder / "exports").write_text(file.version_script)
        options += ["--version-script", str(folder / "exports")]
    return options


def link_inputs(file: LinkedFile, paths: Mapping[str, Path]) -> list[str]:
    """Files to link, in order; of an archive a linker takes what is needed."""
    words: list[str] = []
    for kind, names in file.parts:
        members = [str(paths[name]) for name in names]
        words += ["--start-lib", *members, "--end-lib"] if kind == "archive" else members
    return words
