"""Projects that are programs, merged, linked and run by the real tools."""

import pytest

from mlgo.corpus.build import columns_of
from mlgo.corpus.lto.runnable import Running, runnable_program
from mlgo.corpus.programs import program_of_all
from mlgo.errors import CorpusError, ToolchainError
from mlgo.host.counting import find_valgrind
from mlgo.host.execution import ProgramRunner
from mlgo.host.module_file import generation_of

SOURCES = {
    "main.c": 'int puts(const char *); int twice(int); int main(int n, char **v) { puts(twice(n) == 2 ? "two" : "");'
    " return 0; }\n",
    "twice.c": "int twice(int x) { return 2 * x; }\nint never_called(int x) { return x; }\n",
}


@pytest.fixture
def rows(bitcode, front_end):
    return [
        {"project": "p", "module": name, "language": "c", "licence": "MIT", **columns_of(front_end, bitcode(text, "c"))}
        for name, text in SOURCES.items()
    ]


@pytest.fixture
def runner(zig_cache):
    try:
        find_valgrind()
    except ToolchainError as error:
        pytest.skip(str(error))
    return ProgramRunner("x86_64-linux-gnu", zig_cache, 60.0)


def test_a_project_becomes_one_module_that_runs(rows, tools, runner, tmp_path, leaves_nothing):
    with leaves_nothing():
        merged, (program,) = runnable_program(rows, program_of_all("p", rows), tools, Running(runner, b"two\n", 1.5))
    assert [(row["module"], row["skip_reason"][:8]) for row in merged] == [("p", "")]
    assert (program["kind"], program["parts"]) == ("program", [{"kind": "object", "modules": ["p"]}])
    (tmp_path / "p.bc").write_bytes(merged[0]["bitcode"])
    found = generation_of(tmp_path / "p.bc").program
    assert found.stdout == b"two\n"
    assert 10 < found.most_text_bytes < 1000


@pytest.mark.parametrize(
    ("keep", "stdout", "message"),
    [
        (("main.c", "twice.c"), b"three\n", r"p is no program that runs: output: .* where b'three\\n' is right"),
        (("main.c",), b"two\n", "p is no program that runs: link: .*twice"),
        (("twice.c",), b"", "p is no program: link: "),
    ],
    ids=["other output", "a symbol is missing", "no main"],
)
def test_what_is_no_program_ends_the_build(rows, tools, runner, keep, stdout, message):
    some = [row for row in rows if row["module"] in keep]
    with pytest.raises(CorpusError, match=message):
        runnable_program(some, program_of_all("p", some), tools, Running(runner, stdout, 1.2))
