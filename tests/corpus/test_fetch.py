"""Source distributions: cached, fetched from an index on this machine, damaged, out of reach."""

import functools
import hashlib
import http.server
import io
import os
import tarfile
import threading
import time
import zipfile
from pathlib import Path

import numpy as np
import pytest

from mlgo.corpus.fetch import copy_local, fetch_sources, unpack
from mlgo.corpus.recipe import Recipe
from mlgo.errors import CorpusError, PackageError

NOWHERE = "http://127.0.0.1:9/"


def make_archive(files: dict[str, str]) -> bytes:
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode="w:gz") as tar:
        for name, text in files.items():
            info = tarfile.TarInfo(name)
            info.size = len(text)
            tar.addfile(info, io.BytesIO(text.encode()))
    return buffer.getvalue()


ARCHIVE = make_archive({"thing-1.0/a.c": "int a;\n", "thing-1.0/PKG-INFO": "Name: thing\n"})
SHA256 = hashlib.sha256(ARCHIVE).hexdigest()


def recipe(sha256: str = SHA256, **changes) -> Recipe:
    units = [{"language": "c", "standard": "c11", "sources": ["*.c"]}]
    values = {"name": "thing", "version": "1.0", "sha256": sha256, "license": "MIT", "units": units}
    return Recipe.model_validate(values | changes)


@pytest.fixture
def index(tmp_path, monkeypatch):
    """A package index with one project, as PEP 503 describes it."""
    folder = tmp_path / "index"
    (folder / "thing").mkdir(parents=True)
    (folder / "thing-1.0.tar.gz").write_bytes(ARCHIVE)
    page = f'<a href="../thing-1.0.tar.gz#sha256={SHA256}">thing-1.0.tar.gz</a>'
    (folder / "thing" / "index.html").write_text(f"<!DOCTYPE html><html><body>{page}</body></html>")

    class Quiet(http.server.SimpleHTTPRequestHandler):
        def log_message(self, *arguments):
            pass

    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), functools.partial(Quiet, directory=folder)) as server:
        thread = threading.Thread(target=server.serve_forever, daemon=True)
        thread.start()
        monkeypatch.setenv("PIP_INDEX_URL", f"http://127.0.0.1:{server.server_port}/")
        yield folder
        server.shutdown()


def test_cached_archives_need_no_network(tmp_path, monkeypatch):
    monkeypatch.setenv("PIP_INDEX_URL", NOWHERE)
    cached = tmp_path / f"{SHA256}-thing-1.0.tar.gz"
    cached.write_bytes(ARCHIVE)
    assert fetch_sources(recipe(), tmp_path) == cached
    root = unpack(cached, tmp_path / "out")
    assert root == tmp_path / "out" / "thing-1.0"
    assert (root / "a.c").read_text() == "int a;\n"


def test_a_cached_archive_of_another_hash(tmp_path, monkeypatch):
    monkeypatch.setenv("PIP_INDEX_URL", NOWHERE)
    (tmp_path / f"{SHA256}-thing-1.0.tar.gz").write_bytes(ARCHIVE + b"x")
    with pytest.raises(PackageError, match=f"{SHA256} is pinned"):
        fetch_sources(recipe(), tmp_path)


def test_no_network_and_no_cache(tmp_path, monkeypatch):
    monkeypatch.setenv("PIP_INDEX_URL", NOWHERE)
    start = time.monotonic()
    with pytest.raises(PackageError, match=f"cannot be reached.*put the file there as {SHA256}-"):
        fetch_sources(recipe(), tmp_path / "cache")
    assert time.monotonic() - start < 10.0
    assert list((tmp_path / "cache").iterdir()) == []


def test_fetching_and_keeping(tmp_path, index, monkeypatch):
    cache = tmp_path / "cache"
    path = fetch_sources(recipe(), cache)
    assert path == cache / f"{SHA256}-thing-1.0.tar.gz"
    assert path.read_bytes() == ARCHIVE
    assert list(cache.iterdir()) == [path]
    monkeypatch.setenv("PIP_INDEX_URL", NOWHERE)
    assert fetch_sources(recipe(), cache) == path


def test_an_index_with_another_hash_than_the_recipe(tmp_path, index):
    cache = tmp_path / "cache"
    with pytest.raises(PackageError, match=r"but 1111.* is pinned"):
        fetch_sources(recipe("1" * 64), cache)
    assert list(cache.iterdir()) == []


def test_a_download_that_arrives_damaged(tmp_path, index):
    (index / "thing-1.0.tar.gz").write_bytes(ARCHIVE[:-3])
    cache = tmp_path / "cache"
    with pytest.raises(PackageError):
        fetch_sources(recipe(), cache)
    assert list(cache.iterdir()) == []


def test_unknown_project_and_version(tmp_path, index):
    with pytest.raises(PackageError, match="knows no project 'other'"):
        fetch_sources(recipe(name="other"), tmp_path)
    with pytest.raises(PackageError, match=r"thing 2\.0 has no source distribution"):
        fetch_sources(recipe(version="2.0"), tmp_path)


def test_the_file_vanished_from_the_index(tmp_path, index):
    (index / "thing-1.0.tar.gz").unlink()
    with pytest.raises(PackageError):
        fetch_sources(recipe(), tmp_path / "cache")
    assert list((tmp_path / "cache").iterdir()) == []


def test_zip_archives(tmp_path):
    with zipfile.ZipFile(tmp_path / "thing.zip", "w") as zipped:
        zipped.writestr("thing-1.0/a.c", "int a;")
    assert (unpack(tmp_path / "thing.zip", tmp_path / "out") / "a.c").read_text() == "int a;"


