"""Archives of releases and the package ``mlgo-policies``: the same releases give the same bytes.

Cards say what each file of an archive must be. Format of the wheel:
https://packaging.python.org/en/latest/specifications/binary-distribution-format/
"""

import base64
import gzip
import hashlib
import io
import json
import re
import tarfile
import zipfile
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path, PurePosixPath
from typing import IO

import pyarrow as pa

from mlgo.base.files import json_text, write_bytes
from mlgo.deploy import installed
from mlgo.deploy.card import LICENCE
from mlgo.deploy.release import CARD, PAGE, check_card
from mlgo.errors import ArtifactError, ConfigError

_EARLIEST = (1980, 1, 1, 0, 0, 0)
"""Time of every file; ZIP knows none before."""

_MODE = 0o644
_ZSTD_LEVEL = 19
_MAX_BYTES = 1 << 30
"""Content above which an archive is not read."""


def write_archive(path: Path, files: Mapping[str, bytes], replace: bool = False) -> None:
    """Write files into an archive, sorted, with fixed times and owners.

    Args:
        path: its name says the format.
        files: content by path.
        replace: whether a file that is there may go.
    """
    write_new(path, FORMATS[format_of(path)](dict(sorted(files.items()))), replace)


def write_new(path: Path, data: bytes, replace: bool = False) -> None:
    """Write a file that is not there yet."""
    if path.exists() and not replace:
        raise ArtifactError(f"{path} exists; --force replaces it")
    write_bytes(path, data)


def check_archive(path: Path) -> dict[str, int]:
    """Compare an archive's files with their cards."""
    releases: dict[str, dict[str, bytes]] = {}
    for name, data in read_archive(path).items():
        policy, _, file = name.partition("/")
        releases.setdefault(policy, {})[file] = data
    for policy, files in releases.items():
        if CARD not in files or PAGE not in files:
            raise ArtifactError(f"{path}: {policy} has no {CARD if CARD not in files else PAGE}; publish it again")
        try:
            card = json.loads(files[CARD])
        except (ValueError, RecursionError) as error:
            raise ArtifactError(f"{path}: {policy}/{CARD} is not JSON; publish it again") from error
        check_card(card, files, path / policy)
    return {policy: len(files) for policy, files in releases.items()}


def read_archive(path: Path) -> dict[str, bytes]:
    """Content by path of all files in an archive."""
    form, found = format_of(path), dict[str, bytes]()
    try:
        if form == ".zip":
            with zipfile.ZipFile(path) as folded:
                for info in folded.infolist():
                    _add(found, info.filename, info.file_size, None if info.is_dir() else folded.open(info))
        else:
            kind = {".tar.zst": "zstd", ".tar.gz": "gzip"}[form]
            with pa.input_stream(path, compression=kind) as stream, tarfile.open(fileobj=stream, mode="r|") as archive:
                for member in archive:
                    _add(found, member.name, member.size, archive.extractfile(member) if member.isreg() else None)
    except Exception as error:  # of damaged bytes these modules raise what they like, there is no list
        reason = getattr(error, "strerror", None) or " ".join(str(error).split())[:200]
        raise ArtifactError(f"cannot read {path}: {reason}; publish it again") from error
    if not found:
        raise ArtifactError(f"{path} holds no file; publish it again")
    return found


def format_of(path: Path) -> str:
    """Suffix of an archive's format."""
    for suffix in FORMATS:
        if path.name.endswith(suffix) and path.name != suffix:
            return suffix
    raise ConfigError(f"{path}: the name of an archive ends in {', '.join(FORMATS)}")


def zipped(files: Mapping[str, bytes]) -> bytes:
    """A ZIP file of files, in their order."""
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w", zipfile.ZIP_DEFLATED, compresslevel=9) as archive:
        for name, data in files.items():
            member = zipfile.ZipInfo(name, _EARLIEST)
            member.create_system, member.external_attr = 3, _MODE << 16  # as Unix does, on all systems
            member.compress_type = zipfile.ZIP_DEFLATED
            archive.writestr(member, data, compresslevel=9)
    return buffer.getvalue()


