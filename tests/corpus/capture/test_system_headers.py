"""Headers of the system: a captured source finds those that its build's compiler found, behind clang's own."""

import os
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pytest

from mlgo.corpus.capture import wheels
from mlgo.corpus.capture.builds import recorded_build
from mlgo.corpus.capture.invocations import is_own, run_build
from mlgo.corpus.capture.objects import header_folders, with_system_headers
from mlgo.corpus.recipe import headers_beside
from tests.corpus.capture.conftest import captured, needs_gcc

INSTALLED = {
    "zlib.h": "int f(void) { return (int)crc32(0, 0, 0); }",
    "curses.h": "int f(void) { return endwin(); }",
    "openssl/evp.h": "const EVP_MD *f(void) { return EVP_sha256(); }",
    "omp.h": "int f(void) { return omp_get_max_threads(); }",
}


@needs_gcc
@pytest.mark.parametrize("header", INSTALLED)
def test_headers_of_installed_libraries_are_found(header, front_end, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    Path("a.c").write_text(f"#include <{header}>\n{INSTALLED[header]}\n")
    if subprocess.run(["gcc", "-fsyntax-only", "a.c"], capture_output=True, timeout=60).returncode:
        pytest.skip(f"needs {header}")
    status, (row,) = captured(front_end, tmp_path, "gcc", "-Os", "-c", "a.c")
    assert (status, row["skip_reason"]) == (0, "")


@needs_gcc
def test_headers_of_clang_and_of_the_build_come_first(front_end, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    for folder in ("sysroot/usr/include", "own"):
        Path(folder).mkdir(parents=True)
        Path(folder, "found.h").write_text(f"int of_{Path(folder).parts[0]};\n")
    Path("sysroot/usr/include/stdint.h").write_text("#error not of clang\n")
    Path("sysroot/usr/include/only.h").write_text("int only;\n")
    Path("a.c").write_text("#ifdef __clang__\n#include <stdint.h>\n#endif\n#include <found.h>\n#include <only.h>\n")
    status, (row,) = captured(front_end, tmp_path, "gcc", "-Os", "-Iown", "--sysroot=sysroot", "-c", "a.c")
    assert (status, row["skip_reason"]) == (0, "")
    assert b"of_own" in row["bitcode"]
    assert b"of_sysroot" not in row["bitcode"]


@needs_gcc
def test_where_a_compiler_looks_depends_on_its_options(tmp_path):
    assert "/usr/include" in header_folders("gcc", "c", (), None)
    assert header_folders("gcc", "c", ("-nostdinc",), None) == ()
    assert not any("c++" in folder for folder in header_folders("g++", "c++", (), None))
    assert header_folders(str(tmp_path / "none"), "c", (), None) == ()


@needs_gcc
def test_only_compilers_of_the_user_are_asked(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    Path("a.c").write_text("int a;\n")
    evil = tmp_path / "gcc"
    evil.write_text(f"#!/bin/sh\ntouch {tmp_path}/canary\n")
    evil.chmod(0o755)
    assert run_build(["gcc", "-c", "a.c"], tmp_path / "captured") == 0
    build = recorded_build(tmp_path / "captured", tmp_path)
    (unit,) = build.units
    foreign = replace(build, units=(replace(unit, compile=replace(unit.compile, program=str(evil))),))
    assert with_system_headers(foreign, is_own) == foreign
    assert not (tmp_path / "canary").exists()
    assert with_system_headers(build, is_own) != build
    assert is_own(f"{evil} -m32", {**os.environ, "CC": f"{evil} -m32"})


def test_debians_python_has_headers_beside_its_own(tmp_path, toolchain, monkeypatch):
    headers = Path("/usr/include", f"python{sys.version_info.major}.{sys.version_info.minor}")
    if headers_beside(headers) is None:
        pytest.skip("needs Debian's headers of this Python")
    monkeypatch.setattr(wheels, "_HEADERS", headers)
    (tmp_path / "a.c").write_text("#include <Python.h>\n")
    command = [*wheels._commands(toolchain.target)["cc"], f"-I{headers}", "-c", "a.c"]
    subprocess.run(command, cwd=tmp_path, check=True, capture_output=True, timeout=60)
