"""`mlgo ld`: programs linked as one module, and run."""

import ctypes
import os
import re
from pathlib import Path

import pytest

from mlgo.deploy.embedded import LinkInput
from mlgo.deploy.linking import LinkCommand
from mlgo.host.linker import section_sizes
from tests.conftest import REPOSITORY
from tests.deploy.conftest import CALLS, MLGO

MAIN = """
#include <stdio.h>
int twice(int), native(int), unused(int);
int from_native(int x) { return x + 100; }
int main(void) { printf("%d %d\\n", twice(20), native(1)); return 0; }
"""
LIBRARY = """
static int add(int x, int y) { return x + y; }
int twice(int x) { return add(x, x); }
int unused(int x) { return add(x, 3) * add(x, 4) * add(x, 5); }
"""
NATIVE = "int from_native(int); int native(int x) { return from_native(x) + 1; }"


def write_sources(build):
    for name, text in (("main.c", MAIN), ("library.c", LIBRARY), ("native.c", NATIVE)):
        build.write(name, text)


@pytest.fixture
def parts(build):
    """A program of three parts: two objects with bitcode, one without."""
    write_sources(build)
    for name, level in (("main", "-Oz"), ("library", "-Oz"), ("native", "-O2")):  # at which nothing is asked
        assert build.cc(level, "-c", f"{name}.c", "-o", f"{name}.o", options=["--whole"]).returncode == 0
    files = [LinkInput.read(build.folder / f"{name}.o") for name in ("main", "library", "native")]
    assert [file.has_bitcode for file in files] == [True, True, False]
    return build


@pytest.fixture
def archive(parts, toolchain):
    assert parts.run(toolchain.binary, "ar", "rcs", "liblibrary.a", "library.o").returncode == 0
    return "liblibrary.a"


def test_a_program_is_merged_and_runs(parts, archive):
    run = parts.cc("main.o", "native.o", archive, "-lm", "-o", "program", tool="ld")
    assert (run.returncode, run.stdout, run.stderr) == (0, "", "")
    assert parts.run("./program").stdout == "40 102\n"
    (record,) = parts.log
    assert record["outcome"] in ("advised", "plain")
    assert record["questions"] >= 1  # main calls twice of the archive, which is another module
    assert min(record["advised_bytes"], record["plain_bytes"]) > 0
    assert b"unused" not in (parts.folder / "program").read_bytes()


TWINS = """
__attribute__((noinline)) int first(int x) { return x * 31 + 7; }
__attribute__((noinline)) int second(int x) { return x * 31 + 7; }
int main(int count, char **words) { return first(count) - second(count); }
"""


@pytest.mark.slow
def test_a_record_of_what_ships_over_the_words_of_a_build(build, monkeypatch):
    build.write("twins.c", TWINS)
    monkeypatch.setenv("MLGO_SHIPS", "whole")
    assert build.cc("-Oz", "-c", "twins.c", "-o", "twins.o").returncode == 0
    assert LinkInput.read(build.folder / "twins.o").carries
    found = []
    for record in ("", "folding=all", "folding=all,unwind=no"):
        monkeypatch.setenv("MLGO_SHIPS", record)
        build.folder.joinpath("log").unlink(missing_ok=True)
        assert build.cc("-Oz", "twins.o", "-o", "twins", tool="ld").returncode == 0
        assert build.run("./twins").returncode == 0
        found.append((section_sizes((build.folder / "twins").read_bytes()), build.log[-1]["advised_bytes"]))
    (plain, all_of_it), (folded, less), (_, least) = found
    assert all_of_it == plain["total"]
    assert plain["text"] - folded["text"] >= 7  # imul and add of three bytes each, and ret
    assert (less, least) == (folded["total"], folded["total"] - folded["unwind"])
    monkeypatch.setenv("MLGO_SHIPS", "whole,icf=all")
    for tool, words in (("cc", ["-Oz", "-c", "twins.c", "-o", "new.o"]), ("ld", ["twins.o", "-o", "new"])):
        run = build.cc(*words, tool=tool)
        assert run.returncode != 0
        assert "icf" in run.stderr
    assert not list(build.folder.glob("new*"))


