"""A release: its version agrees in all places, and `scripts/release_check.py` tries it as users get it."""

import http.server
import json
import os
import re
import subprocess
import sys
import threading
from importlib.metadata import version
from pathlib import Path

import pytest
import yaml

import mlgo
from scripts.release_check import StepFailed, find_pythons, find_release, run
from tests.conftest import REPOSITORY

WHEEL = f"mlgo-{mlgo.__version__}-py3-none-any.whl"


def test_the_version_agrees_in_all_places():
    newest = re.search(r"^## \[(.*)\] - (.*)$", (REPOSITORY / "CHANGELOG.md").read_text(), re.MULTILINE)
    cited = yaml.safe_load((REPOSITORY / "CITATION.cff").read_text())
    assert newest is not None
    assert newest[1] == cited["version"] == mlgo.__version__
    assert newest[2] == str(cited["date-released"])
    assert cited["license"] == "Apache-2.0"
    assert "\nversion =" not in (REPOSITORY / "pyproject.toml").read_text().split("[project.", 1)[0]


def a_python(path: Path, text: str) -> str:
    path.write_text(f"#!/bin/sh\n{text}\n")
    path.chmod(0o755)
    return str(path)


def release(folder: Path) -> Path:
    """A folder with a wheel and a source distribution in name, beside those of another version."""
    folder.mkdir()
    for name in (WHEEL, f"mlgo-{mlgo.__version__}.tar.gz", "mlgo-0.2.0-py3-none-any.whl", "mlgo-0.2.0.tar.gz"):
        (folder / name).write_bytes(b"")
    return folder


def check(folder: Path, *options: str, **variables: str) -> tuple[dict, subprocess.CompletedProcess]:
    """Run the check of a release; returns its record."""
    done = subprocess.run(
        [sys.executable, "scripts/release_check.py", "--json", "--dist", folder, *options],
        cwd=REPOSITORY,
        env={**os.environ, **variables},
        capture_output=True,
        text=True,
        check=False,
        timeout=900,
    )
    assert "Traceback" not in done.stderr, done.stderr
    return json.loads(done.stdout), done


def test_a_release_is_that_of_this_version(tmp_path):
    assert find_release(release(tmp_path / "dist"))[0].name == WHEEL
    with pytest.raises(mlgo.MlgoError, match=f"no wheel and source distribution of mlgo {mlgo.__version__}; run make"):
        find_release(tmp_path / "nothing")


def test_pythons_that_are_of_no_use_say_why(tmp_path):
    named = {
        "hoarse": a_python(tmp_path / "hoarse", "echo hoarse: no such command >&2; exit 127"),
        "none": str(tmp_path / "none"),
        "new": a_python(tmp_path / "new", "echo 3.99"),
    }
    found = find_pythons(list(named.values()), ["3.98", "3.99"])
    assert found == {
        "3.98": None,
        "3.99": tmp_path / "new",
        named["hoarse"]: "hoarse: no such command",
        named["none"]: f"cannot start {named['none']}: No such file or directory",
    }


def test_a_step_without_end_is_ended(tmp_path):
    with pytest.raises(StepFailed, match="no end within 0 s"):
        run(["sleep", "60"], tmp_path, os.environ, 0.1)


def test_a_python_without_venv_is_a_row_with_its_reason(tmp_path):
    text = (
        'case "$2" in *ensurepip*) echo "ModuleNotFoundError: No module named ensurepip" >&2; exit 1;; esac\necho 3.99'
    )
    python = a_python(tmp_path / "python3.99", text)
    record, done = check(release(tmp_path / "dist"), "--only", "3.99", "--python", python)
    row, sdist = record["pythons"]
    assert done.returncode == 1
    assert row["found"] == {"headers": "none"}
    assert re.fullmatch(
        r"this Python makes no environments \(.*ensurepip\); install its .*", row["failed"]["installed"]
    )
    assert sdist["failed"]  # an empty file
    assert record["compilers"] == []


class HalfAnIndex(http.server.BaseHTTPRequestHandler):
    """An index that lists what is installed here; its files end in their middle."""

    def do_GET(self):
        name = self.path.strip("/").removeprefix("simple/")
        if name.endswith(".whl"):
            self.answer("application/octet-stream", b"PK", length=1_000_000)
            return
        file = f"{name.replace('-', '_')}-{version(name)}-py3-none-any.whl"
        self.answer("text/html", f'<html><body><a href="/{file}">{file}</a></body></html>'.encode())

    def answer(self, kind: str, content: bytes, length: int | None = None):
        self.send_response(200)
        self.send_header("Content-Type", kind)
        self.send_header("Content-Length", str(length or len(content)))
        self.end_headers()
        self.wfile.write(content)
        self.close_connection = True

    def log_message(self, *words):
        pass


@pytest.mark.slow
def test_an_index_that_cannot_be_had_is_a_row_with_its_reason(tmp_path):
    build = [sys.executable, "scripts/build_dist.py", "-o", tmp_path]
    subprocess.run(build, cwd=REPOSITORY, check=True, capture_output=True)
    nowhere = {"PIP_RETRIES": "1", "PIP_NO_CACHE_DIR": "1", "no_proxy": "", "NO_PROXY": ""}
    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), HalfAnIndex) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        half = f"http://127.0.0.1:{server.server_port}/simple"
        troubles = {
            r"is invalid|incomplete": {"PIP_INDEX_URL": half},
            r"package index gave none": {"PIP_INDEX_URL": "http://127.0.0.1:9/simple"},
            r"ProxyError": {"PIP_INDEX_URL": "https://a.invalid/simple", "https_proxy": "http://127.0.0.1:9"},
        }
        for reason, variables in troubles.items():
            options = ("--only", "{}.{}".format(*sys.version_info), "--python", sys.executable)
            record, done = check(tmp_path, *options, **nowhere, **variables)
            python = record["pythons"][0]
            assert done.returncode == 1
            assert re.search(reason, python["failed"]["installed"])
        server.shutdown()


@pytest.mark.slow
@pytest.mark.timeout(900)
def test_what_works_with_the_compilers_that_are_here(tmp_path):
    record, done = check(tmp_path, "--environment", sys.prefix, "--offline")
    compilers = {row["name"]: row for row in record["compilers"]}
    of_wheel = compilers[f"clang 22 (ziglang {version('ziglang')})"]
    here = [row for row in compilers.values() if row["here"]]
    assert done.returncode == 0, record
    assert of_wheel in here
    for row in here:
        assert row["found"]["self-test"] == "8 of 8"
        for task in ("inline-size", "regalloc-evict", "regalloc-priority"):
            assert re.match(r"[\d,]+; [\d,.]+ to [\d,.]+$", row["found"][task])
    assert of_wheel["found"]["inline-size"] == "282; 5,854 to 5,103"
