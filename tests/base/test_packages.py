"""Wheels and source distributions from an index on this machine."""

import functools
import hashlib
import http.server
import sys
import threading
import time
from dataclasses import replace

import pytest

from mlgo.base.packages import Package, fetch_package, import_extra, install_command, missing_module, require
from mlgo.errors import PackageError
from tests.conftest import almost

FILES = {
    "thing-1.0.tar.gz": b"sources",
    "thing-1.0-py3-none-manylinux_2_12_x86_64.whl": b"for one machine",
    "thing-1.0-py3-none-manylinux_2_17_aarch64.whl": b"for another",
    "thing-2.0.tar.gz": b"newer sources",
}
HASHES = {name: hashlib.sha256(data).hexdigest() for name, data in FILES.items()}
SOURCES = HASHES["thing-1.0.tar.gz"]
PACKAGE = Package("thing", "1.0", SOURCES, "sdist")
NOWHERE = "http://127.0.0.1:9/"


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

        def copyfile(self, source, output):
            data = source.read()
            is_cut = self.path.endswith(".gz") and (folder / "cut").exists()
            output.write(data[: len(data) // 2] if is_cut else data)

    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), functools.partial(Quiet, directory=folder)) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        monkeypatch.setenv("PIP_INDEX_URL", f"http://127.0.0.1:{server.server_port}/")
        yield folder
        server.shutdown()


@pytest.mark.parametrize("name", [name for name in FILES if "1.0" in name])
def test_the_file_of_the_pinned_hash_is_fetched_once_and_kept(name, tmp_path, index, monkeypatch):
    package = Package("thing", "1.0", HASHES[name], "wheel" if name.endswith(".whl") else "sdist")
    path = fetch_package(package, tmp_path / "cache")
    assert list((tmp_path / "cache").iterdir()) == [path] == [tmp_path / "cache" / f"{HASHES[name]}-{name}"]
    assert path.read_bytes() == FILES[name]
    monkeypatch.setenv("PIP_INDEX_URL", NOWHERE)
    assert fetch_package(package, tmp_path / "cache") == path


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"version": "2.0", "kind": "wheel"}, r"thing 2\.0 has no wheel on the index; pin another version"),
        ({"kind": "wheel"}, f"{SOURCES} is pinned"),
        ({"sha256": "1" * 64}, r"but 1111.* is pinned"),
        ({"name": "other"}, "knows no project 'other'"),
        ({"version": "3.0"}, r"thing 3\.0 has no source distribution"),
    ],
    ids=["no wheel", "hash of a source distribution", "another hash", "unknown project", "unknown version"],
)
def test_a_file_that_cannot_be_had(changes, message, tmp_path, index):
    with pytest.raises(PackageError, match=message):
        fetch_package(replace(PACKAGE, **changes), tmp_path / "cache")
    assert list((tmp_path / "cache").iterdir()) == []


@pytest.mark.parametrize("served", [b"sour", None], ids=["damaged", "vanished"])
def test_what_an_index_does_not_have_is_not_kept(served, tmp_path, index):
    (index / "thing-1.0.tar.gz").unlink()
    if served is not None:
        (index / "thing-1.0.tar.gz").write_bytes(served)
    with pytest.raises(PackageError):
        fetch_package(PACKAGE, tmp_path / "cache")
    assert list((tmp_path / "cache").iterdir()) == []


def test_an_index_that_fails_half_way_leaves_nothing_and_serves_the_next_time(tmp_path, index):
    (index / "cut").touch()
    with pytest.raises(PackageError, match=r"thing 1\.0 is not in .* and the package index cannot be reached"):
        fetch_package(PACKAGE, tmp_path / "cache")
    assert list((tmp_path / "cache").iterdir()) == []
    (index / "cut").unlink()
    assert fetch_package(PACKAGE, tmp_path / "cache").read_bytes() == b"sources"


def test_the_proxy_of_the_environment_is_used(tmp_path, index, monkeypatch):
    for name in ("no_proxy", "NO_PROXY"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("http_proxy", NOWHERE)
    with pytest.raises(PackageError, match=r"cannot be reached \(ProxyError\); connect once"):
        fetch_package(PACKAGE, tmp_path / "cache")


def test_no_network_and_no_cache(tmp_path, monkeypatch):
    monkeypatch.setenv("PIP_INDEX_URL", NOWHERE)
    start = time.monotonic()
    with pytest.raises(PackageError, match=f"cannot be reached.*put the file there as {SOURCES}-"):
        fetch_package(PACKAGE, tmp_path / "cache")
    assert time.monotonic() - start < 10.0
    assert list((tmp_path / "cache").iterdir()) == []


@pytest.mark.parametrize(
    ("found", "what"), [("", r"\(not installed\)"), ("4.9", r"\(4.9 is installed\)"), ("6.0", r"\(6.0 is installed\)")]
)
@pytest.mark.parametrize(
    ("is_checkout", "command"), [(True, "make setup EXTRA=optuna$"), (False, r"pip install 'mlgo\[optuna\]'$")]
)
def test_what_an_extra_needs_is_named_with_the_command_that_installs_it(
    found, what, is_checkout, command, without, monkeypatch
):
    without("optuna", found)
    monkeypatch.setattr("mlgo.base.packages.IS_CHECKOUT", is_checkout)
    with pytest.raises(PackageError, match=rf"^a study needs optuna<6,>=5 {what}; run {command}"):
        require("a study", "optuna")


def test_commands_that_install_several_extras(monkeypatch):
    assert install_command() == install_command("train") == "make setup"  # which installs everything but a few
    assert install_command("train", "import", "ray") == "make setup 'EXTRA=import ray'"
    monkeypatch.setattr("mlgo.base.packages.IS_CHECKOUT", False)
    assert install_command("train", "import") == "pip install 'mlgo[train,import]'"


def test_a_module_that_is_missed_is_named_with_its_extra():
    assert missing_module("pypi_simple.client") == "pypi_simple.client is not installed; run make setup"
    assert missing_module("optuna") == "optuna is not installed; run make setup EXTRA=optuna"
    assert missing_module("mlgo.nowhere") == missing_module("nothing") == ""  # a defect, which shows its traceback


def test_a_module_that_is_there_but_broken_is_named(monkeypatch):
    monkeypatch.setitem(sys.modules, "lief", None)
    with pytest.raises(PackageError, match=r"bitcode needs lief \(cannot be imported: .*\); run make setup$"):
        import_extra("lief", "embedded", "bitcode")


def test_a_hash_is_compared_to_its_last_digit(tmp_path):
    name, data = next(iter(FILES.items()))
    pinned = almost(HASHES[name])
    (tmp_path / f"{pinned}-{name}").write_bytes(data)
    with pytest.raises(PackageError, match=f"the file's sha256 is {HASHES[name]}, but {pinned} is pinned"):
        fetch_package(Package("thing", "1.0", pinned, "wheel"), tmp_path)