@pytest.mark.slow
def test_reports_are_about_the_file_that_is_kept(parts, archive):
    words = ["-O2", "main.o", "native.o", archive, "-Wl,--dependency-file=link.d,-Map,link.map", "-o", "a program"]
    kept = []
    for _ in range(2):
        assert parts.cc(*words, options=["--whole"]).returncode == 0
        assert parts.log[0]["questions"] >= 1
        kept.append([(parts.folder / name).read_text() for name in ("link.d", "link.map")])
    (dependencies, link_map), again = kept
    assert [dependencies, link_map] == again
    assert dependencies.startswith(f"a\\ program: \\\n main.o \\\n native.o \\\n {archive} \\\n ")
    address = int(re.search(r"^ *([0-9a-f]+) .* main$", link_map, re.MULTILINE)[1], 16)
    symbols = parts.run("nm", "a program").stdout
    assert address == int(re.search(r"^([0-9a-f]+) T main$", symbols, re.MULTILINE)[1], 16)
    assert os.environ["TMPDIR"] not in dependencies + link_map


def test_a_program_is_merged_without_the_policy(parts):
    """By ``--whole --plain``: one module, of which nobody is asked about."""
    plain = ["--whole", "--plain"]
    for name in ("main", "library"):
        assert parts.cc("-Oz", "-c", f"{name}.c", options=plain).returncode == 0
    words = ["main.o", "native.o", "library.o", "-o"]
    assert parts.cc(*words, "program", options=plain).returncode == 0
    merged = parts.log[-1]
    assert (merged["outcome"], merged["reason"], merged["questions"]) == ("plain", "--plain", 0)
    assert parts.run("./program").stdout == "40 102\n"
    assert parts.cc(*words, "advised", tool="ld").returncode == 0  # the objects carry what can be asked about
    assert parts.log[-1]["questions"] >= 1
    assert parts.log[-1]["plain_bytes"] == merged["plain_bytes"]


def test_a_build_that_links_by_its_compiler(parts, archive):
    words = ["@inputs", "-o", "program"]
    assert parts.cc(*words, options=["--whole"]).returncode != 0  # no such file: the compiler's to say
    parts.write("inputs", f"main.o native.o {archive}\n")
    assert parts.cc(*words, options=["--whole"]).returncode == 0
    assert parts.run("./program").stdout == "40 102\n"
    assert parts.log[-1]["questions"] >= 1


@pytest.fixture
def handled(parts):
    """What tools for objects make of one that carries bitcode."""
    assert " T twice\n" in parts.run("nm", "library.o").stdout
    for words in (
        ["strip", "-g", "library.o", "-o", "stripped.o"],
        ["objcopy", "--redefine-sym", "twice=thrice", "library.o", "renamed.o"],
        ["ar", "rcs", "libwhole.a", "library.o"],
        ["ar", "rcsT", "libthin.a", "library.o"],
        ["ranlib", "libwhole.a"],
    ):
        run = parts.run(*words)
        assert (run.returncode, run.stderr) == (0, "")
    return parts


@pytest.mark.parametrize(
    ("library", "questions"),
    [
        (["-L.", "-lwhole"], 2),
        pytest.param(["libwhole.a"], 2, marks=pytest.mark.slow),
        pytest.param(["libthin.a"], 2, marks=pytest.mark.slow),
        (["stripped.o"], 0),
    ],
)
def test_objects_that_tools_have_handled_are_linked(handled, library, questions):
    run = handled.cc("main.o", "native.o", *library, "-o", "program", options=["--whole"])
    assert (run.returncode, run.stderr.count("warning")) == (0, int(library == ["stripped.o"]))
    assert handled.log[-1]["questions"] == questions
    assert handled.run("./program").stdout == "40 102\n"


def test_what_a_tool_changes_of_an_object_holds(handled):
    assert handled.cc("main.o", "native.o", "renamed.o", "-o", "program", options=["--whole"]).returncode != 0


@pytest.mark.parametrize("flags", [["-flto"], ["-flto=thin"], ["-ffat-lto-objects", "-flto"]])
def test_objects_of_whole_are_objects_whatever_else_is_asked(parts, flags):
    assert parts.cc("-Oz", *flags, "-c", "library.c", "-o", "library.o", options=["--whole"]).returncode == 0
    assert " T twice\n" in parts.run("nm", "library.o").stdout
    assert LinkInput.read(parts.folder / "library.o").has_bitcode


