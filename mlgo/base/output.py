"""Folders for output: what others have put there stays."""

import os
import re
import shutil
from collections.abc import Collection
from pathlib import Path

from mlgo.base.artifacts import read_provenance
from mlgo.base.files import joined, read_json, write_json
from mlgo.errors import ArtifactError, ConfigError

MADE = "made-by-mlgo.json"
"""File in a folder for output that lists the folders in it that may be removed."""

_DRAFT_OR_PART = re.compile(r"\.made-by-mlgo\.json\..*|\.?[0-9a-f]{16}\.parquet(\.[0-9a-f]+\.tmp)?")


def check_output(folder: Path, known: Collection[str], proof: str = "") -> None:
    """Refuse a folder that is neither new, nor empty, nor one of an earlier run.

    Args:
        known: names of what runs without the list `MADE` leave.
        proof: the one of them that is always there; without it that is a table of this package.
    """
    if folder.exists() and not folder.is_dir():
        raise ConfigError(f"{folder} is no folder; name a new one")
    names = sorted(path.name for path in folder.iterdir()) if folder.is_dir() else []
    names = [name for name in names if not _DRAFT_OR_PART.fullmatch(name)]
    others = [name for name in names if name not in known]
    if not names or MADE in names:
        return
    tables = [*folder.glob("*.parquet"), *folder.glob("parts/*.parquet")]
    if others or not (proof in names if proof else any(map(_is_table, tables))):
        raise ConfigError(
            f"{folder} is not empty and holds no output of an earlier run, but {(others or names)[0]!r}; name a new "
            "folder"
        )


def claim(folder: Path, known: Collection[str] = ()) -> None:
    """Take a folder for output, see `check_output`; from now on it is one of an earlier run."""
    check_output(folder, known)
    if not (folder / MADE).is_file():
        write_json(folder / MADE, [name for name in known if (folder / name).is_dir()])


def make_folders(folder: Path, *names: str) -> None:
    """Make empty folders inside one for output, in the place of those that earlier runs have made there."""
    listed = read_json(folder / MADE) if (folder / MADE).exists() else []
    made = set(map(str, listed)) if isinstance(listed, list) else set()
    for name in names:
        path = joined(folder, name)
        if os.path.lexists(path) and (name not in made or path.is_symlink()):
            raise ArtifactError(f"{path} is not of an earlier run; move it away, or name another folder for output")
    write_json(folder / MADE, sorted({*made, *names}))
    for name in names:
        shutil.rmtree(folder / name, ignore_errors=True)
        (folder / name).mkdir()


def remove_tables(folder: Path) -> None:
    """Remove tables of this package, and folders in which nothing else is."""
    for path in [*sorted(folder.rglob("*"), reverse=True), folder]:
        if _DRAFT_OR_PART.fullmatch(path.name) or _is_table(path):
            path.unlink()
        elif path.is_dir() and not path.is_symlink() and not any(path.iterdir()):
            path.rmdir()


def _is_table(path: Path) -> bool:
    try:
        return path.suffix == ".parquet" and path.is_file() and bool(read_provenance(path))
    except ArtifactError:
        return False
