"""Building whole projects with the real front end: their sources, their modules, their linked files."""

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

from mlgo.base.artifacts import PROGRAMS_OF_PROJECT, PROJECT, read_table, write_rows
from mlgo.corpus.build import (
    BuildLimits,
    build_project,
    captured_programs,
    captured_project,
    columns_without,
    copy_local,
    fetch_sources,
    program_of_all,
    source_folder,
    unpack,
)
from mlgo.corpus.recipe import Recipe
from mlgo.errors import ArtifactError, CorpusError, PackageError
from tests.conftest import FLAGS, SAMPLE

LIMITS = BuildLimits(max_modules=10, max_failed_share=0.5, seed=0, num_threads=1)


def local(path, **unit) -> Recipe:
    values = {"language": "c", "standard": "c11", "sources": ["*.c"], "flags": FLAGS["c"]} | unit
    return Recipe.model_validate({"name": "local", "path": str(path), "license": "MIT", "units": [values]})


@pytest.fixture
def project(tmp_path):
    root = tmp_path / "project"
    root.mkdir()
    for i in range(4):
        (root / f"good{i}.c").write_text(
            f"static int h(int x) {{ return x * {i + 2}; }}\nint f{i}(int x) {{ return h(x); }}\n"
        )
    (root / "bad.c").write_text("int f(void) { return }\n")
    return root


def test_failed_sources_are_rows_with_their_reason(project, front_end, tmp_path, leaves_nothing):
    with leaves_nothing():
        rows = build_project("p", local(project), front_end, LIMITS, tmp_path / "cache")
    assert [row["module"] for row in rows] == ["bad.c", "good0.c", "good1.c", "good2.c", "good3.c"]
    bad, good = rows[0], rows[1]
    assert bad["skip_reason"].startswith("exit: bad.c:1:")
    assert "error: expected expression" in bad["skip_reason"]
    assert "/" not in bad["skip_reason"]  # nor the folder
    assert bad["bitcode"] is None
    assert bad["ir_sha256"] == ""
    assert good["skip_reason"] == ""
    assert good["bitcode"][:4] == b"BC\xc0\xde"
    assert (good["project"], good["language"], good["licence"]) == ("p", "c", "MIT")
    assert len(good["function_hashes"]) == len(good["function_sizes"]) == 2
    assert len({row["ir_sha256"] for row in rows[1:]}) == 4
    write_rows(tmp_path / "p.parquet", rows, PROJECT, {})
    assert read_table(tmp_path / "p.parquet", PROJECT).num_rows == 5


def test_too_many_failures(project, front_end, tmp_path, leaves_nothing):
    strict = BuildLimits(10, 0.19, 0, 1)
    with leaves_nothing(), pytest.raises(CorpusError, match=r"p: 1 of 5 sources.*max_failed_share.*bad\.c"):
        build_project("p", local(project), front_end, strict, tmp_path / "cache")
    build_project("p", local(project), front_end, BuildLimits(10, 0.2, 0, 1), tmp_path / "cache")


def test_two_folders_and_two_thread_counts_give_identical_rows(front_end, tmp_path):
    import shutil

    results = []
    for name, threads in (("one", 1), ("two/deeper", 2)):
        shutil.copytree(SAMPLE / "codec", tmp_path / name)
        limits = BuildLimits(10, 0.0, 0, threads)
        results.append(build_project("codec", local(tmp_path / name), front_end, limits, tmp_path / "cache"))
    first, second = results
    assert [row["module"] for row in first] == ["base64.c", "crc.c", "utf8.c"]
    for a, b in zip(first, second, strict=True):
        assert a["bitcode"] == b["bitcode"]
        assert a["function_hashes"].tolist() == b["function_hashes"].tolist()
        assert {k: v for k, v in a.items() if k[:8] != "function"} == {
            k: v for k, v in b.items() if k[:8] != "function"
        }


def test_sources_whose_names_agree_up_to_separators(front_end, tmp_path):
    root = tmp_path / "p"
    (root / "a").mkdir(parents=True)
    for path, name in (("a/b.c", "first"), ("a__b.c", "second")):
        (root / path).write_text("".join(f"int {name}{i}(int x) {{ return x * {i}; }}\n" for i in range(300)))
    limits = BuildLimits(10, 0.0, 0, 2)
    for _ in range(5):
        rows = build_project("p", local(root, sources=["**/*.c"]), front_end, limits, tmp_path / "cache")
        assert len({row["bitcode"] for row in rows}) == 2


def test_large_projects_are_sampled_reproducibly(project, front_end, tmp_path):
    (project / "bad.c").unlink()
    small = BuildLimits(2, 0.0, 3, 1)
    first, second = (build_project("p", local(project), front_end, small, tmp_path / "cache") for _ in range(2))
    taken = [row["module"] for row in first if not row["skip_reason"]]
    assert len(taken) == 2
    assert taken == [row["module"] for row in second if not row["skip_reason"]]
    left = [row["skip_reason"] for row in first if row["skip_reason"]]
    assert left == ["sampled: the project was cut to 2 sources"] * 2
    assert len(first) == 4


def test_the_sources_stay_untouched(project, front_end, tmp_path):
    recipe = local(project, include=["gen"])
    recipe = recipe.model_validate(recipe.model_dump(by_alias=True) | {"files": [{"path": "gen/x.h", "content": "y"}]})
    before = sorted(path.name for path in project.rglob("*"))
    build_project("p", recipe, front_end, LIMITS, tmp_path / "cache")
    assert sorted(path.name for path in project.rglob("*")) == before


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


