"""Any command line: the status, the outputs and what is said are those of the compiler without a policy.

Sources call what the policy and the heuristic treat alike, so objects have the same bytes.
"""

import re
import shutil
import stat
from collections.abc import Mapping
from pathlib import Path

import pytest
from hypothesis import HealthCheck, Phase, event, given, settings
from hypothesis import strategies as st

from mlgo.host import command_line
from tests.deploy.conftest import CALLS, MLGO, Build

CLANG = shutil.which("clang-19")
ADVISED = [MLGO, "cc", "--languages", "c,c++"]
SOURCES = {
    "a.c": CALLS,
    "main.c": "int use(int);\nint main(int n, char **a) { return use(n) == 3; }\n",
    "with space.c": "int space;\n",
    "-dash.c": "int dash;\n",
    "@at.c": "int at;\n",
    "dir/ünï.c": "int uni;\n",
    "qu'o\"te.c": "int quote(int x) { return x; }\n",
    "plus.cpp": "namespace n { int f(int x) { return x; } }\n",
    "C.C": "struct S { int x; };\n",
    "asm.s": "nop\n",
    "pre.i": "int pre;\n",
    "text": "int text;\n",
    "broken.c": "int f( {\n",
    "warned.c": "int f(void) { int unused; return 0; }\n",
}
OTHERS = {
    "h file.h": "#define H 1\n",
    "words": "-O1 '-DX=a b' \"with space.c\"\n",
    "more": "@words -DY\n",
    "itself": "@itself\n",
    "odd": "'\\\"",
    "out/kept": "old\n",
}
INPUTS = [name if name[0] not in "-@" else f"./{name}" for name in SOURCES]
MODES = [["-c"], ["-c"], ["-S"], ["-S", "-emit-llvm"], ["-E"], ["-c", "-S"], ["-M"], ["-fsyntax-only"], []]
PATHS = ["x y", "out/x", "nowhere/x", "out", "link", "dangling", "kept", "-", "@x", "ü", "", "a.c"]
OUTPUTS = [
    *([] for _ in range(4)),
    *(["-o", path] for path in PATHS),
    *(["-ox"], ["--output=x"], ["--output", "x"], ["-o", "x", "-o", "y"], ["-o"]),
]
COMMON = """-O0|-O2|-Os|-O|-O3 -Oz|-g|-g0|-w|-Wall|-Werror|-std=c99|-fPIC|-fpie|-DA="q"|-D A|-UA|-I.|-I out|-x c|-x c++
-x none|-x assembler|-xc|-MD|-MMD|-MD -MF d.d|-MP|-MT t -MD|-MD -MQ t -MF d d|-save-temps|-save-temps=obj|@words|@more
-ffunction-sections|-include h file.h|@itself|@odd|@none|@|--|-v|-pipe|-shared|-static|-nostdlib|-lm|-L.|-Xlinker -s|-s
-Wl,--gc-sections|-Wl,-Map=m.map|-Wl,--dependency-file=l.d|-r|-flto|-fno-lto|-fsyntax-only|--coverage|-gsplit-dwarf
-MJ j.json|-frecord-command-line|-frecord-gcc-switches|-g -grecord-command-line|-fembed-bitcode|-march=native|-m32
-target aarch64-linux-gnu|-funknown|-unknown|-Xclang -disable-llvm-passes|-Wp,-MD,w.d|-ftime-report|-fstack-usage
--version|-print-search-dirs|-fdiagnostics-color|-gno-record-gcc-switches|-ftime-trace"""
LINES = COMMON.replace("\n", "|").split("|")
SPACED = {"-include h file.h": ["-include", "h file.h"], "-MD -MQ t -MF d d": ["-MD", "-MQ", "t", "-MF", "d d"]}
TABLE = sorted(command_line.WITH_VALUE | command_line.WITHOUT_CODE)
VALUES = ["x", "1", "a.c", "h file.h", "-c", "", "-o"]

