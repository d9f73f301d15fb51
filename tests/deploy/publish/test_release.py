"""What is published: everything that was checked and nothing else, as an archive or a Python package."""

import base64
import csv
import email
import hashlib
import json
import shutil
import subprocess
import tarfile
import zipfile
from pathlib import Path

import numpy as np
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from mlgo.base.files import checked_record, read_record, write_record
from mlgo.deploy.release import (
    FORMATS,
    check_archive,
    check_version,
    find_policies,
    python_version,
    read_archive,
    read_release,
    wheel_name,
    write_archive,
)
from mlgo.errors import ArtifactError, ConfigError, PolicyError
from tests.conftest import REPOSITORY
from tests.deploy.publish.conftest import RELEASED, publish


def edit(file: str, change):
    """Damage: a file of JSON is edited."""

    def damage(folder: Path) -> None:
        value = read_record(folder / file)
        change(value)
        write_record(folder / file, value)

    return damage


def without_card(folder: Path) -> None:
    (folder / "card.json").unlink()
    (folder / "README.md").unlink()


def test_an_archive_has_all_files_and_a_card_with_the_version(released, tmp_path, capsys):
    publish(released, "--version", "3.1.0-rc.1", "-o", tmp_path / "out/tree.tar.zst", "--json")
    said = json.loads(capsys.readouterr().out)
    assert (said["version"], said["policies"]) == ("3.1.0-rc.1", {"tree8-s0": ["cpp"]})
    assert said["bytes"] == (tmp_path / "out/tree.tar.zst").stat().st_size
    files = read_archive(tmp_path / "out/tree.tar.zst")
    own = {path.relative_to(released.parent).as_posix() for path in released.rglob("*") if path.is_file()}
    assert set(files) == own
    unchanged = [path for path in own if not path.endswith(("card.json", "README.md"))]
    assert all(files[path] == (released.parent / path).read_bytes() for path in unchanged)
    assert json.loads(files["tree8-s0/card.json"])["version"] == "3.1.0-rc.1"
    assert files["tree8-s0/README.md"].startswith(b"# tree8-s0 3.1.0-rc.1\n")
    assert check_archive(tmp_path / "out/tree.tar.zst") == {"tree8-s0": 7}


def test_what_was_published_or_lies_in_the_two_folders_of_a_run_gives_the_same_bytes(released, tmp_path):
    publish(released, "--version", "2.0.0", "-o", tmp_path / "a.zip")
    shutil.unpack_archive(tmp_path / "a.zip", tmp_path / "unpacked")
    publish(tmp_path / "unpacked/tree8-s0", "-o", tmp_path / "b.zip")
    policy, exported = tmp_path / "policies/tree8-s0", tmp_path / "export/tree8-s0"
    policy.mkdir(parents=True)
    shutil.copytree(released, exported)
    for name in ("policy.json", "weights.npy"):
        (exported / name).rename(policy / name)
    publish(policy, "--exports", tmp_path / "export", "--version", "2.0.0", "-o", tmp_path / "c.zip")
    one, again, apart = ((tmp_path / f"{name}.zip").read_bytes() for name in "abc")
    assert one == again == apart


def test_some_forms(released, tmp_path):
    (released / "other").mkdir()
    (released / "other/file").write_bytes(b"x")
    digest = "2d711642b726b04401627ca9fbac32f5c8530fb1903cc4db02258717921a4881"  # of the letter x
    edit("parity.json", lambda one: one.update(other={**one["cpp"], "files": {"file": digest}}))(released)
    without_card(released)
    whole = read_release(released, released)
    assert set(whole.parity) == {"cpp", "other"}
    assert whole.files["other/file"] == b"x"
    some = read_release(released, released, ["other"])
    assert set(some.files) == {"policy.json", "weights.npy", "parity.json", "other/file"}
    assert set(checked_record(json.loads(some.files["parity.json"]))) == {"other"}
    with pytest.raises(ConfigError, match="has no tosa; it has cpp, other"):
        read_release(released, released, ["tosa"])


def test_a_folder_of_policies(released, tmp_path):
    shutil.copytree(RELEASED / "marginal-s0", released.parent / "marginal-s0")
    (released.parent / "README.md").write_text("no policy")
    assert [path.name for path in find_policies(released.parent)] == ["marginal-s0", "tree8-s0"]
    publish(released.parent, "-o", tmp_path / "all.tar.gz")
    assert check_archive(tmp_path / "all.tar.gz") == {"marginal-s0": 7, "tree8-s0": 7}
    with pytest.raises(ArtifactError, match="two policies are called tree8-s0"):
        publish(released, released, "-o", tmp_path / "b.zip")


