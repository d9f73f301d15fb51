"""Modules that are programs: compiled, linked, run and counted, with the real compiler, linker and valgrind."""

import pytest

from mlgo.errors import ObjectError, ProgramError, ProgramOutput, ProgramSize, ProgramTimeout, ToolchainError
from mlgo.evaluate import CompileHost
from mlgo.evaluate.worker import CompileJob
from mlgo.host.module_file import Generation, RunnableProgram, generation_of, module_file
from mlgo.host.program import ProgramRunner, count_instructions, count_run, find_valgrind, link_program
from mlgo.host.session import compile_plain, compile_under_advice
from mlgo.host.tasks.task import ConstantAdvisor, get_task
from mlgo.host.toolchain import find_linker

TASK = get_task("inline-speed")
TARGET = "x86_64-linux-gnu"
# Each call that is not inlined costs at least a call and a return.
PROGRAM = """
int puts(const char *);
static volatile int sum;
static int step(int x) { for (int i = 0; i < 3; ++i) sum += x ^ i; return sum; }
static int other(int x) { return step(x) + step(x + 1) + step(x * sum); }
int main(void) { int last = 0; for (int i = 0; i < 1000; ++i) last ^= other(i) ^ step(i);
  puts(last != 123456789 ? "done" : "wrong"); return 0; }
"""


@pytest.fixture
def fast(settings):
    return settings.model_copy(update={"objective": "instructions", "optimization": "-O2"})


@pytest.fixture
def module(bitcode, tmp_path):
    """Makes a module of a text in C, with what its program prints and its bound."""

    def make(text=PROGRAM, stdout=b"done\n", most_text=100_000):
        path = tmp_path / "module.bc"
        path.write_bytes(
            module_file(bitcode(text).read_bytes(), Generation(program=RunnableProgram(stdout, most_text)))
        )
        return path

    return make


@pytest.fixture
def runner(valgrind, zig_cache):
    return ProgramRunner(TARGET, zig_cache, 60.0)


def test_a_module_holds_what_its_program_prints(tmp_path):
    program = RunnableProgram(b"a\0b", 1 << 40)
    (tmp_path / "m").write_bytes(module_file(b"BC\xc0\xde", Generation(("-fPIC",), b"index", program=program)))
    found = generation_of(tmp_path / "m")
    assert (found.options, found.index, found.program) == (("-fPIC",), b"index", program)
    assert set(found.attached) == {"-fthinlto-index="}  # no option of the compiler
    (tmp_path / "m").write_bytes((tmp_path / "m").read_bytes().replace(b"program\0\x0b", b"program\0\x04"))
    with pytest.raises(ObjectError, match="what belongs to the program is cut short"):
        generation_of(tmp_path / "m")


def test_decisions_change_what_is_executed(toolchain, fast, module, runner, zig_cache, tmp_path, leaves_nothing):
    path, compiled = module(), tmp_path / "kept.o"
    with leaves_nothing():
        plain = compile_plain(toolchain, path, fast, object_path=compiled, runner=runner)
    never, always = (
        compile_under_advice(toolchain, TASK, path, ConstantAdvisor(answer), fast, runner=runner) for answer in (0, 1)
    )
    executed = [one.score("instructions") for one in (never, always)]
    assert executed[0] - executed[1] >= 2 * 4 * 1000  # calls and returns
    link_program(find_linker(), [compiled], tmp_path / "program", zig_cache, 250.0, TARGET)
    counted = count_run(find_valgrind(), tmp_path / "program", 60.0)
    assert plain.score("instructions") == counted.instructions  # two tools, one number
    assert count_instructions(find_valgrind(), tmp_path / "program", 60.0, b"done\n") == counted.instructions


def test_what_is_no_program_is_not_run(toolchain, fast, bitcode, runner):
    assert compile_plain(toolchain, bitcode(PROGRAM), fast, runner=runner).scores["instructions"] is None


@pytest.mark.parametrize(
    ("text", "changes", "error", "message"),
    [
        (PROGRAM, {"stdout": b"gone\n"}, ProgramOutput, r"program printed b'done\\n', where b'gone\\n' is right"),
        ("int main(void) { return 3; }", {"stdout": b""}, ProgramOutput, "program ended with status 3"),
        ("int main(void) { __builtin_trap(); }", {}, ProgramError, r"program was ended by signal 4 \(SIGILL\)"),
        ('int main(void) { for (;;) __asm__ volatile(""); }', {}, ProgramTimeout, "did not end within 1 s"),
        (PROGRAM, {"most_text": 50}, ProgramSize, "where 50 are the bound"),
    ],
    ids=["output", "status", "crash", "endless", "size"],
)
def test_programs_that_are_not_right(toolchain, fast, module, zig_cache, valgrind, text, changes, error, message):
    hasty = ProgramRunner(TARGET, zig_cache, 1.0 if error is ProgramTimeout else 60.0)
    with pytest.raises(error, match=message) as caught:
        compile_plain(toolchain, module(text, **changes), fast, runner=hasty)
    assert type(caught.value) is error


def test_a_wrong_program_is_an_outcome_of_its_kind(toolchain, fast, module, valgrind, zig_cache, tmp_path, monkeypatch):
    monkeypatch.setenv("MLGO_SHARED", str(zig_cache.parent))
    path = module(stdout=b"gone\n")
    with CompileHost(toolchain, TASK.name, fast, 1) as host:
        (outcome,) = host.compile_all([CompileJob("p/m", path, None)])
    assert (outcome.result, outcome.failure) == (None, "output")


def test_without_valgrind_nothing_begins(toolchain, fast, monkeypatch, tmp_path):
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(ToolchainError, match="install the package valgrind"):
        CompileHost(toolchain, TASK.name, fast, 1)
