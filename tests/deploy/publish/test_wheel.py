"""The package mlgo-policies: what the format asks for, the same bytes each time, small."""

import base64
import csv
import email
import hashlib
import sys
import zipfile

import pytest

from mlgo.deploy.release import python_version, wheel_name
from mlgo.errors import ConfigError
from tests.conftest import REPOSITORY
from tests.deploy.publish.conftest import RELEASED, publish

MAX_BYTES = 5_000_000


@pytest.fixture(scope="module")
def built(tmp_path_factory):
    folder = tmp_path_factory.mktemp("dist")
    for name in ("first", "second"):
        publish(RELEASED, "--wheel", "-o", folder / name)
    (path,) = (folder / "first").iterdir()
    return path, folder / "second" / path.name


def test_two_builds_have_the_same_bytes(built):
    one, other = built
    assert one.read_bytes() == other.read_bytes()
    assert one.name == "mlgo_policies-1.0.0-py3-none-any.whl"
    assert one.stat().st_size < MAX_BYTES


def test_it_is_a_wheel(built):
    with zipfile.ZipFile(built[0]) as archive:
        content = {name: archive.read(name) for name in archive.namelist()}
    info = "mlgo_policies-1.0.0.dist-info"
    rows = list(csv.reader(content[f"{info}/RECORD"].decode().splitlines()))
    assert {row[0] for row in rows} == set(content)
    for path, digest, size in rows:
        if path == f"{info}/RECORD":
            assert (digest, size) == ("", "")
            continue
        algorithm, _, value = digest.partition("=")
        assert algorithm == "sha256"
        padded = base64.urlsafe_b64decode(value + "=" * (-len(value) % 4))
        assert padded == hashlib.sha256(content[path]).digest()
        assert int(size) == len(content[path])
    said = email.message_from_bytes(content[f"{info}/METADATA"])
    assert (said["Name"], said["Version"], said["License-Expression"]) == ("mlgo-policies", "1.0.0", "Apache-2.0")
    assert content[f"{info}/licenses/{said['License-File']}"] == (REPOSITORY / "LICENSE").read_bytes()
    tags = email.message_from_bytes(content[f"{info}/WHEEL"])
    assert (tags["Wheel-Version"], tags["Root-Is-Purelib"], tags["Tag"]) == ("1.0", "true", "py3-none-any")
    for policy in ("marginal-s0", "tree8-s0"):
        for file in ("policy.json", "weights.npy", "cpp/InlinerSizeModel.cpp"):
            assert content[f"mlgo_policies/policies/{policy}/{file}"] == (RELEASED / policy / file).read_bytes()


def test_the_module_finds_its_policies(built, tmp_path, monkeypatch):
    zipfile.ZipFile(built[0]).extractall(tmp_path)
    monkeypatch.syspath_prepend(tmp_path)
    try:
        import mlgo_policies

        assert mlgo_policies.names() == ["marginal-s0", "tree8-s0"]
        assert mlgo_policies.default() == tmp_path / "mlgo_policies/policies/marginal-s0"
        assert (mlgo_policies.path("tree8-s0") / "README.md").read_text().startswith("# tree8-s0 1.0.0\n")
        with pytest.raises(KeyError):
            mlgo_policies.path("../..")
    finally:
        sys.modules.pop("mlgo_policies", None)


def test_a_wheel_that_is_there_is_kept(tmp_path):
    publish(RELEASED / "tree8-s0", "--wheel", "-o", tmp_path, "--version", "1.2.0-rc.3")
    assert [path.name for path in tmp_path.iterdir()] == ["mlgo_policies-1.2.0rc3-py3-none-any.whl"]
    with pytest.raises(Exception, match="exists; --force"):
        publish(RELEASED / "tree8-s0", "--wheel", "-o", tmp_path, "--version", "1.2.0-rc.3")
    with pytest.raises(ConfigError, match="give --licence FILE"):
        publish(RELEASED / "tree8-s0", "--wheel", "-o", tmp_path / "other", "--licence", tmp_path / "none")


@pytest.mark.parametrize(
    ("version", "expected"), [("1.0.0", "1.0.0"), ("1.0.0-alpha.1", "1.0.0a1"), ("2.3.4-beta.10", "2.3.4b10")]
)
def test_versions_as_python_writes_them(version, expected):
    assert python_version(version) == expected
    assert wheel_name(version) == f"mlgo_policies-{expected}-py3-none-any.whl"


@pytest.mark.parametrize("version", ["1.0.0-nightly", "1.0.0+build", "1.0.0-rc.1+x", "1.0.0-rc1"])
def test_versions_that_python_has_not(version):
    with pytest.raises(ConfigError, match="a wheel's is"):
        python_version(version)
