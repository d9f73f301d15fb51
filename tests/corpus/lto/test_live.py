"""Form `live`: what a link keeps of each module is the module's score, so modules add up to the linked file."""

import pytest

from mlgo.corpus.link_time import in_form
from mlgo.host.linker import LinkedFile, link_file, section_sizes
from mlgo.host.module_file import Generation, bitcode_of, generation_of, module_file
from mlgo.host.session import compile_under_advice
from mlgo.host.tasks.task import ConstantAdvisor
from tests.corpus.lto.conftest import program_row

SOURCES = {
    "main.c": "int api(int); int main(int n, char **v) { return api(n); }\n",
    # Other modules may call both, so the compiler keeps them; nothing does call `step` once it is inlined.
    "api.c": "extern int get(int); int step(int x) { return get(x) ^ get(x + 1); }\n"
    "int api(int x) { return step(x) + step(x * 3); }\n"
    "int unused(int x) { return step(x) - get(step(x)) * 7; }\n",
    "dead.c": "int dead(int x) { return x + 12345; }\n",
}
GC = {"options": ["--gc-sections"]}
PROGRAM = program_row("prog", "program", [("object", ["main.c", "api.c"]), ("archive", ["dead.c"])], **GC)


@pytest.fixture
def sections(made):
    """The modules, compiled with a section for each function."""
    options = Generation(("-ffunction-sections",))
    return [row | {"bitcode": module_file(bitcode_of(row["bitcode"]), options)} for row in made(SOURCES)]


def test_it_is_what_the_program_has_of_it(sections, tools, toolchain, task, settings, tmp_path):
    rows, programs = in_form("live", sections, [PROGRAM], tools)
    assert programs == [PROGRAM]
    modules = {row["module"]: tmp_path / f"{number}.bc" for number, row in enumerate(rows)}
    for row in rows:
        modules[row["module"]].write_bytes(row["bitcode"])
    wanted = [option for option in generation_of(modules["api.c"]).link.options if "undefined" in option]
    assert wanted == ["--undefined=api"]
    assert generation_of(modules["dead.c"]).link is None
    scores, linked = {}, {}
    for answer in (0, 1):
        objects, total = {}, 0
        for name, module in modules.items():
            objects[name] = tmp_path / f"{answer}-{name}.o"
            advised = ConstantAdvisor(answer)
            found = compile_under_advice(toolchain, task, module, advised, settings, object_path=objects[name])
            scores[name, answer] = found.scores
            total += found.scores["linked_code"] or 0
        data = link_file(tools.linker, LinkedFile.of_row(PROGRAM), objects, 60.0)
        linked[answer] = section_sizes(data)["text"], total
    # With `step` inlined the object is larger, and the program is smaller, as nothing needs `step` itself.
    (_, plain), (_, inlined) = linked[0], linked[1]
    assert scores["api.c", 1]["text_bytes"] > scores["api.c", 0]["text_bytes"]
    changes = [total - linked[0][1] for _, total in linked.values()]
    assert [size - linked[0][0] for size, _ in linked.values()] == pytest.approx(changes, abs=16)  # alignment
    assert plain != inlined
    assert scores["dead.c", 0]["linked_bytes"] is None