@pytest.mark.parametrize("target", ["x86_64-windows-gnu", "aarch64-macos", "powerpc-linux-musl"])
def test_objects_that_cannot_carry_bitcode_are_the_plain_ones(build, target):
    flags = ["-target", target, "-Oz", "-c", "calls.c", "-o"]
    assert build.cc(*flags, "plain.o", options=["--plain"]).returncode == 0
    run = build.cc(*flags, "whole.o", options=["--whole"])
    assert (run.returncode, run.stderr.count("warning")) == (0, 1)
    assert (build.folder / "whole.o").read_bytes() == (build.folder / "plain.o").read_bytes()


@pytest.mark.slow
def test_thinlto_is_advised_in_both_phases(build):
    write_sources(build)
    for name, within in (("main", 0), ("library", 4), ("native", 0)):  # calls within the file
        assert build.cc("-Oz", "-c", f"{name}.c", "-o", f"{name}.o", options=["--thin"]).returncode == 0
        assert build.log[0]["questions"] == within
    objects = ["main.o", "library.o", "native.o"]
    run = build.cc(*objects, "-o", "program", options=["--thin"])
    assert (run.returncode, run.stdout, run.stderr) == (0, "", "")
    assert build.run("./program").stdout == "40 102\n"
    assert build.log[-1]["outcome"] in ("advised", "plain")
    assert build.log[-1]["questions"] >= 2  # twice and native, which main imports
    assert build.log[-1]["plain_bytes"] > 0


def test_a_probe_of_a_build_is_linked_without_a_word(parts):
    run = parts.cc("-shared", "native.o", "-o", "probe", options=["--whole"])
    assert (run.returncode, run.stderr) == (0, "")
    assert (parts.log[-1]["outcome"], "no bitcode" in parts.log[-1]["reason"]) == ("plain", True)


def test_a_shared_object_keeps_what_it_exports(parts):
    run = parts.run(MLGO, "ld", "--", "-Oz", "-shared", "library.o", "-o", "library.so")
    assert (run.returncode, run.stderr) == (0, "")
    library = ctypes.CDLL(str(parts.folder / "library.so"))
    assert (library.twice(21), library.unused(0)) == (42, 60)


def exported(build, library):
    """Names of the functions that a shared object exports."""
    lines = build.run("nm", "-D", "--defined-only", library).stdout.splitlines()
    return {name.split("@")[0] for _, kind, name in (line.split() for line in lines) if kind == "T"}


@pytest.mark.parametrize(
    "num_names", [pytest.param(10, marks=pytest.mark.slow), 246, pytest.param(5000, marks=pytest.mark.slow)]
)
def test_a_version_script_of_many_names(build, num_names):
    names = [f"api_function_number_{number}" for number in range(num_names)]
    sources = [f"int {name}(int x) {{ return x + {number}; }}" for number, name in enumerate(names)]
    build.write("big.c", CALLS + "\n".join(sources))
    build.write("big.map", f"V1 {{ global: {'; '.join(names)}; local: *; }};")
    assert build.cc("-Oz", "-fPIC", "-c", "big.c", options=["--whole"]).returncode == 0
    words = ["-shared", "big.o", "-Wl,--version-script=big.map", "-o", "libbig.so"]
    run = build.cc(*words, options=["--whole"])
    assert (run.returncode, run.stderr, build.log[0]["outcome"]) == (0, "", "advised")
    assert exported(build, "libbig.so") == set(names)


@pytest.mark.parametrize(("options", "is_fixed"), [([], True), (["-pie"], False), (["-shared"], False)])
def test_code_is_compiled_for_the_place_that_its_link_gives_it(build, options, is_fixed):
    """Only at a fixed address is a table of addresses constant; else the loader writes it."""
    build.write("main.c", """
        static const char *const names[] = {"one", "two", "three"};
        int main(int n, char **a) { const char *const *volatile table = names; return table[n][0] != 't'; }
        """)  # fmt: skip
    assert build.cc("-Oz", "-fPIC", "-c", "main.c", options=["--whole"]).returncode == 0
    assert build.cc("main.o", *options, "-o", "program", options=["--whole"]).returncode == 0
    assert build.log[0]["outcome"] == "advised"
    assert (b".data.rel.ro\0" in (build.folder / "program").read_bytes()) == (not is_fixed)
    assert "-shared" in options or build.run("./program").returncode == 0