@pytest.mark.parametrize(
    ("damage", "kind", "message"),
    [
        (lambda one: shutil.rmtree(one), ArtifactError, "holds no policy and no folder of one"),
        (lambda one: (one / "weights.npy").unlink(), ArtifactError, "weights.npy is missing"),
        (lambda one: np.save(one / "weights.npy", np.zeros(55, np.float32)), ArtifactError, "not what was written"),
        (lambda one: (one / "parity.json").unlink(), ArtifactError, "has no parity.json; export the policy first"),
        (lambda one: (one / "parity.json").write_text("{}"), ArtifactError, "tells of no form"),
        (lambda one: (one / "more").mkdir(), ArtifactError, "nothing was checked of more"),
        (lambda one: shutil.rmtree(one / "cpp"), ArtifactError, "not those that were checked"),
        (lambda one: (one / "cpp/more.h").write_text(""), ArtifactError, "not those that were checked"),
        (edit("parity.json", lambda one: one["cpp"].update(mismatches=3)), PolicyError, "its policy in 3 of 902665"),
        (edit("parity.json", lambda one: one["cpp"].update(questions=0)), PolicyError, "its policy in 0 of 0"),
        (edit("parity.json", lambda one: one["cpp"].pop("mismatches")), PolicyError, "its policy in unknown"),
        (edit("policy.json", lambda one: one["provenance"].update(seed=1)), PolicyError, "made of another policy"),
        (
            edit("card.json", lambda one: one["files"].pop("parity.json")),
            ArtifactError,
            "parity.json is not in the card",
        ),
        (
            edit("card.json", lambda one: one["files"]["weights.npy"].update(sha256="0")),
            ArtifactError,
            "weights.npy has changed since card.json",
        ),
        (lambda one: (one / "card.json").write_text("1"), ArtifactError, "card.json is not what was written"),
        (without_card, ArtifactError, "has no model card"),
        *(
            (edit("card.json", lambda card, fact=fact: card.pop(fact)), ArtifactError, "is no card of this version")
            for fact in ("task", "gains", "trained", "corpus", "limits")
        ),
        (
            edit("card.json", lambda one: one.update(gains=[{"answers": 1}])),
            ArtifactError,
            "is no card of this version",
        ),
        (lambda one: one.rename(one.parent / "tree"), ArtifactError, "names no policy"),
    ],
)
def test_what_is_not_published(released, damage, kind, message, tmp_path):
    damage(released)
    with pytest.raises(kind, match=message):
        publish(released.parent, "--version", "1.0.0", "-o", tmp_path / "a.zip")
    assert not list(tmp_path.glob("*.zip"))


def test_an_output_that_exists_is_kept(released, tmp_path):
    (tmp_path / "a.zip").write_bytes(b"precious")
    with pytest.raises(ArtifactError, match="exists; --force replaces it"):
        publish(released, "-o", tmp_path / "a.zip")
    assert (tmp_path / "a.zip").read_bytes() == b"precious"
    publish(released, "-o", tmp_path / "a.zip", "--force")
    assert check_archive(tmp_path / "a.zip") == {"tree8-s0": 7}


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["data"], "name a policy's folder and -o PATH"),
        (["-o", "a.zip"], "name a policy's folder and -o PATH"),
        (["data", "--check", "a.zip"], "stands alone"),
        *(
            (["data", "-o", name], r"ends in \.tar\.zst, \.tar\.gz, \.zip")
            for name in ("a.rar", "a.tar", ".zip", "zip")
        ),
        (["data", "-o", "a.zip", "--version", "1.0"], "not a semantic version"),
    ],
)
def test_words_that_do_not_fit(words, message):
    with pytest.raises(ConfigError, match=message):
        publish(*words)


def test_a_version_is_needed(released, tmp_path):
    edit("card.json", lambda card: card.update(version=None))(released)
    with pytest.raises(ConfigError, match="give --version"):
        publish(released, "-o", tmp_path / "a.zip")


