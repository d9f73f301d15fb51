"""Options of compilers that recipes and tables may give, and those that they must not."""

import pytest

from mlgo.errors import ConfigError
from mlgo.host.compiler_options import check_options


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


@pytest.mark.parametrize(
    "arguments",
    [
        ["-fplugin=./evil.so"],
        ["-fplugin=evil"],
        ["-fplugin-arg-evil-x=1"],
        ["-iplugindir=."],
        ["-fpass-plugin=./evil.so"],
        ["-wrapper", "sh,-c,true"],
        ["-Xclang", "-load", "-Xclang", "./evil.so"],
        ["-load", "./evil.so"],
        ["-B."],
        ["-B", "."],
        ["--prefix=."],
        ["-specs=evil.specs"],
        ["--specs=evil.specs"],
        ["@options"],
        ["--config=evil.cfg"],
        ["--config", "evil.cfg"],
        ["-mllvm", "-load=./evil.so"],
        ["-Wp,-fplugin=evil"],
        ["-Wa,--x"],
        ["-Wl,-plugin=x"],
        ["-Xpreprocessor", "-fplugin=evil"],
        ["-Xassembler", "x"],
        ["-Xlinker", "x"],
        ["-Xarch_host", "-fplugin=evil"],
        ["-cc1"],
        ["-fmodule-mapper=|program"],
        ["-fuse-ld=./evil"],
        ["-foffload=x"],
        ["-DNAME", "-fplugin=evil"],
    ],
)
def test_what_runs_or_loads_other_code_is_refused_by_name(arguments):
    with pytest.raises(ConfigError, match="can make the compiler run or load other code") as error:
        check_options(arguments)
    assert str(error.value).split()[2] in arguments


@pytest.mark.parametrize(
    "arguments",
    [
        ["-o", "/etc/passwd"],
        ["other.c"],
        ["-"],
        [""],
        ["-x", "c"],
        ["-save-temps"],
        ["-MF", "file"],
        ["-fdump-tree-all"],
        ["-fdbg-cnt=pre_insn:0-0"],
        ["-fprofile-use=/somewhere"],
        ["-ftime-trace=file"],
        ["--sysroot=/somewhere"],
        ["--target=arm-none-eabi"],
        ["-gsplit-dwarf"],
    ],
)
def test_what_is_not_known_is_refused(arguments):
    with pytest.raises(ConfigError, match="is not allowed here"):
        check_options(arguments)


@pytest.mark.parametrize("arguments", [["-D"], ["-I", "@options"], ["-include", "-fplugin=evil"]])
def test_a_value_is_no_option(arguments):
    with pytest.raises(ConfigError, match=r"has no value|is no value"):
        check_options(arguments)
