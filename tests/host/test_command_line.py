"""Options with values, and options of compilers that recipes and tables may give, and those that they must not."""

import re
import shutil
import subprocess
from contextlib import suppress

import pytest

from mlgo.errors import CompilerExit, ConfigError
from mlgo.host.command_line import (
    WITH_VALUE,
    Option,
    by_option,
    check_options,
    language_words,
    linker_takes_value,
    source_word,
)

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
        ["-fopenmp=libomp", "-fopenmp-version=45", "-Wno-#warnings", "-Werror=format=2", "-falign-functions=32:16"],
        ["-finline-limit=-1", "-mmacos-version-min=10.9", "-mrecip=!sqrtf", "-march=armv8-a+crc", "-mfpmath=sse,387"],
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
-fproc-stat-report=file | -fproc-stat-report | -ftest-coverage | -fcallgraph-info | -fprofile-list=file | -fsyntax-only
-fcrash-diagnostics-dir=x | -fsanitize-ignorelist=x | -fxray-attr-list=x | -fthinlto-index=x | -fdriver-only
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


@pytest.mark.parametrize(
    "arguments",
    [
        *(["-D@f"], ["-U@f"], ["-I@f"], ["-iquote@f"], ["-isystem@f"], ["-idirafter", "@f"], ["-include@f"]),
        *(["-imacros", "@f"], ["-march=@f"], ["-mtune=@f"], ["-mfpmath=@f"], ["-ftrapv-handler=@f"], ["-mregparm=@f"]),
        *(["-fconstant-string-class=@f"], ["-ftabstop=@f"], ["-std=@f"], ["-O@f"], ["-include", ""], ["-D-x"]),
        *(["-ferror-limit=@f"], ["-fbracket-depth=@f"], ["-fmax-errors=1,@f"], ["-ffile-prefix-map=@f=x"]),
    ],
)
def test_values_are_of_their_kind(arguments):
    with pytest.raises(ConfigError, match=r"no value|is not allowed here"):
        check_options(arguments)


def test_options_are_written_back_as_one_word():
    assert check_options(["-I", "a", "-D", "X=@1", "-Wall", "-include", "b"]) == ["-Ia", "-DX=@1", "-Wall", "-includeb"]


@pytest.mark.parametrize("words", [["--target=@f"], ["-target", "@f"], ["--sysroot=@f"], ["-isysroot", "@f"]])
def test_machines_and_system_roots_are_checked_too(words):
    with pytest.raises(ConfigError, match="no value of kind"):
        Option.read(words, of_build=True)


def test_names_of_sources_are_no_options():
    assert [source_word(name) for name in ("a.c", "-a.c", "/x/a.c", "@d/a.c")] == [
        "a.c",
        "./-a.c",
        "/x/a.c",
        "./@d/a.c",
    ]
    for name in ("@a.c", "./@a.c", "/x/@a.c", ""):
        with pytest.raises(CompilerExit, match="files of options"):
            source_word(name)


def test_a_language_is_given_where_the_name_does_not_say_it():
    named = [("a.c", "c"), ("a.cc", "c++"), ("a.c", "c++"), ("a.inc", "c"), ("a", "c++"), ("a.cpp", "c")]
    assert [language_words(*one)[1:] for one in named] == [(), (), ("c++",), ("c",), ("c++",), ("c",)]


@pytest.fixture(scope="session")
def plugin(tmp_path_factory):
    """A library that makes the file ``canary`` beside it, and a file of options that loads it."""
    if shutil.which("clang-19") is None:
        pytest.skip("needs clang-19, which loads plug-ins")
    folder = tmp_path_factory.mktemp("plugin")
    canary = folder / "canary"
    (folder / "plugin.c").write_text(
        f'#include <fcntl.h>\n__attribute__((constructor)) void ran(void) {{ open("{canary}", O_CREAT, 0600); }}\n'
    )
    subprocess.run(["clang-19", "-shared", "-fPIC", "plugin.c", "-o", "plugin.so"], cwd=folder, check=True, timeout=60)
    (folder / "f").write_text(f"x -load {folder}/plugin.so")
    (folder / "a.c").write_text("int a;")
    return folder


def options_with_values() -> list[str]:
    """All options of compilers here whose value may be joined to them."""
    names = {"--target=", "--sysroot=", "-ftrapv-handler=", "-ftabstop=", "-fbracket-depth=", "-D", "-U", "-I", "-O"}
    for command in ([name, *options] for name, options in HELP.items() if shutil.which(name)):
        text = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False).stdout
        names |= set(re.findall(r"^ +(--?[A-Za-z][\w+-]*=)", text, re.MULTILINE))
    return sorted(names)


HELP = {"clang-19": ["--help-hidden"], "gcc": ["--help=common", "--help=c", "--help=c++", "--help=target"]}


def test_no_option_that_passes_gives_its_value_to_the_front_end_as_a_file_of_options(plugin):
    (plugin / "canary").unlink(missing_ok=True)
    command = ["clang-19", "-c", "a.c", "-o", "a.o"]
    subprocess.run([*command, "-mtune=@f"], cwd=plugin, capture_output=True, check=False, timeout=60)
    assert (plugin / "canary").exists()  # so that its absence says something
    (plugin / "canary").unlink()
    passing = []
    for name in options_with_values():
        for value in ("@f", "x,@f", "x=@f"):
            with suppress(ConfigError):
                passing += check_options([name + value])
    for option in passing:
        subprocess.run([*command, option], cwd=plugin, capture_output=True, check=False, timeout=60)
    assert not (plugin / "canary").exists()
    assert {path.name for path in plugin.iterdir()} <= {"a.c", "a.o", "f", "plugin.c", "plugin.so"}


@pytest.mark.slow
def test_no_option_that_passes_writes_a_file(plugin):
    command = ["clang-19", "-c", "a.c", "-o", "a.o"]
    for name in options_with_values():
        with suppress(ConfigError):
            subprocess.run([*command, *check_options([f"{name}canary"])], cwd=plugin, capture_output=True, timeout=60)
    assert {path.name for path in plugin.iterdir()} <= {"a.c", "a.o", "f", "plugin.c", "plugin.so"}
