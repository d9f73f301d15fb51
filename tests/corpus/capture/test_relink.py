"""Links of a recorded build that are done again: what a record of others may make a tool do."""

import shutil
from pathlib import Path

import pytest

from mlgo.corpus.capture.builds import Relink, read_build
from mlgo.corpus.capture.commands import steps_of
from mlgo.corpus.capture.invocations import ToolInvocation, named_tools, read_invocations
from mlgo.errors import ArtifactError, ConfigError, CorpusError, LinkError
from mlgo.host.command_line import link_words

HONEST = [
    "a.o ./b.o /x/libc.a -Wl,--gc-sections,--version-script=exports.map -shared -Wl,-soname,liba.so.1 -lm -L../lib -Ly",
    "-O2 -g -Wall -Wextra -fPIC -m64 -march=native -std=c++17 -flto=auto -pthread -DNDEBUG -Iinclude a.o",
    "-rdynamic -static-libgcc -static-libstdc++ -no-pie -s -u main -z noexecstack -Wl,-z,relro -Wl,-z,now -fuse-ld=lld",
    "-Wl,--start-group a.a b.a -Wl,--end-group -Wl,-rpath,$ORIGIN/../lib -Wl,-Bsymbolic-functions,-O1,--sort-common",
    "-Xlinker -rpath -Xlinker /lib -Wl,--whole-archive,x.a,--no-whole-archive -T script.ld -nostdlib -Wl,-e,start",
    "--target=x86_64-linux-gnu -stdlib=libc++ a.o -Wl,-dynamic-linker,/lib/ld.so -l:libx.a -Wl,--defsym=a=1",
]
WRITING = [
    ("a.o -o b", "a.o"),
    ("a.o -ob -MD -MF a.d", "a.o"),
    ("a.o -Wl,-Map=a.map -Wl,-Map,a.map,--gc-sections,--cref", "a.o -Wl,--gc-sections"),
    ("-Wl,--dependency-file=x,-o,evil,--output,evil,--output=evil -lm", "-lm"),
    ("-fprofile-use=/p/default.profdata a.o", "a.o"),
]
HOSTILE = [
    *("@file", "-Wl,@file", "-Xlinker @file", "-T @file", "-L @file", "-fplugin=/evil.so", "-fplugin=evil.so"),
    *("-B/evil", "-B /evil", "-specs=evil", "-wrapper /evil", "--sysroot=/evil", "-fuse-ld=/evil", "-Xclang -load"),
    *("-Wl,-plugin,/evil.so", "-Wl,--plugin=/evil.so", "-Wl,-plugin=/evil.so", "-Wl,--load-pass-plugin=/evil.so"),
    *("-Wl,-mllvm,-load=/evil.so", "-Wl,-mllvm=-load=/evil.so", "-Wl,--error-handling-script=/evil"),
    *("-Wl,-error-handling-script=/evil", "-Wl,--reproduce=/evil", "-Wl,-lto-obj-path=/evil", "-Wl,--out-implib=/x"),
    *("-Wl,--lto-obj-path=/x", "-Wl,-run", "-Xlinker --plugin -Xlinker /evil.so", "-ftime-trace=/x", "-Wa,-a=/x"),
    *("-Wl,--thinlto-cache-dir=/x", "-Wl,--time-trace=/x", "-fdump-tree-all=/x", "-fproc-stat-report=/x", "--config=x"),
    *("-Wl,--print-symbol-order=/x", "-Wl,--why-extract=/x", "-Wl,--chroot=/x", "-save-temps", "-dumpdir /x", "-### "),
    *("-ccc-gcc-name /x", "--gcc-toolchain=/x", "-resource-dir /x", "-iplugindir=/x", "-mllvm -load=/x"),
]


@pytest.mark.parametrize("words", HONEST)
def test_links_of_honest_builds_stay_as_they_are(words):
    assert link_words(words.split(), through_compiler=True) == words.split()


@pytest.mark.parametrize(("words", "left"), WRITING)
def test_what_a_link_writes_is_left_out(words, left):
    assert link_words(words.split(), through_compiler=True) == left.split()


@pytest.mark.parametrize("words", HOSTILE)
def test_what_may_run_or_write_is_refused(words):
    with pytest.raises(ConfigError):
        link_words(words.split(), through_compiler=True)


