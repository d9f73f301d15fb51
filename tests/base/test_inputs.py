"""What comes from outside: files that are none, names that are none, text that steers a terminal, bombs."""

import gzip
import json
import os
import shutil
import socket
import subprocess
import sys
import tarfile
import zipfile
from pathlib import Path

import pytest

from mlgo.base.config import read_yaml
from mlgo.base.files import file_sha256, open_input, parse_json, read_array, read_input, read_json, shown, write_text
from mlgo.corpus.build import unpack
from mlgo.deploy.card import page
from mlgo.deploy.linking import LinkCommand
from mlgo.deploy.release import check_archive
from mlgo.errors import ArtifactError, ConfigError, CorpusError, LinkError
from mlgo.policy.stored import load_policy
from mlgo.report.pages import Column, Table


@pytest.fixture(params=["fifo", "device", "folder", "socket", "dangling", "loop", "long", "half"])
def no_file(request, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)  # names of sockets are short
    path = tmp_path / "x"
    if request.param == "fifo":
        os.mkfifo(path)
    elif request.param == "device":
        path.symlink_to("/dev/zero")
    elif request.param == "folder":
        path.mkdir()
    elif request.param == "socket":
        with socket.socket(socket.AF_UNIX) as one:
            one.bind("x")
    elif request.param in ("dangling", "loop"):
        path.symlink_to("y" if request.param == "dangling" else "x")
    else:
        path = tmp_path / ("x" * 300 if request.param == "long" else "\ud800")
    return path


def test_what_is_no_file_is_refused_at_once(no_file):
    with pytest.raises(OSError, match=r".") as refused:
        open_input(no_file)
    assert refused.value.strerror
    for read in (read_json, read_array, file_sha256):
        with pytest.raises(ArtifactError):
            read(no_file)
    with pytest.raises(ConfigError, match="cannot read"):
        read_yaml(no_file)


def test_a_file_is_read_within_bounds(tmp_path):
    path = tmp_path / "x"
    path.write_bytes(b"12345")
    assert read_input(path, 5) == b"12345"
    with pytest.raises(OSError, match="5 bytes, where 4 are the most"):
        read_input(path, 4)


def test_no_device_is_replaced(tmp_path):
    with pytest.raises(ArtifactError, match="it is a folder"):
        write_text(Path(), "")
    os.mkfifo(tmp_path / "x")
    with pytest.raises(ArtifactError, match="something else than a file is there"):
        write_text(tmp_path / "x", "")
    assert (tmp_path / "x").is_fifo()


@pytest.mark.parametrize("text", ["[" * 100_000, '{"a":' * 5_000 + "1" + "}" * 5_000, "[" * 101 + "]" * 101, "NaN,"])
def test_deep_json(text):
    with pytest.raises(ValueError, match=r"nested|no number"):
        parse_json(text)


_ALIASES = "".join(f"{chr(98 + i)}: &{chr(98 + i)} [{','.join(['*' + chr(97 + i)] * 9)}]\n" for i in range(9))


@pytest.mark.parametrize(
    "text",
    [
        "[" * 100_000,
        "- " * 10_000,
        "a: &a [1]\n" + _ALIASES,
        "a: &a {x: 1}\n" + _ALIASES.replace("[", "{<<: [").replace("]", "]}"),
        "&a [*a]",
        "a: " + "1:" * 100_000 + "1",
        "!!int ''",
        "!!timestamp x",
        "!!bool x",
        "\xff",
    ],
)
def test_yaml_that_would_not_end(tmp_path, text):
    (tmp_path / "x.yaml").write_bytes(text.encode("latin-1"))
    with pytest.raises(ConfigError, match=r"x\.yaml is not YAML"):
        read_yaml(tmp_path / "x.yaml")


def test_aliases_of_honest_yaml(tmp_path):
    (tmp_path / "x.yaml").write_text("a: &a {b: 1}\nc: *a\nd: {<<: *a, e: 2}\n")
    assert read_yaml(tmp_path / "x.yaml") == {"a": {"b": 1}, "c": {"b": 1}, "d": {"b": 1, "e": 2}}


def test_text_of_others_stays_on_its_line():
    assert shown("a\nb\x1b[2J\r\u202ec\udcff") == "a\\nb\\x1b[2J\\r\\u202ec\\udcff"
    assert shown("a\nbä 漢", "\n") == "a\nbä 漢"


def tarred(tmp_path, *headers):
    """An archive of headers without content."""
    (tmp_path / "x.tar.gz").write_bytes(gzip.compress(b"".join(headers) + bytes(1024)))
    return tmp_path / "x.tar.gz"


def header(name, size=0, kind=b"0", target=""):
    member = tarfile.TarInfo(name)
    member.size, member.type, member.linkname = size, kind, target
    return member.tobuf(tarfile.GNU_FORMAT)


