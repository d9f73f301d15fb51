"""`mlgo doctor`: a healthy installation, and what it says about others."""

import json
import os
import re

import pytest

from tests.cargo import NEEDS_CARGO

PACKAGES = {"numpy", "pyarrow", "pydantic", "ziglang", "snakemake", "dvc", "tensorflow", "keras", "scipy"}


@pytest.fixture
def diagnose(mlgo):
    """Exit status, and all checks by name."""

    def go(*arguments, **environment):
        run = mlgo("doctor", "--json", *arguments, **environment)
        assert run.stderr == ""
        report = json.loads(run.stdout)
        assert report["ok"] == all(check["ok"] for check in report["checks"])
        for check in report["checks"]:
            assert set(check) == {"name", "ok", "detail", "remedy"}
            assert bool(check["remedy"]) != check["ok"]
        return run.returncode, {check["name"]: check for check in report["checks"]}

    return go


def broken(checks):
    return [name for name, check in checks.items() if not check["ok"]]


def test_healthy(diagnose):
    status, checks = diagnose()
    assert broken(checks) == []
    assert status == 0
    assert set(checks) > PACKAGES | {"python", "compiler", "channel", "front end", "self-test", "full LTO"}
    assert checks["channel"]["detail"].startswith("39 features")
    assert checks["self-test"]["detail"] == "echoing the default reproduces 8 of 8 objects"
    assert "asks nothing while it optimizes whole programs" in checks["full LTO"]["detail"]


def a_rustc(tmp_path, text):
    """PATH with a rustc that runs a shell text."""
    program = tmp_path / "rustc"
    program.write_text(f"#!/bin/sh\n{text}\n")
    program.chmod(0o755)
    return {"PATH": f"{tmp_path}:{os.environ['PATH']}"}


@NEEDS_CARGO
def test_rustc(diagnose):
    detail = diagnose()[1]["rustc"]["detail"]
    found = re.search(r"reproduces an object \((\d+) questions\).* its ([\d,]+) bytes of text were ([\d,]+)", detail)
    questions, before, after = (int(number.replace(",", "")) for number in found.groups())
    assert questions > 100
    assert after > before


@pytest.mark.parametrize(
    ("text", "detail"),
    [
        (
            "printf 'release: 1.70.0\\nLLVM version: 16.0.5\\n'",
            "rustc 1.70.0 has LLVM 16, the interactive channel came",
        ),
        ("exit 1", "does not say which rustc it is; mlgo cargo cannot use it"),
    ],
)
def test_a_rustc_that_cannot_be_advised_breaks_nothing_else(diagnose, tmp_path, text, detail):
    status, checks = diagnose(**a_rustc(tmp_path, text))
    assert (status, broken(checks)) == (0, [])
    assert detail in checks["rustc"]["detail"]


def test_a_rustc_that_breaks_its_word(diagnose, tmp_path):
    script = """case "$*" in *--version*) printf 'release: 1.95.0\\nLLVM version: 22.1.2\\n'; exit;; esac
for word in "$@"; do last=$word; done; echo > "$last"; exit 3"""
    status, checks = diagnose(**a_rustc(tmp_path, script))
    assert (status, broken(checks)) == (1, ["rustc"])


def test_what_is_no_compiler(diagnose):
    status, checks = diagnose("--toolchain", "/bin/true")
    assert status == 1
    assert broken(checks) == ["compiler"]
    assert "/bin/true" in checks["compiler"]["detail"]
    assert "set toolchain: auto" in checks["compiler"]["remedy"]
    assert "channel" not in checks  # what needs the compiler is left out


def test_a_clang_without_the_channel(diagnose, clang_without_channel):
    status, checks = diagnose("--toolchain", clang_without_channel)
    assert status == 1
    assert broken(checks) == ["channel"]
    assert "Unknown command line argument" in checks["channel"]["detail"]
    assert "set toolchain: auto" in checks["channel"]["remedy"]


def test_a_broken_configuration(diagnose, tmp_path):
    (tmp_path / "config.yaml").write_text("sede: 3\n")
    status, checks = diagnose("--config", tmp_path / "config.yaml")
    assert status == 1
    assert broken(checks) == ["configuration"]
    assert "sede" in checks["configuration"]["detail"]


def test_as_text(mlgo):
    run = mlgo("doctor", "--toolchain", "/bin/true")
    assert run.returncode == 1
    *_, compiler, remedy, summary = run.stdout.splitlines()
    assert compiler.startswith("BROKEN  compiler")
    assert remedy.strip().startswith("-> set toolchain: auto")
    assert summary == "something is broken, see above"
