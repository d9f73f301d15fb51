"""Flags that clang takes and zig's driver does not, or reads in another way, with the real compiler."""

import platform
import re
from pathlib import Path

import pytest

from mlgo.host.command_line import ZIG_WORDS, for_zig
from tests.conftest import REPOSITORY
from tests.deploy.conftest import MLGO

POPCOUNT = "int count(unsigned x) { return __builtin_popcount(x); }\n"
MACROS = "#if defined A || B != 3 || !defined __OPTIMIZE_SIZE__\n#error\n#endif\nint a;\n"

on_x86 = pytest.mark.skipif(platform.machine() != "x86_64", reason="needs x86-64")
has_popcnt = "popcnt" in Path("/proc/cpuinfo").read_text()


@on_x86
@pytest.mark.parametrize(
    ("flags", "expected"),
    [
        ("", False),
        ("-march=x86-64 -mtune=haswell", False),
        ("-mtune=native -mtune=generic", False),
        ("-march=x86-64-v2", True),
        ("-march=core-avx2 -mtune=generic", True),
        ("-mpopcnt", True),
        ("-march=native", has_popcnt),
    ],
)
def test_no_instruction_of_the_building_machine_unless_asked(build, flags, expected):
    build.write("count.c", POPCOUNT)
    for options in ([], ["--plain"]):
        run = build.cc("-Oz", *flags.split(), "-S", "count.c", "-o", "count.s", options=options)
        assert run.returncode == 0
        assert ("popcnt" in (build.folder / "count.s").read_text()) == expected


@on_x86
def test_code_that_is_not_position_independent(build):
    build.write("extern.c", "extern int x; int *f(void) { return &x; }\n#ifdef __PIC__\n#error\n#endif\n")
    run = build.cc("-Oz", "-fno-pic", "-S", "extern.c", "-o", "extern.s")
    assert run.returncode == 0
    assert "GOTPCREL" not in (build.folder / "extern.s").read_text()


def test_words_for_the_preprocessor(build):
    build.write("macros.c", MACROS)
    build.write("more", "-Wp,-DA=1,-UA,-DB=3 -mtune=generic")
    run = build.cc("-Oz", "@more", "-Wp,-MD,macros.d,-MP", "-c", "macros.c")
    assert (run.returncode, run.stderr) == (0, "")
    assert [line["outcome"] for line in build.log] == ["advised"]
    assert (build.folder / "macros.d").read_text().startswith("macros.o:")


LINKS = [
    *("-Wl,-Bsymbolic-functions", "-Wl,--defsym=x=0", "-Wl,--defsym,x=0,-z,now", "-Wl,-z,muldefs", "-z separate-code"),
    *("-Xlinker --stats", "-Wl,--exclude-libs -Wl,ALL", "-Wl,--push-state,--as-needed -lm -Wl,--pop-state"),
    *("-Wl,--icf=all,--undefined=main", "-Wl,-z -Wl,noseparate-code", "-fno-pic", "-march=x86-64-v2 -mtune=generic"),
]


@pytest.mark.slow
@pytest.mark.parametrize("flags", LINKS)
def test_all_options_of_the_linker_may_be_given(build, flags):
    build.write("main.c", "int main(void) { return 0; }\n")
    build.write("wrong.c", "int main(void) { return gone(); }\n")
    assert build.cc("-Oz", "-w", "-c", "main.c").returncode == 0
    for inputs in ("main.o", "main.c"):
        run = build.cc("-Oz", *flags.split(), inputs, "-o", "main")
        assert run.returncode == 0
        assert "error" not in run.stderr
        assert build.run("./main").returncode == 0
    assert build.cc("-Oz", "main.o", "-Wl,--no-such-option", "-o", "main").returncode != 0


@pytest.mark.slow
def test_a_map_of_the_link_and_an_address(build):
    build.write("main.c", "extern char here; int main(void) { return &here != (char *)0x1234; }\n")
    assert build.cc("-Oz", "-fno-pic", "-c", "main.c").returncode == 0
    run = build.cc("main.o", "-Wl,-Map,main.map", "-Wl,--defsym=here=0x1234", "-o", "main")
    assert (run.returncode, run.stdout, run.stderr) == (0, "", "")
    assert build.run("./main").returncode == 0
    run = build.cc("-Oz", "calls.c", "main.c", "-w", "-Dhere=use", "-Wl,-Map=both.map", "-o", "both")
    assert (run.returncode, run.stdout) == (0, "")
    for name in ("main", "both"):
        assert re.search(r" \.text$", (build.folder / f"{name}.map").read_text(), re.MULTILINE)


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["--whole", "--thin"])
def test_programs_as_one_module_take_all_options_of_the_linker(build, kind):
    build.write("main.c", "int use(int); extern char here; int main(void) { return &here != (char *)0x1234; }\n")
    flags = ("-Oz", "-march=x86-64-v2", "-fno-pic")
    for name in ("main", "calls"):
        assert build.cc(*flags, "-c", f"{name}.c", options=[kind]).returncode == 0
    run = build.cc(*flags, "main.o", "calls.o", "-Wl,--defsym=here=0x1234", "-o", "main", options=[kind])
    assert (run.returncode, run.stderr) == (0, "")
    assert build.log[-1]["outcome"] == "advised"
    assert build.run("./main").returncode == 0


@pytest.mark.parametrize("begins", ZIG_WORDS)
def test_what_is_translated_stays_as_it_is_then(begins):
    once = for_zig([f"{begins}1" if begins.endswith(("=", "-")) else begins])
    assert for_zig(once) == once


@pytest.mark.slow
def test_a_build_by_mlgo_cc_is_captured_and_compiled_again(build):
    build.write("count.c", POPCOUNT)
    build.write("build.sh", "$CC -O2 -c count.c && $CC -O2 -march=native -mtune=generic -c count.c -o other.o\n")
    config = ("--config", REPOSITORY / "config" / "config.yaml")
    run = build.run(MLGO, "capture", *config, "-o", "captured", "--", "sh", "build.sh", CC=f"{MLGO} cc --")
    assert run.returncode == 0, run.stderr
    run = build.run(MLGO, "corpus", "verify", *config, "--project", "captured", "--least", "1")
    assert run.returncode == 0, run.stderr
