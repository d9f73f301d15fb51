"""Building whole projects with the real front end: their sources, their modules, their linked files."""

import hashlib
import io
import os
import re
import shutil
import tarfile
import zipfile
from contextlib import suppress
from pathlib import Path

import numpy as np
import pytest

from mlgo.base.artifacts import PROGRAMS_OF_PROJECT, PROJECT, read_table, write_rows
from mlgo.corpus.build import (
    BuildLimits,
    build_project,
    captured_project,
    columns_without,
    fetch_sources,
    program_of_all,
    source_folder,
    unpack,
)
from mlgo.corpus.recipe import Recipe
from mlgo.errors import ArtifactError, CorpusError
from tests.conftest import FLAGS, SAMPLE
from tests.corpus.lto.conftest import program_row


def local(path, **unit) -> Recipe:
    values = {"language": "c", "standard": "c11", "sources": ["*.c"], "flags": FLAGS["c"]} | unit
    return Recipe.model_validate({"name": "local", "path": str(path), "license": "MIT", "units": [values]})


@pytest.fixture
def project(tmp_path):
    root = tmp_path / "project"
    root.mkdir()
    for i in range(4):
        text = f"static int h(int x) {{ return x * {i + 2}; }}\nint f{i}(int x) {{ return h(x); }}\n"
        (root / f"good{i}.c").write_text(text)
    (root / "bad.c").write_text("int f(void) { return }\n")
    return root


@pytest.fixture
def built(front_end, tmp_path):
    """Builds a project with at most so many modules and failures, in one thread or several."""

    def build(recipe, modules=10, failed=0.0, threads=1):
        return build_project("p", recipe, front_end, BuildLimits(modules, failed, 3, threads), tmp_path / "cache")

    return build


def test_failed_sources_are_rows_with_their_reason_unless_they_are_too_many(project, built, tmp_path, leaves_nothing):
    recipe = local(project, include=["gen"])
    recipe = recipe.model_validate(recipe.model_dump(by_alias=True) | {"files": [{"path": "gen/x.h", "content": "y"}]})
    before = everything(project)
    with leaves_nothing():
        rows = built(recipe, failed=0.2)
    assert everything(project) == before
    with leaves_nothing(), pytest.raises(CorpusError, match=r"p: 1 of 5 sources.*max_failed_share.*bad\.c"):
        built(recipe, failed=0.19)
    assert [row["module"] for row in rows] == ["bad.c", "good0.c", "good1.c", "good2.c", "good3.c"]
    bad, good = rows[0], rows[1]
    assert re.match(r"exit: bad\.c:1:[^/]*error: expected expression[^/]*$", bad["skip_reason"])  # without the folder
    assert (bad["bitcode"], bad["ir_sha256"]) == (None, "")
    assert (good["bitcode"][:4], good["skip_reason"]) == (b"BC\xc0\xde", "")
    assert (good["project"], good["language"], good["licence"]) == ("p", "c", "MIT")
    assert len(good["function_hashes"]) == len(good["function_sizes"]) == 2
    assert len({row["ir_sha256"] for row in rows[1:]}) == 4
    write_rows(tmp_path / "p.parquet", rows, PROJECT, {})
    assert read_table(tmp_path / "p.parquet", PROJECT).num_rows == 5


def test_two_folders_and_two_thread_counts_give_identical_rows(built, tmp_path):
    results = []
    for name, threads in (("one", 1), ("two/deeper", 2)):
        shutil.copytree(SAMPLE / "codec", tmp_path / name)
        results.append(built(local(tmp_path / name), threads=threads))
    first, second = results
    assert [row["module"] for row in first] == ["base64.c", "crc.c", "utf8.c"]
    for a, b in zip(first, second, strict=True):
        assert {k: np.array(v).tolist() for k, v in a.items()} == {k: np.array(v).tolist() for k, v in b.items()}


def test_sources_whose_names_agree_up_to_separators(built, tmp_path):
    root = tmp_path / "p"
    (root / "a").mkdir(parents=True)
    for path, name in (("a/b.c", "first"), ("a__b.c", "second")):
        (root / path).write_text("".join(f"int {name}{i}(int x) {{ return x * {i}; }}\n" for i in range(300)))
    for _ in range(5):
        assert len({row["bitcode"] for row in built(local(root, sources=["**/*.c"]), threads=2)}) == 2


def test_large_projects_are_sampled_reproducibly(project, built):
    (project / "bad.c").unlink()
    first, second = (built(local(project), modules=2) for _ in range(2))
    taken = [row["module"] for row in first if not row["skip_reason"]]
    assert len(taken) == 2
    assert taken == [row["module"] for row in second if not row["skip_reason"]]
    left = [row["skip_reason"] for row in first if row["skip_reason"]]
    assert left == ["sampled: the project was cut to 2 sources"] * 2
    assert len(first) == 4


