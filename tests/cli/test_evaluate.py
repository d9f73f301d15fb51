"""`mlgo evaluate` on a small real build, with policies that always or never inline."""

import ctypes
import json
import re
import shutil
import subprocess

import pytest

from mlgo.base.artifacts import (
    PROGRAMS_OF_PROJECT,
    PROJECT,
    RESULTS,
    SEARCH_COURSE,
    SHIPPED_SIZES,
    read_provenance,
    read_table,
    write_rows,
    write_table,
)
from mlgo.base.config import read_settings, write_settings
from mlgo.base.ships import Ships
from mlgo.errors import MlgoError
from mlgo.host.linker import section_sizes
from mlgo.host.toolchain import find_linker
from mlgo.objects.elf import global_symbols
from mlgo.objects.measures import DEFAULT, get_measure
from mlgo.policy.stored import languages_by_default, load_stored, save_policy
from tests.cli.conftest import run_here
from tests.cli.test_capture import captured, project
from tests.conftest import REPOSITORY
from tests.deploy.publish.conftest import RELEASED
from tests.fakes.policies import linear_policy

__all__ = ["captured", "project"]

pytestmark = pytest.mark.skipif(not shutil.which("make"), reason="needs make")


@pytest.fixture(scope="module")
def policies(tmp_path_factory):
    """Folder with never-s0 and always-s0."""
    folder = tmp_path_factory.mktemp("policies")
    for name, bias in (("never", -1), ("always", 1)):
        save_policy(linear_policy("inline-size", ["cost_estimate"], [0, bias]), folder / f"{name}-s0")
    return folder


@pytest.fixture(scope="module")
def evaluate(captured, policies, mlgo):
    """What `mlgo evaluate` prints as JSON for the captured project under the policy that never inlines."""

    def go(*options, workers="2"):
        subject = ("--policy", policies / "never-s0", "--project", captured)
        run = mlgo("evaluate", *subject, *options, "--workers", workers, "--json")
        assert run.returncode == 0, run.stderr
        return json.loads(run.stdout)

    return go


@pytest.fixture(scope="module")
def evaluated(evaluate):
    return evaluate()


def sizes(rows, program, contender, folded=False):
    (row,) = (row for row in rows if (row["program"], row["contender"], row["folded"]) == (program, contender, folded))
    return row


def test_linked_files_by_hand(evaluated):
    rows = evaluated["shipped"]
    assert len(rows) == 2 * 5 * 2  # files, contenders, foldings
    assert {(row["failure"], row["message"], row["split"], row["project"]) for row in rows} == {
        ("", "", "test", "thing")
    }
    # main: push, call, add, pop, ret of 11 bytes. used: lea, ret of 4 once twice is inlined; else a jump of 5 to its 4.
    # never_called has no caller, and unused.o is not taken from its archive.
    assert sizes(rows, "prog", "heuristic")["text"] == 11 + 4
    assert sizes(rows, "prog", "never-s0")["text"] == sizes(rows, "prog", "never")["text"] == 11 + 5 + 4
    # Both are the same at the other levels; at -O2 they begin at multiples of 16.
    assert (sizes(rows, "prog", "-Os")["text"], sizes(rows, "prog", "-O2")["text"]) == (11 + 4, 16 + 4)
    assert {row["language"] for row in rows if row["program"] == "prog"} == {"c"}
    assert {row["language"] for row in rows if row["program"] == "lib.so"} == {"c++"}
    # Both functions of 4 bytes: only one is exported, but this link does not drop the other.
    assert sizes(rows, "lib.so", "heuristic")["text"] == sizes(rows, "lib.so", "never-s0")["text"] == 4 + 4
    for row in rows:
        assert row["total"] == row["text"] + row["read_only"] + row["unwind"]
        assert row["compressed"] > 0
    assert sizes(rows, "prog", "heuristic")["num_modules"] == 3


