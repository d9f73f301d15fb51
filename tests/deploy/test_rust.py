"""`mlgo rustc` and `mlgo cargo` with the real rustc; they are skipped where none is installed, but not in CI."""

import json
import os
import re
import shutil
import signal
import subprocess
from dataclasses import replace
from pathlib import Path

import pytest

from mlgo.deploy.drivers import default_policy
from mlgo.policy.stored import load_policy, save_policy
from tests.cargo import NEEDS_CARGO, write_package
from tests.conftest import REPOSITORY, WITHIN_S, all_end, begins
from tests.deploy.conftest import MLGO, Build

WRAPPER = REPOSITORY / "bin" / "mlgo-rustc"
pytestmark = NEEDS_CARGO
SQUARES = """
fn square(x: u64) -> u64 { x * x + 1 }
#[inline(never)] pub fn both(x: u64) -> u64 { square(x) ^ square(x + 1) }
fn main() { println!("{}", both(std::env::args().count() as u64)); }
"""
MACROS = """
extern crate proc_macro;
#[proc_macro]
pub fn same(text: proc_macro::TokenStream) -> proc_macro::TokenStream { text }
"""


class Rust(Build):
    """A folder with `SQUARES`."""

    def rustc(self, *arguments: object, options: tuple[object, ...] = ()) -> subprocess.CompletedProcess[str]:
        (self.folder / "log").unlink(missing_ok=True)
        return self.run(MLGO, "rustc", "--log", "log", *options, "--", "rustc", *arguments)

    def cargo(self, *arguments: object, **environment: str) -> subprocess.CompletedProcess[str]:
        (self.folder / "log").unlink(missing_ok=True)
        return self.run(MLGO, "cargo", "--log", "log", *arguments, **environment)


@pytest.fixture
def rust(tmp_path: Path, cache: Path) -> Rust:
    (tmp_path / "squares.rs").write_text(SQUARES)
    return Rust(tmp_path)


@pytest.fixture
def package(rust: Rust) -> Rust:
    """A program with a library that has a build script."""
    write_package(rust.folder)
    return rust


@pytest.mark.parametrize(
    ("arguments", "reason"),
    [
        (["-Copt-level=z"], ""),
        (["-C", "opt_level=s", "-C", "codegen-units=16", "-o", "with space"], ""),
        (["-C", "opt-level=z", "-C", "panic=abort", "--emit=obj,metadata"], ""),
        (["@words"], ""),
        (["-O"], "another level"),
        ([], "another level"),
        (["-Copt-level=z", "--crate-type=proc-macro", "--crate-name=macros", "macros.rs"], "of the build"),
        (["-Copt-level=z", "--crate-name", "build_script_build"], "of the build"),
    ],
)
def test_what_is_compiled_for_size_asks(rust, arguments, reason):
    rust.write("words", "-Copt-level=z\n")
    rust.write("macros.rs", MACROS)
    found = rust.rustc(*arguments, *([] if "macros.rs" in arguments else ["squares.rs"]))
    assert (found.returncode, found.stdout, found.stderr) == (0, "", "")
    (line,) = rust.log
    assert line["outcome"] == ("plain" if reason else "advised")
    assert reason in line["reason"]
    assert (line["questions"] > 10) == (not reason)


@pytest.mark.parametrize(
    ("arguments", "reason"),
    [
        (["-Clto=thin"], 'lto = "thin" asks from many threads'),
        (["-Cincremental=kept"], "incremental build compiles many units"),
        (["-Clinker-plugin-lto", "--emit=obj"], "linker optimizes once more"),
    ],
)
def test_what_cannot_be_advised_is_said(rust, arguments, reason):
    found = rust.rustc("-Copt-level=z", *arguments, "squares.rs")
    assert found.returncode == 0
    (line,) = found.stderr.splitlines()
    assert line.startswith("mlgo rustc: warning: ")
    assert reason in line
    assert rust.log[0]["outcome"] == "plain"