@pytest.fixture(params=["with filters", "without filters"])
def python(request, monkeypatch):
    """Python with the filters of tarfile, or as it was before 3.11.4."""
    if request.param == "without filters":
        monkeypatch.delattr(tarfile, "data_filter")


def archive_of(path: Path, *members: tarfile.TarInfo) -> Path:
    with tarfile.open(path, "w:gz") as tar:
        inside = tarfile.TarInfo("thing/a.c")
        inside.size = 6
        tar.addfile(inside, io.BytesIO(b"int a;"))
        for member in members:
            tar.addfile(member, io.BytesIO(bytes(member.size)))
    return path


def member(name: str, kind: bytes = tarfile.REGTYPE, target: str = "", mode: int = 0o644, size: int = 0):
    info = tarfile.TarInfo(name)
    info.type, info.linkname, info.mode, info.size = kind, target, mode, size
    info.uid = info.gid = 12345
    return info


def everything(folder: Path) -> set[str]:
    return {str(path.relative_to(folder)) for path in folder.rglob("*")}


def test_ordinary_archives(python, tmp_path):
    members = [member("thing/sub", tarfile.DIRTYPE, mode=0o755), member("thing/sub/b.c", mode=0o6777, size=3)]
    root = unpack(archive_of(tmp_path / "a.tar.gz", *members), tmp_path / "out")
    assert everything(root) == {"a.c", "sub", "sub/b.c"}
    assert (root / "a.c").read_text() == "int a;"
    assert (root / "sub/b.c").read_bytes() == bytes(3)
    for path in (root, *root.rglob("*")):
        assert path.stat().st_uid == os.getuid()
        assert path.stat().st_mode & 0o6022 == 0  # nobody else may write, and it runs as nobody else


@pytest.mark.parametrize(
    "members",
    [
        [member("../evil.c")],
        [member("thing/../../evil.c")],
        [member("thing/link", tarfile.SYMTYPE, "/etc/passwd")],
        [member("thing/link", tarfile.SYMTYPE, "../../evil")],
        [member("thing/link", tarfile.SYMTYPE, ".."), member("thing/link/../../evil.c")],
        [member("thing/link", tarfile.SYMTYPE, "../.."), member("thing/link/evil.c")],
        [member("thing/link", tarfile.LNKTYPE, "../evil.c")],
        [member("thing/pipe", tarfile.FIFOTYPE)],
        [member("thing/null", tarfile.CHRTYPE)],
        [member("thing/disk", tarfile.BLKTYPE)],
    ],
    ids=lambda members: " ".join(f"{one.name}>{one.linkname}" for one in members),
)
def test_archives_that_reach_outside_are_refused(python, tmp_path, members):
    (tmp_path / "evil.c").write_text("kept")
    archive = archive_of(tmp_path / "bad.tar.gz", *members)
    with pytest.raises(CorpusError, match=r"bad\.tar\.gz cannot be unpacked \(.*\); delete it") as caught:
        unpack(archive, tmp_path / "deep" / "out")
    assert "\n" not in str(caught.value)
    assert (tmp_path / "evil.c").read_text() == "kept"
    outside = everything(tmp_path) - {"evil.c", "bad.tar.gz", "deep", "deep/out"}
    assert all(name.startswith("deep/out/thing") for name in outside)
    assert not any(path.is_fifo() or path.is_block_device() for path in tmp_path.rglob("*"))


def test_absolute_names_stay_inside_or_are_refused(python, tmp_path):
    evil = tmp_path / "evil.c"
    try:
        unpack(archive_of(tmp_path / "bad.tar.gz", member(str(evil))), tmp_path / "out")
    except CorpusError:
        pass
    assert not evil.exists()


@pytest.mark.parametrize("files", [{}, {"a/x.c": "", "b/x.c": ""}, {"x.c": ""}])
def test_archives_without_exactly_one_folder(files, tmp_path):
    (tmp_path / "a.tar.gz").write_bytes(make_archive(files))
    (tmp_path / "out").mkdir()
    with pytest.raises(CorpusError, match=r"a\.tar\.gz holds \d folders"):
        unpack(tmp_path / "a.tar.gz", tmp_path / "out")


@pytest.mark.parametrize("data", [b"", b"hello", ARCHIVE[:50], ARCHIVE[:100]], ids=["nothing", "text", "50", "100"])
def test_what_is_no_archive(data, tmp_path):
    for name in ("a.tar.gz", "a.zip"):
        (tmp_path / name).write_bytes(data)
        with pytest.raises(CorpusError, match="cannot be unpacked"):
            unpack(tmp_path / name, tmp_path / "out")


def test_damage_inside_an_archive(tmp_path):
    digits = np.random.default_rng(0).integers(0, 9, 20000)
    whole = make_archive({"thing/a.c": "".join(map(str, digits))})
    for position in range(20, len(whole), 397):
        data = bytearray(whole)
        data[position] ^= 0x55
        (tmp_path / "a.tar.gz").write_bytes(data)
        try:
            unpack(tmp_path / "a.tar.gz", tmp_path / f"out{position}")
        except CorpusError:
            pass


def test_local_projects_are_copied(tmp_path):
    source = tmp_path / "source"
    source.mkdir()
    (source / "a.c").write_text("int a;")
    local = recipe(path=str(source), version=None, sha256=None)
    copy = copy_local(local, tmp_path / "copies")
    (copy / "generated.h").write_text("")
    assert (copy / "a.c").read_text() == "int a;"
    assert [path.name for path in source.iterdir()] == ["a.c"]
    with pytest.raises(CorpusError, match="is not a folder"):
        copy_local(recipe(path=str(tmp_path / "none"), version=None, sha256=None), tmp_path / "copies")
