"""`mlgo size-diff` as a user and a CI call it."""

import json
import subprocess

import pytest

from mlgo.host.linker import section_sizes
from mlgo.host.toolchain import find_linker

SAME = "int same(int x) { return x; } "
SMALL = SAME + "namespace app { int twice(int x) { return 2 * x; } }"
LARGE = SAME + "namespace app { int twice(int x) { return 2 * x * x * x - 7; } int more(int x) { return x; } }"


@pytest.fixture
def builds(compiled, tmp_path):
    folders = [tmp_path / "before", tmp_path / "after"]
    for folder, text in zip(folders, (SMALL, LARGE), strict=True):
        folder.mkdir()
        compiled(text, "-Os", "-fPIC", language="c++").rename(folder / "one.o")
        link = [find_linker(), "ld.lld", "-shared", "--eh-frame-hdr", "-o", folder / "lib.so", folder / "one.o"]
        subprocess.run(link, check=True, capture_output=True, timeout=60)
    return folders


def test_text(mlgo, builds):
    run = mlgo("size-diff", *(folder / "lib.so" for folder in builds), "--demangle")
    assert (run.returncode, run.stderr) == (0, "")
    before, after = (section_sizes((folder / "lib.so").read_bytes()) for folder in builds)
    lines = [line.split() for line in run.stdout.splitlines()]
    growth = after["total"] - before["total"]
    assert ["total", f"{growth:+,}"] == lines[4][:2]
    assert lines[4][-2:] == [f"{before['total']:,}", f"{after['total']:,}"]
    (twice,) = (line for line in lines if line[-1:] == ["app::twice(int)"])
    assert int(twice[0]) > 0
    (more,) = (line for line in lines if line[-1:] == ["app::more(int)"])
    # mov eax, edi and ret; an entry of 20 bytes, 4 more as the last of its object, and 8 in the index.
    assert more[:5] == ["+35", "-", "0", "35", "new"]
    assert not any(line[-1:] == ["same(int)"] for line in lines)


def test_without_unwind_tables(mlgo, builds):
    paths = [folder / "lib.so" for folder in builds]
    before, after = (section_sizes(path.read_bytes()) for path in paths)
    record = json.loads(mlgo("size-diff", *paths, "--ships", "unwind=no", "--json").stdout)
    assert list(record["sections"]) == ["text", "read_only", "total"]
    counted = [sizes["text"] + sizes["read_only"] for sizes in (before, after)]
    assert [record["sections"]["total"][name] for name in ("before", "after")] == counted
    run = mlgo("size-diff", *paths, "--ships", "folding=all")
    assert (run.returncode, run.stdout) == (1, "")
    assert "files that are linked already can only leave unwind out, not folding" in run.stderr


def test_json_and_limits(mlgo, builds):
    run = mlgo("size-diff", *builds, "--json", "--limit", "100%", "--limit-each", "1B")
    assert (run.returncode, run.stderr) == (1, "")
    record = json.loads(run.stdout)
    total = record["sections"]["total"]
    assert total["change"] == total["after"] - total["before"] == sum(one["change"] for one in record["symbols"])
    assert [one["name"] for one in record["exceeded"]] == ["lib.so", "one.o"]
    assert {one["name"]: one["change"] for one in record["files"]} == {
        one["name"]: one["change"] for one in record["exceeded"]
    }
    names = {one["name"]: one for one in record["symbols"]}
    assert names["_ZN3app4moreEi"]["before"] is None
    assert "_Z4samei" not in names
    assert record["forms"] == {"linked": 1, "objects": 1}


@pytest.mark.parametrize(("limit", "status"), [("0.01%", 1), ("1MiB", 0)])
def test_status_for_ci(mlgo, builds, limit, status):
    run = mlgo("size-diff", *builds, "--limit", limit, "--top", "1")
    assert run.returncode == status
    assert ("limit exceeded: total grew by" in run.stdout) == bool(status)
    assert "--form linked counts what ships" in run.stdout


def test_smaller_is_within_any_limit(mlgo, builds):
    assert mlgo("size-diff", *reversed(builds), "--limit", "0", "--limit-each", "0").returncode == 0


def test_a_stripped_file(mlgo, builds):
    path = builds[1] / "lib.so"
    link = [find_linker(), "ld.lld", "-shared", "--eh-frame-hdr", "--strip-all", "-o", path, builds[1] / "one.o"]
    subprocess.run(link, check=True, capture_output=True, timeout=60)
    run = mlgo("size-diff", builds[0] / "lib.so", path)
    assert run.returncode == 0
    assert "lib.so has no symbol table before or after, as it is stripped: sections only" in run.stdout
    assert "symbol changed" not in run.stdout


def test_mistakes_have_a_status_of_their_own(mlgo, builds, tmp_path):
    before, after = builds
    for arguments, words in (
        ((before, tmp_path / "none"), "none does not exist"),
        ((before / "one.o", after / "lib.so"), "before an object, after a linked file"),
    ):
        run = mlgo("size-diff", *arguments)
        assert (run.returncode, run.stdout) == (2, "")
        assert run.stderr.startswith("error: ")
        assert words in run.stderr
        assert len(run.stderr.splitlines()) == 1
    run = mlgo("size-diff", before, after, "--limit", "much")
    assert run.returncode == 2
    assert "'much' is no limit; examples are 0.5%, 300 (bytes) and 1KiB" in run.stderr