@pytest.mark.parametrize(
    ("served", "pinned", "message"),
    [(ARCHIVE, "1" * 64, r"but 1111.* is pinned"), (ARCHIVE[:-3], SHA256, None), (None, SHA256, None)],
    ids=["another hash than the recipe", "damaged", "vanished"],
)
def test_what_an_index_does_not_have_is_not_kept(tmp_path, index, served, pinned, message):
    (index / "thing-1.0.tar.gz").unlink()
    if served is not None:
        (index / "thing-1.0.tar.gz").write_bytes(served)
    with pytest.raises(PackageError, match=message):
        fetch_sources(recipe(pinned), tmp_path / "cache")
    assert list((tmp_path / "cache").iterdir()) == []


def test_unknown_project_and_version(tmp_path, index):
    with pytest.raises(PackageError, match="knows no project 'other'"):
        fetch_sources(recipe(name="other"), tmp_path)
    with pytest.raises(PackageError, match=r"thing 2\.0 has no source distribution"):
        fetch_sources(recipe(version="2.0"), tmp_path)


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


def source(module: str, reason: str = "") -> dict:
    made = {"bitcode": module.encode(), "ir_sha256": module} if not reason else {}
    named = {"project": "app", "module": module, "language": "c", "licence": "MIT"}
    return named | columns_without(reason) | made


def program(**columns) -> dict:
    return {
        "project": "app",
        "program": "bin/app",
        "kind": "program",
        "parts": [
            {"kind": "object", "modules": ["main.c", "a.c"]},
            {"kind": "archive", "modules": ["b.c"]},
            {"kind": "archive", "modules": ["a.c", "c.c"]},
        ],
        "foreign": ["start.S"],
        "libraries": ["m"],
        "options": ["--gc-sections"],
        "version_script": "{ global: f; };",
        "export_dynamic": True,
        "entry": "begin",
    } | columns


@pytest.fixture
def captured(tmp_path):
    folder = tmp_path / "captured"
    write_rows(folder / "project.parquet", [source(f"{n}.c") for n in ("main", "a", "b", "c")], PROJECT, {"task": "t"})
    write_rows(folder / "programs.parquet", [program()], PROGRAMS_OF_PROJECT, {})
    return folder


def captured_recipe(folder) -> Recipe:
    return Recipe.model_validate({"name": "thing", "license": "Apache-2.0", "captured": str(folder)})


def test_a_captured_project_keeps_its_programs_under_its_new_name(captured):
    rows = captured_project("thing", captured_recipe(captured), "t", LIMITS)
    assert captured_programs("thing", captured, rows) == [program(project="thing")]


def test_modules_that_were_not_taken_are_foreign(captured):
    rows = [source("main.c"), source("a.c", "exit: no"), source("b.c", "sampled: cut"), source("c.c")]
    (found,) = captured_programs("thing", captured, rows)
    assert found["parts"] == [{"kind": "object", "modules": ["main.c"]}, {"kind": "archive", "modules": ["c.c"]}]
    assert found["foreign"] == ["start.S", "a.c", "b.c"]
    assert found["version_script"] == "{ global: f; };"


def test_a_sampled_project_loses_parts_of_its_programs(captured):
    rows = captured_project("thing", captured_recipe(captured), "t", BuildLimits(2, 0.5, 0, 1))
    kept = {row["module"] for row in rows if not row["skip_reason"]}
    (found,) = captured_programs("thing", captured, rows)
    assert len(kept) == 2
    assert {name for part in found["parts"] for name in part["modules"]} == kept
    assert set(found["foreign"]) == {"start.S", "main.c", "a.c", "b.c", "c.c"} - kept


def test_a_project_of_units_is_one_shared_object_of_its_modules(tmp_path):
    (found,) = program_of_all("lib", [source("a.c"), source("b.c", "exit: no"), source("c.c")])
    assert (found["project"], found["program"], found["kind"]) == ("lib", "lib.so", "shared")
    assert found["parts"] == [{"kind": "object", "modules": ["a.c", "c.c"]}]
    assert (found["options"], found["version_script"], found["foreign"]) == (["-Bsymbolic"], "", ["b.c"])
    assert program_of_all("lib", [source("b.c", "exit: no")]) == []
    write_rows(tmp_path / "p.parquet", [found], PROGRAMS_OF_PROJECT, {})
    assert read_table(tmp_path / "p.parquet", PROGRAMS_OF_PROJECT).num_rows == 1


def test_a_project_captured_for_another_task_is_refused(captured):
    with pytest.raises(CorpusError, match=r"project\.parquet was captured for task t; .*--preset whose task is other"):
        captured_project("thing", captured_recipe(captured), "other", LIMITS)


def test_too_many_sources_of_a_captured_project_were_left_out(captured):
    rows = [source("main.c"), *(source(f"{n}.c", f"exit: {n}.c: error") for n in ("a", "b", "c"))]
    write_rows(captured / "project.parquet", rows, PROJECT, {"task": "t"})
    with pytest.raises(
        CorpusError, match=r"thing: 3 of 4 sources do not compile.*the first is a\.c: exit: a\.c: error"
    ):
        captured_project("thing", captured_recipe(captured), "t", LIMITS)


def test_a_folder_without_a_capture_is_refused(tmp_path):
    with pytest.raises(ArtifactError, match=r"nothing/project\.parquet"):
        captured_project("thing", captured_recipe(tmp_path / "nothing"), "t", LIMITS)
    with pytest.raises(ArtifactError, match=r"nothing/programs\.parquet"):
        captured_programs("thing", tmp_path / "nothing", [])


def test_a_captured_project_has_no_sources(captured, tmp_path):
    refused = pytest.raises(CorpusError, match="thing is a captured build; its sources are compiled by mlgo capture")
    with refused, source_folder(captured_recipe(captured), tmp_path / "cache", tmp_path):
        pass