@pytest.mark.slow
def test_relinked_files_run(captured, policies, project, mlgo, tmp_path):
    before = (project / "prog").read_bytes()
    options = ("--project", captured, "--policy", policies / "never-s0", "-o", tmp_path / "again", "--json")
    refused = mlgo("corpus", "relink", *options)
    tool = f"{find_linker()} cc"
    assert f"programs that nobody has named: {tool}; if they are yours, name them: --tools '{tool}'" in refused.stderr
    assert not (tmp_path / "again").exists()
    run = mlgo("corpus", "relink", *options, CC=tool)
    assert run.returncode == 0, run.stderr
    assert json.loads(run.stdout)["modules"] == 4
    program, library = tmp_path / "again/prog", tmp_path / "again/lib.so"
    assert subprocess.run([program], check=False).returncode == 0
    assert ctypes.CDLL(str(library)).visible(41) == 42
    inlining = ("--policy", policies / "always-s0", "--project", captured, "-o", tmp_path / "inlined")
    assert mlgo("corpus", "relink", *inlining, CC=tool).returncode == 0
    sizes = [section_sizes((tmp_path / name / "prog").read_bytes())["text"] for name in ("again", "inlined")]
    assert sizes[0] - sizes[1] == (11 + 5 + 4) - (11 + 4)  # used calls twice, or has it in it
    exported, _ = global_symbols(library.read_bytes(), dynamic=True)
    assert b"visible" in exported
    assert b"hidden" not in exported  # by the version script of the build
    assert (project / "prog").read_bytes() == before


def test_a_database_has_no_link_to_do_again(tmp_path, policies, prints, refuses):
    (tmp_path / "one.c").write_text("int x(void) { return 1; }\n")
    (tmp_path / "db.json").write_text(json.dumps([{"directory": str(tmp_path), "command": "cc -c one.c"}]))
    prints("capture", "-o", tmp_path / "out", "--from", tmp_path / "db.json")
    words = ("--project", tmp_path / "out", "--policy", policies / "never-s0", "-o", tmp_path)
    assert "was not captured from a build that ran here" in refuses("corpus", "relink", *words)


def test_what_the_rules_give_it_to_read_is_enough(evaluate, evaluated, tmp_path):
    common, trial, sealed = (
        (REPOSITORY / f"workflow/rules/{one}.smk").read_text() for one in ("common", "trial", "sealed")
    )
    assert f"{trial}{sealed}".count("settings(*EVALUATE)") == 3  # try_policy, composition, look
    (more,) = re.findall(r"^EVALUATE = \[\*COMPILER, (.*)\]$", common, re.MULTILINE)
    keys = ("toolchain", "target", "compile", *re.findall(r'"([\w.]+)"', more))
    config = write_settings(tmp_path, read_settings(REPOSITORY / "config/config.yaml").values, *keys)
    assert evaluate("--config", config, "--output", tmp_path / "page")["shipped"] == evaluated["shipped"]


def test_tables_and_page(evaluated, captured):
    assert (evaluated["modules"], evaluated["failed"]) == (4, 0)
    folder = captured / "evaluation/never-s0"
    assert sorted(path.name for path in folder.iterdir()) == ["report.html", "results.parquet", "shipped.parquet"]
    results = read_table(folder / "results.parquet", RESULTS).to_pylist()
    assert [(row["module"], row["policy"], row["num_inlined"]) for row in results] == [
        (name, "never", 0) for name in ("main.c", "used.c", "unused.c", "api.cpp")
    ]
    assert read_table(folder / "shipped.parquet", SHIPPED_SIZES).to_pylist() == evaluated["shipped"]
    assert read_provenance(folder / "shipped.parquet")["task"] == "inline-size"
    page = (folder / "report.html").read_text()
    assert "<h1>never-s0 on thing</h1>" in page
    for text in ("What ships", "lib.so", "Modules that stand out", "What the numbers mean", "ziglang clang 22.1.8"):
        assert text in page
    assert str(captured.parent) not in page


def test_an_objective_that_needs_a_baseline_leaves_the_page_by_text(evaluate, tmp_path):
    (tmp_path / "other.yaml").write_text("compile: {objective: dedup_bytes}")
    evaluate("--preset", tmp_path / "other.yaml", "--output", tmp_path / "out", "--no-references")
    page = (tmp_path / "out/report.html").read_text()
    assert DEFAULT.words.title in page
    assert get_measure("dedup_bytes").words.title not in page


