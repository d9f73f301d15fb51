"""A project of three sources and two linked files, with the real front end."""

import pytest

from mlgo.corpus.build import columns_of
from mlgo.corpus.link_time import Tools
from mlgo.host.linker import LinkedFile
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
def rows(bitcode, front_end):
    made = []
    for name, text in SOURCES.items():
        language = "c++" if name.endswith("cpp") else "c"
        columns = columns_of(front_end, bitcode(text, language))
        made.append({"project": "p", "module": name, "language": language, "licence": "MIT", **columns})
    return made


def program_row(name, kind, parts, **changes):
    """A row of ``artifacts.PROGRAMS_OF_PROJECT``."""
    return {
        "project": "p",
        "program": name,
        "kind": kind,
        "parts": [{"kind": of, "modules": modules} for of, modules in parts],
        "foreign": [],
        "libraries": [],
        "options": [],
        "version_script": "",
        "export_dynamic": False,
        "entry": "",
    } | changes


PROGRAM = program_row("bin/prog", "program", [("object", ["main.c"]), ("archive", ["used.c", "unused.c"])])
LIBRARY = program_row("lib.so", "shared", [("object", ["api.cpp"])], version_script="{ global: visible; local: *; };\n")


def linked(row):
    return LinkedFile.of_row(row)


@pytest.fixture
def tools(front_end):
    return Tools(front_end, find_linker(), 100_000, 2)
