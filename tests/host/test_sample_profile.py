"""Profiles of a program whose counts are known: from 27, 41 odd and 70 even numbers lead to 1 (Collatz)."""

import itertools
import re
import subprocess

import pytest

from mlgo.errors import ObjectError
from mlgo.host import sample_profile
from mlgo.host.toolchain import zig_environment
from mlgo.objects.elf import function_symbols
from mlgo.objects.lines import Frame, discriminator_and_copies, find_frames

SOURCE = """\
volatile unsigned start = 27, evens;

static void halve(volatile unsigned *s)
{
  evens = evens + 1;
  *s = *s / 2;
}

__attribute__((noinline)) unsigned steps(volatile unsigned *s)
{
  unsigned n = 0;
  while (*s > 1) {
    if (*s & 1)
      *s = 3 * *s + 1;
    else
      halve(s);
    n++;
  }
  return n;
}

__attribute__((noinline)) unsigned never(unsigned s) { return 2 * s; }

void _start(void)
{
  long status = steps(&start) == 111 ? 0 : never(3);
  __asm__ volatile("syscall" : : "a"(60), "D"(status));
}
"""
WITH_LINES = ["-g1", "-fdebug-info-for-profiling", "-fno-sanitize=all", "-fno-stack-protector"]


@pytest.fixture
def build(tmp_path, toolchain, zig_cache):
    """Compile the program, or what else is asked of its source."""

    def run(*options, without=(), source=SOURCE):
        (tmp_path / "a.c").write_text(source)
        command = [*toolchain.driver("c"), *options, *WITH_LINES, *without, "a.c", "-o", "out"]
        subprocess.run(command, cwd=tmp_path, env=zig_environment(zig_cache), check=True, timeout=300)
        return tmp_path / "out"

    return run


def frames_of(program):
    """Frames of every address of a function."""
    data = program.read_bytes()
    places = [(one.value, one.value + one.size) for one in function_symbols(data)]
    return set(find_frames(data, {address for start, end in places for address in range(start, end)}).values())


def test_frames_of_an_unoptimized_program(build):
    found = frames_of(build("-O0", "-static", "-nostdlib"))
    assert {len(frames) for frames in found} == {1}
    lines = {(frame.function, frame.line) for (frame,) in found}
    assert {("halve", 1), ("halve", 2), ("steps", 2), ("steps", 8), ("never", 0), ("_start", 2)} < lines


def test_frames_of_inlined_calls(build):
    found = frames_of(build("-O2", "-static", "-nostdlib"))
    inlined = {frames for frames in found if len(frames) == 2}
    assert inlined == {(Frame("steps", 7, 0), Frame("halve", line, 0)) for line in (2, 3)}


def test_without_debug_information_nothing_is_known(build):
    program = build("-O2", "-static", "-nostdlib", without=("-g0", "-s"))
    assert find_frames(program.read_bytes(), range(0x1000000, 0x1002000)) == {}


@pytest.mark.parametrize("keep", [0, 10, 100])
def test_a_damaged_file(build, keep):
    data = build("-O2", "-static", "-nostdlib").read_bytes()[:keep]
    with pytest.raises(ObjectError, match="debug information cannot be read"):
        find_frames(data, [1])


@pytest.mark.parametrize(
    ("stored", "base", "copies"),
    [
        *[(0, 0, 1), (2, 1, 1), (62, 31, 1), (192, 32, 1), (194, 33, 1), (1, 0, 1), (3, 0, 1)],
        *[(0b1000_1, 0, 4), (0b1000_0000010, 1, 4), (0b1000_0000001_1000010, 33, 4), (0b11000000_1, 0, 32)],
    ],
)
def test_discriminators(stored, base, copies):
    # llvm/IR/DebugInfoMetadata.h: one bit says none, then five bits, or twelve around a bit that says so
    assert discriminator_and_copies(stored) == (base, copies)


COUNTS = """\
ob=/somewhere/app
fl=a.c
fn=main
0x1010 3 7
cob=/lib/libc.so
cfn=puts'2
calls=5 0x2000 0
0x1014 4 900
0x1014 4 5

ob=/lib/libc.so
fn=puts
0x2000 0 5
totals: 17
"""


def test_counts_of_callgrind():
    found = sample_profile.defaultdict(sample_profile.Counts)
    for _ in range(2):  # as two processes wrote
        sample_profile.read_counts(COUNTS.splitlines(), found)
    app, libc = found.values()
    assert app.executed == {0x1010: 14, 0x1014: 10}
    assert app.calls == {0x1014: {"puts": 10}}
    assert (libc.executed, libc.calls) == ({0x2000: 10}, {})


def profile_of(program, valgrind):
    status, counts = sample_profile.run_counted(valgrind, [str(program)])
    assert status == 0
    return sample_profile.profile_text(sample_profile.sample_functions(counts))


def test_the_profile_of_an_unoptimized_program(build, valgrind):
    lines = profile_of(build("-O0", "-static", "-nostdlib"), valgrind).splitlines()
    steps = next(i for i, line in enumerate(lines) if line.startswith("steps:"))
    assert lines[steps].endswith(":1")
    by_line = dict(line.split(": ") for line in itertools.takewhile(lambda line: line[0] == " ", lines[steps + 1 :]))
    assert by_line == {
        **{" 1": "1", " 2": "1", " 3.1": "112", " 3.2": "111"},  # the condition, and the jump back to it
        **{" 4": "111", " 5": "41", " 7": "70 halve:70", " 8": "111", " 10": "1"},
    }
    assert any(line.startswith("halve:") and line.endswith(":70") for line in lines)


def test_a_vectorized_loop_counts_what_it_stands_for(build, valgrind):
    source = """
static float x[1003], y[1003];
__attribute__((noinline)) static void add(int n)
{
  for (int i = 0; i < n; i++)
    x[i] += y[i] * 3;
}
void _start(void)
{
  add(1003);
  __asm__ volatile("syscall" : : "a"(60), "D"(0));
}
"""
    text = profile_of(build("-O2", "-mcpu=baseline", "-static", "-nostdlib", source=source), valgrind)
    assert int(re.search(r"\n 3: (\d+)\n", text)[1]) == pytest.approx(1003, rel=0.01)  # by rounds of eight


def test_the_compiler_takes_the_profile(build, valgrind, tmp_path):
    text = profile_of(build("-O2", "-static", "-nostdlib"), valgrind)
    assert "\n 7: halve:140\n  2: 70\n  3: 70\n" in text
    (tmp_path / "app.prof").write_text(text)
    ir = build("-O2", "-S", "-emit-llvm", "-fprofile-sample-use=app.prof", "-fprofile-sample-accurate").read_text()
    counts = [line.split("i64 ")[1].rstrip("}") for line in ir.splitlines() if '"function_entry_count"' in line]
    assert "0" in counts  # of what never ran
