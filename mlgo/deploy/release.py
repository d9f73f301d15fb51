"""A release: the files of a policy, its forms and what was checked of them; archives and a Python package of releases.

The same releases give the same bytes. Cards say what each file of an archive must be. Format of the wheel:
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
from collections import ChainMap
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path, PurePosixPath
from typing import IO, Any

import pyarrow as pa

from mlgo.base.files import (
    checked_record,
    file_sha256,
    json_text,
    open_input,
    read_input,
    read_record,
    record_text,
    write_bytes,
)
from mlgo.base.names import PolicyName
from mlgo.base.packages import TarHeader, bounded
from mlgo.deploy import installed
from mlgo.errors import ArtifactError, ConfigError, PolicyError, in_one_line
from mlgo.policy.policy import Policy
from mlgo.policy.stored import load_policy

Json = dict[str, Any]
"""An object of JSON."""

LICENCE = "Apache-2.0"
"""Of policies: their weights hold no code of what they were trained on."""

CARD, PAGE, PARITY = "card.json", "README.md", "parity.json"
"""Facts about a release, the same as a page, and what was checked of its forms."""

POLICY_FILES = ("policy.json", "weights.npy")
"""Files of a policy; ``parity.json`` has their hashes."""

_STAMP = ".snakemake_timestamp"
"""File that Snakemake leaves in folders that rules make."""

_VERSION = re.compile(  # the grammar of semver.org 2.0.0
    r"(0|[1-9]\d*)\.(0|[1-9]\d*)\.(0|[1-9]\d*)"
    r"(-(0|[1-9]\d*|\d*[A-Za-z-][0-9A-Za-z-]*)(\.(0|[1-9]\d*|\d*[A-Za-z-][0-9A-Za-z-]*))*)?"
    r"(\+[0-9A-Za-z-]+(\.[0-9A-Za-z-]+)*)?",
    re.ASCII,
)


@dataclass(frozen=True)
class Release:
    """A policy with its forms."""

    policy: Policy  # as it was read
    name: PolicyName  # of the policy
    parity: Mapping[str, Json]  # what was checked of each form, by name
    files: Mapping[str, bytes]  # content by path, without card and page
    card: Json | None  # what was written down of these files; None where there is no card


def read_release(policy: Path, exported: Path, forms: Sequence[str] | None = None) -> Release:
    """Read a policy's folder and what was exported of it.

    Args:
        exported: folder with a folder for each form, ``parity.json`` and perhaps a card; may be the same.
    """
    found, name = load_policy(policy), PolicyName.of(policy.resolve().name)
    parity, identity = _read_parity(exported), policy_hashes(policy)
    by_form = {
        form: {f"{form}/{file}": data for file, data in _read_form(exported / form, one, identity).items()}
        for form, one in parity.items()
    }
    if unknown := sorted(set(forms or ()) - set(parity)):
        raise ConfigError(f"{exported} has no {', '.join(unknown)}; it has {', '.join(parity)}")
    files = {file: read_input(policy / file) for file in POLICY_FILES}
    card = read_record(exported / CARD) if (exported / CARD).exists() else None
    if card is not None:
        check_card(card, ChainMap({PARITY: read_input(exported / PARITY)}, files, *by_form.values()), exported)
    chosen = {form: one for form, one in parity.items() if forms is None or form in forms}
    files[PARITY] = record_text(chosen).encode()
    for form in chosen:
        files |= by_form[form]
    return Release(found, name, chosen, dict(sorted(files.items())), card)


def policy_hashes(folder: Path) -> dict[str, str]:
    """SHA-256 of each file of a policy."""
    return {name: file_sha256(folder / name) for name in POLICY_FILES}


def find_policies(folder: Path) -> list[Path]:
    """A policy's folder itself, or the policies in a folder of them, by name."""
    if (folder / POLICY_FILES[0]).is_file():
        return [folder]
    found = sorted(path.parent for path in folder.glob(f"*/{POLICY_FILES[0]}"))
    if not found:
        raise ArtifactError(
            f"{folder} holds no policy and no folder of one; name a folder like data/policies/marginal-s0"
        )
    return found


def check_version(version: str) -> str:
    """A semantic version, as it was given."""
    if not _VERSION.fullmatch(version):
        raise ConfigError(f"--version {version}: not a semantic version like 1.2.0; see semver.org")
    return version


def hashes(files: Mapping[str, bytes]) -> dict[str, Json]:
    """Size in bytes and SHA-256 of each file, sorted by path."""
    return {
        path: {"bytes": len(data), "sha256": hashlib.sha256(data).hexdigest()} for path, data in sorted(files.items())
    }


def check_card(card: Json, files: Mapping[str, bytes], place: Path) -> None:
    """Compare files with what their card says of them; the card's page need not be among them."""
    listed = card.get("files")
    if not isinstance(listed, dict):
        raise ArtifactError(f"{place}: {CARD} is no card; write it again: scripts/describe_policy.py")
    found = hashes({path: data for path, data in files.items() if path != CARD})
    for path in sorted({*listed, *found} - ({PAGE} - set(found))):
        if listed.get(path) != found.get(path):
            what = "is missing" if path not in found else "is not in the card" if path not in listed else "has changed"
            raise ArtifactError(
                f"{place}: {path} {what} since {CARD} was written; write it again: scripts/describe_policy.py"
            )


