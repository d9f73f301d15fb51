"""Options with values, and options of compilers that recipes and tables may give, and those that they must not."""

import subprocess

import pytest

from mlgo.errors import ConfigError
from mlgo.host.command_line import WITH_VALUE, by_option, check_options, linker_takes_value

NOT_OF_CLANG = {"-aux-info", "-dumpbase", "-dumpbase-ext", "-h", "-R", "-imultiarch", "-wrapper", "--specs"}
"""Options of GCC alone."""


@pytest.mark.parametrize("option", [*sorted(WITH_VALUE - NOT_OF_CLANG), "-c", "-Wall", "-shared", "-fPIC"])
def test_clang_takes_the_next_word_for_the_value(option, toolchain, tmp_path):
    (tmp_path / "a.c").touch()
    command = [toolchain.binary, "clang", "-###", "-c", option, "value", "a.c"]
    run = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, timeout=60)
    assert ("no such file or directory: 'value'" not in run.stderr) == (option in WITH_VALUE)


def test_words_are_grouped_by_option():
    words = ["-include", "config.h", "a.o", "-MF", "a.d", "-DA", "-Xclang", "-Oz", "-o"]
    assert list(by_option(words)) == [
        *(["-include", "config.h"], ["a.o"], ["-MF", "a.d"], ["-DA"], ["-Xclang", "-Oz"], ["-o"])
    ]


@pytest.mark.parametrize(
    ("options", "takes_value"),
    [
        (["-soname", "--soname", "--hash-style", "-z", "-Map", "--version-script", "-h"], True),
        (["--gc-sections", "-shared", "-r", "-s", "--build-id", "soname", "a.o", "-znow"], False),
    ],
)
def test_options_of_linkers_that_take_a_value(options, takes_value):
    assert [linker_takes_value(option) for option in options] == [takes_value] * len(options)


@pytest.mark.parametrize(
    "arguments",
    [
        [],
        ["-std=gnu11", "-Iinclude", "-I", "include", "-DNAME", "-DNAME=1", "-D", "NAME=@1", "-UNAME", "-pthread"],
        ["-isystem", "headers", "-include", "config.h", "-iquote.", "-imacros", "macros.h", "-idirafter", "last"],
        ["-fno-exceptions", "-fno-rtti", "-fvisibility=hidden", "-mavx2", "-msse2", "-Wall", "-Wno-error", "-w"],
        ["-nostdinc", "-nostdinc++", "-O2", "-Oz", "-g", "-g0", "-ffile-prefix-map=/a/b=."],
    ],
)
def test_options_that_are_taken(arguments):
    check_options(arguments)


LOADING = """
-fplugin=./evil.so | -fplugin=evil | -fplugin-arg-evil-x=1 | -iplugindir=. | -fpass-plugin=./evil.so
-wrapper sh,-c,true | -Xclang -load -Xclang ./evil.so | -load ./evil.so | -B. | -B . | --prefix=. | -specs=evil.specs
--specs=evil.specs | @options | --config=evil.cfg | --config evil.cfg | -mllvm -load=./evil.so | -Wp,-fplugin=evil
-Wa,--x | -Wl,-plugin=x | -Xpreprocessor -fplugin=evil | -Xassembler x | -Xlinker x | -Xarch_host -fplugin=evil
-cc1 | -fmodule-mapper=|program | -fuse-ld=./evil | -foffload=x | -DNAME -fplugin=evil"""
UNKNOWN = """
-o /etc/passwd | other.c | - | -x c | -save-temps | -MF file | -fdump-tree-all | -fdbg-cnt=pre_insn:0-0
-fprofile-use=/somewhere | -ftime-trace=file | --sysroot=/somewhere | --target=arm-none-eabi | -gsplit-dwarf"""


def command_lines(table: str) -> list[list[str]]:
    return [one.split() for line in table.strip().splitlines() for one in line.split(" | ")]


@pytest.mark.parametrize("arguments", command_lines(LOADING))
def test_what_runs_or_loads_other_code_is_refused_by_name(arguments):
    with pytest.raises(ConfigError, match="can make the compiler run or load other code") as error:
        check_options(arguments)
    assert str(error.value).split()[2] in arguments


@pytest.mark.parametrize(
    ("table", "message"),
    [
        ([*command_lines(UNKNOWN), [""]], "is not allowed here"),
        ([["-D"], ["-I", "@options"], ["-include", "-fplugin=evil"]], r"has no value|is no value"),
    ],
    ids=["unknown", "no value"],
)
def test_what_is_not_known_is_refused(table, message):
    for arguments in table:
        with pytest.raises(ConfigError, match=message):
            check_options(arguments)