def test_a_second_policy_stands_beside_the_first(captured, policies, evaluated, mlgo):
    run = mlgo("evaluate", "--policy", policies / "always-s0", "--project", captured, "--workers", "1")
    assert run.returncode == 0, run.stderr
    assert "4 modules, 0 failed" in run.stdout
    assert re.search(r"^always-s0 +thing +prog +3 ", run.stdout, re.MULTILINE)
    assert "in total under always-s0 than under -Oz (no interval over 1 project). Geometric mean of" in run.stdout
    assert "no verdict: 1 project" in run.stdout
    assert "2 programs of 1 project" in run.stdout
    rows = read_table(captured / "evaluation/always-s0/shipped.parquet", SHIPPED_SIZES).to_pylist()
    assert sizes(rows, "prog", "always-s0")["text"] == 11 + 4
    assert (captured / "evaluation/never-s0/report.html").exists()


@pytest.fixture
def refused(monkeypatch):
    """Runs the command in this process, which is quicker, and gives the message of its error."""
    monkeypatch.chdir(REPOSITORY)

    def run(*words) -> str:
        with pytest.raises(MlgoError) as error:
            run_here("evaluate", *words)
        return str(error.value)

    return run


def with_bitcode(captured, folder, broken):
    """A copy of the project in which some modules are no bitcode."""
    shutil.copytree(captured, folder)
    table = read_table(folder / "project.parquet", PROJECT).to_pylist()
    rows = [row | ({"bitcode": b"BC\xc0\xdeno"} if broken(row["module"]) else {}) for row in table]
    origin = read_provenance(folder / "project.parquet")
    write_rows(folder / "project.parquet", rows, PROJECT, origin)
    return folder


def test_a_module_that_fails_is_a_row(captured, policies, tmp_path, mlgo):
    folder = with_bitcode(captured, tmp_path / "broken", lambda name: name == "used.c")
    run = mlgo("evaluate", "--policy", policies / "never-s0", "--project", folder, "--output", tmp_path / "out")
    assert run.returncode == 0, run.stderr
    assert "Traceback" not in run.stderr
    assert "4 modules, 1 failed" in run.stdout
    assert "prog under heuristic: not measured, 1 of 3 modules did not compile; the first is used.c" in run.stdout
    results = {row["module"]: row for row in read_table(tmp_path / "out/results.parquet", RESULTS).to_pylist()}
    assert results["used.c"]["failure"] == "exit"
    assert results["used.c"]["message"].startswith("under the heuristic: ")
    assert results["main.c"]["failure"] == ""
    rows = read_table(tmp_path / "out/shipped.parquet", SHIPPED_SIZES).to_pylist()
    assert (sizes(rows, "prog", "never-s0")["failure"], sizes(rows, "prog", "never-s0")["text"]) == ("compile", None)
    assert sizes(rows, "lib.so", "never-s0")["text"] == 8
    assert "Programs without a size" in (tmp_path / "out/report.html").read_text()


def test_a_project_without_linked_files(captured, policies, tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(REPOSITORY)
    folder = shutil.copytree(captured, tmp_path / "library", ignore=shutil.ignore_patterns("evaluation"))
    write_rows(folder / "programs.parquet", [], PROGRAMS_OF_PROJECT, {})
    run_here("evaluate", "--policy", policies / "never-s0", "--project", folder, "--workers", "1")
    assert "no linked file is known, so what ships was not measured" in capsys.readouterr().out
    assert "Modules that stand out" in (folder / "evaluation/never-s0/report.html").read_text()


def test_nothing_compiles(captured, policies, tmp_path, mlgo):
    folder = with_bitcode(captured, tmp_path / "broken", lambda name: True)
    run = mlgo("evaluate", "--policy", policies / "never-s0", "--project", folder)
    assert run.returncode == 1
    assert "error: no module compiles; the first, thing/main.c: exit: under the heuristic: " in run.stderr
    assert "Traceback" not in run.stderr


def test_a_program_of_unknown_modules(captured, policies, tmp_path, refused):
    folder = shutil.copytree(captured, tmp_path / "odd")
    rows = read_table(folder / "programs.parquet", PROGRAMS_OF_PROJECT).to_pylist()
    rows[0]["parts"][0]["modules"].append("elsewhere.c")
    write_rows(folder / "programs.parquet", rows, PROGRAMS_OF_PROJECT, {})
    message = refused("--policy", policies / "never-s0", "--project", folder)
    assert "is linked of elsewhere.c, which is no module of the project" in message


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ([], "give --project DIR, or --corpus DIR"),
        (["--project", "{captured}", "--split", "test"], "give --project DIR, or --corpus DIR"),
        (["--project", "{captured}/project.parquet"], "give --output DIR, too"),
        (["--project", "nowhere"], "nowhere/project.parquet is missing"),
        (["--corpus", "nowhere"], "nowhere/modules.parquet is missing"),
        (["--project", "{captured}", "--preset", "config/presets/regalloc.yaml"], "was made for optimization -Oz"),
    ],
)
def test_refusals_are_one_line(captured, policies, refused, options, message):
    words = [option.format(captured=captured) for option in options]
    found = refused("--policy", policies / "never-s0", *words)
    assert message in found
    assert "\n" not in found