SEMANTIC = "0.0.4 1.2.3 10.20.30 1.1.2-prerelease+meta 1.0.0-alpha.1 1.0.0-0A.is.legal 1.0.0--.-"
OTHER = "1 1.2 1.2.3.4 01.1.1 1.2.3-0123 1.2.3- 1.2.3+ v1.2.3 1.2.3-a..b \u0661.2.3"


@pytest.mark.parametrize("version", SEMANTIC.split())
def test_semantic_versions(version):
    assert check_version(version) == version


@pytest.mark.parametrize("version", ["", "1.2.3\n", *OTHER.split()])
def test_other_versions(version):
    with pytest.raises(ConfigError, match="not a semantic version"):
        check_version(version)


FILES = {"p-s0/weights.npy": bytes(range(256)) * 40, "p-s0/cpp/a.h": b"", "p-s0/README.md": "\u00e4".encode()}
NAMES = st.text("abcXYZ019._- \u00e9", min_size=1, max_size=60).filter(lambda name: name not in (".", ".."))
LONG = "p-s0/" + "deep/" * 30 + "file"


@pytest.mark.parametrize("form", FORMATS)
def test_the_same_files_give_the_same_bytes_at_any_time_in_any_order(form, tmp_path, monkeypatch):
    write_archive(tmp_path / f"a{form}", FILES)
    monkeypatch.setenv("TZ", "Asia/Tokyo")
    monkeypatch.setattr("time.time", lambda: 2e9)
    write_archive(tmp_path / f"b{form}", dict(reversed(FILES.items())))
    assert (tmp_path / f"a{form}").read_bytes() == (tmp_path / f"b{form}").read_bytes()


@example(files={**FILES, LONG: b"long"})
@given(files=st.dictionaries(NAMES.map("p-s0/{}".format), st.binary(max_size=300), min_size=1, max_size=5))
def test_what_is_read_is_what_was_written(files, tmp_path_factory):
    folder = tmp_path_factory.mktemp("any")
    for form in FORMATS:
        write_archive(folder / f"a{form}", files)
        assert list(read_archive(folder / f"a{form}").items()) == sorted(files.items())


def test_other_tools_read_them(tmp_path):
    for form in FORMATS:
        write_archive(tmp_path / f"a{form}", FILES)
    with tarfile.open(tmp_path / "a.tar.gz") as archive:
        members = archive.getmembers()
        assert [member.name for member in members] == sorted(FILES)
        assert {(one.mtime, one.uid, one.gid, one.uname, one.mode) for one in members} == {(0, 0, 0, "", 0o644)}
    with zipfile.ZipFile(tmp_path / "a.zip") as archive:
        assert {name: archive.read(name) for name in archive.namelist()} == FILES
        assert {member.date_time for member in archive.infolist()} == {(1980, 1, 1, 0, 0, 0)}
    subprocess.run(["tar", "-xzf", "a.tar.gz"], cwd=tmp_path, check=True, timeout=60)
    assert (tmp_path / "p-s0/weights.npy").read_bytes() == FILES["p-s0/weights.npy"]


@pytest.mark.parametrize("form", FORMATS)
@pytest.mark.parametrize("name", ["../outside", "/outside", "p-s0/../../outside", "top"])
def test_paths_that_lead_elsewhere_are_refused(form, name, tmp_path):
    path = tmp_path / f"a{form}"
    path.write_bytes(FORMATS[form]({name: b"x"}))
    with pytest.raises(ArtifactError, match="no file of a release"):
        read_archive(path)


def test_links_are_refused(tmp_path):
    with tarfile.open(tmp_path / "a.tar.gz", "w:gz") as archive:
        member = tarfile.TarInfo("p-s0/weights.npy")
        member.type, member.linkname = tarfile.SYMTYPE, "/etc/passwd"
        archive.addfile(member)
    with pytest.raises(ArtifactError, match="no file of a release"):
        read_archive(tmp_path / "a.tar.gz")


def test_a_flood_of_bytes_is_refused_before_it_is_read(tmp_path, monkeypatch):
    write_archive(tmp_path / "a.tar.zst", {"p-s0/big": bytes(1 << 20)})
    assert (tmp_path / "a.tar.zst").stat().st_size < 1000
    monkeypatch.setattr("mlgo.deploy.release._MAX_BYTES", (1 << 20) - 1)
    with pytest.raises(ArtifactError, match="more than"):
        read_archive(tmp_path / "a.tar.zst")


