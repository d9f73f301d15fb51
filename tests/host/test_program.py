"""Linking programs with the wheel's own C library, and running them."""

import shutil
import subprocess

import pytest

from mlgo.errors import CompileTimeout, LinkError
from mlgo.host.program import count_run, link_program
from mlgo.host.toolchain import find_linker

TRIPLE = "x86_64-linux-gnu"
HELLO = """
int printf(const char *, ...);
void *malloc(unsigned long);
void free(void *);
void *memcpy(void *, const void *, unsigned long);
int twice(int);
int main(void) {
  char *text = malloc(100);
  memcpy(text, "hello", 6);
  printf("%s %d\\n", text, twice(21));
  free(text);
  return 3;
}
"""
TWICE = 'extern "C" int twice(int x) { return 2 * x; }'
# Each round loads and stores the sum, and nothing else in memory.
LOOP = "volatile long sum; int main(void) { for (long i = 0; i < ROUNDS; ++i) sum += i; return 0; }"


def test_objects_for_gnu_become_a_static_program(compiled, zig_cache, tmp_path, leaves_nothing):
    objects = [compiled(HELLO, "-Oz"), compiled(TWICE, "-Oz", language="c++")]
    first, second = tmp_path / "first", tmp_path / "deeper" / "second"
    with leaves_nothing():
        link_program(find_linker(), objects, first, zig_cache, 250.0, TRIPLE)
    run = subprocess.run([first], capture_output=True, env={}, check=False)
    assert (run.returncode, run.stdout, run.stderr) == (3, b"hello 42\n", b"")
    assert b"ld-linux" not in first.read_bytes()  # no dynamic linker
    link_program(find_linker(), objects, second, zig_cache, 250.0, TRIPLE)
    assert first.read_bytes() == second.read_bytes()


def test_caches_do_not_grow_with_the_programs(compiled, zig_cache, tmp_path):
    def link(number, cache):
        program = tmp_path / "program"
        compiled_main = compiled(f"int main(void) {{ return {number}; }}", "-Oz")
        link_program(find_linker(), [compiled_main], program, cache, 250.0, TRIPLE)
        assert subprocess.run([program], check=False).returncode == number
        return sum(1 for path in cache.rglob("*") if path.is_file())

    link(10, zig_cache)  # builds the C library if it is not there
    own = shutil.copytree(zig_cache, tmp_path / "cache", ignore=shutil.ignore_patterns("tmp"))  # others use the first
    assert link(11, own) == link(12, own) == link(13, own)


def test_a_loop_in_c_counts_by_its_rounds(compiled, zig_cache, valgrind, tmp_path):
    runs = []
    for rounds in (1000, 2000, 4000):
        program = tmp_path / str(rounds)
        loop = compiled(LOOP.replace("ROUNDS", str(rounds)), "-Oz")
        link_program(find_linker(), [loop], program, zig_cache, 250.0, TRIPLE)
        runs.append(count_run(valgrind, program, 60.0))
    first, second, third = runs
    assert second.reads - first.reads == second.writes - first.writes == 1000
    assert third.reads - second.reads == third.writes - second.writes == 2000
    assert 2 * (second.instructions - first.instructions) == third.instructions - second.instructions
    assert first.instructions < 12000  # start-up takes some hundred
    assert count_run(valgrind, program, 60.0) == third


def test_what_the_linker_refuses(compiled, zig_cache, tmp_path, leaves_nothing):
    objects, output = [compiled(HELLO, "-Oz")], tmp_path / "program"
    with leaves_nothing(), pytest.raises(LinkError, match=r"ended with status 1: .*undefined symbol: twice") as caught:
        link_program(find_linker(), objects, output, zig_cache, 250.0, TRIPLE)
    assert str(tmp_path) not in str(caught.value)
    with leaves_nothing(), pytest.raises(CompileTimeout, match="the linker did not end within 0 s"):
        link_program(find_linker(), objects, output, zig_cache, 0.0, TRIPLE)
    assert not output.exists()
