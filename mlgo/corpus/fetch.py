"""Source distributions from the Python package index: pinned, verified, kept for offline work."""

import errno
import lzma
import os
import shutil
import tarfile
import zipfile
import zlib
from pathlib import Path

from mlgo.corpus.recipe import Recipe
from mlgo.errors import CorpusError
from mlgo.files import file_sha256

_TIMEOUT_S = 60.0


def fetch_sources(recipe: Recipe, cache_dir: Path) -> Path:
    """Return the verified source distribution of a recipe, from the cache or from the index.

    The index is the one that pip would use by its environment (``PIP_INDEX_URL``), else the public one.

    Args:
        recipe: a recipe with version and sha256.
        cache_dir: folder of downloads, shared by all runs.

    Raises:
        CorpusError: not cached and not reachable, unknown to the index, or of another hash.
    """
    cached = sorted(cache_dir.glob(f"{recipe.sha256}-*"))
    if cached:
        _verify(cached[0], recipe)
        return cached[0]
    cache_dir.mkdir(parents=True, exist_ok=True)
    return _download(recipe, cache_dir)


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
                # Python before 3.11.4 has no filters; the archive is pinned by its hash in any case.
                tar.extraction_filter = getattr(tarfile, "data_filter", None)
                tar.extractall(folder)
    except (tarfile.TarError, zipfile.BadZipFile, zlib.error, lzma.LZMAError, EOFError, OSError, ValueError) as error:
        if isinstance(error, OSError) and error.errno in (errno.ENOSPC, errno.EDQUOT):
            raise  # not the archive's fault
        raise CorpusError(f"{archive.name} cannot be unpacked ({error}); delete it and run again") from error
    folders = [entry for entry in folder.iterdir() if entry.is_dir()]
    if len(folders) != 1:
        raise CorpusError(f"{archive.name} holds {len(folders)} folders at its top, expected one")
    return folders[0]


def copy_local(recipe: Recipe, folder: Path) -> Path:
    """Copy a local project's sources, so that generated files never land among them.

    Raises:
        CorpusError: the folder is missing.
    """
    source = Path(str(recipe.path))
    if not source.is_dir():
        raise CorpusError(f"{recipe.name}: {source} is not a folder; run from the project's top folder")
    return Path(shutil.copytree(source, folder / recipe.name))


def _download(recipe: Recipe, cache_dir: Path) -> Path:
    # Imported here: only fetching needs the network stack.
    import requests
    from pypi_simple import PYPI_SIMPLE_ENDPOINT, DigestMismatchError, NoSuchProjectError, PyPISimple

    endpoint = os.environ.get("PIP_INDEX_URL") or PYPI_SIMPLE_ENDPOINT
    try:
        with PyPISimple(endpoint) as index:
            page = index.get_project_page(recipe.name, timeout=_TIMEOUT_S)
            packages = [p for p in page.packages if p.package_type == "sdist" and p.version == recipe.version]
            if not packages:
                raise CorpusError(
                    f"{recipe.name} {recipe.version} has no source distribution on the index; pin another version"
                )
            matching = [p for p in packages if p.digests.get("sha256") == recipe.sha256] or packages
            target = cache_dir / f"{recipe.sha256}-{matching[0].filename}"
            partial = target.with_name(f".{target.name}.{os.getpid()}.part")
            try:
                index.download_package(matching[0], partial, timeout=_TIMEOUT_S)
                _verify(partial, recipe)
                partial.rename(target)
            finally:
                partial.unlink(missing_ok=True)
            return target
    except NoSuchProjectError as error:
        raise CorpusError(f"the package index knows no project {recipe.name!r}; mend the recipe") from error
    except DigestMismatchError as error:
        raise CorpusError(f"{recipe.name} {recipe.version} arrived damaged; run again") from error
    except requests.RequestException as error:
        raise CorpusError(
            f"{recipe.name} {recipe.version} is not in {cache_dir} and the package index cannot be reached "
            f"({type(error).__name__}); connect once, or put the archive there as {recipe.sha256}-<file name>"
        ) from error
    except OSError as error:
        raise CorpusError(f"cannot store {recipe.name} in {cache_dir}: {error.strerror or error}") from error


def _verify(archive: Path, recipe: Recipe) -> None:
    found = file_sha256(archive)
    if found != recipe.sha256:
        raise CorpusError(
            f"{recipe.name} {recipe.version}: the archive's sha256 is {found}, the recipe pins {recipe.sha256}; "
            f"delete {archive} if it was damaged, else check the recipe"
        )
