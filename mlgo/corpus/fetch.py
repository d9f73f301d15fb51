"""Sources of a recipe: a source distribution, fetched and unpacked, or a copy of a local folder."""

import errno
import lzma
import shutil
import tarfile
import zipfile
import zlib
from pathlib import Path, PurePosixPath

from mlgo.base.packages import Package, fetch_package
from mlgo.corpus.recipe import Recipe
from mlgo.errors import CorpusError


def fetch_sources(recipe: Recipe, cache_dir: Path) -> Path:
    """Return the verified source distribution of a recipe with version and sha256; see `fetch_package`.

    Raises:
        PackageError: not cached and not reachable, unknown to the index, or of another hash.
    """
    return fetch_package(Package(recipe.name, str(recipe.version), str(recipe.sha256), "sdist"), cache_dir)


def unpack(archive: Path, folder: Path) -> Path:
    """Unpack a source distribution and return the single folder in it.

    Raises:
        CorpusError: not an archive, unsafe content, or not exactly one folder.
    """
    try:
        if archive.name.endswith(".zip"):
            with zipfile.ZipFile(archive) as zipped:
                zipped.extractall(folder)
        else:
            with tarfile.open(archive) as tar:
                if hasattr(tarfile, "data_filter"):
                    tar.extractall(folder, filter="data")
                else:  # Python 3.11.0 to 3.11.3
                    _extract_files(tar, folder)
    except (tarfile.TarError, zipfile.BadZipFile, zlib.error, lzma.LZMAError, EOFError, OSError, ValueError) as error:
        if isinstance(error, OSError) and error.errno in (errno.ENOSPC, errno.EDQUOT):
            raise  # not the archive's fault
        raise CorpusError(f"{archive.name} cannot be unpacked ({error}); delete it and run again") from error
    folders = [entry for entry in folder.iterdir() if entry.is_dir()]
    if len(folders) != 1:
        raise CorpusError(f"{archive.name} holds {len(folders)} folders at its top, expected one")
    return folders[0]


def _extract_files(tar: tarfile.TarFile, folder: Path) -> None:
    """Extract folders and ordinary files.

    Raises:
        ValueError: a member is of another kind, or outside the folder.
    """
    for member in tar:
        name = PurePosixPath(member.name)
        if name.is_absolute() or ".." in name.parts:
            raise ValueError(f"{member.name} is outside the folder")
        path = folder / name
        if member.isdir():
            path.mkdir(parents=True, exist_ok=True)
            continue
        content = tar.extractfile(member) if member.isreg() else None
        if content is None:
            raise ValueError(f"{member.name} is a link or a device")
        path.parent.mkdir(parents=True, exist_ok=True)
        with content, path.open("wb") as file:
            shutil.copyfileobj(content, file)


def copy_local(recipe: Recipe, folder: Path) -> Path:
    """Copy a local project's sources, so that generated files never land among them.

    Raises:
        CorpusError: the folder is missing.
    """
    source = Path(str(recipe.path))
    if not source.is_dir():
        raise CorpusError(f"{recipe.name}: {source} is not a folder; run from the project's top folder")
    return Path(shutil.copytree(source, folder / recipe.name))
