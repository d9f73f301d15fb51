"""Which files of a build are which: builds rename, copy and install what they have made, and reach it through links.

A file is known by its place, else by its content: by the checksums that wrappers take when a call ends, and, as far as
files are still there when the build has ended, by these.
"""

import contextlib
import functools
import os
from collections.abc import Iterable, Iterator, Mapping, Sequence
from difflib import SequenceMatcher
from filecmp import cmp
from pathlib import Path
from typing import Generic, TypeVar

from mlgo.base.files import file_sha256, is_file
from mlgo.corpus.capture.bitcode import Piece, is_bitcode, is_object
from mlgo.corpus.capture.commands import CompileStep, LinkStep, Step

_Value = TypeVar("_Value")

Moved = Mapping[str, str]
"""Where files lie that are no longer what a step made there, by the checksum and the place that they had."""


@functools.lru_cache(maxsize=1 << 16)
def _real_folder(folder: Path) -> Path:
    try:
        return Path(os.path.realpath(folder))
    except ValueError:  # no folder has such a name
        return folder


def real_place(path: Path) -> Path:
    """The same file, in the folder that links lead to; the file itself may be a link."""
    return _real_folder(path.parent) / path.name


class Origins(Generic[_Value]):
    """What files of a build stand for."""

    def __init__(self) -> None:
        self._by_place: dict[Path, tuple[_Value, str]] = {}  # with the checksum, empty where none was taken
        self._by_content: dict[str, dict[Path, _Value]] = {}
        self._by_size: dict[int, dict[Path, None]] = {}  # of files that are there at the end

    def put(self, path: Path, value: _Value, contents: Mapping[Path, str]) -> None:
        """A step has made a file; ``contents`` are checksums of files when it ended."""
        place, content = real_place(path), contents.get(path, "")
        self._by_place[place] = value, content
        if content:
            self._by_content.setdefault(content, {})[place] = value
        if size := _size(place):
            self._by_size.setdefault(size, {})[place] = None

    def get(self, path: Path, contents: Mapping[Path, str]) -> _Value | None:
        """What a file stands for that a step reads; None for one that no step has made."""
        place, content = real_place(path), contents.get(path, "")
        value, before = self._by_place.get(place, (None, ""))
        if value is None or (content and before and content != before):
            same = self._same(place, content)
            return same[likest(place, same)] if same else value  # else it was changed in place, as strip does
        return value

    def _same(self, place: Path, content: str) -> Mapping[Path, _Value]:
        """What files with the same content stand for, by their places."""
        size = _size(place)
        content = content or (file_sha256(place) if size else "")
        equal = (one for one in self._by_size.get(size, ()) if cmp(one, place, shallow=False))
        return self._by_content.get(content) or {one: self._by_place[one][0] for one in equal}


def likest(path: Path, others: Iterable[Path]) -> Path:
    """The one of several files whose name is most like that of another: ``a.o.tmp`` for ``a.o``."""
    return max(others, key=lambda one: SequenceMatcher(None, one.name, path.name).ratio())


def find_moved(steps: Sequence[Step], *folders: Path) -> Moved:
    """Look for objects and linked files that a build has made and then moved."""
    made = [one for one in steps if isinstance(one, CompileStep | LinkStep) and one.output in one.contents]
    last = {one.output: one for one in made}
    here = {output for output in last if output.exists()}
    gone = [one for one in made if one.output not in here or last[one.output] is not one]
    found: dict[str, list[Path]] = {one.contents[one.output]: [] for one in gone}
    for path in objects_in(folders) if gone else ():
        if path not in here and (content := file_sha256(path)) in found:
            found[content].append(path)
    places = ((one, found[one.contents[one.output]]) for one in gone)
    return {_key(one): str(likest(one.output, files)) for one, files in places if files}


def place_of(step: CompileStep | LinkStep, moved: Moved) -> Path:
    """Where what a step has made lies when the build has ended."""
    return Path(str(moved.get(_key(step), step.output)))


def _key(step: CompileStep | LinkStep) -> str:
    return f"{step.contents.get(step.output)} {step.output}"


def objects_in(folders: Iterable[Path]) -> Iterator[Path]:
    """Objects and linked files in folders, without those that are links."""
    for folder in folders:
        for place, names, files in os.walk(folder):
            names.sort()
            for path in (Path(place, name) for name in sorted(files)):
                with contextlib.suppress(OSError):
                    start = b"" if path.is_symlink() else Piece(path).start()
                    if is_object(start) or is_bitcode(start):
                        yield path


def _size(path: Path) -> int:
    """Bytes of a file that can be read; 0 if there is none."""
    return path.stat().st_size if is_file(path) and os.access(path, os.R_OK) else 0