def test_the_linker_itself():
    words = "-m elf_x86_64 -melf_x86_64 -shared a.o -o a.so -Map x -rpath /x --hash-style=gnu ( b.a ) -e main -zdefs"
    expected = words.replace("-o a.so -Map x ", "").split()
    assert link_words(words.split(), through_compiler=False) == expected
    for word in ("@x", "--plugin", "-plugin=x", "-run", "--reproduce=x", "-mllvm", "-dependency-fil"):
        with pytest.raises(ConfigError):
            link_words([word], through_compiler=False)


def record(folder, number, *words, program, tool="cc", place=None):
    fields = [tool, program, str(place or folder), str(len(words)), *words, "end"]
    (folder / "records").mkdir(exist_ok=True)
    (folder / "records" / f"{number}-0").write_bytes(b"".join(f"{word}\0".encode() for word in fields))


def check(folder, tools):
    calls = read_invocations(folder / "records")
    build = read_build((step for call in calls for step in steps_of(call)), folder)
    Relink.check(calls, build, tools)


def test_only_programs_that_somebody_named_link(tmp_path):
    evil = tmp_path / "evil cc"
    record(tmp_path, 1, "-c", "a.c", program="/bin/compiles/only")
    record(tmp_path, 2, "a.o", "-o", "prog", program=f"'{evil}' -m32")
    record(tmp_path, 3, "-r", "a.o", "-o", "b.o", program="/usr/bin/ld", tool="ld")
    with pytest.raises(CorpusError) as caught:
        check(tmp_path, named_tools(["cc"], {"CC": "gcc -m32"}))
    assert f"nobody has named: '{evil}' -m32, /usr/bin/ld; if" in str(caught.value)
    assert f"""name them: --tools ''"'"'{evil}'"'"' -m32' /usr/bin/ld (""" in str(caught.value)
    check(tmp_path, named_tools([f"'{evil}' -m32"], {"LD": "/usr/bin/ld"}))
    record(tmp_path, 4, "a.o", "-Wl,--plugin=x", "-o", "prog", program=f"'{evil}' -m32")
    with pytest.raises(CorpusError, match="prog cannot be linked again: linker option --plugin=x could run"):
        check(tmp_path, named_tools([f"'{evil}' -m32", "/usr/bin/ld"], {}))


def test_names_are_looked_up_as_the_shell_does():
    assert named_tools(["sh -x"], {"CC": "", "AR": "no-such-ar"}) == {(shutil.which("sh"), "-x"), ("no-such-ar",)}


@pytest.mark.parametrize(("program", "place"), [("'cc", Path("/")), ("cc", Path("relative/../.."))])
def test_records_of_no_wrapper(tmp_path, program, place):
    record(tmp_path, 1, "a.o", program=program, place=place)
    with pytest.raises(ArtifactError, match="1-0 is no record of a call"):
        read_invocations(tmp_path / "records")


def test_a_call_holds_what_a_wrapper_wrote(tmp_path):
    record(tmp_path, 1, "a.o", program="cc -m32")
    (call,) = read_invocations(tmp_path / "records")
    assert (call.program, call.folder, call.arguments) == ("cc -m32", tmp_path, ("a.o",))
    assert isinstance(call, ToolInvocation)


@pytest.mark.skipif(shutil.which("ld") is None, reason="needs GNU ld")
def test_an_option_without_its_value_does_not_take_the_output(tmp_path):
    precious, program = tmp_path / "a.out", f"{shutil.which('ld')} -b binary"
    precious.write_text("of the user")
    (tmp_path / "a.o").write_text("data")
    record(tmp_path, 1, "a.o", "-o", "prog", "-L", program=program, tool="ld")
    (call,) = read_invocations(tmp_path / "records")
    build = read_build([*steps_of(ToolInvocation("cc", "cc", tmp_path, ("-c", "a.c"))), *steps_of(call)], tmp_path)
    Relink.check([call], build, named_tools([program], {}))
    with pytest.raises(LinkError):
        Relink({}, tmp_path / "linked", tmp_path / "cache", 10.0).run([call], build)
    assert precious.read_text() == "of the user"
