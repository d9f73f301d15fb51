"""Links: the objects of a project into one file, and programs and shared objects as their build links them.

The linker is that of the ziglang wheel, whatever the build used, so every machine gives the same bytes. Libraries that
the build did not compile are left out, their symbols stay open. So what is measured is the project's own code.

Of a project's objects, second copies of COMDAT groups go, with their unwind entries, and equal constants are merged.
Nothing else is dropped: ``--gc-sections`` would need to know what the rest of the project calls. The functions of a
module are in one section, apart from those in groups, so it could only drop modules as a whole, and would do so with
each one that exports nothing because its symbols are hidden.
"""

import errno
import os
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Literal

from mlgo.base.scratch import scratch_directory
from mlgo.base.ships import AS_BUILT, Form, Relocation, Ships
from mlgo.errors import CompileTimeout, LinkError
from mlgo.host.command_line import checked, words
from mlgo.host.process import Child, without_folders
from mlgo.host.rustc import RUST_LIBRARY, rust_library
from mlgo.objects.elf import read_sections
from mlgo.objects.symbols import FunctionExtent, function_extents, read_references, section_kinds

# The modules are a part of their project, and some are programs of their own: missing symbols are left open (hidden
# ones only with --noinhibit-exec, which makes such errors warnings), and of several with one name the first counts.
# Code that is not position independent is patched when it is loaded (-z notext). clang asks for --eh-frame-hdr in every
# link. One thread: others are for other links.
_ALWAYS = words(
    """
    --eh-frame-hdr --strip-all --unresolved-symbols=ignore-all --allow-multiple-definition --noinhibit-exec --threads=1
    -z notext"""
)


def link_command(linker: Path, output: Path, arguments: Sequence[str]) -> list[str]:
    """The command that links parts of a project to a file, whatever is missing; see `await_linker`."""
    return [str(linker), "ld.lld", *_ALWAYS, "-o", str(output), *arguments]


def await_linker(linker: Child, timeout_s: float) -> None:
    """Wait for the end of a linker; LinkError where it refuses."""
    run = linker.finish(timeout_s)
    if run.returncode is None:
        raise CompileTimeout(f"the linker did not end within {timeout_s:g} s")
    if "No space left on device" in run.stderr or "NoSpaceLeft" in run.stderr:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
    if "unknown file type" in run.stderr:
        raise LinkError("the linker does not know these files; linked files are measured for ELF targets alone")
    if run.returncode != 0:
        errors = [line for line in run.stderr.splitlines() if "error:" in line][:3]
        raise LinkError(without_folders(f"the linker ended with status {run.returncode}: {' | '.join(errors)[:500]}"))


NOTHING_LEFT = "nothing is left: no entry point and no export needs any of its functions"
"""Why a link gave nothing."""

_OWN = re.compile(
    r"--?(?:no-)?pie|--(?:no-)?gc-sections|--icf(?:=\w+)?|-O\w*|--?Bsymbolic(?:-[a-z-]+)?|--exclude-libs=.*|"
    r"--no-eh-frame-hdr|--fat-lto-objects|--undefined=.+"
)
"""Options of a build's link that change what is linked, and that this linker has, too."""

_COMPRESSION_LEVEL = 19


KEEP_SECTIONS = "--no-gc-sections"
MERGED = "merged"
"""Name of the module that a whole linked file, or a group of its modules, is merged to."""


@dataclass(frozen=True)
class LinkedFile:
    """How a build makes a linked file; a row of ``artifacts.PROGRAMS_OF_PROJECT``."""

    project: str  # its project
    name: str  # path within the build
    kind: Literal["program", "shared"]  # what it is
    # In the order of linking: kind of the part, and names of its modules.
    parts: tuple[tuple[str, tuple[str, ...]], ...]
    options: tuple[str, ...] = ()  # further options of the build's link
    version_script: str = ""  # which symbols are exported; empty for all
    export_dynamic: bool = False  # a program that exports its symbols
    entry: str = ""  # entry point; empty for the usual one
    libraries: tuple[str, ...] = ()  # of rustc's own, by names that `rust_library` knows; no policy changes them

    @classmethod
    def of_row(cls, row: Mapping[str, Any]) -> "LinkedFile":
        """Read a row of the table."""
        parts = tuple((part["kind"], tuple(part["modules"])) for part in row["parts"])
        names = ("project", "kind", "version_script", "export_dynamic", "entry")
        libraries = tuple(name for name in row["foreign"] if name.startswith(RUST_LIBRARY))
        known = {name: row[name] for name in names}
        return cls(name=row["program"], parts=parts, options=tuple(row["options"]), libraries=libraries, **known)

    def only_part(self, *, is_group: bool = False) -> "LinkedFile":
        """The same with one part, `MERGED`, and without names, which decide nothing.

        A group of the file's modules is linked by itself, as the file is, but without dropping sections: other groups
        may need them.
        """
        options = (*self.own_options, *([KEEP_SECTIONS] if is_group else []))
        return replace(self, project="", name="", options=options, parts=(("object", (MERGED,)),))

    def part_of(self, needed: Iterable[str]) -> "LinkedFile":
        """What such a file keeps of one module, whose symbols others need: as `only_part`, without the others."""
        options = (*self.own_options, "--gc-sections", *(f"--undefined={symbol}" for symbol in needed))
        return replace(self, project="", name="", options=options, parts=(("object", (MERGED,)),), libraries=())

    @property
    def own_options(self) -> list[str]:
        """Options that decide what is linked, each as one word."""
        return [option for option in _with_values(self.options) if _OWN.fullmatch(option)]

    @property
    def modules(self) -> tuple[str, ...]:
        """Names of all modules, each once, in order."""
        return tuple(dict.fromkeys(name for _, names in self.parts for name in names))


