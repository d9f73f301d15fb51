"""Counting with the real valgrind, on programs whose instructions can be counted by hand."""

import shutil
import subprocess
import tempfile

import pytest

from mlgo.errors import ProgramError, ToolchainError
from mlgo.host.program import count_run, find_valgrind
from mlgo.host.toolchain import find_linker

EXIT = "mov $60, %eax\n xor %edi, %edi\n syscall\n"  # 3 instructions
# 12 instructions, 7 loads and 4 stores in each round. Two of the loads are dead: the value of the first is replaced by
# the third, that of the last (pop) in the next round. addl changes its word in place, which is a load and a store.
LOOP = """
  mov $ROUNDS, %ecx
1:
  mov -8(%rsp), %rax
  mov -8(%rsp), %rbx
  mov -8(%rsp), %rax
  addl $1, -16(%rsp)
  mov %rax, -24(%rsp)
  mov %rbx, -24(%rsp)
  movups -64(%rsp), %xmm0
  cmpl $3, -32(%rsp)
  push %rax
  pop %rax
  dec %ecx
  jnz 1b
"""
# Prints the stack pointer, the words at the start of the stack (number of arguments, their addresses) and argv[0].
LOOK = """
  mov %rsp, -8(%rsp)
  mov $1, %eax
  mov $1, %edi
  lea -8(%rsp), %rsi
  mov $40, %edx
  syscall
  mov $1, %eax
  mov $1, %edi
  mov 8(%rsp), %rsi
  mov $10, %edx
  syscall
"""
FLOOD = "1: mov $1, %eax\n mov $1, %edi\n lea -4096(%rsp), %rsi\n mov $4096, %edx\n syscall\n jmp 1b\n"


@pytest.fixture
def program(toolchain, tmp_path):
    """A program without a C library, of the instructions given."""

    def make(text, folder="."):
        source, output = tmp_path / "program.s", tmp_path / folder / "program"
        output.parent.mkdir(parents=True, exist_ok=True)
        source.write_text(f".globl _start\n_start:\n{text}\n")
        assembled = source.with_suffix(".o")
        subprocess.run([*toolchain.back_end, "-c", source, "-o", assembled], check=True)
        subprocess.run([find_linker(), "ld.lld", assembled, "-o", output], check=True)
        return output

    return make


@pytest.mark.parametrize("rounds", [0, 1, 1000, 2000])
def test_counts_worked_out_by_hand(valgrind, program, rounds, leaves_nothing):
    """Without a round nothing but the end of the program is counted."""
    path = program((LOOP.replace("ROUNDS", str(rounds)) if rounds else "") + EXIT)
    with leaves_nothing():
        run = count_run(valgrind, path, 60.0)
    assert (run.instructions, run.reads, run.writes) == ((rounds > 0) + 12 * rounds + 3, 7 * rounds, 4 * rounds)
    assert (run.stdout, run.exit_status) == (b"", 0)


def test_a_run_sees_nothing_of_where_it_takes_place(valgrind, program, tmp_path, monkeypatch):
    first = count_run(valgrind, program(LOOK + EXIT), 60.0)
    assert len(first.stdout) == 50
    assert first.stdout[8:16] == (1).to_bytes(8, "little")  # no arguments
    assert first.stdout[24:32] == bytes(8)
    assert first.stdout[40:] == b"./program\0"
    elsewhere = tmp_path / "a-much-longer-name-of-a-folder"
    elsewhere.mkdir()
    (elsewhere / ".valgrindrc").write_text("--tool=none\n")
    monkeypatch.chdir(elsewhere)
    monkeypatch.setenv("HOME", str(elsewhere))
    monkeypatch.setenv("VALGRIND_OPTS", "--tool=none")
    monkeypatch.setenv("FURTHER", "x" * 5000)
    monkeypatch.setattr(tempfile, "tempdir", str(elsewhere))
    assert count_run(valgrind, program(LOOK + EXIT, "deeper/and/deeper"), 60.0) == first


def test_the_exit_status_is_told(valgrind, program):
    assert count_run(valgrind, program(EXIT.replace("xor %edi, %edi", "mov $77, %edi")), 60.0).exit_status == 77


@pytest.mark.parametrize(
    ("text", "message", "kind"),
    [
        ("xor %eax, %eax\n mov (%rax), %rax", r"was ended by signal 11 \(SIGSEGV\)", "program"),
        ("ud2", r"was ended by signal 4 \(SIGILL\)", "program"),
        (FLOOD, r"was ended by signal 25 \(SIGXFSZ\)", "program"),
        ("1: jmp 1b", r"did not end within 0\.5 s", "endless"),
    ],
    ids=["segmentation", "illegal", "flood", "endless"],
)
def test_programs_that_crash_or_do_not_end(valgrind, program, text, message, kind, leaves_nothing):
    path = program(text)
    with leaves_nothing(), pytest.raises(ProgramError, match=f"^program {message}$") as caught:
        count_run(valgrind, path, 0.5 if kind == "endless" else 60.0)
    assert caught.value.kind == kind


def test_what_is_not_a_program(valgrind, tmp_path, leaves_nothing):
    (tmp_path / "text").write_bytes(b"\x00\x01hello")
    with leaves_nothing(), pytest.raises(ProgramError, match=r"^valgrind cannot run text: ") as caught:
        count_run(valgrind, tmp_path / "text", 60.0)
    assert "mlgo-" not in str(caught.value)


def test_no_valgrind(monkeypatch, tmp_path):
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(ToolchainError, match=r"install the package valgrind$"):
        find_valgrind()
    shutil.copy("/bin/sh", tmp_path / "valgrind")
    with pytest.raises(ToolchainError, match="--version does not name a valgrind"):
        find_valgrind()
