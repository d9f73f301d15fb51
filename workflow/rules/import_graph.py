"""The files of this package that a program runs, by its imports: what a rule or a stage depends on."""

import ast
import json
import os
import re
from collections.abc import Collection, Iterator
from functools import cache
from pathlib import Path

from mlgo.base.files import file_sha256, json_text, write_json, write_text

_REFERENCE = re.compile(r"(?P<module>mlgo(\.\w+)+)(:\w+)?")
TASKS = "mlgo.host.tasks."
"""Beginning of the modules that the registry of tasks names, those of the JIT apart."""


class ImportGraph:
    """Which files of ``mlgo/`` a program imports.

    Imports inside functions count. A registry names modules as ``module:attribute``, of which a program loads few.

    Args:
        store: file that keeps what each file names, so that only changed files are parsed.
    """

    def __init__(self, store: Path | None = None) -> None:
        self._store, self._changed = store, False
        known = json.loads(store.read_text()) if store and store.exists() else {}
        self._names: dict[str, tuple[str, list[str]]] = known
        self._resolved: dict[str, tuple[frozenset[str], dict[str, frozenset[str]]]] = {}

    def files(self, program: str, registered: Collection[str] = (TASKS,)) -> list[str]:
        """Files that a program imports, itself apart, sorted; paths are relative to the folder with ``mlgo/``.

        Args:
            registered: beginnings of the modules that count where a registry names them.
        """
        found: set[str] = set()
        left = [program]
        while left:
            imported, named = self._direct(left.pop())
            wanted = [files for name, files in named.items() if name.startswith(tuple(registered))]
            new = imported.union(*wanted) - found
            found |= new
            left += new
        if self._store and self._changed:
            write_json(self._store, self._names)
            self._changed = False
        return sorted(found)

    def _direct(self, path: str) -> tuple[frozenset[str], dict[str, frozenset[str]]]:
        """Files that a file imports itself, and those of each module that it registers."""
        if path not in self._resolved:
            files = {name: _files_of(name.partition(":")[0]) for name in self._named(path)}
            named = {name: some for name, some in files.items() if ":" in name}
            imported = frozenset[str]().union(*(some for name, some in files.items() if name not in named))
            self._resolved[path] = imported, named
        return self._resolved[path]

    def _named(self, path: str) -> list[str]:
        status = Path(path).stat()
        version = f"{status.st_mtime_ns} {status.st_size}"
        if self._names.get(path, ("", []))[0] != version:
            nodes = ast.walk(ast.parse(Path(path).read_text()))
            names = {name for node in nodes for name in _names_of(node, Path(path)) if name.startswith("mlgo")}
            self._names[path], self._changed = (version, sorted(names)), True
        return self._names[path][1]


def write_hashes(path: Path, files: Collection[str], root: Path) -> str:
    """Write the hashes of files below a folder, if they changed.

    A first time the file is as old as the newest of them: what was made of these files stays fresh.
    """
    text = json_text({file: _sha256(root / file) for file in sorted(files)})
    is_new = not path.exists()
    if is_new or path.read_text() != text:
        write_text(path, text)
    if is_new:
        newest = max((root / file).stat().st_mtime_ns for file in files)
        os.utime(path, ns=(newest, newest))
    return str(path)


@cache
def _sha256(path: Path) -> str:
    return file_sha256(path)


def _names_of(node: ast.AST, path: Path) -> Iterator[str]:
    match node:
        case ast.Import():
            yield from (one.name for one in node.names)
        case ast.ImportFrom(module=str(module), level=0):
            yield from (f"{module}.{one.name}" for one in node.names)
        case ast.Dict() | ast.Tuple() | ast.List():
            values = node.values if isinstance(node, ast.Dict) else node.elts
            texts = [one.value for one in values if isinstance(one, ast.Constant) and isinstance(one.value, str)]
            yield from (text for text in texts if _REFERENCE.fullmatch(text))
        case ast.JoinedStr(values=[ast.FormattedValue(value=ast.Name(id="__name__")), *_]):
            yield from (".".join(one.with_suffix("").parts) for one in path.parent.glob("*.py"))  # all of a package


@cache
def _files_of(name: str) -> frozenset[str]:
    """Files that importing a name runs: its module and the packages above it; an attribute has none of its own."""
    parts = name.split(".")
    places = [Path(*parts[: number + 1]) for number in range(len(parts))]
    files = [path for place in places for path in (place / "__init__.py", place.with_suffix(".py"))]
    return frozenset(str(path) for path in files if path.exists())