_PLACES: Mapping[str, Relocation] = {
    **dict.fromkeys(("shared", "Bshareable", "r", "relocatable"), "shared"),
    **dict.fromkeys(("pie", "pic-executable", "static-pie"), "pie"),
    **dict.fromkeys(("no-pie", "no-pic-executable", "nopie"), "fixed"),
}
_PLACE, _UNWIND = re.compile(r"-f(no-)?(?:pic|PIC|pie|PIE)"), re.compile(r"-f(no-)?(?:asynchronous-)?unwind-tables")
_SECTIONS = re.compile(r"-f(no-)?function-sections")
_OF_LINK = re.compile(rf"{_PLACE.pattern}|-f(?:no-)?(?:function|data)-sections")
"""Options of a compile that follow from the link."""


def relocation_of(link: Iterable[str], default: Relocation = "fixed") -> Relocation:
    """Where the code of a link may lie, by the words of the linker, or of a compiler that links.

    ``default`` is for links that say nothing: lld makes programs at a fixed address then, most compilers do not.
    """
    names = [word.lstrip("-") for word in link if word.startswith("-")]
    placed = [_PLACES[name] for name in names if name in _PLACES]
    if "shared" in placed:
        return "shared"
    return placed[-1] if placed else "fixed" if "static" in names else default


def ships_of(file: LinkedFile, options: Sequence[Sequence[str]], form: Form = "objects") -> Ships:
    """What ships, by the flags of a build.

    Args:
        file: its options are those of the link.
        options: of each compile. One for a fixed address makes a program that does not say more one, too; all others
            may lie anywhere, as compilers of today have it.
        form: ``whole`` has a section for each function, as full link-time optimization has.
    """
    fixed = any(_is_last(_PLACE, one, "no-") for one in options)
    relocation = "shared" if file.kind == "shared" else relocation_of(file.options, "fixed" if fixed else "pie")
    own = "all" if file.kind == "shared" or file.export_dynamic else "entry"
    folding = [word.partition("=")[2] or "all" for word in _with_values(file.options) if re.match("--?icf=", word)]
    return Ships.model_validate(
        {
            "form": form,
            "relocation": relocation,
            "exports": "listed" if file.version_script and own == "all" else own,
            "sections": form == "whole" or all(_is_last(_SECTIONS, one, None) for one in options),
            "folding": folding[-1] if folding else "none",
            "unwind": not options or not all(_is_last(_UNWIND, one, "no-") for one in options),
        }
    )


def _is_last(pattern: re.Pattern[str], options: Iterable[str], said: str | None) -> bool:
    """Whether the last of some options says so, by the first group of their pattern."""
    found = [match[1] for match in map(pattern.fullmatch, options) if match]
    return bool(found) and found[-1] == said


def generation_options(ships: Ships, options: Sequence[Sequence[str]]) -> list[str]:
    """Options of the one compile of several modules: what the link wants, and what all of their own have in common."""
    common = [one for one in (options[0] if options else ()) if all(one in other for other in options)]
    own = [one for one in common if not _OF_LINK.fullmatch(one)]
    return [*own, *ships.model_copy(update={"sections": ships.sections is not False}).code_options]


def why_unmerged(link: Iterable[str]) -> str:
    """Why a link cannot be of one module, by words of the linker; empty where it can."""
    for word in link:
        if re.fullmatch(r"-r|-*relocatable", word):
            return f"{word}: an object is made, whose bitcode would be lost"
        if re.fullmatch(r"-T(?!text|data|bss).*|-*(?:default-)?script(?:=.*)?|-dT", word):
            return f"{word}: a linker script places sections by names of files"
    return ""


def differing_options(options: Sequence[Sequence[str]]) -> list[str]:
    """Options that some modules were compiled with and others were not, in alphabetical order."""
    every = {option for one in options for option in one}
    return sorted(option for option in every if not all(option in one for one in options))