def test_a_policy_of_another_language_is_not_asked(rust):
    policy = load_policy(rust.constant_policy("always", 1.0))
    save_policy(replace(policy, origin={**policy.origin, "languages": ["c++"]}), rust.folder / "cpp")
    found = rust.rustc("-Copt-level=z", "squares.rs", options=("--policy", rust.folder / "cpp"))
    assert found.returncode == 0
    assert (
        found.stderr == "mlgo rustc: warning: the policy was trained for other languages; compiled without the policy\n"
    )
    assert rust.log[0]["outcome"] == "plain"


def test_queries_are_answered_by_rustc_itself(rust):
    for query in (["--version"], ["--print", "sysroot"], ["-Copt-level=z", "--print=file-names", "squares.rs"]):
        assert rust.rustc(*query).stdout == rust.run("rustc", *query).stdout
        assert not (rust.folder / "log").exists()


def test_its_version_names_the_policy(rust):
    plain = rust.run("rustc", "-vV").stdout
    names = {
        rust.rustc("-vV", options=options).stdout.removeprefix(plain)
        for options in ((), ("--plain",), ("--any-level",), ("--policy", rust.constant_policy("never", -1.0)))
    }
    assert len(names) == 4
    assert all(re.fullmatch(r"mlgo: .*, one unit\n", name) for name in names)


def test_the_policy_decides(rust):
    """One that never inlines leaves calls that the heuristic inlines, and what runs says the same."""
    texts = {}
    for logit in (-1.0, 1.0):
        policy = rust.constant_policy(f"policy{logit}", logit)
        program = rust.folder / f"out{logit}"
        assert rust.rustc("-Copt-level=z", "squares.rs", "-o", program, options=("--policy", policy)).returncode == 0
        (line,) = rust.log
        assert line["not_zero"] == (line["questions"] if logit > 0 else 0)
        texts[logit] = rust.run(program).stdout
    assert set(texts.values()) == {"7\n"}


def test_the_same_command_gives_the_same_bytes(rust):
    """Options of LLVM count in a crate's hash, so the name of the channel must not change."""
    made = []
    for _ in range(2):
        assert rust.rustc("-Copt-level=z", "--crate-type=rlib", "squares.rs", "-o", "squares.rlib").returncode == 0
        made.append((rust.folder / "squares.rlib").read_bytes())
    assert made[0] == made[1]


def test_an_error_of_the_source_is_said_once(rust):
    rust.write("broken.rs", 'fn main() { let x: u32 = "a"; }\n')
    found, plain = rust.rustc("-Copt-level=z", "broken.rs"), rust.run("rustc", "broken.rs")
    assert (found.returncode, found.stderr) == (plain.returncode, plain.stderr)
    assert rust.run(MLGO, "rustc", "--", "/nowhere/rustc", "x.rs").returncode == 127


@pytest.mark.parametrize("artifact", ["", 'echo \'{"$message_type":"artifact","emit":"metadata"}\' >&2; '])
def test_a_crate_that_fails_under_advice_is_compiled_without(rust, script, artifact):
    advised = f'case "$*" in *llvm-args*) {artifact}echo \'{{"$message_type":"x"}}\' >&2; exit 101;; esac\n'
    fake = script(f'{advised}{artifact}echo done; exit "${{STATUS-0}}"')
    command = [MLGO, "rustc", "--log", "log", "--", fake, "-Copt-level=z", "x.rs"]
    found = rust.run(*command)
    assert (found.returncode, found.stdout) == (0, "done\n")
    assert found.stderr.count("mlgo rustc: warning: the compiler failed while it was advised") == 1
    assert found.stderr.count("artifact") == bool(artifact)  # cargo must not hear of it twice
    assert rust.log[0]["outcome"] == "failed"
    assert rust.run(*command, STATUS="5").returncode == 5


def test_a_pipe_in_the_place_of_arguments_is_not_waited_for(rust):
    os.mkfifo(rust.folder / "pipe")
    assert rust.run(MLGO, "rustc", "--", "/bin/true", "@pipe").returncode == 0