@given(st.sampled_from(list(FORMATS)), st.floats(0, 1, exclude_max=True), st.integers(1, 255), st.booleans())
def test_damaged_archives_are_one_message(tmp_path_factory, form, at, flip, cut):
    path = tmp_path_factory.mktemp("damaged") / f"a{form}"
    data = bytearray(FORMATS[form](FILES))
    where = int(at * len(data))
    data[where] ^= flip
    path.write_bytes(data[:where] if cut else data)
    try:
        read_archive(path)
    except ArtifactError as error:
        assert str(path) in str(error)  # noqa: PT017


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda files: files | {"tree8-s0/weights.npy": b"other"}, "weights.npy has changed"),
        (lambda files: files | {"tree8-s0/README.md": b"It gains 90 %."}, "README.md has changed"),
        (lambda files: files | {"tree8-s0/more": b""}, "more is not in the card"),
        (lambda files: {path: data for path, data in files.items() if not path.endswith(".h")}, "Model.h is missing"),
        (lambda files: {path: data for path, data in files.items() if "README" not in path}, "has no README.md"),
        (lambda files: {path: data for path, data in files.items() if "card" not in path}, "has no card.json"),
        (lambda files: files | {"tree8-s0/card.json": b"{"}, "card.json is not what was written"),
        (lambda files: files | {"tree8-s0/card.json": b"[]"}, "card.json is not what was written"),
        (lambda files: files | {"other-s0/weights.npy": b""}, "other-s0 has no card.json"),
    ],
)
def test_a_check_finds_what_the_card_does_not_say(released, change, message, tmp_path):
    publish(released, "--version", "2.0.0", "-o", tmp_path / "a.zip")
    assert check_archive(tmp_path / "a.zip") == {"tree8-s0": 7}
    write_archive(tmp_path / "b.tar.zst", change(read_archive(tmp_path / "a.zip")))
    with pytest.raises(ArtifactError, match=message):
        publish("--check", tmp_path / "b.tar.zst")


def test_two_builds_have_the_same_bytes(wheel, tmp_path):
    publish(RELEASED, "--wheel", "-o", tmp_path)
    assert wheel.read_bytes() == (tmp_path / "mlgo_policies-1.0.0-py3-none-any.whl").read_bytes()
    assert wheel.name == "mlgo_policies-1.0.0-py3-none-any.whl"
    assert wheel.stat().st_size < 5_000_000


def test_it_is_a_wheel(wheel):
    with zipfile.ZipFile(wheel) as archive:
        content = {name: archive.read(name) for name in archive.namelist()}
    info = "mlgo_policies-1.0.0.dist-info"
    rows = list(csv.reader(content[f"{info}/RECORD"].decode().splitlines()))
    assert {row[0] for row in rows} == set(content)
    for path, digest, size in rows:
        value = base64.urlsafe_b64encode(hashlib.sha256(content[path]).digest()).decode().rstrip("=")
        whole = (f"sha256={value}", str(len(content[path])))
        assert (digest, size) == (("", "") if path == f"{info}/RECORD" else whole)
    said = email.message_from_bytes(content[f"{info}/METADATA"])
    assert (said["Name"], said["Version"], said["License-Expression"]) == ("mlgo-policies", "1.0.0", "Apache-2.0")
    assert content[f"{info}/licenses/{said['License-File']}"] == (REPOSITORY / "LICENSE").read_bytes()
    tags = email.message_from_bytes(content[f"{info}/WHEEL"])
    assert (tags["Wheel-Version"], tags["Root-Is-Purelib"], tags["Tag"]) == ("1.0", "true", "py3-none-any")
    for policy in ("marginal-s0", "tree8-s0"):
        for file in ("policy.json", "weights.npy", "cpp/InlinerSizeModel.cpp"):
            assert content[f"mlgo_policies/policies/{policy}/{file}"] == (RELEASED / policy / file).read_bytes()


def test_a_wheel_that_is_there_is_kept(tmp_path):
    publish(RELEASED / "tree8-s0", "--wheel", "-o", tmp_path, "--version", "1.2.0-rc.3")
    assert [path.name for path in tmp_path.iterdir()] == ["mlgo_policies-1.2.0rc3-py3-none-any.whl"]
    with pytest.raises(ArtifactError, match="exists; --force"):
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
