"""Packages of Python: those that extras of this one bring, and files of the index, pinned and kept for offline work."""

import functools
import os
import re
import shlex
import tarfile
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from importlib import import_module, metadata
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, TypeVar
from zipfile import ZipInfo

import mlgo
from mlgo.base.files import Draft, file_sha256
from mlgo.errors import PackageError, in_one_line

if TYPE_CHECKING:
    from packaging.requirements import Requirement
    from pypi_simple import DistributionPackage, PyPISimple

_CHECKOUT = Path(mlgo.__file__).parents[1]
IS_CHECKOUT = (_CHECKOUT / "requirements.lock").is_file()
"""Whether this package runs from a checkout, where ``make setup`` installs everything."""


@functools.cache
def requirements(extra: str = "") -> tuple["Requirement", ...]:
    """What an extra of this package adds, by its metadata; without a name, what it always needs."""
    from packaging.requirements import Requirement

    try:
        found = map(Requirement, metadata.requires("mlgo") or ())
    except metadata.PackageNotFoundError:  # our code was sent to this machine without its metadata
        return ()
    return tuple(one for one in found if (one.marker.evaluate({"extra": extra}) if one.marker else not extra))


NOT_INSTALLED = "not installed"


def shortcoming(one: "Requirement") -> str:
    """What is wrong with a package that is needed; empty if nothing is."""
    try:
        found = metadata.version(one.name)
    except metadata.PackageNotFoundError:
        return NOT_INSTALLED
    return "" if one.specifier.contains(found, prereleases=True) else f"{found} is installed"


def install_command(*extras: str) -> str:
    """The command that installs extras of this package; without one, what it always needs."""
    if not IS_CHECKOUT:
        return f"pip install 'mlgo[{','.join(extras)}]'" if extras else "pip install --force-reinstall mlgo"
    apart = [one for one in extras if (_CHECKOUT / f"requirements-{one}.lock").is_file()]
    return shlex.join(["make", "setup", *([f"EXTRA={' '.join(apart)}"] if apart else [])])


def require(purpose: str, *extras: str) -> None:
    """Refuse what needs extras that are missing or of another version, before anything long begins."""
    for extra in extras:
        for one in requirements(extra):
            if wrong := shortcoming(one):
                needed = f"{purpose} needs {one.name}{one.specifier}"
                raise PackageError(f"{needed} ({wrong}); run {install_command(*extras)}")


def missing_module(module: str) -> str:
    """What to say of a module that is not there; empty unless an extra brings it."""
    package = canonical_name(module.partition(".")[0])
    for extra in metadata.metadata("mlgo").get_all("Provides-Extra") or ():
        if extra != "dev" and package in {canonical_name(one.name) for one in requirements(extra)}:
            return f"{module} is not installed; run {install_command(extra)}"
    return ""


def import_extra(module: str, extra: str, purpose: str) -> Any:
    """Import a module that an extra brings, or say how to install it."""
    require(purpose, extra)
    try:
        return import_module(module)
    except ImportError as error:
        wrong = f"cannot be imported: {in_one_line(error)}"
        raise PackageError(f"{purpose} needs {module} ({wrong}); run {install_command(extra)}") from error


_TIMEOUT_S = 60.0
_KINDS = {"sdist": "source distribution", "wheel": "wheel"}


@dataclass(frozen=True)
class Package:
    """One file of the index."""

    name: str
    version: str
    sha256: str
    kind: Literal["sdist", "wheel"]

    def __str__(self) -> str:
        return f"{self.name} {self.version}"


def canonical_name(name: str) -> str:
    """The one spelling of a project's name that PEP 503 takes all others for."""
    return re.sub(r"[-_.]+", "-", name).lower()


