"""Projects as a whole, with the real compiler and linker."""

import dataclasses

import pyarrow.compute as pc
import pytest

from mlgo.base.artifacts import LINKED, PROJECT_MEASURES, SHIPPED_SIZES, write_rows
from mlgo.corpus.build import program_of_all
from mlgo.corpus.seen import SeenBodies, kinds_by_name, project_bodies, seen_table
from mlgo.corpus.store import Module, Program
from mlgo.evaluate import CompileHost, CompileJob
from mlgo.evaluate.shipped import Linking, bytes_by_kind, measure_programs, measure_projects, object_paths
from mlgo.host.session import compile_plain
from mlgo.host.toolchain import find_linker
from mlgo.objects.placed import Placed
from tests.host.test_linker import FIRST

MODULES = [
    Module("codec", "base64.c", "c", "train", ""),
    *(Module("graph", f"{name}.cpp", "c++", "test", "") for name in ("paths", "order", "spanning")),
]


@pytest.fixture(scope="module")
def linking():
    return Linking(find_linker(), 60.0, 1)


@pytest.fixture(scope="module")
def compiled(toolchain, settings, sample, tmp_path_factory):
    """Object files and results of all modules under the heuristic, by key."""
    objects = object_paths(MODULES, tmp_path_factory.mktemp("objects"))
    jobs = [CompileJob(one.key, sample(one.key), None, object_path=objects[one.key]) for one in MODULES]
    with CompileHost(toolchain, "inline-size", settings, 1) as host:
        outcomes = host.compile_all(jobs)
    return objects, {one.key: outcome.result for one, outcome in zip(MODULES, outcomes, strict=True)}


def by_project(rows):
    return {(row["project"], row["measure"]): row["bytes"] for row in rows}


def test_a_row_per_project_and_measure(linking, compiled, tmp_path, leaves_nothing):
    objects, results = compiled
    with leaves_nothing():
        rows = measure_projects(linking, "heuristic", MODULES, objects)
    write_rows(tmp_path / "linked.parquet", rows, LINKED, {})
    assert [(row["project"], row["split"], row["measure"], row["num_modules"]) for row in rows] == [
        *(("codec", "train", measure, 1) for measure in PROJECT_MEASURES),
        *(("graph", "test", measure, 3) for measure in PROJECT_MEASURES),
    ]
    assert {(row["contender"], row["failure"], row["message"]) for row in rows} == {("heuristic", "", "")}
    found = by_project(rows)
    graph = [results[one.key].scores["text_bytes"] for one in MODULES[1:]]
    assert found["graph", "object"] == sum(graph)
    assert max(graph) < found["graph", "deduplicated"] < sum(graph)
    assert found["graph", "folded"] <= found["graph", "linked"] < sum(graph)
    assert found["codec", "object"] == found["codec", "deduplicated"] == results["codec/base64.c"].scores["text_bytes"]


def test_one_shared_object_of_all_modules_is_what_a_project_links_to(linking, compiled):
    objects, _ = compiled
    graph = MODULES[1:]
    (row,) = program_of_all("graph", [{"module": one.name, "skip_reason": ""} for one in graph])
    shipped = measure_programs(linking, "heuristic", [Program(row, "test", tuple(graph))], objects)
    linked = by_project(measure_projects(linking, "heuristic", graph, objects))
    assert [(one["folded"], one["total"]) for one in shipped] == [
        (False, linked["graph", "linked"]),
        (True, linked["graph", "folded"]),
    ]
    assert {(one["program"], one["num_modules"], one["split"]) for one in shipped} == {("graph.so", 3, "test")}


def test_threads_do_not_matter(linking, compiled):
    objects, _ = compiled
    rows = measure_projects(linking, "heuristic", MODULES, objects)
    assert measure_projects(dataclasses.replace(linking, num_threads=3), "heuristic", MODULES, objects) == rows


def test_a_project_with_a_failed_compile_has_no_size(linking, compiled, tmp_path):
    objects, _ = compiled
    rows = measure_projects(linking, "es-s0", MODULES, {**objects, "graph/order.cpp": tmp_path / "none.o"})
    graph = [row for row in rows if row["project"] == "graph"]
    assert {(row["bytes"], row["failure"], row["num_modules"]) for row in graph} == {(None, "compile", 3)}
    assert graph[0]["message"] == "1 of 3 modules did not compile; the first is order.cpp"
    assert all(row["bytes"] for row in rows if row["project"] == "codec")


