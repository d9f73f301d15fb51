"""Archives: the same bytes each time, readable by the usual tools, and nothing in them that a card does not know."""

import io
import os
import subprocess
import tarfile
import zipfile

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from mlgo.deploy.release import FORMATS, check_archive, read_archive, write_archive
from mlgo.errors import ArtifactError, ConfigError
from tests.deploy.publish.conftest import publish

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
        found = read_archive(folder / f"a{form}")
        assert list(found.items()) == sorted(files.items())


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
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode="w:gz") as archive:
        member = tarfile.TarInfo("p-s0/weights.npy")
        member.type, member.linkname = tarfile.SYMTYPE, "/etc/passwd"
        archive.addfile(member)
    (tmp_path / "a.tar.gz").write_bytes(buffer.getvalue())
    with pytest.raises(ArtifactError, match="no file of a release"):
        read_archive(tmp_path / "a.tar.gz")


def test_a_flood_of_bytes_is_refused_before_it_is_read(tmp_path, monkeypatch):
    write_archive(tmp_path / "a.tar.zst", {"p-s0/big": bytes(1 << 20)})
    assert os.path.getsize(tmp_path / "a.tar.zst") < 1000  # noqa: PTH202
    monkeypatch.setattr("mlgo.deploy.release._MAX_BYTES", (1 << 20) - 1)
    with pytest.raises(ArtifactError, match="more than"):
        read_archive(tmp_path / "a.tar.zst")


@given(
    form=st.sampled_from(list(FORMATS)),
    at=st.floats(0, 1, exclude_max=True),
    flip=st.integers(1, 255),
    cut=st.booleans(),
)
def test_damaged_archives_are_one_message(form, at, flip, cut, tmp_path_factory):
    path = tmp_path_factory.mktemp("damaged") / f"a{form}"
    data = bytearray(FORMATS[form](FILES))
    where = int(at * len(data))
    data[where] ^= flip
    path.write_bytes(data[:where] if cut else data)
    try:
        read_archive(path)
    except ArtifactError as error:
        assert str(path) in str(error)  # noqa: PT017


@pytest.mark.parametrize("name", ["a.rar", "a.tar", ".zip", "zip"])
def test_other_formats_are_refused(name, tmp_path):
    with pytest.raises(ConfigError, match=r"ends in \.tar\.zst, \.tar\.gz, \.zip"):
        write_archive(tmp_path / name, FILES)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda files: files | {"tree8-s0/weights.npy": b"other"}, "weights.npy has changed"),
        (lambda files: files | {"tree8-s0/README.md": b"It gains 90 %."}, "README.md has changed"),
        (lambda files: files | {"tree8-s0/more": b""}, "more is not in the card"),
        (lambda files: {path: data for path, data in files.items() if not path.endswith(".h")}, "Model.h is missing"),
        (lambda files: {path: data for path, data in files.items() if "README" not in path}, "has no README.md"),
        (lambda files: {path: data for path, data in files.items() if "card" not in path}, "has no card.json"),
        (lambda files: files | {"tree8-s0/card.json": b"{"}, "card.json is not JSON"),
        (lambda files: files | {"tree8-s0/card.json": b"[]"}, "card.json is no card"),
        (lambda files: files | {"other-s0/weights.npy": b""}, "other-s0 has no card.json"),
    ],
)
def test_a_check_finds_what_the_card_does_not_say(released, change, message, tmp_path):
    publish(released, "--version", "2.0.0", "-o", tmp_path / "a.zip")
    assert check_archive(tmp_path / "a.zip") == {"tree8-s0": 7}
    write_archive(tmp_path / "b.tar.zst", change(read_archive(tmp_path / "a.zip")))
    with pytest.raises(ArtifactError, match=message):
        publish("--check", tmp_path / "b.tar.zst")
