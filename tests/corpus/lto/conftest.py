"""A project of three sources and two linked files, with the real front end."""

import pytest

from mlgo.corpus.build import columns_of
from mlgo.corpus.link_time import Tools
from mlgo.host.session import compile_plain, compile_under_advice
from mlgo.host.tasks.task import EchoAdvisor
from mlgo.host.toolchain import find_linker

SOURCES = {
    # Small enough to be inlined into its only caller, elsewhere.
    "main.c": "int used(int); int main(int n, char **v) { return used(n) + used(n + 1); }\n"
    "int never_called(int x) { return x * 3; }\n",
    "used.c": "extern int system_call(int); int used(int x) { int y = x; for (int i = 0; i < 9; ++i)"
    " y = system_call(y ^ i); return y; }\n",
    "unused.c": "int unused(int x) { return x + 12345; }\n",
    "api.cpp": 'template <int N> int deep(int x) { return N * x; } extern "C" int visible(int x) { return deep<3>(x); }'
    ' extern "C" int hidden(int x) { return deep<4>(x); }\n',
}


@pytest.fixture
def made(bitcode, front_end):
    """Makes rows of ``artifacts.PROJECT`` of sources by name."""

    def make(sources):
        rows = []
        for name, text in sources.items():
            language = "c++" if name.endswith("cpp") else "c"
            named = {"project": "p", "module": name, "language": language, "licence": "MIT"}
            rows.append(named | columns_of(front_end, bitcode(text, language)))
        return rows

    return make


@pytest.fixture
def rows(made):
    return made(SOURCES)


@pytest.fixture
def compiled(toolchain, settings, tmp_path):
    def compile_rows(rows):
        objects = {}
        for row in rows:
            if not row["skip_reason"]:
                path = tmp_path / f"{len(list(tmp_path.iterdir()))}.bc"
                path.write_bytes(row["bitcode"])
                objects[row["module"]] = path.with_suffix(".o")
                compile_plain(toolchain, path, settings, object_path=path.with_suffix(".o"))
        return objects

    return compile_rows


@pytest.fixture
def echoed(toolchain, task, settings, tmp_path):
    """Number of questions of a module, whose object is the plain one when each is answered by its echo."""

    def echo(data):
        module = tmp_path / "module.bc"
        module.write_bytes(data)
        plain = compile_plain(toolchain, module, settings, task=task)
        advisor = EchoAdvisor("inlining_default")
        found = compile_under_advice(toolchain, task, module, advisor, settings, with_heuristic_feature=True)
        assert found.object_sha256 == plain.object_sha256
        return found.num_questions

    return echo


def program_row(name, kind, parts, **changes):
    row = {"project": "p", "program": name, "kind": kind, "version_script": "", "export_dynamic": False, "entry": ""}
    row |= {"parts": [{"kind": of, "modules": modules} for of, modules in parts]}
    return row | {"foreign": [], "libraries": [], "options": []} | changes


PROGRAM = program_row("bin/prog", "program", [("object", ["main.c"]), ("archive", ["used.c", "unused.c"])])
LIBRARY = program_row("lib.so", "shared", [("object", ["api.cpp"])], version_script="{ global: visible; local: *; };\n")


@pytest.fixture
def tools(front_end):
    return Tools(front_end, find_linker(), 100_000, 2)