@pytest.mark.parametrize(
    ("headers", "message"),
    [
        ([header("x", 3 << 30, b"x")], "a header of"),
        ([header("x", 3 << 30, b"L")], "a header of"),
        ([header("p/x", 1 << 40)], "more than"),
        ([header("p/x", kind=b"1", target="p/y")] * 2, "link to what is not there|is no file of a release"),
        ([header("x", kind=b"g")] * 2_000 + [header("p/x")], "recursion"),
        ([header("p/" + "a/" * 1_400)], "is none that a file system takes|has no card"),
    ],
)
def test_archives_that_would_not_end(tmp_path, headers, message):
    path = tarred(tmp_path, *headers)
    with pytest.raises(CorpusError, match=message):
        unpack(path, tmp_path / "unpacked")
    with pytest.raises(ArtifactError, match=message):
        check_archive(path)


@pytest.mark.parametrize("name", ["x.tar.gz", "x.zip"])
def test_an_archive_that_is_no_file(tmp_path, name):
    os.mkfifo(tmp_path / name)
    with pytest.raises(CorpusError, match="no regular file"):
        unpack(tmp_path / name, tmp_path / "unpacked")
    with pytest.raises(ArtifactError, match="no regular file"):
        check_archive(tmp_path / name)


def test_an_archive_of_many_files(tmp_path):
    with zipfile.ZipFile(tmp_path / "x.zip", "w") as archive:
        for number in range(1 << 14):
            archive.writestr(f"p/{number}", "")
        archive.writestr("p/x", "")
    with pytest.raises(ArtifactError, match="more than 16,384 files"):
        check_archive(tmp_path / "x.zip")


_PROGRAM = "from mlgo.cli.program import run_program\n"


def run(code, tail="", **environment):
    command = f'"$0" -c "$1" {tail}'
    return subprocess.run(
        ["bash", "-o", "pipefail", "-c", command, sys.executable, _PROGRAM + code],
        capture_output=True,
        text=True,
        env={**os.environ, **environment},
        check=False,
    )


@pytest.mark.parametrize(
    ("code", "message"),
    [
        ("open('a\\0b')", "a file's name holds a NUL"),
        ("open('\\ud800')", "is no text"),
        ("open('x' * 300)", "cannot use xxx"),
        ("bytearray(1 << 62)", "no memory is left"),
        ("import os, tempfile; f = tempfile.mkdtemp(); os.chdir(f); os.rmdir(f); os.getcwd()", "the current folder is"),
        (
            "from mlgo.errors import ConfigError; raise ConfigError('a\\nall is well \\x1b[1A')",
            r"a\nall is well \x1b[1A",
        ),
    ],
)
def test_what_no_module_sees_is_one_line(code, message):
    done = run(f"def main():\n    {code}\nrun_program(main)")
    assert done.returncode == 1
    assert len(done.stderr.splitlines()) == 1
    assert done.stderr.startswith("error: ")
    assert message in done.stderr


def test_a_defect_shows_where_it_is():
    for code in ("{}['x']", "open('/nowhere/x')", "int('x')", "assert False"):
        assert "Traceback" in run(f"def main():\n    {code}\nrun_program(main)").stderr


PRINTING = "def main():\n    print('ä \\udcff\\x1b[2J\\n' * 100000)\nrun_program(main)"


def test_output_takes_any_text():
    done = run(PRINTING, PYTHONIOENCODING="ascii:strict")
    assert done.stdout.startswith("\\xe4 \\udcff\\x1b[2J\n")
    assert (done.returncode, done.stderr) == (0, "")


@pytest.mark.parametrize(("tail", "status"), [(">&-", 0), ("| head -1", 1), (">/dev/full", 1), ("2>&-", 0)])
def test_output_that_is_closed(tail, status):
    done = run(PRINTING, tail)
    assert done.returncode == status
    assert done.stderr in ("", "error: no space left on the device (temporary folder)\n")


def test_response_files_that_name_each_other(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "x").write_text("-a @x @x")
    with pytest.raises(LinkError, match="more than 256 response files"):
        LinkCommand.read(["@x"])
    (tmp_path / "x").write_text("'a")
    with pytest.raises(LinkError, match="@x cannot be read"):
        LinkCommand.read(["@x"])


def test_names_of_others_in_tables_and_cards():
    table = Table([Column("name", lambda row, style: row, left=True)], ["a\nok\x1b[2J"])
    assert table.aligned() == "name\na\\nok\\x1b[2J"
    released = Path(__file__).parents[2] / "data/released/tree8-s0"
    text = page(json.loads((released / "card.json").read_text()) | {"name": "<script>\n[a](javascript:b)"})
    assert text.startswith("# &lt;script>\\n\\[a](javascript:b)")


@pytest.mark.parametrize("origin", [3, {"compile": 3}, {"languages": 3}, {"languages": [3]}, {"fitted": [[]]}])
def test_provenance_of_another_shape(tmp_path, origin):
    released = Path(__file__).parents[2] / "data/released/tree8-s0"
    record = json.loads((released / "policy.json").read_text()) | {"provenance": origin}
    shutil.copy(released / "weights.npy", tmp_path)
    (tmp_path / "policy.json").write_text(json.dumps({name: record[name] for name in record if name != "sha256"}))
    with pytest.raises(ArtifactError, match="provenance"):
        load_policy(tmp_path)
