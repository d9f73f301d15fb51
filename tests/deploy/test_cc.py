"""`mlgo cc` and `mlgo c++` with the real compiler."""

import os
import shutil
import signal
import subprocess
import time
from dataclasses import replace

import numpy as np
import pytest

from mlgo.base.config import default_compile
from mlgo.base.files import read_record, write_record
from mlgo.deploy.drivers import default_policy
from mlgo.evaluate.linked_search import told_apart
from mlgo.host.session import compile_under_advice
from mlgo.policy.policy import Overrides
from mlgo.policy.stored import load_policy, save_policy
from tests.conftest import FLAGS, SAMPLE, begins, processes_naming, wait_for
from tests.deploy.conftest import CALLS, MLGO, Build
from tests.deploy.export.cases import CASES

PARSER = SAMPLE / "json" / "parser.cpp"


@pytest.mark.slow
def test_it_decides_as_the_policy_does(build, sample, toolchain, task):
    expected = compile_under_advice(
        toolchain, task, sample("json/parser.cpp"), load_policy(default_policy()), default_compile()
    )
    run = build.cc(*FLAGS["c++"], "-g0", "-Oz", "-c", PARSER, "-o", "parser.o", tool="c++")
    assert (run.returncode, run.stdout, run.stderr) == (0, "", "")
    (line,) = build.log
    inlined = int(np.count_nonzero(np.frombuffer(expected.answers, np.int64)))
    assert (line["outcome"], line["questions"], line["not_zero"]) == ("advised", expected.num_questions, inlined)
    assert expected.num_questions > 100
    assert (build.folder / "parser.o").stat().st_size > 1000


def test_plain_is_the_compiler_itself_and_needs_no_policy(build, toolchain):
    run = build.cc("-Oz", "-c", "calls.c", "-o", "plain.o", options=["--plain"], MLGO_POLICY="/nowhere")
    assert (run.returncode, run.stderr, build.log[0]["outcome"]) == (0, "", "plain")
    assert build.run(toolchain.binary, "cc", "-Oz", "-c", "calls.c", "-o", "zig.o", "-Xclang", "-Oz").returncode == 0
    plain, own = ((build.folder / f"{name}.o").read_bytes() for name in ("plain", "zig"))
    assert plain == own


@pytest.mark.parametrize(
    ("arguments", "outcome", "reason"),
    [
        (["-O2", "-c", "calls.c"], "plain", "another level"),
        (["-c", "calls.c"], "plain", "another level"),
        (["-Oz", "-E", "calls.c", "-o", "out"], "plain", "compiles nothing"),
        (["-Oz", "-fsyntax-only", "calls.c"], "plain", "compiles nothing"),
        (["--version"], "plain", "compiles nothing"),
        (["-Oz", "-c", "empty.s"], "plain", "compiles nothing"),
        (["-Oz", "-c", "calls.c", "other.c", "-o", "out"], "plain", "several sources"),
        (["-Oz", "-c", "calls.c", "-MJ", "out"], "plain", "would name a temporary folder"),
        (["-Oz", "-c", "calls.c", "--coverage"], "plain", "would name a temporary folder"),
        (["-Oz", "-S", "calls.c"], "advised", ""),
        (["-O2", "-Oz", "-c", "calls.c"], "advised", ""),
        (["-Oz", "-c", "-x", "c", "calls.text"], "advised", ""),
        (["@options"], "advised", ""),
        (["-Oz", "-c", "calls.C"], "advised", ""),
        (["-Oz", "-c", "empty.c"], "advised", ""),
        (["-Oz", "-iprefix", "other.c", "-c", "calls.c"], "advised", ""),
    ],
)
def test_what_is_advised(build, toolchain, arguments, outcome, reason):
    for name in ("calls.text", "calls.C"):
        build.write(name, CALLS)
    for name in ("empty.c", "empty.s", "other.c"):
        build.write(name, "")
    build.write("options", "'-Oz' -c \"calls.c\" -o 'an\\ object.o'\n")
    run, plain = build.cc(*arguments), build.run(toolchain.binary, "cc", *arguments)
    assert (run.returncode, run.stdout) == (plain.returncode, plain.stdout)
    assert run.returncode == 0 or "-fsyntax-only" in arguments  # which zig does not understand
    (line,) = build.log
    assert (line["outcome"], reason in line["reason"]) == (outcome, True)
    assert line["questions"] == (2 if outcome == "advised" and "empty.c" not in arguments else 0)
    warned = [text for text in run.stderr.splitlines() if "mlgo cc: warning" in text]
    assert len(warned) == (1 if "several" in reason or "folder" in reason else 0)


