"""Programs built under advisors, with the real compiler, linker and valgrind."""

import os
import subprocess
import sys
from dataclasses import replace

import pytest

from mlgo.base.artifacts import PROGRAMS, read_table
from mlgo.errors import CorpusError
from mlgo.evaluate import CompileHost
from mlgo.evaluate.programs import NO_VALGRIND, build_programs, measure_programs
from mlgo.host.frontend import FrontEnd
from mlgo.host.program import ProgramRunner
from mlgo.host.session import compile_plain
from mlgo.host.tasks.regalloc import FIRST_LEGAL, LIGHTEST
from mlgo.host.tasks.task import get_task
from tests.conftest import REPOSITORY

TASK = get_task("regalloc-evict")


@pytest.fixture
def front_end(toolchain, fast, zig_cache, monkeypatch):
    monkeypatch.chdir(REPOSITORY)
    return FrontEnd(toolchain, fast, zig_cache, TASK)


def test_one_program_under_three_contenders(toolchain, fast, front_end, zig_cache, valgrind, tmp_path, leaves_nothing):
    runner = ProgramRunner(toolchain.target, zig_cache, 120.0)
    (program,) = build_programs([REPOSITORY / "config/programs/json.yaml"], front_end, tmp_path, 1)
    programs = [program, replace(program, name="wrong", expected=b"something else")]
    programs.append(replace(program, name="broken", modules=(program.modules[0], tmp_path / "missing.bc")))
    contenders = {"heuristic": lambda name: None, "lightest": lambda name: LIGHTEST, "first": lambda name: FIRST_LEGAL}
    with leaves_nothing(), CompileHost(toolchain, TASK.name, fast, 2) as host:
        rows = measure_programs(host, runner, valgrind, programs, contenders, tmp_path)
    by_pair = {(row["program"], row["contender"]): row for row in rows}
    assert list(by_pair) == [(one.name, name) for one in programs for name in contenders]
    plain, first = by_pair["json", "heuristic"], by_pair["json", "first"]
    assert all(by_pair["json", name]["right"] for name in contenders)
    assert not any(by_pair["wrong", name]["right"] for name in contenders)
    assert first["spill_cost"] > plain["spill_cost"] > 0
    assert first["instructions"] != plain["instructions"]
    assert 5e6 < plain["instructions"] < 10e6
    assert plain["text_bytes"] > 1000
    for name in contenders:
        assert by_pair["broken", name]["failure"] == "exit"
        assert "instructions" not in by_pair["broken", name]


def test_what_is_no_program(front_end, tmp_path):
    recipe = tmp_path / "lz.yaml"
    recipe.write_text((REPOSITORY / "config/corpora/sample/lz.yaml").read_text())
    with pytest.raises(CorpusError, match=r"^lz is no program: there is no data/sample/lz/expected\.txt"):
        build_programs([recipe], front_end, tmp_path, 1)


@pytest.mark.slow
def test_levels_stand_beside_contenders_and_without_valgrind_nothing_runs(toolchain, settings, tmp_path, monkeypatch):
    monkeypatch.chdir(REPOSITORY)
    there = settings.model_copy(update={"optimization": "-O2"})
    recipes = [REPOSITORY / "config/programs/hash.yaml"]
    programs, faster = (
        build_programs(recipes, FrontEnd(toolchain, how, tmp_path / "cache"), tmp_path / how.optimization, 1)
        for how in (settings, there)
    )
    never = get_task("inline-size").references.passive
    contenders = {"heuristic": lambda name: None, "never": lambda name: never}
    runner = ProgramRunner(toolchain.target, tmp_path / "cache", 120.0)
    with CompileHost(toolchain, "inline-size", settings, 1) as host:
        rows = measure_programs(host, runner, None, programs, contenders, tmp_path, {"-O2": faster})
    assert [(row["program"], row["contender"]) for row in rows] == [("hash", one) for one in (*contenders, "-O2")]
    assert {(row["failure"], row["message"]) for row in rows} == {("valgrind", NO_VALGRIND)}
    plain, _, at_o2 = (row["text_bytes"] for row in rows)
    objects = [compile_plain(toolchain, module, there).scores["text_bytes"] for module in faster[0].modules]
    assert at_o2 == sum(objects) > plain


@pytest.mark.parametrize(
    ("splits", "measured"), [("train: [json]", {"hash"}), ("train: [json], validation: [hash]", None)]
)
def test_programs_that_were_trained_or_chosen_on_are_left_out(tmp_path, splits, measured):
    for name in ("hash", "json"):
        (tmp_path / f"{name}.yaml").write_text((REPOSITORY / f"config/programs/{name}.yaml").read_text())
    (tmp_path / "settings.yml").write_text(f"corpus: {{splits: {{{splits}}}}}")
    asked = ["--preset", tmp_path / "settings.yml", "--recipes", tmp_path, "--output", tmp_path / "programs.parquet"]
    command = [sys.executable, "scripts/measure_programs.py", *asked, "--work", tmp_path / "work"]
    ended = subprocess.run(
        command, cwd=REPOSITORY, env={**os.environ, "PATH": ""}, capture_output=True, text=True, timeout=300
    )
    if measured is None:
        assert ended.returncode == 1
        assert "no recipe of a program that is in neither" in ended.stderr
    else:
        assert ended.returncode == 0, ended.stderr
        assert {row["program"] for row in read_table(tmp_path / "programs.parquet", PROGRAMS).to_pylist()} == measured
