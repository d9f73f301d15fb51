"""The package ``mlgo-policies``: a wheel of releases; the same releases give the same bytes.

Format: https://packaging.python.org/en/latest/specifications/binary-distribution-format/
"""

import base64
import hashlib
import re
from collections.abc import Mapping, Sequence
from pathlib import Path

from mlgo.base.files import json_text
from mlgo.deploy.publish import installed
from mlgo.deploy.publish.archive import zipped
from mlgo.deploy.publish.card import LICENCE
from mlgo.errors import ConfigError

_MODULE, _PACKAGE = "mlgo_policies", "mlgo-policies"
_PRERELEASE = re.compile(r"(alpha|beta|rc)\.(\d+)")
_SHORT = {"alpha": "a", "beta": "b", "rc": "rc"}


def wheel_name(version: str) -> str:
    """Name of the file.

    Raises:
        ConfigError: a semantic version that Python's packages cannot have.
    """
    return f"{_MODULE}-{python_version(version)}-py3-none-any.whl"


def python_version(version: str) -> str:
    """A semantic version as Python writes it, for example ``1.0.0rc1`` for ``1.0.0-rc.1`` (PEP 440).

    Raises:
        ConfigError: there is no such version.
    """
    numbers, _, rest = version.partition("-")
    if not rest and "+" not in numbers:
        return numbers
    match = _PRERELEASE.fullmatch(rest)
    if match is None or "+" in numbers:
        raise ConfigError(f"--version {version}: a wheel's is X.Y.Z, or X.Y.Z-alpha.N, -beta.N or -rc.N")
    return f"{numbers}{_SHORT[match[1]]}{match[2]}"


def wheel(version: str, names: Sequence[str], files: Mapping[str, bytes], licence: str) -> bytes:
    """The wheel.

    Args:
        version: semantic version of the package.
        names: of the policies, the default one first.
        files: content by path, which begins with a policy's name.
        licence: text.

    Raises:
        ConfigError: a version that Python's packages cannot have.
    """
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
    rows = [f"{path},sha256={_digest(data)},{len(data)}\n" for path, data in content.items()]
    return zipped({**content, f"{info}/RECORD": "".join([*rows, f"{info}/RECORD,,\n"]).encode()})


def _metadata(version: str, names: Sequence[str]) -> str:
    listed = "".join(f"- `{name}`: see `{_MODULE}/policies/{name}/README.md`\n" for name in names)
    return (
        f"Metadata-Version: 2.4\nName: {_PACKAGE}\nVersion: {version}\n"
        "Summary: Policies of compilers' heuristics, released by mlgo.\n"
        f"License-Expression: {LICENCE}\nLicense-File: LICENSE\nRequires-Python: >=3.11\n"
        "Description-Content-Type: text/markdown\n\n"
        f"Policies that `mlgo cc` takes. The first is its default.\n\n{listed}"
    )


def _digest(data: bytes) -> str:
    return base64.urlsafe_b64encode(hashlib.sha256(data).digest()).rstrip(b"=").decode()