def test_a_project_of_another_task_is_refused(captured, policies, tmp_path, refused):
    folder = shutil.copytree(captured, tmp_path / "other")
    table = read_table(folder / "project.parquet", PROJECT)
    write_table(folder / "project.parquet", table, PROJECT, {"task": "regalloc-evict", "optimization": "-Oz"})
    message = refused("--policy", policies / "never-s0", "--project", folder)
    assert "was made for task regalloc-evict, this is an evaluation for inline-size" in message


@pytest.mark.slow
@pytest.mark.parametrize("form", ["whole", "thin"])
def test_link_time_optimization_by_hand(evaluate, tmp_path, form):
    rows = evaluate("--ships", form, "--output", tmp_path / form)["shipped"]
    assert {row["failure"] for row in rows} == {""}
    # All is inlined into main, which is lea of 7 bytes and ret. Under the policy nothing is, in either compile; but
    # merged, the heuristic has inlined all in one of the variants that the policy is asked about.
    assert sizes(rows, "prog", "heuristic")["text"] == 7 + 1
    assert sizes(rows, "prog", "never-s0")["text"] == (7 + 1 if form == "whole" else 11 + 5 + 4)
    # What is not exported goes, as the compiler knows.
    assert sizes(rows, "lib.so", "heuristic")["text"] == sizes(rows, "lib.so", "never-s0")["text"] == 4
    assert read_provenance(tmp_path / form / "shipped.parquet")["ships"] == {"form": form}
    modules = read_table(tmp_path / form / "results.parquet", RESULTS)["module"].to_pylist()
    assert modules == (["lib.so", "prog"] if form == "whole" else ["main.c", "used.c", "unused.c", "api.cpp"])


@pytest.mark.slow
def test_several_ways_to_ship_are_one_table(captured, policies, mlgo, tmp_path):
    records = ["objects", "objects,sections=yes", "whole,folding=all", "whole,level=-Os,unwind=no"]
    words = [word for one in records for word in ("--ships", one)]
    subject = ["--policy", policies / "never-s0", "--project", captured, "--output", tmp_path, "--json"]
    run = mlgo("evaluate", *subject, *words)
    assert run.returncode == 0, run.stderr
    found = json.loads(run.stdout)["records"]
    assert list(found) == records
    text = [sizes(found[one]["shipped"], "lib.so", "heuristic")["text"] for one in records]
    assert text[:3] == [8, 4, 4]  # what is not exported goes with sections of its own, too
    for one in records:
        assert read_provenance(tmp_path / one / "shipped.parquet")["ships"] == Ships.of(one).given
        names = {row["contender"] for row in found[one]["shipped"]}
        assert ("full LTO" in names) == one.startswith("whole")
        assert ("never" in names) == ("-O2" in names) == (one == records[0])
        for row in found[one]["shipped"]:
            unwind = 0 if "unwind=no" in one else row["unwind"]
            assert row["total"] == row["text"] + row["read_only"] + unwind
    prog = [sizes(found["whole,folding=all"]["shipped"], "prog", name)["text"] for name in ("heuristic", "full LTO")]
    assert prog[0] <= prog[1]
    assert read_provenance(tmp_path / records[3] / "shipped.parquet")["compile"]["optimization"] == "-Os"


@pytest.mark.slow
@pytest.mark.parametrize("form", ["objects", "whole"])
def test_another_form_than_that_of_the_training_is_named(captured, mlgo, tmp_path, form):
    subject = ["--policy", RELEASED / "marginal-s0", "--project", captured, "--output", tmp_path]
    run = mlgo("evaluate", *subject, "--ships", form, "--no-references")
    assert run.returncode == 0, run.stderr
    note = "note: the policy was trained for objects; for whole it may gain less, or lose"
    assert (note in run.stderr) == (form == "whole")