def test_a_policy_is_asked_about_each_variant(build):
    """Never inlined, a small function and its calls stay; but in one variant the heuristic has inlined it before."""
    policy = build.constant_policy("never", -1.0)
    calls = " ".join(f"v = add(n, {n});" for n in range(6))
    add = "volatile int v; static int add(int x, int y) { return x + y + 1; }"
    build.write("main.c", f"{add}\nint main(int n, char **a) {{ {calls} return v == 0; }}\n")
    assert build.cc("-Oz", "-c", "main.c", options=["--whole"]).returncode == 0
    assert build.cc("main.o", "-o", "main", options=["--policy", policy], tool="ld").returncode == 0
    assert (build.log[0]["outcome"], build.log[0]["questions"]) == ("advised", 0)
    assert build.log[0]["advised_bytes"] == build.log[0]["plain_bytes"]


@pytest.mark.slow
def test_the_guard_keeps_the_smaller(build):
    """A policy that inlines all copies a large function to each of its calls, which the heuristic does not."""
    policy = build.constant_policy("always", 1.0)
    work = " ".join(f"v = v * {n} + x;" for n in range(3, 40))
    build.write("main.c", f"volatile int v; static void large(int x) {{ {work} }}\nint main(int n, char **a) {{ "
                + " ".join(f"large(n + {n});" for n in range(6)) + " return v == 0; }\n")  # fmt: skip
    assert build.cc("-Oz", "-c", "main.c", options=["--whole"]).returncode == 0
    words = ["main.o", "-o", "program"]
    assert build.cc(*words, options=["--policy", policy], tool="ld").returncode == 0
    assert build.log[0]["advised_bytes"] > build.log[0]["plain_bytes"]
    assert build.log[0]["outcome"] == "plain"
    assert build.cc(*words, options=["--policy", policy, "--no-guard"], tool="ld").returncode == 0
    assert (build.log[0]["outcome"], build.log[0]["plain_bytes"]) == ("advised", None)
    assert build.run("./program").returncode == 0


@pytest.mark.parametrize(
    ("options", "inputs", "status", "message"),
    [
        ([], ["native.o", "other.o", "-shared"], 0, "no bitcode among the inputs"),
        (["--policy", "/nowhere"], ["main.o", "native.o", "library.o"], 0, "/nowhere"),
        pytest.param(
            ["--log", "/proc/none"],
            ["main.o", "native.o", "library.o"],
            0,
            "cannot write /proc/none",
            marks=pytest.mark.slow,
        ),
        pytest.param(["--timeout", "0.001"], ["main.o", "native.o", "library.o"], 0, "within", marks=pytest.mark.slow),
        ([], ["main.o", "native.o"], 1, "twice"),  # which is the compiler's to say
        ([], ["-Wl,--whole-archive", "library.o", "-Wl,--no-whole-archive", "main.o", "native.o"], 0, "depends on its"),
    ],
)
def test_what_is_wrong_is_said_once_and_the_compiler_links(parts, options, inputs, status, message):
    (parts.folder / "other.o").write_bytes((parts.folder / "native.o").read_bytes().replace(b"native", b"others"))
    run = parts.run(MLGO, "ld", *options, "--", "-Oz", *inputs, "-o", "program")
    assert (run.returncode, run.stderr.count("mlgo ld: warning")) == (status, int(status == 0))
    assert message in run.stderr
    assert (parts.folder / "program").exists() == (status == 0)


def test_another_target(build):
    build.write("start.c", "void _start(void) { for (;;); }")
    flags = ["-target", "aarch64-linux-musl", "-Oz", "-nostdlib"]
    assert build.cc(*flags, "-c", "start.c", options=["--whole"]).returncode == 0
    run = build.cc(*flags, "start.o", "-o", "program", tool="ld")
    assert (run.returncode, run.stderr) == (0, "")
    assert (build.folder / "program").read_bytes()[18] == 183  # EM_AARCH64


def test_a_folder_that_is_not_there_is_not_made(parts, archive):
    assert parts.run(MLGO, "ld", "--", "main.o", "native.o", archive, "-o", "nowhere/program").returncode != 0
    assert not (parts.folder / "nowhere").exists()


