"""ThinLTO, with the real compiler and linker. What is expected is what a build with ThinLTO makes."""

import subprocess
from dataclasses import replace

import pytest

from mlgo.corpus.link_time import fat_module, imported_modules
from mlgo.errors import ConfigError
from mlgo.host.linker import LinkedFile, link_file, section_sizes
from mlgo.host.module_file import generation_of
from mlgo.host.session import compile_plain, compile_under_advice
from mlgo.host.tasks.task import EchoAdvisor, get_task
from mlgo.objects.elf import global_symbols
from tests.corpus.lto.conftest import PROGRAM


@pytest.fixture
def imported(rows, tools):
    return imported_modules(rows, [PROGRAM], tools)


@pytest.fixture
def module(imported, tmp_path):
    path = tmp_path / "imported.bc"
    path.write_bytes(next(row["bitcode"] for row in imported[0] if row["module"] == "bin/prog:main.c"))
    return path


def test_a_module_for_each_source_that_is_linked_of_the_same_bytes_in_every_folder(imported, rows, tools):
    again, _ = imported_modules(rows, [PROGRAM], tools)
    rows, (program,) = imported
    assert [row["bitcode"] for row in again] == [row["bitcode"] for row in rows]
    assert [row["module"] for row in rows if not row["skip_reason"]] == ["bin/prog:main.c", "bin/prog:used.c"]
    assert {row["module"] for row in rows if row["skip_reason"].startswith("unlinked")} == {"api.cpp"}
    assert program["parts"] == [{"kind": "object", "modules": [f"bin/prog:{name}.c"]} for name in ("main", "used")]


def test_its_compile_is_that_of_a_back_end(rows, module, toolchain, settings, tmp_path):
    # The way of the manual: pre-link compiles, thin link, and a back end that reads the pre-link bitcode.
    clang = [*toolchain.back_end, settings.optimization, "-c", "-x", "ir"]
    for number, name in enumerate(("main.c", "used.c", "unused.c")):
        source = tmp_path / f"{name}.bc"
        source.write_bytes(next(row["bitcode"] for row in rows if row["module"] == name))
        subprocess.run([*clang, source, "-flto=thin", "-o", tmp_path / f"{number}.o"], check=True)
    index = tmp_path / "index"
    index.write_bytes(generation_of(module).index)
    back_end = [*clang, "0.o", f"-fthinlto-index={index}", "-o", "expected.o"]
    subprocess.run(back_end, check=True, cwd=tmp_path)
    compile_plain(toolchain, module, settings, object_path=tmp_path / "object.o")
    assert (tmp_path / "object.o").read_bytes() == (tmp_path / "expected.o").read_bytes()
    assert global_symbols((tmp_path / "object.o").read_bytes())[0] == {b"main"}  # never_called has gone


def test_it_asks_and_an_echo_gives_the_plain_object(module, echoed):
    assert echoed(module.read_bytes()) == 2  # the calls of used, which was imported


def test_a_pre_link_compile_makes_the_code_of_an_ordinary_one(sample, toolchain, task, settings, tmp_path):
    module = sample("json/parser.cpp")
    fat = tmp_path / "fat.bc"
    fat.write_bytes(fat_module(module))
    echo = EchoAdvisor("inlining_default")
    ordinary, pre_link = (
        compile_under_advice(toolchain, task, path, echo, settings, with_heuristic_feature=True, record=True)
        for path in (module, fat)
    )
    assert (ordinary.scores, ordinary.observations) == (pre_link.scores, pre_link.observations)
    assert ordinary.num_questions > 0


def test_back_ends_link_to_less_than_sources(rows, imported, tools, compiled):
    sizes = [
        section_sizes(link_file(tools.linker, LinkedFile.of_row(program), compiled(modules), 60.0))["text"]
        for modules, program in ((rows, PROGRAM), (imported[0], imported[1][0]))
    ]
    assert 0 < sizes[1] < sizes[0]


def test_tasks_of_code_generation_are_refused(rows, tools):
    eviction = replace(tools, front_end=replace(tools.front_end, task=get_task("regalloc-evict")))
    with pytest.raises(ConfigError, match=r"compile\.ships: form=thin holds modules before optimization"):
        imported_modules(rows, [PROGRAM], eviction)
