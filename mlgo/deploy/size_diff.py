"""Two builds compared by size: files against files, and in them symbols against symbols.

A file is a program, a shared object, an object or a static archive of ELF. Two folders are compared by the relative
paths of the files in them. Symbols are compared by name (`symbols.folded`) over all files: copies of a function in
several files are one symbol. Where a file is stripped in one of the builds, its symbols stay out in the other, too.
"""

import re
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from fnmatch import fnmatchcase
from fractions import Fraction
from pathlib import Path
from typing import Literal, get_args

from mlgo.base.files import open_input, read_input
from mlgo.base.ships import AS_BUILT, Ships
from mlgo.errors import CorpusError, MlgoError, ObjectError
from mlgo.objects.archives import MAGIC, THIN_MAGIC, read_members
from mlgo.objects.elf import ELF
from mlgo.objects.symbols import KINDS, REST, architecture, bytes_by_symbol, has_symbols, is_linked

Form = Literal["linked", "objects", "archives"]
FORMS: tuple[Form, ...] = get_args(Form)
"""Programs and shared objects; objects; static archives."""

_UNITS = {"": 1, "B": 1, "kB": 1000, "KB": 1000, "KiB": 1 << 10, "MB": 1_000_000, "MiB": 1 << 20}
_LIMIT = re.compile(rf"([0-9]+(?:\.[0-9]+)?)\s*({'|'.join(_UNITS)}|%)")


class ComparisonError(MlgoError):
    """Two builds cannot be compared. A build that has grown beyond a limit gives another status, 1."""

    exit_status = 2


@dataclass(frozen=True)
class Limit:
    """Growth that is allowed."""

    amount: Fraction  # in bytes, or in percent of the size before
    in_percent: bool  # which of both

    @classmethod
    def of(cls, text: str) -> "Limit":
        """Read a limit such as ``0.5%``, ``1KiB`` or ``300``."""
        match = _LIMIT.fullmatch(text.strip())
        if match is None:
            raise ValueError(f"{text!r} is no limit; examples are 0.5%, 300 (bytes) and 1KiB")
        amount = Fraction(match[1])
        return cls(amount, True) if match[2] == "%" else cls(amount * _UNITS[match[2]], False)

    def is_exceeded(self, before: int, after: int) -> bool:
        """Whether a size in bytes has grown by more than this."""
        allowed = self.amount * before / 100 if self.in_percent else self.amount
        return after - before > allowed


@dataclass(frozen=True)
class SizeChange:
    """Size of a file or symbol before and after."""

    name: str  # relative path, or name of the symbol
    before: Mapping[str, int] | None  # bytes by kind; None where the first build does not have it
    after: Mapping[str, int] | None  # the same of the second build

    @property
    def sizes(self) -> tuple[int, int]:
        """Bytes before and after, of all kinds together."""
        return sum((self.before or {}).values()), sum((self.after or {}).values())

    @property
    def growth(self) -> int:
        """Bytes that it has more than before."""
        before, after = self.sizes
        return after - before


@dataclass(frozen=True)
class SizeDiff:
    """Two builds compared."""

    sections: Mapping[str, tuple[int, int]]  # bytes before and after by measure: `KINDS` and `total`
    files: Sequence[SizeChange]  # all files of both builds; those that changed most come first
    # Symbols whose size changed, likewise; among them `symbols.REST`, what belongs to none.
    symbols: Sequence[SizeChange]
    stripped: Sequence[str]  # files that were compared without their symbols
    forms: Mapping[Form, int]  # number of files by form, each path once
    unread: int  # members of archives that are not ELF, such as bitcode, and count nothing


@dataclass(frozen=True)
class _File:
    """Contents of a file: its objects, which are one but for archives, and how many members are none."""

    path: Path
    objects: tuple[bytes, ...]
    form: Form
    named: bool
    unread: int

    @property
    def architectures(self) -> set[tuple[int, int]]:
        return {architecture(data) for data in self.objects}

    def sizes(self, counted: Collection[str], *, named: bool) -> Counter[tuple[str, str]]:
        with _naming_file(self.path):
            found = sum((bytes_by_symbol(data, named=named) for data in self.objects), Counter[tuple[str, str]]())
        return Counter({key: size for key, size in found.items() if key[1] in counted})


def compare_builds(
    before: Path,
    after: Path,
    *,
    only: Sequence[str] = (),
    forms: Sequence[Form] = FORMS,
    ships: Ships = AS_BUILT,
    progress: Callable[[Sequence[str]], Iterable[str]] = iter,
) -> SizeDiff:
    """Compare two files, or two folders by relative paths.

    Args:
        only: in folders, patterns of relative paths to look at, with ``*`` for anything; none means all.
        forms: in folders, of files to look at.
        ships: whether unwind tables count.
        progress: gives back the paths one by one, and may show how far it is.

    Raises:
        ComparisonError: one is missing or not ELF, nothing is in both, or files differ in form or machine.
    """
    for path in (before, after):
        if not path.exists():
            raise ComparisonError(f"{path} does not exist")
        if not path.is_dir() and not path.is_file():
            raise ComparisonError(f"{path} is neither a folder nor a regular file")
    if before.is_dir() != after.is_dir():
        folder, file = (before, after) if before.is_dir() else (after, before)
        raise ComparisonError(f"{folder} is a folder and {file} is a file; compare two folders or two files")
    if not before.is_dir():
        return _compare([(after.name, before, after)], FORMS, ships, _read_measurable, progress)
    old, new = _paths(before, only), _paths(after, only)
    pairs = [(name, old.get(name), new.get(name)) for name in sorted(old.keys() | new.keys())]
    diff = _compare(pairs, forms, ships, _read, progress)
    if not any(one.before is not None and one.after is not None for one in diff.files):
        raise ComparisonError(
            f"{before} and {after} have no file in common that can be compared (ELF or static archive, of the same "
            "relative path); give the folders that correspond to each other"
        )
    return diff


