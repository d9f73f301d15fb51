"""What `mlgo cc` leaves behind is what a compiler leaves: its outputs, its status, what it says, and nothing else."""

import os
import shutil
import stat
import subprocess

import pytest

from tests.deploy.conftest import MLGO, Build

MAIN = "int use(int);\nint main(int n, char **a) { return use(n) != 9; }\n"  # 3 * 1 + 3 * 2
CLANG = shutil.which("clang-19") or shutil.which("clang")
with_clang = pytest.mark.skipif(CLANG is None, reason="needs a clang beside that of the ziglang wheel")


def names(build: Build) -> set[str]:
    """What a command has written."""
    return {path.name for path in build.folder.iterdir()} - {"calls.c", "main.c", "log"}


@pytest.mark.parametrize("options", [[], ["--plain"]])
def test_each_of_several_sources_becomes_its_own_object(build, options):
    build.write("main.c", MAIN)
    build.write("words", "-c calls.c")
    assert build.cc("-Oz", "@words", "main.c", options=options).returncode == 0
    assert [(line["outcome"], line["source"]) for line in build.log] == [
        ("plain" if options else "advised", source) for source in ("calls.c", "main.c")
    ]
    assert build.cc("calls.o", "main.o", "-o", "program").returncode == 0
    assert build.run("./program").returncode == 0


def test_a_source_with_an_error_keeps_no_other_from_its_object(build):
    build.write("broken.c", "int f( {\n")
    alone = build.cc("-Oz", "-c", "broken.c", options=["--plain"])
    run = build.cc("-Oz", "-c", "broken.c", "calls.c")
    assert (run.returncode, run.stderr) == (1, alone.stderr)
    assert names(build) == {"broken.c", "calls.o"}


def test_several_sources_are_advised_where_they_are_linked_at_once(build, toolchain):
    build.write("main.c", MAIN)
    arguments = ["-x", "c", "-Oz", "main.c", "calls.c", "-Wl,--gc-sections", "-lm", "-o"]
    run = build.cc(*arguments, "program")
    assert (run.returncode, run.stderr, names(build)) == (0, "", {"program"})
    advised = [(line["outcome"], line["questions"]) for line in build.log]
    assert advised == [("advised", 0), ("advised", 2), ("plain", 0)]
    assert build.run("./program").returncode == 0


@pytest.mark.parametrize("arguments", [["-S"], ["-S", "-emit-llvm"], ["-c"]])
def test_pipes_are_written_through(build, arguments):
    os.mkfifo(build.folder / "pipe")
    dependencies = ["-MD", "-MF", "calls.d"] if "-c" in arguments else []  # zig writes nothing else with them
    command = [MLGO, "cc", "--languages", "c", "--", "-Oz", *arguments, *dependencies, "calls.c", "-o"]
    with subprocess.Popen([*command, "pipe"], cwd=build.folder) as process:
        written = (build.folder / "pipe").read_bytes()
    assert (process.returncode, b"use" in written) == (0, True)
    assert stat.S_ISFIFO((build.folder / "pipe").stat().st_mode)
    assert not dependencies or (build.folder / "calls.d").read_text().startswith("pipe:")
    said = subprocess.run([*command, "-"], cwd=build.folder, capture_output=True, check=True).stdout
    assert said == written
    assert names(build) == {"pipe", *dependencies[2:]}


IN_A_NAMESPACE = """
set -e
D=$(mktemp -d); mount -t tmpfs none "$D"; cp -a /dev/null /dev/zero /dev/urandom "$D"; ln -s /proc/self/fd "$D/fd"
ln -s /proc/self/fd/1 "$D/stdout"; mount --bind "$D" /dev
MLGO=$1; shift
for device in /dev/null /dev/zero link; do
    for words in "-c calls.c" "-S calls.c" "calls.c main.c" "-E calls.c" "calls.o main.o" "bitcode.o main.o"; do
        "$MLGO" cc "$@" -- -Oz $words -o $device
        test -c $device
    done
done
"$MLGO" cc "$@" -- -Oz -S calls.c -o /dev/stdout | grep -q use
test -L /dev/stdout
"""


@pytest.mark.slow
@pytest.mark.parametrize("options", [[], ["--plain"], ["--whole"], ["--thin"]])
def test_devices_stay_devices(build, options):
    """In a mount namespace: a fault would replace the devices of this machine."""
    if subprocess.run(["unshare", "-m", "true"], capture_output=True, check=False).returncode:
        pytest.skip("needs a mount namespace")
    build.write("main.c", MAIN)
    for source, name, whole in (("calls", "calls", []), ("main", "main", []), ("calls", "bitcode", ["--whole"])):
        assert build.cc("-Oz", "-c", f"{source}.c", "-o", f"{name}.o", options=whole).returncode == 0
    (build.folder / "link").symlink_to("/dev/null")
    before = names(build)
    run = build.run("unshare", "-m", "sh", "-c", IN_A_NAMESPACE, "sh", MLGO, "--languages", "c", *options)
    assert run.returncode == 0, run.stderr
    assert names(build) == before


@pytest.mark.slow
@with_clang
@pytest.mark.parametrize(
    ("arguments", "files"),
    [
        (["-fembed-bitcode"], {"calls.o"}),
        (["-MJ", "calls.json"], {"calls.o", "calls.json"}),
        (["-frecord-command-line"], {"calls.o"}),
        (["-g", "-grecord-gcc-switches"], {"calls.o"}),
        (["-g", "-gsplit-dwarf"], {"calls.o", "calls.dwo"}),
        (["--coverage"], {"calls.o", "calls.gcno"}),
        (["-MD"], {"calls.o", "calls.d"}),
        (["-save-temps"], {"calls.o", "calls.i", "calls.bc", "calls.s"}),
        (["-Xclang", "-record-command-line", "-Xclang", "words"], {"calls.o"}),
    ],
)
@pytest.mark.parametrize("compiler", ["", CLANG])
def test_outputs_name_nothing_of_ours(build, arguments, files, compiler):
    options = ["--compiler", compiler] if compiler else []
    kept = []
    for _ in range(2):
        run = build.cc("-Oz", "-c", "calls.c", *arguments, options=options)
        plain = build.cc("-Oz", "-c", "calls.c", *arguments, options=[*options, "--plain"])
        assert run.returncode == plain.returncode
        kept.append({path.name: path.read_bytes() for path in build.folder.iterdir() if path.name in files})
        assert not [name for name, data in kept[-1].items() if b"mlgo-cc" in data or b"channel" in data]
        assert run.stderr.count("mlgo cc: warning") <= 1
    assert not compiler or (run.returncode == 0 and set(kept[0]) == files)
    assert not compiler or kept[0] == kept[1]