def test_the_standard_input(build):
    command = [MLGO, "cc", "--languages", "c", "--", "-Oz", "-c", "-x", "c", "-", "-o", build.folder / "out.o"]
    run = subprocess.run(command, input=CALLS, text=True, capture_output=True, timeout=60)
    assert (run.returncode, run.stderr.count("mlgo cc: warning")) == (0, 1)
    assert (build.folder / "out.o").stat().st_size > 0


def test_a_source_with_an_error_is_the_compilers_to_refuse(build, toolchain):
    build.write("broken.c", "int f( {\n")
    run, plain = build.cc("-Oz", "-c", "broken.c"), build.run(toolchain.binary, "cc", "-Oz", "-c", "broken.c")
    assert (run.returncode, run.stderr) == (1, plain.stderr)


def test_a_precompiled_header_is_of_the_same_level(build):
    build.write("all.h", CALLS)
    build.write("uses.c", "int more(int x) { return use(x); }")
    assert build.cc("-Oz", "-x", "c-header", "all.h", "-o", "all.h.pch").returncode == 0
    run = build.cc("-Oz", "-include-pch", "all.h.pch", "-c", "uses.c")
    assert (run.returncode, run.stderr, build.log[0]["outcome"]) == (0, "", "advised")


def test_compiling_and_linking_in_one_command(build):
    build.write("calls.c", CALLS + "int main(int n, char **a) { return use(n) != 9; }")  # 3 * 1 + 3 * 2
    assert build.cc("-Oz", "calls.c", "-lm", "-o", "program").returncode == 0
    assert (build.log[0]["outcome"], build.log[0]["questions"] > 0) == ("advised", True)
    assert build.run("./program").returncode == 0


def test_a_policy_of_one_language_leaves_others_to_the_compiler(build):
    policy = load_policy(default_policy())
    save_policy(replace(policy, origin={**policy.origin, "languages": ["c++"]}), build.folder / "cpp")
    for name in ("calls.cc", "calls.text"):
        build.write(name, CALLS)
    plain, advised = ("plain", "the policy leaves this language to the compiler"), ("advised", "")
    for tool, arguments, expected in (
        ("cc", ["calls.c"], plain),
        ("cc", ["calls.cc"], advised),
        ("c++", ["calls.c"], advised),  # which a compiler of C++ takes for C++
        ("c++", ["-x", "c", "calls.text"], plain),
        ("cc", ["-x", "c++", "calls.text"], advised),
    ):
        words, options = ["-Oz", "-c", *arguments, "-o", "out.o"], ["--policy", build.folder / "cpp"]
        run = build.cc(*words, options=options, tool=tool, languages="")
        assert (run.returncode, "mlgo" in run.stderr) == (0, False)
        assert (build.log[0]["outcome"], build.log[0]["reason"]) == expected


@pytest.mark.parametrize(
    ("source", "languages", "outcome"),
    [
        ("calls.c", "", "plain"),
        ("calls.cc", "", "advised"),
        ("calls.c", "c", "advised"),
        ("calls.cc", "c", "plain"),
        ("calls.cc", "c,c++", "advised"),
    ],
)
def test_the_released_policy_is_asked_in_cpp_unless_told_otherwise(build, source, languages, outcome):
    build.write(source, CALLS)
    assert build.cc("-Oz", "-c", source, "-o", "out.o", languages=languages).returncode == 0
    assert build.log[0]["outcome"] == outcome


def test_other_languages_are_refused_with_and_without_a_driver(build, monkeypatch):
    for cache in (build.folder / "new", None):
        if cache is None:
            monkeypatch.undo()
        else:
            monkeypatch.setenv("MLGO_CACHE", str(cache))
        run = build.cc("-Oz", "-c", "calls.c", languages="c,fortran")
        assert (run.returncode, "fortran" in run.stderr) == (2, True)