def _read_parity(exported: Path) -> dict[str, Json]:
    """What was checked of each form, by name: there is no other form."""
    if not (exported / PARITY).is_file():
        raise ArtifactError(f"{exported} has no {PARITY}; export the policy first: scripts/export_policy.py")
    parity = read_record(exported / PARITY)
    if not parity or not all(isinstance(one, dict) for one in parity.values()):
        raise ArtifactError(f"{exported / PARITY} tells of no form; export the policy again")
    if unchecked := sorted({path.name for path in exported.iterdir() if path.is_dir()} - set(parity)):
        raise ArtifactError(f"{exported}: nothing was checked of {', '.join(unchecked)}; export the policy again")
    return parity


def _read_form(folder: Path, parity: Json, policy: Mapping[str, str]) -> dict[str, bytes]:
    """Files of a form by path; refuse one that was not shown to decide as this policy."""
    if not parity.get("questions") or parity.get("mismatches") != 0:
        raise PolicyError(
            f"{folder} differs from its policy in {parity.get('mismatches', 'unknown')} of "
            f"{parity.get('questions', 'unknown')} decisions; export the policy again"
        )
    if parity.get("policy") != policy:
        raise PolicyError(f"{folder} was made of another policy than this one; export the policy again")
    there = [path for path in folder.rglob("*") if path.is_file() and path.name != _STAMP]
    files = {path.relative_to(folder).as_posix(): read_input(path) for path in there}
    if not files or parity.get("files") != {path: one["sha256"] for path, one in hashes(files).items()}:
        raise ArtifactError(f"files in {folder} are not those that were checked; export the policy again")
    return files


_EARLIEST = (1980, 1, 1, 0, 0, 0)
"""Time of every file; ZIP knows none before."""

_MODE = 0o644
_ZSTD_LEVEL = 19
_MAX_BYTES, _MAX_FILES = 1 << 30, 1 << 14
"""Content above which an archive is not read."""


def write_archive(path: Path, files: Mapping[str, bytes], replace: bool = False) -> None:
    """Write files into an archive whose name says the format, sorted, with fixed times and owners."""
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
            card = checked_record(json.loads(files[CARD]))
        except (ValueError, RecursionError) as error:
            raise ArtifactError(
                f"{path}: {policy}/{CARD} is not what was written ({error}); publish it again"
            ) from error
        check_card(card, files, path / policy)
    return {policy: len(files) for policy, files in releases.items()}


def read_archive(path: Path) -> dict[str, bytes]:
    """Content by path of all files in an archive."""
    form, found = format_of(path), dict[str, bytes]()
    try:
        with open_input(path, _MAX_BYTES) as file:
            if form == ".zip":
                with zipfile.ZipFile(file) as folded:
                    for info in list(bounded(folded.infolist(), _MAX_BYTES, _MAX_FILES)):
                        _add(found, info.filename, info.file_size, None if info.is_dir() else folded.open(info))
            else:
                stream = pa.input_stream(file, compression={".tar.zst": "zstd", ".tar.gz": "gzip"}[form])
                with stream, tarfile.open(fileobj=stream, mode="r|", tarinfo=TarHeader) as archive:
                    for member in bounded(archive, _MAX_BYTES, _MAX_FILES):
                        _add(found, member.name, member.size, archive.extractfile(member) if member.isreg() else None)
    except Exception as error:  # of damaged bytes these modules raise what they like, there is no list
        reason = getattr(error, "strerror", None) or in_one_line(error)
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
    """Read a member; refuse links, folders, paths that lead elsewhere, one name twice."""
    path = PurePosixPath(name)
    if file is None or name in found or path.is_absolute() or ".." in path.parts or len(path.parts) < 2:
        raise ValueError(f"{name} is no file of a release")
    found[name] = file.read(size)
    if len(found[name]) != size:
        raise ValueError("it ends early")


_MODULE, _PACKAGE = "mlgo_policies", "mlgo-policies"
_SHORT = {"": "", "alpha": "a", "beta": "b", "rc": "rc"}


def wheel_name(version: str) -> str:
    """Name of the file."""
    return f"{_MODULE}-{python_version(version)}-py3-none-any.whl"


def python_version(version: str) -> str:
    """A semantic version as Python writes it, for example ``1.0.0rc1`` for ``1.0.0-rc.1`` (PEP 440)."""
    match = re.fullmatch(r"([0-9.]+)(?:-(alpha|beta|rc)\.([0-9]+))?", version)
    if match is None:
        raise ConfigError(f"--version {version}: a wheel's is X.Y.Z, or X.Y.Z-alpha.N, -beta.N or -rc.N")
    numbers, kind, number = match.groups("")
    return numbers + _SHORT[kind] + number


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