options = st.one_of(
    *[st.sampled_from(LINES).map(lambda line: SPACED.get(line, line.split(" ")))] * 3,
    st.builds(lambda word, value: [word, value], st.sampled_from(TABLE), st.sampled_from(VALUES)),
)


@st.composite
def lines(draw) -> list[str]:
    """A command line; about every other one works."""
    mode = draw(st.sampled_from(MODES))
    inputs = draw(st.lists(st.sampled_from(INPUTS), min_size=1 if mode else 0, max_size=3, unique=True))
    if not mode and draw(st.booleans()):  # a program
        inputs = [*inputs[:1], *(name for name in ("a.c", "main.c") if name not in inputs[:1])]
    output = draw(st.sampled_from(OUTPUTS)) if len(inputs) < 2 or not mode or draw(st.integers(0, 5)) == 0 else []
    level = draw(st.sampled_from([["-Oz"], ["-Oz"], ["-Oz"], []]))
    more = draw(st.lists(options, max_size=2))
    parts = draw(st.permutations([level, mode, *([one] for one in inputs), output, *more]))
    return [word for part in parts for word in part]


def run(folder: Path, command: list[object], line: list[str]) -> tuple[int, str, str, Mapping[str, object]]:
    """Status, output and files of a command in a new folder of that name."""
    shutil.rmtree(folder, ignore_errors=True)
    for name, text in {**SOURCES, **OTHERS}.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text(text)
    (folder / "link").symlink_to("out/kept")
    (folder / "dangling").symlink_to("out/new")
    (folder / "kept").write_text("old")
    (folder / "kept").chmod(0o640)
    shutil.rmtree(cache := folder.with_name("cache"), ignore_errors=True)  # zig says nothing of what it finds there
    found = Build(folder).run(*command, *line, ZIG_LOCAL_CACHE_DIR=str(cache))
    # What a compiler does not use it says once for each of its own steps.
    said = [text for text in found.stderr.splitlines() if not re.search("mlgo cc: warning|unused-command-line", text)]
    return found.returncode, found.stdout, "\n".join(said), dict(map(state, sorted(folder.rglob("*"))))


def state(path: Path) -> tuple[str, object]:
    """A file by its name, kind, mode and content, without what differs whenever a compiler runs."""
    if path.is_symlink():
        return str(path), str(path.readlink())
    mode = path.stat().st_mode
    return str(path), (stat.filemode(mode), path.read_bytes() if path.is_file() else b"")


def check(folder: Path, advised: list[object], plain: list[object], line: list[str]) -> None:
    expected, found = run(folder, plain, line), run(folder, advised, line)
    event(f"status {min(expected[0], 1)}")
    if found == expected:
        return
    again = run(folder, plain, line)
    kept = {name for name, content in expected[3].items() if again[3].get(name) == content}
    assert found[0] == expected[0]
    if set(again[3]) == set(expected[3]):
        assert set(found[3]) == set(expected[3])
    assert {name: found[3].get(name) for name in kept} == {name: expected[3][name] for name in kept}
    for place in (1, 2):
        if again[place] == expected[place]:
            assert found[place] == expected[place]
    written = "".join(map(str, found[1:]))
    assert not re.search("mlgo-cc|channel-base", written)


def fuzz(count: int, seed: object = None):
    return settings(
        max_examples=count,
        derandomize=seed is None,
        database=None,
        phases=[Phase.explicit, Phase.generate, Phase.shrink],
        suppress_health_check=list(HealthCheck),
    )


@pytest.mark.parametrize("count", [12, pytest.param(400, marks=pytest.mark.slow)])
def test_command_lines(build, count):
    @fuzz(count)
    @given(lines())
    def run_all(line):
        check(build.folder / "work", [*ADVISED, "--"], [MLGO, "cc", "--plain", "--"], line)

    run_all()


@pytest.mark.slow
@pytest.mark.skipif(CLANG is None, reason="needs clang-19, to compare with it itself")
def test_command_lines_of_clang(build):
    @fuzz(400)
    @given(lines())
    def run_all(line):
        check(build.folder / "work", [*ADVISED, "--compiler", CLANG, "--"], [CLANG], line)

    run_all()