def member(name: str, kind: bytes = tarfile.REGTYPE, target: str = "", mode: int = 0o644, size: int = 0):
    info = tarfile.TarInfo(name)
    info.type, info.linkname, info.mode, info.size = kind, target, mode, size
    info.uid = info.gid = 12345
    return info


def make_archive(files: dict[str, str], *others: tarfile.TarInfo) -> bytes:
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode="w:gz") as tar:
        for name, text in files.items():
            tar.addfile(member(name, size=len(text)), io.BytesIO(text.encode()))
        for one in others:
            tar.addfile(one, io.BytesIO(bytes(one.size)))
    return buffer.getvalue()


def archive_of(path: Path, *members: tarfile.TarInfo) -> Path:
    path.write_bytes(make_archive({"thing/a.c": "int a;"}, *members))
    return path


ARCHIVE = make_archive({"thing-1.0/a.c": "int a;\n", "thing-1.0/PKG-INFO": "Name: thing\n"})
SHA256 = hashlib.sha256(ARCHIVE).hexdigest()


def test_cached_archives_need_no_network(tmp_path, monkeypatch):
    monkeypatch.setenv("PIP_INDEX_URL", "http://127.0.0.1:9/")
    cached = tmp_path / f"{SHA256}-thing-1.0.tar.gz"
    cached.write_bytes(ARCHIVE)
    recipe = local(tmp_path).model_copy(update={"name": "thing", "version": "1.0", "sha256": SHA256})
    assert fetch_sources(recipe, tmp_path) == cached
    root = unpack(cached, tmp_path / "out")
    assert root == tmp_path / "out" / "thing-1.0"
    assert (root / "a.c").read_text() == "int a;\n"


@pytest.fixture(params=["with filters", "without filters"])
def python(request, monkeypatch):
    """Python with the filters of tarfile, or as it was before 3.11.4."""
    if request.param == "without filters":
        monkeypatch.delattr(tarfile, "data_filter")


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
    with suppress(CorpusError):
        unpack(archive_of(tmp_path / "bad.tar.gz", member(str(tmp_path / "evil.c"))), tmp_path / "out")
    assert not (tmp_path / "evil.c").exists()


BAD = {"nothing": b"", "text": b"hello", "50": ARCHIVE[:50], "100": ARCHIVE[:100]}
OTHER = {"no folder": {}, "two folders": {"a/x.c": "", "b/x.c": ""}, "no folder but a file": {"x.c": ""}}


@pytest.mark.parametrize(
    ("name", "data", "message"),
    [
        *((name, data, "cannot be unpacked") for name in ("a.tar.gz", "bad.zip") for data in BAD.values()),
        *(("a.tar.gz", make_archive(files), r"holds \d folders") for files in OTHER.values()),
    ],
    ids=[*BAD, *(f"zip: {what}" for what in BAD), *OTHER],
)
def test_what_is_no_archive_of_one_folder(name, data, message, tmp_path):
    (tmp_path / "out").mkdir()
    (tmp_path / name).write_bytes(data)
    with pytest.raises(CorpusError, match=rf"{re.escape(name)} {message}"):
        unpack(tmp_path / name, tmp_path / "out")


def test_zip_archives(tmp_path):
    with zipfile.ZipFile(tmp_path / "thing.zip", "w") as zipped:
        zipped.writestr("thing-1.0/a.c", "int a;")
    assert (unpack(tmp_path / "thing.zip", tmp_path / "out") / "a.c").read_text() == "int a;"


def test_damage_inside_an_archive(tmp_path):
    digits = np.random.default_rng(0).integers(0, 9, 20000)
    whole = make_archive({"thing/a.c": "".join(map(str, digits))})
    for position in range(20, len(whole), 397):
        data = bytearray(whole)
        data[position] ^= 0x55
        (tmp_path / "a.tar.gz").write_bytes(data)
        with suppress(CorpusError):
            unpack(tmp_path / "a.tar.gz", tmp_path / f"out{position}")


def test_local_projects_are_copied(project, tmp_path):
    before = everything(project)
    copy = source_folder(local(project), tmp_path, tmp_path / "copies")
    (copy / "generated.h").write_text("")
    assert everything(copy) == before | {"generated.h"}
    assert everything(project) == before
    with pytest.raises(CorpusError, match="is not a folder"):
        source_folder(local(tmp_path / "none"), tmp_path, tmp_path / "copies")


def source(module: str, reason: str = "") -> dict:
    made = {"bitcode": module.encode(), "ir_sha256": module} if not reason else {}
    named = {"project": "app", "module": module, "language": "c", "licence": "MIT"}
    return named | columns_without(reason) | made


