"""Compiler caches: objects are kept for source, options and content of the policy, and for nothing else."""

import shutil
import socket
from pathlib import Path

import pytest

from tests.deploy.conftest import MLGO
from tests.deploy.publish.conftest import RELEASED

pytestmark = pytest.mark.slow
CLANG = next((path for path in sorted(Path("/usr/lib/ccache").glob("clang-[0-9]*")) if path.exists()), None)


def free_port():
    with socket.socket() as one:
        one.bind(("127.0.0.1", 0))
        return one.getsockname()[1]


@pytest.fixture
def policy(build):
    return shutil.copytree(RELEASED / "marginal-s0", build.folder / "policy")


def questions(build, command, policy, **environment):
    """How many questions a command asks; none where no compiler runs."""
    log = build.folder / "log"
    log.unlink(missing_ok=True)
    (build.folder / "calls.o").unlink(missing_ok=True)
    words = [f"--log={log}", "--languages=c", "--policy", policy, "--", "-Oz", "-c", "calls.c", "-o", "calls.o"]
    run = build.run(*command, *words, CCACHE_DIR=str(build.folder / "kept"), **environment)
    assert (run.returncode, run.stderr, (build.folder / "calls.o").exists()) == (0, "", True)
    return sum(one["questions"] for one in build.log) if log.exists() else 0


def made_by(build, policy, ask):
    """The object of a policy, which a second command takes from the cache."""
    ask(policy)
    assert ask(policy) == 0
    return (build.folder / "calls.o").read_bytes()


def check_keys(build, policy, ask):
    """Of two policies, one of which takes the other's place, each has its own object."""
    other = build.constant_policy("other", -1.0)  # which never inlines
    inlined, called = made_by(build, policy, ask), made_by(build, other, ask)
    assert inlined != called
    assert (ask(policy), (build.folder / "calls.o").read_bytes()) == (0, inlined)
    for name in ("policy.json", "weights.npy"):
        shutil.copy(other / name, policy / name)
    ask(policy)  # makes the driver anew, and ccache keeps nothing meanwhile
    assert (build.folder / "calls.o").read_bytes() == called
    assert made_by(build, policy, ask) == called


@pytest.mark.skipif(shutil.which("ccache") is None, reason="no ccache")
def test_ccache_before_the_command(build, policy):
    for folder in (policy, build.constant_policy("other", -1.0)):  # makes their drivers
        build.run(MLGO, "cc", "--policy", folder, "--", "--version")
    check_keys(build, policy, lambda folder: questions(build, ["ccache", MLGO, "cc"], folder))


@pytest.mark.skipif(CLANG is None, reason="no clang behind ccache")
def test_ccache_behind_the_command(build, policy):
    check_keys(build, policy, lambda folder: questions(build, [MLGO, "cc", "--compiler", CLANG], folder))


@pytest.mark.skipif(shutil.which("sccache") is None, reason="no sccache")
def test_sccache_before_a_script(build, policy):
    """sccache takes a compiler of one word."""
    environment = {"SCCACHE_DIR": str(build.folder / "kept"), "SCCACHE_SERVER_PORT": str(free_port())}
    log, script = build.folder / "log", build.folder / "mlgo-cc"
    script.write_text(f'#!/bin/sh\nexec {MLGO} cc --log={log} --languages=c --policy {policy} -- "$@"\n')
    script.chmod(0o755)

    def ask(folder):
        log.unlink(missing_ok=True)
        run = build.run("sccache", script, "-Oz", "-c", "calls.c", "-o", "calls.o", **environment)
        assert run.returncode == 0
        return sum(one["questions"] for one in build.log) if log.exists() else 0

    try:
        assert [ask(policy), ask(policy)] == [2, 0]
        other = build.constant_policy("other", 1.0)
        for name in ("policy.json", "weights.npy"):
            shutil.copy(other / name, policy / name)
        assert [ask(policy), ask(policy)] == [2, 0]
    finally:
        build.run("sccache", "--stop-server", **environment)