def _compare(
    pairs: Sequence[tuple[str, Path | None, Path | None]],
    forms: Sequence[Form],
    ships: Ships,
    read: Callable[[Path], _File | None],
    progress: Callable[[Sequence[str]], Iterable[str]],
) -> SizeDiff:
    """Compare files by name; a path is None where a build has no such file."""
    files, stripped, unread = [], [], 0
    counted = [kind for kind in KINDS if kind != "unwind" or ships.unwind is not False]
    numbers: Counter[Form] = Counter()
    totals: tuple[Counter[tuple[str, str]], Counter[tuple[str, str]]] = Counter(), Counter()
    paths = {name: of for name, *of in pairs}
    for name in progress(list(paths)):
        found = [read(path) if path else None for path in paths[name]]
        present = [one for one in found if one is not None and one.form in forms]
        if not present:
            continue
        _check_alike(name, *found)
        named = all(one.named for one in present)
        sizes = [None if one is None else one.sizes(counted, named=named) for one in found]
        for total, one in zip(totals, sizes, strict=True):
            total.update(one or {})
        files.append(SizeChange(name, *(None if one is None else _by_kind(one) for one in sizes)))
        stripped += [] if named else [name]
        numbers[present[0].form] += 1
        unread += sum(one.unread for one in present)
    before, after = map(_by_kind, totals)
    sections = {kind: (before[kind], after[kind]) for kind in counted}
    sections["total"] = sum(before.values()), sum(after.values())
    old, new = map(_by_symbol, totals)
    symbols = [SizeChange(name, old.get(name), new.get(name)) for name in old.keys() | new.keys()]
    changed = [one for one in symbols if one.growth]
    return SizeDiff(sections, _largest_first(files), _largest_first(changed), stripped, numbers, unread)


def _by_kind(sizes: Mapping[tuple[str, str], int]) -> dict[str, int]:
    return {kind: sum(size for (_, of), size in sizes.items() if of == kind) for kind in KINDS}


def _by_symbol(total: Counter[tuple[str, str]]) -> dict[str, dict[str, int]]:
    """Bytes by kind of each symbol, and of what belongs to none."""
    found = {name: dict.fromkeys(KINDS, 0) for name in REST.values()}
    for (name, kind), size in total.items():
        found.setdefault(name, dict.fromkeys(KINDS, 0))[kind] = size
    return found


def _largest_first(changes: Iterable[SizeChange]) -> list[SizeChange]:
    return sorted(changes, key=lambda one: (-abs(one.growth), one.name))


def _paths(folder: Path, only: Sequence[str]) -> dict[str, Path]:
    """Regular files in a folder by relative path; links would count their targets twice."""
    files = (path for path in folder.rglob("*") if path.is_file() and not path.is_symlink())
    named = {path.relative_to(folder).as_posix(): path for path in files}
    return {name: path for name, path in named.items() if not only or any(fnmatchcase(name, one) for one in only)}


def _read(path: Path) -> _File | None:
    """Contents of a file; None if it is neither ELF nor an archive."""
    with _naming_file(path):
        with open_input(path) as file:
            magic = file.read(len(MAGIC))
        if magic in (MAGIC, THIN_MAGIC):
            members, data = list(read_members(path)), read_input(path)
            contents = [data[one.offset : one.offset + one.size] for one in members]
        elif magic.startswith(ELF):
            contents = [read_input(path)]
        else:
            return None
        objects = tuple(one for one in contents if one.startswith(ELF))
        named = all(map(has_symbols, objects))
        form: Form = "archives" if not magic.startswith(ELF) else "linked" if is_linked(objects[0]) else "objects"
        return _File(path, objects, form, named, len(contents) - len(objects))


def _read_measurable(path: Path) -> _File:
    found = _read(path)
    if found is None or not found.objects:
        raise ComparisonError(f"{path} is neither an ELF file nor a static archive of such files")
    return found


@contextmanager
def _naming_file(path: Path) -> Iterator[None]:
    """Say of which file an error is."""
    try:
        yield
    except OSError as error:
        raise ComparisonError(f"{path} cannot be read: {error.strerror}") from error
    except CorpusError as error:  # of an archive, which it names
        raise ComparisonError(str(error)) from error
    except ObjectError as error:
        raise ComparisonError(f"{path}: {error}") from error


def _check_alike(name: str, before: _File | None, after: _File | None) -> None:
    """See that a file is of one form and for one machine in both builds."""
    if before is None or after is None:
        return
    if before.form != after.form:
        raise ComparisonError(
            f"{name}: before {_WORDS[before.form]}, after {_WORDS[after.form]}; compare two of a kind"
        )
    if before.objects and after.objects and before.architectures != after.architectures:
        raise ComparisonError(
            f"{name}: before for {_machines(before)}, after for {_machines(after)}; compare two builds for one machine"
        )


_WORDS: dict[Form, str] = {"linked": "a linked file", "objects": "an object", "archives": "an archive"}
_MACHINES = {3: "x86", 8: "MIPS", 20: "PowerPC", 21: "PowerPC", 40: "Arm", 62: "x86-64", 183: "AArch64", 243: "RISC-V"}


def _machines(file: _File) -> str:
    return " and ".join(
        f"{_MACHINES.get(number, f'machine {number}')} ({bits} bits)" for bits, number in sorted(file.architectures)
    )