def program(project: str) -> dict:
    parts = [("object", ["main.c", "a.c"]), ("archive", ["b.c"]), ("archive", ["a.c", "c.c"])]
    row = program_row("bin/app", "program", parts, project=project, foreign=["start.S"], libraries=["m"])
    options = {"options": ["--gc-sections"], "version_script": "{ global: f; };"}
    return row | options | {"export_dynamic": True, "entry": "begin"}


def captured_rows(folder, task="t", max_modules=10):
    return captured_project("thing", captured_recipe(folder), task, BuildLimits(max_modules, 0.5, 0, 1))


def captured_recipe(folder) -> Recipe:
    return Recipe.model_validate({"name": "thing", "license": "Apache-2.0", "captured": str(folder)})


@pytest.fixture
def captured(tmp_path):
    folder = tmp_path / "captured"
    write_rows(folder / "project.parquet", [source(f"{n}.c") for n in ("main", "a", "b", "c")], PROJECT, {"task": "t"})
    write_rows(folder / "programs.parquet", [program("app")], PROGRAMS_OF_PROJECT, {})
    return folder


def test_a_captured_project_keeps_its_programs_under_its_new_name(captured):
    assert captured_rows(captured)[1] == [program("thing")]


def test_modules_that_were_not_taken_or_sampled_away_are_foreign(captured):
    rows = [source("main.c"), source("a.c", "exit: no"), source("b.c", "sampled: cut"), source("c.c")]
    write_rows(captured / "project.parquet", rows, PROJECT, {"task": "t"})
    _, (found,) = captured_rows(captured)
    assert found["parts"] == [{"kind": "object", "modules": ["main.c"]}, {"kind": "archive", "modules": ["c.c"]}]
    assert found["foreign"] == ["start.S", "a.c", "b.c"]
    assert found["version_script"] == "{ global: f; };"
    rows = [source(f"{name}.c") for name in ("main", "a", "b", "c")]
    write_rows(captured / "project.parquet", rows, PROJECT, {"task": "t"})
    sampled, (found,) = captured_rows(captured, max_modules=2)
    taken = {row["module"] for row in sampled if not row["skip_reason"]}
    assert len(taken) == 2
    assert {name for part in found["parts"] for name in part["modules"]} == taken
    assert set(found["foreign"]) == {"start.S", "main.c", "a.c", "b.c", "c.c"} - taken


def test_a_project_of_units_is_one_shared_object_of_its_modules(tmp_path):
    (found,) = program_of_all("lib", [source("a.c"), source("b.c", "exit: no"), source("c.c")])
    assert (found["project"], found["program"], found["kind"]) == ("lib", "lib.so", "shared")
    assert found["parts"] == [{"kind": "object", "modules": ["a.c", "c.c"]}]
    assert (found["options"], found["version_script"], found["foreign"]) == (["-Bsymbolic"], "", ["b.c"])
    assert program_of_all("lib", [source("b.c", "exit: no")]) == []
    write_rows(tmp_path / "p.parquet", [found], PROGRAMS_OF_PROJECT, {})
    assert read_table(tmp_path / "p.parquet", PROGRAMS_OF_PROJECT).num_rows == 1


def test_captures_that_are_refused(captured, tmp_path):
    with pytest.raises(CorpusError, match=r"project\.parquet was captured for task t; .*--preset whose task is other"):
        captured_rows(captured, "other")
    rows = [source("main.c"), *(source(f"{n}.c", f"exit: {n}.c: error") for n in ("a", "b", "c"))]
    write_rows(captured / "project.parquet", rows, PROJECT, {"task": "t"})
    with pytest.raises(
        CorpusError, match=r"thing: 3 of 4 sources do not compile.*the first is a\.c: exit: a\.c: error"
    ):
        captured_rows(captured)
    with pytest.raises(ArtifactError, match=r"nothing/project\.parquet"):
        captured_rows(tmp_path / "nothing")
    write_rows(tmp_path / "nothing/project.parquet", [source("main.c")], PROJECT, {"task": "t"})
    with pytest.raises(ArtifactError, match=r"nothing/programs\.parquet"):
        captured_rows(tmp_path / "nothing")


def test_a_captured_project_has_no_sources(captured, tmp_path):
    with pytest.raises(CorpusError, match="thing is a captured build; its sources are compiled by mlgo capture"):
        source_folder(captured_recipe(captured), tmp_path / "cache", tmp_path)


@pytest.mark.parametrize("name", ["../fired", "/fired", "..", "a\0b", ""])
def test_sources_are_copied_inside_whatever_the_recipe_is_called(project, tmp_path, name):
    recipe = local(project).model_copy(update={"name": f"{tmp_path}/fired" if name == "/fired" else name})
    with pytest.raises(ArtifactError, match="leads out of its folder"):
        source_folder(recipe, tmp_path, tmp_path / "own")
    assert not (tmp_path / "fired").exists()