def fetch_package(package: Package, cache_dir: Path) -> Path:
    """Return the verified file, from the cache, which all runs share, or from the index.

    The index is the one that pip would use by its environment (``PIP_INDEX_URL``), else the public one.
    """
    if cached := sorted(cache_dir.glob(f"{package.sha256}-*")):
        _verify(cached[0], package)
        return cached[0]
    cache_dir.mkdir(parents=True, exist_ok=True)
    remedy = f"connect once, or put the file there as {package.sha256}-<file name>"
    with _index(package, f"{package} is not in {cache_dir}", remedy) as index:
        offered = _offered(index, package)
        matching = [one for one in offered if one.digests.get("sha256") == package.sha256] or offered
        target = cache_dir / f"{package.sha256}-{matching[0].filename}"
        draft = Draft(target)
        try:
            index.download_package(matching[0], draft.path, timeout=_TIMEOUT_S)
            _verify(draft.path, package)
            draft.place()
        finally:
            draft.discard()
        return target


def pin_package(name: str, version: str, kind: Literal["sdist", "wheel"]) -> Package:
    """A package with the hash that the index gives today; write it down to have the same file tomorrow."""
    unpinned = Package(name, version, "", kind)
    with _index(unpinned, f"{unpinned} is not pinned") as index:
        found = [one.digests["sha256"] for one in _offered(index, unpinned) if "sha256" in one.digests]
    if not found:
        raise PackageError(f"the package index gives no sha256 for {unpinned}")
    return replace(unpinned, sha256=found[0])


_MAX_MEMBERS, _MAX_UNPACKED = 1 << 16, 1 << 31
_MAX_HEADER, _HEADERS = 1 << 20, (b"x", b"g", b"X", b"L", b"K")
_Member = TypeVar("_Member", tarfile.TarInfo, ZipInfo)


class TarHeader(tarfile.TarInfo):
    """A member of a tar archive; `tarfile` reads long names and further headers into memory, so they are bounded."""

    @classmethod
    def frombuf(cls, buf: bytes | bytearray, encoding: str | None, errors: str) -> "TarHeader":
        found = super().frombuf(buf, encoding, errors)  # type: ignore[arg-type]  # which may be None
        if found.type in _HEADERS and found.size > _MAX_HEADER:
            raise ValueError(f"a header of {found.size:,} bytes")
        return found


def bounded(
    members: Iterable[_Member], max_bytes: int = _MAX_UNPACKED, max_members: int = _MAX_MEMBERS
) -> Iterator[_Member]:
    """Members of an archive, as long as they are not too many nor too large together; else `ValueError`."""
    num_bytes = 0
    for number, member in enumerate(members):
        size = member.file_size if isinstance(member, ZipInfo) else member.size
        num_bytes += size
        if size < 0 or number >= max_members or num_bytes > max_bytes:
            raise ValueError(f"more than {max_members:,} files, or more than {max_bytes:,} bytes")
        yield member


@contextmanager
def _index(package: Package, situation: str, remedy: str = "connect once") -> Iterator["PyPISimple"]:
    """The index that pip would use; what goes wrong with it in words, which begin with the situation."""
    require("the package index", "index")
    # Imported here: only fetching needs the network stack.
    import requests
    from pypi_simple import PYPI_SIMPLE_ENDPOINT, DigestMismatchError, NoSuchProjectError, PyPISimple

    try:
        with PyPISimple(os.environ.get("PIP_INDEX_URL") or PYPI_SIMPLE_ENDPOINT) as index:
            yield index
    except NoSuchProjectError as error:
        raise PackageError(f"the package index knows no project {package.name!r}; mend the name") from error
    except DigestMismatchError as error:
        raise PackageError(f"{package} arrived damaged; run again") from error
    except requests.RequestException as error:
        kind = type(error).__name__
        raise PackageError(f"{situation} and the package index cannot be reached ({kind}); {remedy}") from error
    except OSError as error:
        raise PackageError(f"cannot store {package.name}: {error.strerror or error}") from error


def _offered(index: "PyPISimple", package: Package) -> list["DistributionPackage"]:
    page = index.get_project_page(package.name, timeout=_TIMEOUT_S)
    offered = [one for one in page.packages if one.package_type == package.kind and one.version == package.version]
    if not offered:
        raise PackageError(f"{package} has no {_KINDS[package.kind]} on the index; pin another version")
    return offered


def _verify(path: Path, package: Package) -> None:
    found = file_sha256(path)
    if found != package.sha256:
        raise PackageError(
            f"{package}: the file's sha256 is {found}, but {package.sha256} is pinned; "
            f"delete {path} if it was damaged, else check what pins it"
        )
