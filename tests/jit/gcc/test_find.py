"""Finding the real GCC, and what is none."""

import hashlib
import shutil
import subprocess
from pathlib import Path

import pytest

from mlgo.errors import ToolchainError
from mlgo.jit.gcc import find
from mlgo.jit.gcc.find import find_gcc, list_counters


@pytest.fixture
def named_gcc(tmp_path):
    """A shell script under the name gcc, in a folder of its own."""

    def make(text, name="gcc"):
        folder = tmp_path / "bin"
        folder.mkdir(exist_ok=True)
        path = folder / name
        path.write_text(f"#!/bin/sh\n{text}\n")
        path.chmod(0o755)
        return path

    return make


def test_the_gcc_of_this_machine(gcc):
    said = subprocess.run([gcc.binary, "-dumpfullversion"], capture_output=True, text=True, check=True).stdout.strip()
    assert gcc.version == said
    assert gcc.name == f"gcc {said}"
    assert gcc.driver("c") == gcc.binary
    counts = list_counters(gcc.binary)
    assert counts["pre_insn"] == counts["hoist_insn"] == 0  # the probe has nothing to eliminate
    assert len(counts) > 40
    assert find_gcc(str(gcc.binary)) == gcc


def test_the_hash_is_that_of_the_compiler_proper(gcc):
    command = [gcc.binary, "-print-prog-name=cc1"]
    path = subprocess.run(command, capture_output=True, text=True, check=True).stdout.strip()
    assert gcc.sha256["c"] == hashlib.sha256(Path(path).read_bytes()).hexdigest()


def test_missing(monkeypatch, tmp_path):
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(ToolchainError, match=r"^gcc is not an executable; install GCC 10 or newer"):
        find_gcc()
    with pytest.raises(ToolchainError, match=r"^gcc-99 is not an executable"):
        find_gcc("gcc-99")


def test_clang_under_the_name_of_gcc(toolchain, named_gcc, leaves_nothing):
    clang = " ".join(map(str, [toolchain.binary, *(["clang"] if toolchain.is_zig else [])]))
    path = named_gcc(f'exec {clang} "$@"')
    with leaves_nothing(), pytest.raises(ToolchainError, match=r"bin/gcc is clang under the name of GCC; install GCC"):
        find_gcc(str(path))


def test_another_program_under_the_name_of_gcc(named_gcc):
    with pytest.raises(ToolchainError, match="does not work as a compiler"):
        find_gcc(str(named_gcc("exit 1")))
    with pytest.raises(ToolchainError, match="is no GCC"):
        find_gcc(str(named_gcc('shift $(($# - 1)); cat probe.c > "$1"')))


def test_a_gcc_that_hangs(named_gcc, monkeypatch, leaves_nothing):
    monkeypatch.setattr(find, "_PROBE_TIMEOUT_S", 0.3)
    path = named_gcc("sleep 60")
    with leaves_nothing(), pytest.raises(ToolchainError, match=r"does not work as a compiler \(no end within 0\.3 s\)"):
        find_gcc(str(path))


def test_releases_without_what_is_needed(gcc, named_gcc):
    old = named_gcc(f'{gcc.binary} "$@" && [ "$2" = -P ] && sed -i s/{gcc.version}/9.4.0/ probe.i')
    with pytest.raises(ToolchainError, match=r"is GCC 9\.4\.0, whose debug counters take one interval only"):
        find_gcc(str(old))
    without = named_gcc(f"""case "$*" in *-fdbg-cnt*) echo "error: unrecognized option" >&2; exit 1;; esac
exec {gcc.binary} "$@" """)
    with pytest.raises(ToolchainError, match=r"cannot compile with debug counters \(.*unrecognized option"):
        find_gcc(str(without))
    renamed = named_gcc(f'{gcc.binary} "$@" 2> stderr; sed s/pre_insn/other/ stderr >&2')
    with pytest.raises(ToolchainError, match="has no debug counter pre_insn"):
        find_gcc(str(renamed))


def test_the_driver_for_cxx_is_the_one_beside(gcc, named_gcc):
    alone = named_gcc(f'exec {gcc.binary} "$@"')
    found = find_gcc(str(alone))
    assert (found.version, found.cxx_binary) == (gcc.version, None)
    assert list(found.sha256) == ["c"]
    with pytest.raises(ToolchainError, match=r"there is no g\+\+ .* beside .*; install the package g\+\+"):
        found.driver("c++")
    cxx = named_gcc(f'exec {shutil.which(str(gcc.binary))} "$@"', "g++")
    assert find_gcc(str(alone)).cxx_binary == cxx