@pytest.mark.parametrize("name", ["regalloc-evict", pytest.param("regalloc-priority", marks=pytest.mark.slow)])
def test_register_allocation_is_advised_too(build, name):
    policy, *_ = CASES[name]
    save_policy(policy, build.folder / "policy")
    arguments = [*FLAGS["c++"], "-Oz", "-c", PARSER, "-o"]
    for output in ("one.o", "two.o"):
        run = build.cc(*arguments, output, options=["--policy", build.folder / "policy"], tool="c++")
        assert (run.returncode, run.stderr, build.log[0]["outcome"]) == (0, "", "advised")
        assert build.log[0]["questions"] > 20
    assert build.cc(*arguments, "plain.o", options=["--plain"], tool="c++").returncode == 0
    one, two, plain = ((build.folder / f"{name}.o").read_bytes() for name in ("one", "two", "plain"))
    assert one == two != plain


def test_every_level_if_asked(build):
    assert build.cc("-O2", "-c", "calls.c", options=["--any-level"]).returncode == 0
    assert build.log[0]["questions"] == 2


@pytest.mark.parametrize(
    ("profile", "questions"),
    [
        ("use:1000000:1000\n 0: 1000\n", 0),
        ("another:1000000:1000\n 0: 1000\n", 2),  # so `use` was never called
    ],
)
def test_cold_functions_alone(build, profile, questions):
    build.write("app.prof", profile)
    profile = ["-g1", "-fprofile-sample-use=app.prof", "-fprofile-sample-accurate"]
    run = build.cc("-O2", *profile, "-c", "calls.c", options=["--cold"])
    assert (run.returncode, run.stderr) == (0, "")
    assert (build.log[0]["outcome"], build.log[0]["questions"]) == ("advised", questions)


@pytest.mark.parametrize("arguments", [[], ["-fprofile-sample-use=app.prof", "-fno-profile-sample-use"]])
def test_without_a_profile_nothing_is_cold(build, arguments):
    build.write("app.prof", "use:1:1\n 0: 1\n")
    assert build.cc("-O2", *arguments, "-c", "calls.c", options=["--cold"]).returncode == 0
    assert (build.log[0]["outcome"], build.log[0]["reason"][:20]) == ("plain", "it has no profile (-")


@pytest.mark.parametrize("option", ["--whole", "--thin", "--ships=whole"])
def test_cold_and_no_code_in_objects(build, option):
    run = build.cc("-O2", "-c", "calls.c", options=["--cold", option])
    assert (run.returncode, run.stderr[:34]) == (2, "mlgo cc: error: --cold needs objec")


@pytest.mark.slow
def test_the_driver_is_made_anew_when_its_policy_changes(build, cache):
    policy = shutil.copytree(default_policy(), build.folder / "policy")
    arguments = ["-Oz", "-c", "calls.c"]
    assert build.cc(*arguments, options=["--policy", policy]).returncode == 0
    driver = cache / "drivers" / f"folder{MLGO.parent}/@{policy.resolve()}" / "@" / "driver"
    first = driver.read_bytes()
    build.constant_policy("policy", -1.0)
    assert build.cc(*arguments, options=["--policy", "policy"]).returncode == 0
    assert (build.log[0]["questions"], build.log[0]["not_zero"]) == (2, 0)
    assert driver.read_bytes() != first


@pytest.mark.slow
def test_the_driver_of_a_tuned_policy_knows_the_questions_of_its_program(build, front_end, toolchain, settings, task):
    always, never = (
        load_policy(build.constant_policy(name, bias)) for name, bias in (("always", 1.0), ("never", -1.0))
    )
    front_end.compile_to_bitcode(build.folder, "c", [], "calls.c", build.folder / "calls.bc")
    result = compile_under_advice(toolchain, task, build.folder / "calls.bc", always, settings, record=True)
    asked = result.questions()
    features = told_apart(asked.header, never)
    rows = np.unique(asked.header.numbers(asked.observations)[:, [asked.header.index(one) for one in features]], axis=0)
    save_policy(
        replace(never, overrides=Overrides(features, rows, np.ones(len(rows), np.int64))), build.folder / "tuned"
    )
    for name, inlined in (("never", 0), ("tuned", 2)):
        assert build.cc("-Oz", "-c", "calls.c", options=["--policy", name]).returncode == 0
        assert (build.log[0]["questions"], build.log[0]["not_zero"]) == (2, inlined)
    build.write("calls.c", CALLS.replace("* 3", "* 7 + 1"))  # unknown, so the base answers
    assert build.cc("-Oz", "-c", "calls.c", options=["--policy", "tuned"]).returncode == 0
    assert (build.log[0]["questions"], build.log[0]["not_zero"]) == (2, 0)


