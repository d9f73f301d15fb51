"""Wheels from an index on this machine; source distributions are in tests/corpus/test_build.py."""

import functools
import hashlib
import http.server
import threading

import pytest

from mlgo.base.packages import Package, fetch_package
from mlgo.errors import PackageError
from tests.conftest import almost

FILES = {
    "thing-1.0.tar.gz": b"sources",
    "thing-1.0-py3-none-manylinux_2_12_x86_64.whl": b"for one machine",
    "thing-1.0-py3-none-manylinux_2_17_aarch64.whl": b"for another",
    "thing-2.0.tar.gz": b"newer sources",
}
HASHES = {name: hashlib.sha256(data).hexdigest() for name, data in FILES.items()}


@pytest.fixture
def index(tmp_path, monkeypatch):
    """A package index with one project, as PEP 503 describes it."""
    folder = tmp_path / "index"
    (folder / "thing").mkdir(parents=True)
    for name, data in FILES.items():
        (folder / name).write_bytes(data)
    links = "".join(f'<a href="../{name}#sha256={sha256}">{name}</a>' for name, sha256 in HASHES.items())
    (folder / "thing" / "index.html").write_text(f"<!DOCTYPE html><html><body>{links}</body></html>")

    class Quiet(http.server.SimpleHTTPRequestHandler):
        def log_message(self, *arguments):
            pass

    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), functools.partial(Quiet, directory=folder)) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        monkeypatch.setenv("PIP_INDEX_URL", f"http://127.0.0.1:{server.server_port}/")
        yield
        server.shutdown()


@pytest.mark.parametrize("name", [name for name in FILES if name.endswith(".whl")])
def test_the_wheel_of_the_pinned_hash_is_taken(name, tmp_path, index):
    path = fetch_package(Package("thing", "1.0", HASHES[name], "wheel"), tmp_path / "cache")
    assert path == tmp_path / "cache" / f"{HASHES[name]}-{name}"
    assert path.read_bytes() == FILES[name]


@pytest.mark.parametrize(
    ("version", "sha256", "message"),
    [
        ("2.0", "0" * 64, r"thing 2\.0 has no wheel on the index; pin another version"),
        ("1.0", HASHES["thing-1.0.tar.gz"], f"{HASHES['thing-1.0.tar.gz']} is pinned"),
    ],
    ids=["no wheel", "hash of a source distribution"],
)
def test_a_wheel_that_cannot_be_had(version, sha256, message, tmp_path, index):
    with pytest.raises(PackageError, match=message):
        fetch_package(Package("thing", version, sha256, "wheel"), tmp_path / "cache")
    assert list((tmp_path / "cache").iterdir()) == []


def test_a_hash_is_compared_to_its_last_digit(tmp_path):
    name, data = next(iter(FILES.items()))
    pinned = almost(HASHES[name])
    (tmp_path / f"{pinned}-{name}").write_bytes(data)
    with pytest.raises(PackageError, match=f"the file's sha256 is {HASHES[name]}, but {pinned} is pinned"):
        fetch_package(Package("thing", "1.0", pinned, "wheel"), tmp_path)