def test_arguments_are_sorted_and_values_of_options_are_no_inputs(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    for name in ("config.h", "a.d", "a.o"):
        (tmp_path / name).write_text("text")
    found = LinkCommand.read(["-o", "out", "-Wl,-s", "-l", "m", "a.o", "missing.o"])
    assert (found.inputs, found.output) == ((Path("a.o"),), Path("out"))
    assert found.options == ("-Wl,-s", "-l", "m", "missing.o")
    found = LinkCommand.read(["-include", "config.h", "-MF", "a.d", "a.o", "-oprogram"])
    assert (found.inputs, found.output) == ((Path("a.o"),), Path("program"))
    assert found.options == ("-include", "config.h", "-MF", "a.d")


SAME_LABEL = '__asm__(".text\\nmark:\\n.previous"); int {name}(int x) {{ return x + {value}; }}'


@pytest.mark.parametrize(
    ("words", "reason"),
    [
        (["-r", "main.o", "library.o", "native.o"], "-r: an object is made, whose bitcode would be lost"),
        (["-Wl,-T,layout.ld", "main.o", "library.o", "native.o"], "-T: a linker script places sections by names"),
        pytest.param(["twin.o", "twin2.o", "start.o"], "symbol 'mark' is already defined", marks=pytest.mark.slow),
    ],
)
def test_what_cannot_be_merged_is_linked_as_it_is_with_a_warning(parts, words, reason):
    parts.write("layout.ld", "SECTIONS { .mine : { *(.mine) } } INSERT AFTER .text;")
    for name, value in (("twin", 1), ("twin2", 2)):
        parts.write(f"{name}.c", SAME_LABEL.format(name=name, value=value))
    parts.write("start.c", "int twin(int), twin2(int); int main(int n, char **a) { return twin(n) + twin2(n) - 5; }")
    for name in {Path(word).stem for word in words} & {"twin", "twin2", "start"}:
        assert parts.cc("-Oz", "-c", f"{name}.c", "-o", f"{name}.o", options=["--whole"]).returncode == 0
    run = parts.cc(*words, "-o", "output", options=["--whole"])
    assert (run.returncode, run.stderr.count("warning")) == (0, 1)
    assert reason in run.stderr
    assert (parts.log[-1]["outcome"], (parts.folder / "output").is_file()) == ("failed", True)
    assert "-r" in words or parts.run("./output").returncode == 0


@pytest.mark.slow
def test_functions_that_are_chosen_at_start_and_symbols_of_assembly_are_merged(build):
    build.write("main.c", """
        #include <stdio.h>
        int chosen(int), assembled(int), twice(int);
        int main(int n, char **a) { printf("%d %d %d\\n", chosen(n), assembled(n), twice(n)); return 0; }
        """)  # fmt: skip
    build.write("other.c", """
        static int first(int x) { return x + 1; }
        static int (*resolve(void))(int) { return first; }
        int chosen(int) __attribute__((ifunc("resolve")));
        __asm__(".text\\n.globl assembled\\nassembled: leal 7(%rdi), %eax\\nret\\n.previous");
        int twice(int x) { __asm__("addl %0, %0" : "+r"(x)); return x; }
        """)  # fmt: skip
    for name in ("main", "other"):
        assert build.cc("-Oz", "-c", f"{name}.c", "-o", f"{name}.o", options=["--whole"]).returncode == 0
    run = build.cc("main.o", "other.o", "-o", "program", options=["--whole"])
    assert (run.returncode, run.stderr, build.log[-1]["outcome"]) == (0, "", "advised")
    assert build.run("./program").stdout == "2 8 2\n"


@pytest.mark.slow
def test_sources_of_other_places_processors_and_levels_are_linked_as_the_link_says(build):
    """Where code lies the link decides; the processor stays that of each function; other levels are not merged."""
    build.write("main.c", "int fast(int), slow(int); int main(int n, char **a) { return fast(n) + slow(n) - 14; }")
    build.write("fast.c", "int helper(int); int fast(int x) { return __builtin_popcount(x) + helper(x); }")
    build.write("slow.c", "int slow(int x) { return x * 3; } int helper(int x) { return x * 10; }")
    flags = {"main": ["-Oz", "-fno-pic"], "fast": ["-Oz", "-fPIC", "-mpopcnt"], "slow": ["-O2"]}
    for name, own in flags.items():
        assert build.cc(*own, "-c", f"{name}.c", "-o", f"{name}.o", options=["--whole"]).returncode == 0
    assert not LinkInput.read(build.folder / "slow.o").has_bitcode
    run = build.cc("main.o", "fast.o", "slow.o", "-pie", "-o", "program", options=["--no-guard"], tool="ld")
    assert (run.returncode, run.stderr, build.log[-1]["outcome"]) == (0, "", "advised")
    assert build.run("./program").returncode == 0
    code = build.run("objdump", "-d", "program").stdout
    assert code.count("popcnt") == 1


@pytest.mark.slow
def test_what_changed_is_compiled_again_and_the_rest_is_not(parts):
    """One source is one object; a link merges what is there."""
    assert parts.cc("main.o", "native.o", "library.o", "-o", "program", options=["--whole"]).returncode == 0
    before = {name: (parts.folder / name).stat().st_mtime_ns for name in ("main.o", "native.o")}
    parts.write("library.c", LIBRARY.replace("x + y", "x + y + 2"))
    assert parts.cc("-Oz", "-c", "library.c", "-o", "library.o", options=["--whole"]).returncode == 0
    assert parts.cc("main.o", "native.o", "library.o", "-o", "program", options=["--whole"]).returncode == 0
    assert {name: (parts.folder / name).stat().st_mtime_ns for name in before} == before
    assert parts.run("./program").stdout == "42 102\n"


ASSEMBLY = """
__asm__(".text\\n.globl assembled\\nassembled: leal 7(%rdi), %eax\\nret\\n.previous");
int assembled(int), hash_main(void);
int main(int n, char **a) { __asm__("addl %0, %0" : "+r"(n)); return hash_main() + assembled(n) - 9; }
"""
MIXED = 'int json_main(); extern "C" int regex_main(void); int main() { return json_main() + regex_main(); }'
PROGRAMS = {  # folders of data/ with an option for their sources, a source of our own, and words of the link
    "fixed": ({"programs/regex": "-fno-pic"}, ("own.c", ""), ["-no-pie"]),
    "pie": ({"programs/json": "-fPIE"}, ("own.cpp", ""), ["-pie"]),
    "shared": ({"sample/geometry": "-fPIC"}, ("own.cpp", ""), ["-shared", "-Wl,--version-script=exports"]),
    "mixed": ({"programs/json": "-Dmain=json_main", "programs/regex": "-Dmain=regex_main"}, ("own.cpp", MIXED), []),
    "assembly": ({"programs/hash": "-Dmain=hash_main"}, ("own.c", ASSEMBLY), []),
}


@pytest.mark.slow
@pytest.mark.parametrize("name", PROGRAMS)
def test_a_merged_program_is_no_larger_than_full_lto_makes_it(build, name):
    folders, (own, text), words = PROGRAMS[name]
    places = {path: option for one, option in folders.items() for path in (REPOSITORY / "data" / one).glob("*.c*")}
    sources = dict(sorted(places.items())) | {build.write(own, text): "-Oz"}
    build.write("exports", "{ global: *hit*; *record*; local: *; };")
    is_cxx = own.endswith("cpp")
    compiler, linker = ("c++", "ld++") if is_cxx else ("cc", "ld")
    expected = "".join((REPOSITORY / "data" / one / "expected.txt").read_text() for one in folders if "programs" in one)
    for form, flags in (("--whole", []), ("--plain", ["-flto"])):
        objects = [f"{number}{form}.o" for number in range(len(sources))]
        for (source, option), output in zip(sources.items(), objects, strict=True):
            tool = "cc" if source.suffix == ".c" else "c++"
            compiling = build.cc("-Oz", *flags, option, "-c", source, "-o", output, options=[form], tool=tool)
            assert (compiling.returncode, compiling.stderr) == (0, "")
        for folding in ("none", "all"):
            link = [*objects, *words, "-Wl,--gc-sections", f"-Wl,--icf={folding}", "-o", f"{folding}{form}"]
            if form == "--whole":
                run = build.cc(*link, options=["--plain"], tool=linker)
                assert build.log[-1]["reason"] == "--plain"
            else:
                run = build.cc(*link, options=["--plain"], tool=compiler)
            assert (run.returncode, run.stderr) == (0, "")
            assert "-shared" in words or build.run(f"./{folding}{form}").stdout == expected
    for folding in ("none", "all"):
        merged, full = (
            section_sizes((build.folder / f"{folding}{form}").read_bytes()) for form in ("--whole", "--plain")
        )
        assert merged["total"] <= 1.001 * full["total"], folding
        assert merged["text"] <= 1.001 * full["text"], folding
    whole = [f"{number}--whole.o" for number in range(len(sources))]
    assert build.cc(*whole, *words, "-o", "advised", options=["--no-guard"], tool=linker).returncode == 0
    assert build.log[-1]["questions"] > 0
