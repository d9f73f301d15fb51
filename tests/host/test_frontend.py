"""From sources to bitcode."""

import dataclasses

import pytest

from mlgo.errors import CompilerExit, CompilerMemory, CompileTimeout, ConfigError
from mlgo.host.frontend import await_compiler
from mlgo.host.process import Child
from tests.conftest import FLAGS, SAMPLE


def test_bitcode_is_unoptimised(front_end, bitcode, tmp_path):
    module = bitcode("static int f(int x) { return x + 1; } int g(int x) { return f(x); }")
    assert module.read_bytes()[:4] == b"BC\xc0\xde"
    front_end.print_ir(module, tmp_path / "m.ll")
    text = (tmp_path / "m.ll").read_text()
    assert "define internal i32 @f" in text  # nothing inlined, nothing removed
    assert all(word in text for word in ("alloca", "minsize", "optsize"))
    assert not any(word in text for word in ('"frame-pointer"="all"', "optnone", "!dbg", "ubsan"))


def test_the_source_folder_does_not_matter(front_end, tmp_path):
    outputs = []
    for name in ("here", "there/deeper"):
        root = tmp_path / name
        root.mkdir(parents=True)
        (root / "a.h").write_text("static inline const char *where(void) { return __FILE__; }\n")
        (root / "a.c").write_text('#include "a.h"\nconst char *f(void) { return where(); }\n')
        output = tmp_path / f"{len(outputs)}.bc"
        front_end.compile_to_bitcode(root, "c", ["-std=c11", "-I."], "a.c", output)
        outputs.append(output.read_bytes())
    assert outputs[0] == outputs[1]


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("int f(void) { return 1 }\nint g(void) { return unknown; }\n", r"bad\.c:1:.*error: expected ';'"),
        ("#include <no_such_header.h>\n", r"no_such_header\.h"),
        (None, r"bad\.c"),
    ],
    ids=["syntax", "header", "no source"],
)
def test_errors_name_the_place(text, message, front_end, tmp_path, leaves_nothing):
    if text is not None:
        (tmp_path / "bad.c").write_text(text)
    with leaves_nothing(), pytest.raises(CompilerExit, match=message):
        front_end.compile_to_bitcode(tmp_path, "c", [], "bad.c", tmp_path / "bad.bc")


def test_options_that_load_other_code_are_refused(front_end, tmp_path):
    with pytest.raises(ConfigError, match="compiler option -Xclang can make the compiler run or load other code"):
        front_end.compile_to_bitcode(tmp_path, "c", ["-Xclang", "-load"], "a.c", tmp_path / "a.bc")


def test_the_deadline(front_end, tmp_path, leaves_nothing):
    hasty = dataclasses.replace(front_end, settings=front_end.settings.model_copy(update={"compile_timeout_s": 0.001}))
    with leaves_nothing(), pytest.raises(CompileTimeout):
        hasty.compile_to_bitcode(SAMPLE, "c++", FLAGS["c++"], "json/parser.cpp", tmp_path / "o.bc")


def test_printing_what_is_not_bitcode(front_end, tmp_path):
    (tmp_path / "x.bc").write_bytes(b"BC\xc0\xde garbage")
    with pytest.raises(CompilerExit, match="error"):
        front_end.print_ir(tmp_path / "x.bc", tmp_path / "x.ll")


def test_c_library_headers_are_there(front_end, tmp_path):
    (tmp_path / "a.c").write_text('#include <stdio.h>\n#include <pthread.h>\nint f(void) { return puts("x"); }\n')
    front_end.compile_to_bitcode(tmp_path, "c", ["-std=gnu11"], "a.c", tmp_path / "a.bc")
    assert (tmp_path / "a.bc").stat().st_size > 0


@pytest.mark.parametrize(
    ("says", "error"), [("LLVM ERROR: out of memory", CompilerMemory), ("note: still here", CompileTimeout)]
)
def test_a_compiler_that_hangs_without_memory(says, error):
    compiler = Child(["/bin/sh", "-c", f"echo '{says}' >&2; sleep 60"], max_memory_bytes=10**9)
    with pytest.raises(error):
        await_compiler(compiler, 1.0)


def test_macros_that_double_end_at_the_memory_limit(front_end, tmp_path, monkeypatch):
    doubling = "\n".join(f"#define A{i} A{i - 1} A{i - 1}" for i in range(1, 60))
    (tmp_path / "bomb.c").write_text(f"#define A0 1 + 1 +\n{doubling}\nint x = A59 0;\n")
    monkeypatch.setenv("TMPDIR", str(tmp_path))
    tight = dataclasses.replace(front_end, settings=front_end.settings.model_copy(update={"max_memory_gb": 0.3}))
    with pytest.raises(CompilerMemory, match=r"compile\.max_memory_gb \(0\.3\)"):
        tight.compile_to_bitcode(tmp_path, "c", [], "bomb.c", tmp_path / "bomb.bc")
    assert [path.name for path in tmp_path.iterdir()] == ["bomb.c"]  # no report of a crash