def link_file(
    linker: Path,
    file: LinkedFile,
    objects: Mapping[str, Path],
    timeout_s: float,
    ships: Ships = AS_BUILT,
    options: Sequence[str] = (),
) -> bytes:
    """Link a file from objects, by name of the module; `measure_file` measures it.

    Args:
        ships: what is other than the build says.
        options: further ones, which leave code and constants as they are.

    Raises:
        LinkError: the linker refuses, or nothing is left of a program because nothing calls it.
        ObjectError: what it wrote is not an ELF file that can be measured.
    """
    with scratch_directory() as folder:
        output = folder / "linked"
        arguments = [*link_arguments(file, objects, folder, ships), *options]
        await_linker(Child(link_command(linker, output, arguments)), timeout_s)
        data = output.read_bytes()
    if not section_sizes(data)["text"]:
        raise LinkError(NOTHING_LEFT)
    return data


def link_and_place(
    linker: Path, file: LinkedFile, objects: Mapping[str, Path], timeout_s: float, ships: Ships = AS_BUILT
) -> tuple[bytes, list[FunctionExtent]]:
    """The linked file, and its functions by address, whose inputs are named modules; otherwise as `link_file`."""
    names = {str(path): name for name, path in objects.items()}
    data, link_map = _link_with_map(linker, file, objects, timeout_s, ships)
    extents = function_extents(data, link_map)
    return data, [replace(one, input=names[one.input]) for one in extents if one.input in names]


def _link_with_map(
    linker: Path, file: LinkedFile, objects: Mapping[str, Path], timeout_s: float, ships: Ships, *options: str
) -> tuple[bytes, str]:
    """The linked file, and what the linker says of it."""
    with scratch_directory() as folder:
        words = (f"-Map={folder / 'map'}", "--no-demangle", *options)
        data = link_file(linker, file, objects, timeout_s, ships, words)
        return data, (folder / "map").read_text(errors="replace")


def needed_symbols(
    linker: Path, file: LinkedFile, objects: Mapping[str, Path], timeout_s: float, ships: Ships = AS_BUILT
) -> dict[str, set[str]]:
    """Symbols that a linked file keeps and other inputs than their own name, by module; otherwise as `link_file`.

    Modules of which it keeps nothing have no entry.
    """
    names = {str(path): name for name, path in objects.items()}
    ships = ships.model_copy(update={"sections": True})
    kept, users = read_references(_link_with_map(linker, file, objects, timeout_s, ships, "--cref")[1])
    return {
        names[path]: {symbol for symbol in symbols if users.get(symbol, {path}) != {path}}
        for path, symbols in kept.items()
        if path in names
    }


def measure_file(data: bytes) -> dict[str, int]:
    """Sizes of a linked file in bytes, by measure, see `SHIPPED`."""
    import pyarrow as pa  # workers, which do not measure, shall not hold it

    compressed = pa.Codec("zstd", compression_level=_COMPRESSION_LEVEL).compress(data)
    return section_sizes(data) | {"compressed": len(compressed)}


def section_sizes(data: bytes) -> dict[str, int]:
    """The same without the compressed size; ObjectError where it is no ELF file that can be measured."""
    sections = read_sections(data)
    sizes = {kind: int(sections["size"][mask].sum()) for kind, mask in section_kinds(data, sections).items()}
    return sizes | {"total": sum(sizes.values())}


def link_arguments(file: LinkedFile, paths: Mapping[str, Path], folder: Path, ships: Ships = AS_BUILT) -> list[str]:
    """Options of a build's link that change what is linked, and inputs in order; ``ships`` overrules them.

    Of an archive a linker takes what is needed. A version script is written to ``folder``. A shared object stays one.

    Raises:
        LinkError: only listed names shall be exported, and there is no list.
    """
    options = file.own_options
    if file.kind == "shared":
        options += ["-shared", "--undefined-version"]
        ships = ships.model_copy(update={"relocation": None})
    else:
        entry = checked("symbol", file.entry, "entry point") if file.entry else "main"
        options += ["-e", entry, *(["--export-dynamic"] if file.export_dynamic else [])]
    if ships.exports == "listed" and not file.version_script:
        raise LinkError(f"exports=listed: the link of {file.name} has no version script")
    if file.version_script and ships.exports in (None, "listed"):
        (folder / "exports").write_text(file.version_script)
        options += ["--version-script", str(folder / "exports")]
    for kind, names in file.parts:
        members = [str(paths[name]) for name in names]
        options += ["--start-lib", *members, "--end-lib"] if kind == "archive" else members
    return [*options, *map(str, map(rust_library, file.libraries)), *ships.lld_options]


def _with_values(options: Sequence[str]) -> Iterator[str]:
    """Options whose value may be the next word, each as one word."""
    rest = iter(options)
    for word in rest:
        yield f"{word}={next(rest, '')}" if word in ("--icf", "--exclude-libs") else word
