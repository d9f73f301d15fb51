"""Building whole projects with the real front end."""

import pytest

from mlgo.base.artifacts import PROJECT, read_table, write_rows
from mlgo.corpus.build import BuildLimits, build_project
from mlgo.corpus.recipe import Recipe
from mlgo.errors import CorpusError
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
    assert bad["bitcode"] is None
    assert bad["ir_sha256"] == ""
    assert good["skip_reason"] == ""
    assert good["bitcode"][:4] == b"BC\xc0\xde"
    assert (good["project"], good["language"], good["licence"]) == ("p", "c", "MIT")
    assert len(good["function_hashes"]) == len(good["function_sizes"]) == 2
    assert len({row["ir_sha256"] for row in rows[1:]}) == 4


def test_the_rows_fit_their_schema(project, front_end, tmp_path):
    rows = build_project("p", local(project), front_end, LIMITS, tmp_path / "cache")
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


def test_reasons_do_not_name_the_folder(project, front_end, tmp_path):
    rows = build_project("p", local(project), front_end, LIMITS, tmp_path / "cache")
    assert "/" not in rows[0]["skip_reason"]


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