def test_cargo(package):
    found = package.cargo("build", "--release")
    assert found.returncode == 0, found.stderr
    assert {line["source"]: line["outcome"] for line in package.log} == {
        "build_script_build": "plain",
        "words": "advised",
        "app": "advised",
    }
    asked = sum(line["questions"] for line in package.log)
    assert f"mlgo cargo: 2 crates under the policy, {asked:,} questions; 1 not: it is of the build" in found.stderr
    assert package.run("target/release/app", "b", "a", "b").stdout == "a 1\nb 2\n"
    tested = package.cargo("test", "--release")
    assert "1 passed" in tested.stdout
    assert package.log[-1]["outcome"] == "advised"


def compiled(said: str) -> set[str]:
    return set(re.findall(r"Compiling (\w+)", said))


def test_other_weights_compile_again_and_the_same_do_not(package):
    policy = package.folder / "policy"
    shutil.copytree(default_policy(), policy)
    build = ["--policy", policy, "build", "--release"]
    assert compiled(package.cargo(*build).stderr) == {"app", "words"}
    assert compiled(package.cargo(*build).stderr) == set()
    package.constant_policy("policy", -1.0)  # at the same path
    assert compiled(package.cargo(*build).stderr) == {"app", "words"}
    assert compiled(package.cargo(*build).stderr) == set()
    plain = package.cargo("--plain", "build", "--release").stderr
    assert compiled(plain) == {"app", "words"}
    assert "opt-level" not in plain


def test_the_wrapper_takes_its_options_from_the_environment(package):
    options = {"RUSTC_WRAPPER": str(WRAPPER), "MLGO_LOG": str(package.folder / "log")}
    assert package.run("cargo", "build", "--release", **options).returncode == 0
    assert {line["outcome"] for line in package.log} == {"advised", "plain"}
    (package.folder / "log").unlink()
    options |= {"MLGO_PLAIN": "1", "CARGO_CACHE_RUSTC_INFO": "0"}
    assert package.run("cargo", "build", "--release", **options).returncode == 0
    assert {line["outcome"] for line in package.log} == {"plain"}


def test_a_build_for_speed_is_said(package):
    text = (package.folder / "Cargo.toml").read_text()
    package.write("Cargo.toml", text.replace('"z"', "3"))
    found = package.cargo("build", "--release")
    assert 'set opt-level = "z" in [profile.release], or give --any-level' in found.stderr
    found = package.cargo("--any-level", "build", "--release")
    assert "2 crates under the policy" in found.stderr


def test_another_wrapper_is_refused(package):
    found = package.cargo("build", RUSTC_WRAPPER="sccache")
    assert (found.returncode, found.stdout) == (1, "")
    assert found.stderr.startswith("error: RUSTC_WRAPPER is set")


def test_sccache_is_refused(rust, tmp_path, script):
    """It would keep an object under a name that does not say which policy made it."""
    shutil.copy("/bin/sh", tmp_path / "sccache")
    command = f"'{MLGO}' rustc --log log -- rustc -Copt-level=z squares.rs; exit $?"
    found = rust.run(tmp_path / "sccache", "-c", command)
    assert found.returncode == 0
    assert "sccache does not know of the policy" in found.stderr
    assert rust.log[0]["outcome"] == "plain"


def test_a_cargo_that_is_killed_leaves_no_compiler(rust, script):
    fake = script("case $* in *llvm-args*) sleep 977.31;; esac")
    process = subprocess.Popen([MLGO, "rustc", "--", fake, "-Copt-level=z", "x.rs"], cwd=rust.folder)
    assert begins("977.31")
    process.send_signal(signal.SIGKILL)
    process.wait(WITHIN_S)
    assert all_end("977.31")


def test_records_of_a_log_before_are_not_counted(package):
    line = {"source": "x", "outcome": "advised", "reason": "", "questions": 1000, "not_zero": 0, "seconds": 1.0}
    (package.folder / "log").write_text(json.dumps(line) + "\n")
    found = package.run(MLGO, "cargo", "--log", "log", "build", "--release")
    assert "2 crates under the policy" in found.stderr
