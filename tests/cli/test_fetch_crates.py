"""Crates of Debian, from a mirror of this machine: lists and packages as dpkg has them, see deb(5)."""

import hashlib
import io
import lzma
import shutil
import subprocess
import sys
import tarfile
import threading
from functools import partial
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer

import pytest

from tests.conftest import REPOSITORY

REGISTRY = "./usr/share/cargo/registry"
WORDS = {f"{REGISTRY}/words-0.1.0/{name}": text for name, text in {"Cargo.toml": "[package]", "src/lib.rs": ""}.items()}


def package(files):
    """A package of Debian: an archive of ar(1), whose third member is a tar archive of what it installs."""
    data = io.BytesIO()
    with tarfile.open(fileobj=data, mode="w:xz") as tar:
        for name, text in files.items():
            info = tarfile.TarInfo(name)
            info.size = len(text)
            tar.addfile(info, io.BytesIO(text.encode()))
    members = {"debian-binary": b"2.0\n", "control.tar.xz": b"", "data.tar.xz": data.getvalue()}
    packed = b"!<arch>\n"
    for name, content in members.items():
        packed += b"%-16s%-12d%-6d%-6d%-8s%-10d`\n" % (name.encode(), 0, 0, 0, b"100644", len(content))
        packed += content + b"\n" * (len(content) % 2)
    return packed


@pytest.fixture
def mirror(tmp_path):
    """Serve packages by name, as the release `rel` for amd64; what was asked for is in `asked`."""
    asked, servers = [], []

    class Handler(SimpleHTTPRequestHandler):
        def log_message(self, _, *args):
            asked.append(args[0].split()[1])

    def serve(packages, sha256=None):
        folder, entries = tmp_path / "mirror", []
        (folder / "pool").mkdir(parents=True)
        for name, content in packages.items():
            (folder / "pool" / name).write_bytes(content)
            digest = sha256 or hashlib.sha256(content).hexdigest()
            entries.append(f"Package: {name}\nSize: 1\nFilename: pool/{name}\nSHA256: {digest}\nTag: a\n b\n")
        listed = folder / "dists/rel/main/binary-amd64/Packages.xz"
        listed.parent.mkdir(parents=True)
        listed.write_bytes(lzma.compress("\n".join(entries).encode()))
        servers.append(ThreadingHTTPServer(("127.0.0.1", 0), partial(Handler, directory=folder)))
        threading.Thread(target=servers[-1].serve_forever, daemon=True).start()
        return f"http://127.0.0.1:{servers[-1].server_port}"

    serve.asked = asked
    yield serve
    for server in servers:
        server.shutdown()
        server.server_close()


def fetch(url, output):
    command = [sys.executable, "scripts/fetch_crates.py", "--suite", "rel", "--mirror", url, "--output", output]
    return subprocess.run(command, cwd=REPOSITORY, capture_output=True, text=True, check=False, timeout=120)


def test_crates_are_fetched_once(mirror, tmp_path):
    sums = {f"{REGISTRY}/app-1.0.0/.cargo-checksum.json": '{"package":"x","files":{}}'}
    url = mirror(
        {
            "librust-words-dev": package({**WORDS, "./usr/share/doc/words/copyright": "MIT"}),
            "librust-app-dev": package({f"{REGISTRY}/app-1.0.0/Cargo.toml": "", **sums}),
            "librust-app+std-dev": package({}),
            "libwords-dev": package({}),
        }
    )
    run = fetch(url, tmp_path / "crates")
    assert (run.returncode, run.stdout) == (0, f"2 crates in {tmp_path}/crates\n"), run.stderr
    assert sorted(path.name for path in (tmp_path / "crates").iterdir()) == [".packages", "app-1.0.0", "words-0.1.0"]
    assert (tmp_path / "crates/words-0.1.0/src/lib.rs").exists()
    # Debian 13 has a crate without sums, and with one such cargo takes none of the folder.
    assert (tmp_path / "crates/words-0.1.0/.cargo-checksum.json").read_text().split() == ["{", '"files":', "{}", "}"]
    assert (tmp_path / "crates/app-1.0.0/.cargo-checksum.json").read_text() == '{"package":"x","files":{}}'
    assert sorted(path.rsplit("/")[-1] for path in mirror.asked) == [
        "Packages.xz",
        "librust-app-dev",
        "librust-words-dev",
    ]
    assert fetch(url, tmp_path / "crates").returncode == 0
    assert [path.rsplit("/")[-1] for path in mirror.asked[3:]] == ["Packages.xz"]


@pytest.mark.parametrize(
    ("files", "sha256", "message"),
    [
        ({"./usr/share/doc/x": ""}, None, "librust-x-dev: it holds no crate"),
        (WORDS, "0" * 64, "librust-x-dev is not what the list of rel says; run again"),
        ({f"{REGISTRY}/../../../../evil": "x"}, None, "librust-x-dev: data.tar.xz cannot be unpacked ("),
        ({f"{REGISTRY}/a/../../../../../../evil": "x"}, None, "librust-x-dev: data.tar.xz cannot be unpacked ("),
    ],
)
def test_what_is_damaged_or_leads_out_is_refused(files, sha256, message, mirror, tmp_path):
    run = fetch(mirror({"librust-x-dev": package(files)}, sha256), tmp_path / "crates")
    assert run.returncode == 1
    assert f"error: {message}" in run.stderr
    assert [path.name for path in (tmp_path / "crates").iterdir()] == [".packages"]
    assert not list(tmp_path.rglob("evil"))


def test_a_later_package_replaces_all_its_crates(mirror, tmp_path):
    def crates(text):
        return package({f"{REGISTRY}/{name}-1.0.0/lib.rs": text for name in ("a", "b")})

    assert fetch(mirror({"librust-ab-dev": crates("old")}), tmp_path / "crates").returncode == 0
    shutil.rmtree(tmp_path / "mirror")
    assert fetch(mirror({"librust-ab-dev": crates("new")}), tmp_path / "crates").returncode == 0
    assert [(tmp_path / f"crates/{name}-1.0.0/lib.rs").read_text() for name in ("a", "b")] == ["new", "new"]


def test_no_mirror_and_no_crates(mirror, tmp_path):
    run = fetch("http://127.0.0.1:1", tmp_path / "crates")
    assert run.returncode == 1
    assert "Packages.xz cannot be fetched (ConnectionError); connect, or name another --mirror" in run.stderr
    run = fetch(mirror({"libwords-dev": package({})}), tmp_path / "crates")
    assert (run.returncode, "rel has no package librust-*-dev" in run.stderr) == (1, True)