def _tarred(files: Mapping[str, bytes]) -> bytes:
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode="w", format=tarfile.PAX_FORMAT) as archive:
        for name, data in files.items():
            member = tarfile.TarInfo(name)
            member.size, member.mode = len(data), _MODE
            archive.addfile(member, io.BytesIO(data))
    return buffer.getvalue()


FORMATS: dict[str, Callable[[Mapping[str, bytes]], bytes]] = {
    ".tar.zst": lambda files: bytes(
        pa.Codec("zstd", compression_level=_ZSTD_LEVEL).compress(_tarred(files), asbytes=True)
    ),
    ".tar.gz": lambda files: gzip.compress(_tarred(files), mtime=0),
    ".zip": zipped,
}
"""Writers of archives, by the end of their names."""


def _add(found: dict[str, bytes], name: str, size: int, file: IO[bytes] | None) -> None:
    """Read a member; refuse links, folders, paths that lead elsewhere, one name twice, floods of bytes."""
    path = PurePosixPath(name)
    if file is None or name in found or path.is_absolute() or ".." in path.parts or len(path.parts) < 2:
        raise ValueError(f"{name} is no file of a release")
    if size + sum(map(len, found.values())) > _MAX_BYTES:
        raise ValueError(f"more than {_MAX_BYTES} bytes")
    found[name] = file.read(size)
    if len(found[name]) != size:
        raise ValueError("it ends early")


_MODULE, _PACKAGE = "mlgo_policies", "mlgo-policies"
_PRERELEASE = re.compile(r"(alpha|beta|rc)\.(\d+)")
_SHORT = {"alpha": "a", "beta": "b", "rc": "rc"}


def wheel_name(version: str) -> str:
    """Name of the file."""
    return f"{_MODULE}-{python_version(version)}-py3-none-any.whl"


def python_version(version: str) -> str:
    """A semantic version as Python writes it, for example ``1.0.0rc1`` for ``1.0.0-rc.1`` (PEP 440)."""
    numbers, _, rest = version.partition("-")
    if not rest and "+" not in numbers:
        return numbers
    match = _PRERELEASE.fullmatch(rest)
    if match is None or "+" in numbers:
        raise ConfigError(f"--version {version}: a wheel's is X.Y.Z, or X.Y.Z-alpha.N, -beta.N or -rc.N")
    return f"{numbers}{_SHORT[match[1]]}{match[2]}"


def wheel(version: str, names: Sequence[str], files: Mapping[str, bytes], licence: str) -> bytes:
    """The wheel."""
    found = python_version(version)
    info = f"{_MODULE}-{found}.dist-info"
    content = {
        f"{_MODULE}/__init__.py": Path(installed.__file__).read_bytes(),
        f"{_MODULE}/policies/{installed.INDEX.name}": json_text(list(names)).encode(),
        **{f"{_MODULE}/policies/{path}": data for path, data in files.items()},
        f"{info}/METADATA": _metadata(found, names).encode(),
        f"{info}/WHEEL": b"Wheel-Version: 1.0\nGenerator: mlgo\nRoot-Is-Purelib: true\nTag: py3-none-any\n",
        f"{info}/licenses/LICENSE": licence.encode(),
    }
    content = dict(sorted(content.items()))
    record = ""
    for path, data in content.items():
        digest = base64.urlsafe_b64encode(hashlib.sha256(data).digest()).rstrip(b"=").decode()
        record += f"{path},sha256={digest},{len(data)}\n"
    return zipped({**content, f"{info}/RECORD": f"{record}{info}/RECORD,,\n".encode()})


def _metadata(version: str, names: Sequence[str]) -> str:
    listed = "".join(f"- `{name}`: see `{_MODULE}/policies/{name}/README.md`\n" for name in names)
    return (
        f"Metadata-Version: 2.4\nName: {_PACKAGE}\nVersion: {version}\n"
        "Summary: Policies of compilers' heuristics, released by mlgo.\n"
        f"License-Expression: {LICENCE}\nLicense-File: LICENSE\nRequires-Python: >=3.11\n"
        "Description-Content-Type: text/markdown\n\n"
        f"Policies that `mlgo cc` takes. The first is its default.\n\n{listed}"
    )
