"""Linked files of projects of a corpus."""

import pytest

from mlgo.base.artifacts import PROGRAMS_OF_PROJECT, PROJECT, read_table, write_rows
from mlgo.corpus.build import BuildLimits, captured_project, columns_without, source_folder
from mlgo.corpus.programs import captured_programs, program_of_all
from mlgo.corpus.recipe import Recipe
from mlgo.errors import ArtifactError, CorpusError

LIMITS = BuildLimits(max_modules=10, max_failed_share=0.5, seed=0, num_threads=1)


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


def recipe(folder) -> Recipe:
    return Recipe.model_validate({"name": "thing", "license": "Apache-2.0", "captured": str(folder)})


def test_a_captured_project_keeps_its_programs_under_its_new_name(captured):
    rows = captured_project("thing", recipe(captured), "t", LIMITS)
    assert captured_programs("thing", captured, rows) == [program(project="thing")]


def test_modules_that_were_not_taken_are_foreign(captured):
    rows = [source("main.c"), source("a.c", "exit: no"), source("b.c", "sampled: cut"), source("c.c")]
    (found,) = captured_programs("thing", captured, rows)
    assert found["parts"] == [{"kind": "object", "modules": ["main.c"]}, {"kind": "archive", "modules": ["c.c"]}]
    assert found["foreign"] == ["start.S", "a.c", "b.c"]
    assert found["version_script"] == "{ global: f; };"


def test_a_sampled_project_loses_parts_of_its_programs(captured):
    rows = captured_project("thing", recipe(captured), "t", BuildLimits(2, 0.5, 0, 1))
    kept = {row["module"] for row in rows if not row["skip_reason"]}
    (found,) = captured_programs("thing", captured, rows)
    assert len(kept) == 2
    assert {name for part in found["parts"] for name in part["modules"]} == kept
    assert set(found["foreign"]) == {"start.S", "main.c", "a.c", "b.c", "c.c"} - kept


def test_a_project_of_units_is_one_shared_object_of_its_modules():
    (found,) = program_of_all("lib", [source("a.c"), source("b.c", "exit: no"), source("c.c")])
    assert (found["project"], found["program"], found["kind"]) == ("lib", "lib.so", "shared")
    assert found["parts"] == [{"kind": "object", "modules": ["a.c", "c.c"]}]
    assert (found["options"], found["version_script"], found["foreign"]) == (["-Bsymbolic"], "", ["b.c"])
    assert program_of_all("lib", [source("b.c", "exit: no")]) == []


def test_the_rows_fit_their_schema(tmp_path):
    write_rows(tmp_path / "p.parquet", program_of_all("lib", [source("a.c")]), PROGRAMS_OF_PROJECT, {})
    assert read_table(tmp_path / "p.parquet", PROGRAMS_OF_PROJECT).num_rows == 1


def test_a_project_captured_for_another_task_is_refused(captured):
    with pytest.raises(CorpusError, match=r"project\.parquet was captured for task t; .*--preset whose task is other"):
        captured_project("thing", recipe(captured), "other", LIMITS)


def test_too_many_sources_of_a_captured_project_were_left_out(captured):
    rows = [source("main.c"), *(source(f"{n}.c", f"exit: {n}.c: error") for n in ("a", "b", "c"))]
    write_rows(captured / "project.parquet", rows, PROJECT, {"task": "t"})
    with pytest.raises(
        CorpusError, match=r"thing: 3 of 4 sources do not compile.*the first is a\.c: exit: a\.c: error"
    ):
        captured_project("thing", recipe(captured), "t", LIMITS)


def test_a_folder_without_a_capture_is_refused(tmp_path):
    with pytest.raises(ArtifactError, match=r"nothing/project\.parquet"):
        captured_project("thing", recipe(tmp_path / "nothing"), "t", LIMITS)
    with pytest.raises(ArtifactError, match=r"nothing/programs\.parquet"):
        captured_programs("thing", tmp_path / "nothing", [])


def test_a_captured_project_has_no_sources(captured, tmp_path):
    refused = pytest.raises(CorpusError, match="thing is a captured build; its sources are compiled by mlgo capture")
    with refused, source_folder(recipe(captured), tmp_path / "cache", tmp_path):
        pass