@pytest.mark.slow
@pytest.mark.parametrize("scripts", [["prog"], ["prog", "lib.so"]])
def test_a_program_that_cannot_be_merged_has_a_reason_and_the_others_are_measured(
    captured, policies, mlgo, tmp_path, scripts
):
    folder = shutil.copytree(captured, tmp_path / "scripted")
    rows = read_table(folder / "programs.parquet", PROGRAMS_OF_PROJECT).to_pylist()
    for row in rows:
        row["options"] += ["-T", "layout.ld"] if row["program"] in scripts else []
    write_rows(folder / "programs.parquet", rows, PROGRAMS_OF_PROJECT, {})
    subject = ["--policy", policies / "never-s0", "--project", folder, "--output", tmp_path / "out"]
    run = mlgo("evaluate", *subject, "--ships", "whole", "--no-references")
    if len(scripts) == len(rows):
        assert run.returncode == 1
        assert "error: nothing can be merged; link: -T: a linker script" in run.stderr
        return
    assert run.returncode == 0, run.stderr
    shipped = read_table(tmp_path / "out" / "shipped.parquet", SHIPPED_SIZES).to_pylist()
    reasons = {(row["program"], row["failure"], row["message"].partition(" script")[0]) for row in shipped}
    assert reasons == {("prog", "link", "link: -T: a linker"), ("lib.so", "", "")}


@pytest.mark.slow
def test_languages_that_are_not_asked_are_left_to_the_heuristic(evaluate, tmp_path):
    rows = evaluate("--no-references", "--languages", "c++", "--output", tmp_path)["shipped"]
    policy, heuristic = (sizes(rows, "prog", name)["text"] for name in ("never-s0", "heuristic"))  # of C alone
    assert policy == heuristic
    assert read_provenance(tmp_path / "shipped.parquet")["languages"] == ["c++"]


def test_the_released_policy_is_asked_where_it_gains(policies, tmp_path):
    copy = shutil.copytree(RELEASED / "marginal-s0", tmp_path / "copy")
    for folder, languages in (copy, ("c++", "rust")), (policies / "never-s0", ("c++", "c", "rust")):
        assert languages_by_default(folder, load_stored(folder)) == languages


def test_a_search_finds_what_the_policy_leaves(evaluate, tmp_path):
    rows, again = (
        evaluate("--search", "8", "--no-references", "--output", tmp_path / workers, workers=workers)["shipped"]
        for workers in ("1", "2")
    )
    assert rows == again
    # The only question that matters: twice into used. The policy refuses it, the search begins with the heuristic, too.
    assert sizes(rows, "prog", "never-s0")["text"] == 11 + 5 + 4
    assert sizes(rows, "prog", "search")["text"] == 11 + 4
    assert sizes(rows, "lib.so", "search")["text"] == 4 + 4
    assert read_provenance(tmp_path / "1/shipped.parquet")["search"] == 8
    course = read_table(tmp_path / "1/search.parquet", SEARCH_COURSE).to_pylist()
    found = [(row["num_compiles"], row["total"]) for row in course]
    names = {row["program"] for row in rows}
    before, after = (sum(sizes(rows, one, who)["total"] for one in names) for who in ("never-s0", "search"))
    assert (found[0], found[-1][1]) == ((0, before), after)
    assert 2 == found[1][0] <= found[-1][0] <= 8  # the heuristic is one of the starts
    assert "What a search knows" in (tmp_path / "1/report.html").read_text()


def test_how_much_of_a_project_was_seen(captured, mlgo, tmp_path):
    run = mlgo("corpus", "seen", "--project", captured, "--against", captured, "--list", "1", "--json")
    assert run.returncode == 0, run.stderr
    record = json.loads(run.stdout)
    (own,) = record["projects"]
    assert (own["project"], own["seen"], record["trained_on"]) == ("thing", 1.0, ["thing"])
    assert own["instructions"]["exact"] == sum(own["instructions"].values()) > 0
    assert own["longest"][0]["kind"] == "exact"
    run = mlgo("corpus", "seen", "--project", captured, "--against", captured, "--most", "0.5")
    assert run.returncode == 1
    assert "100.00 %" in run.stdout


def test_what_is_trained_on_must_be_named(captured, refuses):
    error = refuses("corpus", "seen", "--project", captured)
    assert error == "name what is trained on: --corpus DIR, or --against DIR for single projects"
    error = refuses("corpus", "seen", "--project", captured, "--corpus", captured / "nowhere")
    assert "modules.parquet is missing" in error