def test_a_failed_link_is_a_row(linking, compiled, tmp_path):
    objects, _ = compiled
    broken = tmp_path / "broken.o"
    broken.write_bytes(b"no object")
    rows = measure_projects(linking, "es-s0", MODULES, {**objects, "graph/order.cpp": broken})
    failures = {row["measure"]: row["failure"] for row in rows if row["project"] == "graph"}
    assert failures == {"object": "object", "deduplicated": "object", "linked": "link", "folded": "link"}
    late = measure_projects(dataclasses.replace(linking, timeout_s=0.0), "es-s0", MODULES[:1], objects)
    assert [row["failure"] for row in late] == ["", "", "timeout", "timeout"]


def test_only_the_folded_size_has_identical_code_once(linking, toolchain, settings, bitcode, tmp_path):
    module = Module("twins", "first.cpp", "c++", "test", "")
    compile_plain(toolchain, bitcode(FIRST, "c++"), settings, object_path=tmp_path / "first.o")
    found = by_project(measure_projects(linking, "heuristic", [module], {module.key: tmp_path / "first.o"}))
    assert 0 < found["twins", "folded"] < found["twins", "linked"]


def test_bytes_by_kind_by_hand():
    """Names of real symbols: parts and copies go on after a dot, a constructor may have two names."""
    program = Program({"project": "p"}, "test", tuple(Module("p", name, "c++", "test", "") for name in "ab"))
    kinds = {
        "p/a": {"run": "unseen", "_ZNSt3__14swapIiEEvRT_S2_": "standard", "helper": "near"},
        "p/b": {"helper": "exact", "_ZN3BoxC2Ev": "unseen"},
    }
    functions = [
        Placed("a", ("run",), 100, 24),
        Placed("a", ("run.cold.1",), 10, 4),
        Placed("a", ("helper",), 7, 1),
        Placed("b", ("helper",), 30, 2),  # another function of the same name
        Placed("b", ("helper.llvm.123",), 5, 0),
        Placed("b", ("_ZN3BoxC1Ev", "_ZN3BoxC2Ev"), 16, 8),
        Placed("a", ("_ZNSt3__14swapIiEEvRT_S2_",), 11, 3),
        Placed("a", ("OUTLINED_FUNCTION_0",), 64, 9),  # the compiler's own: of no kind
    ]
    assert bytes_by_kind(functions, program, kinds) == [
        {"kind": "unseen", "text": 126, "unwind": 36},
        {"kind": "near", "text": 7, "unwind": 1},
        {"kind": "exact", "text": 35, "unwind": 2},
        {"kind": "standard", "text": 11, "unwind": 3},
        {"kind": "bindings", "text": 0, "unwind": 0},
    ]


def test_kinds_add_up_to_no_more_than_what_ships(linking, compiled, sample, front_end, tmp_path):
    objects, _ = compiled
    graph = MODULES[1:]
    (linked,) = program_of_all("graph", [{"module": one.name, "skip_reason": ""} for one in graph])
    program = Program(linked, "test", tuple(graph))
    bodies = project_bodies(front_end.print_ir, graph, {one.key: sample(one.key) for one in graph}, tmp_path)
    paths = bodies.filter(pc.equal(bodies["module"], "paths.cpp"))
    kinds = kinds_by_name(seen_table(bodies, SeenBodies.of(paths).kinds(bodies)))
    row, folded = measure_programs(dataclasses.replace(linking, kinds=kinds), "heuristic", [program], objects)
    plain, _ = measure_programs(linking, "heuristic", [program], objects)
    found = {one["kind"]: one for one in row["kinds"]}
    assert found["exact"]["text"] > 0 < found["unseen"]["text"]
    assert 0 < sum(one["text"] for one in found.values()) <= row["text"]
    assert 0 < sum(one["unwind"] for one in found.values()) <= row["unwind"]
    assert (folded["kinds"], plain["kinds"]) == (None, None)
    assert {**row, "kinds": None} == plain
    write_rows(tmp_path / "shipped.parquet", [row, folded], SHIPPED_SIZES, {})