def test_a_policy_of_the_same_size_and_times_has_a_driver_of_its_own(build, cache):
    for name, value in (("always", 1.0), ("never", -1.0)):
        build.constant_policy(name, value)
    policy = shutil.copytree(build.folder / "always", build.folder / "policy")
    arguments, options = ["-Oz", "-c", "calls.c"], {"options": ["--policy", policy]}
    assert build.cc(*arguments, **options).returncode == 0
    assert (build.log[0]["questions"], build.log[0]["not_zero"]) == (2, 2)
    driver = cache / "drivers" / f"folder{MLGO.parent}/@{policy.resolve()}" / "@" / "driver"
    os.utime(driver, (later := time.time() + 3600, later))  # the clock was wrong
    for name in ("policy.json", "weights.npy"):
        state = (policy / name).stat()
        (policy / name).write_bytes((build.folder / "never" / name).read_bytes())
        assert (policy / name).stat().st_size == state.st_size
        os.utime(policy / name, ns=(state.st_atime_ns, state.st_mtime_ns))
    assert build.cc(*arguments, **options).returncode == 0
    assert (build.log[0]["questions"], build.log[0]["not_zero"]) == (2, 0)
    os.utime(policy / "policy.json")  # its content is the same
    driver.with_name("made_from.json").unlink()
    assert build.cc(*arguments, **options).returncode == 0
    assert not driver.with_name("made_from.json").exists()  # no Python was started


@pytest.mark.parametrize(
    ("options", "environment", "message"),
    [
        (["--policy", "/nowhere"], {}, "/nowhere"),
        (["--policy", "folder"], {}, "folder"),
        (["--policy", "newer"], {}, "another task or LLVM version"),
        ([], {"TMPDIR": "/proc/none"}, "TMPDIR"),
        (["--policy", "other"], {"MLGO_CACHE": "/proc/none"}, "MLGO_CACHE"),
    ],
)
def test_what_is_wrong_is_said_once_and_the_build_goes_on(build, options, environment, message):
    (build.folder / "folder").mkdir()
    (build.folder / "other").symlink_to(default_policy())
    shutil.copytree(default_policy(), build.folder / "newer")
    record = read_record(path := build.folder / "newer" / "policy.json")
    features = [name.replace("callsite_height", "a_feature_to_come") for name in record["features"]]
    write_record(path, {**record, "features": features})
    run = build.cc("-Oz", "-c", "calls.c", "-o", "calls.o", options=options, **environment)
    assert (run.returncode, (build.folder / "calls.o").exists()) == (0, True)
    assert (run.stderr.count("warning"), message in run.stderr) == (1, True)


@pytest.mark.parametrize("options", [["--policy", "/nowhere"], ["--policy=/nowhere"]])
def test_without_a_policy_the_compiler_works_at_the_same_level(build, options):
    assert build.cc("-Oz", "-c", "calls.c", "-o", "one.o", options=options).returncode == 0
    assert build.log[0]["outcome"] == "failed"
    assert build.cc("-Oz", "-c", "calls.c", "-o", "two.o", options=["--plain"]).returncode == 0
    assert (build.folder / "one.o").read_bytes() == (build.folder / "two.o").read_bytes()


def test_modules_of_the_build_are_not_pythons(build, tmp_path_factory):
    """PYTHONPATH is for programs of the build, and the folder may hold any names."""
    for name in ("json.py", "argparse.py"):
        build.write(name, "raise SystemExit('the wrong module')")
    words = ["--languages", "c", "--log", build.folder / "log", "--", "-Oz", "-c", "calls.c"]
    fresh = str(tmp_path_factory.mktemp("fresh"))
    run = build.run(MLGO, "cc", *words, PYTHONPATH=str(build.folder), MLGO_CACHE=fresh)
    assert (run.returncode, run.stderr, build.log[0]["outcome"]) == (0, "", "advised")


@pytest.mark.parametrize(
    ("words", "status", "message"),
    [
        (["--wrong", "--", "-c", "calls.c"], 2, "--wrong"),
        (["-c", "calls.c"], 2, "--"),
        (["--compiler", "no-clang", "--", "-c", "calls.c"], 1, "error: --compiler no-clang is not an executable"),
    ],
)
def test_words_that_cannot_be_understood_are_named(build, words, status, message):
    for _ in range(2):  # with and without a driver
        run = build.run(MLGO, "cc", *words)
        assert (run.returncode, message in run.stderr) == (status, True)


