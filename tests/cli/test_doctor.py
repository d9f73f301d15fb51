"""`mlgo doctor`: a healthy installation, and what it says about others."""

import json

import pytest

PACKAGES = {"numpy", "pyarrow", "pydantic", "ziglang", "snakemake", "dvc", "tensorflow", "keras"}
PACKAGES |= {"scipy", "scikit-learn"}


@pytest.fixture
def diagnose(mlgo):
    """Exit status, and all checks by name."""

    def go(*arguments):
        run = mlgo("doctor", "--json", *arguments)
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