@pytest.fixture
def scripts(tmp_path):
    """The command, with a Python that says what it was told."""
    folder = tmp_path / "bin"
    folder.mkdir()
    says = '#!/bin/sh\necho "$MLGO_DRIVER"\necho "${ZIG_GLOBAL_CACHE_DIR-}"\n'
    for name, text in (("mlgo", MLGO.read_text()), ("python3", says)):
        (folder / name).write_text(text)
        (folder / name).chmod(0o755)
    return folder


@pytest.mark.parametrize(
    ("options", "place"),
    [
        ([], "default{bin}/@"),
        (["--policy", "a policy"], "folder{bin}/@{here}/a policy/@"),
        (["--policy=../work/a policy"], "folder{bin}/@{here}/a policy/@"),
        (["--policy", "tree8-s0"], "installed{bin}/@/tree8-s0/@"),
        (["--compiler", "./clang"], "default{bin}/@{here}/clang"),
        (["--compiler=no-clang"], "default{bin}/@none"),
        (["--", "--policy", "of the compiler"], "default{bin}/@"),
    ],
)
def test_where_a_driver_is_looked_for(tmp_path, scripts, options, place):
    folder = tmp_path / "work"
    (folder / "a policy").mkdir(parents=True)
    (folder / "clang").touch(0o755)
    run = Build(folder).run(scripts / "mlgo", "cc", *options, MLGO_CACHE="cache", MLGO_POLICY="")
    assert run.stdout.split("\n")[0] == "cache/drivers/" + place.format(bin=scripts, here=folder) + "/driver"


def test_of_a_home_that_cannot_be_written_the_caches_are_in_a_folder_of_ours(tmp_path, scripts):
    home = {"HOME": "/dev/null", "XDG_CACHE_HOME": "", "MLGO_CACHE": "", "MLGO_POLICY": "", "ZIG_GLOBAL_CACHE_DIR": ""}
    folder, build = tmp_path / f"mlgo-cache-{os.getuid()}", Build(tmp_path)
    first, second = (build.run(scripts / "mlgo", "c++", TMPDIR=str(tmp_path), **home) for _ in range(2))
    assert first.stdout == second.stdout == f"{folder}/drivers/default{scripts}/@/driver\n{folder}/zig\n"
    assert first.stderr == f"mlgo c++: warning: cannot write /dev/null/.cache; caches go to {folder}\n"
    assert second.stderr == ""
    assert folder.stat().st_mode & 0o777 == 0o700
    folder.rename(tmp_path / "other")
    folder.symlink_to(tmp_path / "other")  # as somebody else could make one
    third = build.run(scripts / "mlgo", "c++", TMPDIR=str(tmp_path), **home)
    assert third.stdout == f"/dev/null/.cache/mlgo/drivers/default{scripts}/@/driver\n\n"


@pytest.mark.slow
def test_many_compiles_at_once_leave_nothing(build):
    for number in range(1000):
        build.write(f"calls{number}.c", CALLS.replace("triple", f"triple{number}").replace("use", f"use{number}"))
    objects = " ".join(f"calls{number}.o" for number in range(1000))
    build.write("Makefile", f"all: {objects}\n%.o: %.c\n\t$(CC) -Oz -c $< -o $@\n")
    log = build.folder / "log"
    run = build.run("make", "-j32", f"CC={MLGO} cc --languages c --log {log} --")
    assert (run.returncode, run.stderr) == (0, "")
    assert [(line["outcome"], line["questions"]) for line in build.log] == [("advised", 2)] * 1000


@pytest.mark.parametrize(
    "number", [signal.SIGKILL, *(pytest.param(one, marks=pytest.mark.slow) for one in (signal.SIGTERM, signal.SIGINT))]
)
def test_killing_make_leaves_nothing(build, number):
    """SIGKILL reaches make alone: what it has started ends by itself, and cleans up."""
    long = "".join(f"static int f{n}(int x) {{ return x * {n} + f{n - 1}(x); }}\n" for n in range(1, 3000))
    build.write("long.c", f"static int f0(int x) {{ return x; }}\n{long}int use(int x) {{ return f2999(x); }}\n")
    build.write("Makefile", "all: a.o b.o\n%.o: long.c\n\t$(CC) -Oz -c long.c -o $@\n")
    command = ["make", "-j2", f"CC={MLGO} cc --languages c --"]
    with subprocess.Popen(command, cwd=build.folder, start_new_session=True, stderr=subprocess.DEVNULL) as make:
        assert begins("channel-base=")
        os.kill(make.pid, number)
        make.wait(60)
    wait_for(lambda: not processes_naming("channel-base="), 60)
