"""Kinds E and F: temporary folders that others have prepared, and children that outlive us or take all memory."""

import os
import shutil
import stat
from collections.abc import Iterator
from functools import partial
from pathlib import Path

from tests.hostile.harness import Input, Outcome, Place, Request
from tests.hostile.options import build_recipe

_FOLDERS = ("mlgo-{uid}", "mlgo-cores-{uid}")
_STRANGE_USER = 12345


def _documents(place: Place) -> Path:
    """A folder of documents, outside of what may be touched."""
    folder = place.root / "outside/documents"
    for name in ("letters/one", "1234-abc/two", "mlgo-cc-abc/three", "plain"):
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text("precious\n")
    return folder


def prepare(path: Path, how: str, documents: Path) -> None:
    """Put something in the place of a folder of ours."""
    if how == "link":
        path.symlink_to(documents)
    elif how == "dangling":
        path.symlink_to(documents.parent / "nothing")
    elif how == "loop":
        path.symlink_to(path.name)
    elif how == "file":
        path.write_text("")
    elif how == "fifo":
        os.mkfifo(path)
    elif how.startswith("inner-"):
        path.mkdir(mode=0o700)
        (path / how.removeprefix("inner-")).symlink_to(documents / "plain")
    else:
        path.mkdir()
        path.chmod({"open": 0o777, "sticky": 0o1777, "group": 0o770}.get(how, 0o700))
        if how == "foreign":
            os.chown(path, _STRANGE_USER, _STRANGE_USER)


_WAYS = ("link", "dangling", "loop", "file", "fifo", "open", "sticky", "group", "foreign")
_INNER = ("inner-owner.lock", "inner-lock", "inner-0.lock", "inner-core-0")


def _temporary(place: Place, folder: str, how: str, variable: str) -> Request:
    documents, where = _documents(place), place.root / ("tmp" if variable == "TMPDIR" else "runtime")
    where.mkdir(exist_ok=True)
    where.chmod(0o700)
    prepare(where / folder.format(uid=os.getuid()), how, documents)
    if variable == "XDG_RUNTIME_DIR":
        os.chmod(where, 0o700)  # noqa: PTH101
    words = ["mlgo", "compile", place.world.folder / "a.bc", "--policy", "never", *place.world.config]
    return Request(words, {variable: str(where)}, may_write=["runtime*"])


def _runtime(place: Place, how: str) -> Request:
    """A variable that names a strange folder."""
    _documents(place)
    path = place.root / "runtime"
    if how not in ("relative", "missing", "empty"):
        prepare(path, how, place.root / "outside/documents")
    named = {"relative": "../outside", "missing": "/nonexistent/run", "empty": ""}.get(how, str(path))
    words = ["mlgo", "compile", place.world.folder / "a.bc", "--policy", "never", *place.world.config]
    return Request(words, {"XDG_RUNTIME_DIR": named}, may_write=["runtime/*"])


def _untouched(folder: str, how: str, place: Place, outcome: Outcome) -> tuple[str, str] | None:
    """What others could write to must not hold anything of ours; and the compile must have gone on or said why."""
    path = place.root / "tmp" / folder.format(uid=os.getuid())
    if how in ("open", "sticky", "group", "foreign") and path.is_dir():
        others = stat.S_IMODE(path.stat().st_mode) & 0o022 or path.stat().st_uid != os.getuid()
        if others and any(path.iterdir()):
            return "outside", f"files in {folder}, which others can write"
    if outcome.status and not outcome.text.startswith("error: "):
        return "control", outcome.text[-300:]
    return None


_BOMBS = {
    "macros": "#define A(x) x x x x x x x x\n#define B(x) A(A(A(A(x))))\nint f(void) { return 0 B(B(B(+ 1))); }\n",
    "include-self": '#include "a.c"\n#include "a.c"\n',
    "include-zero": '#include "/dev/zero"\n',
    "data": "char a[1 << 30] = {1};\nchar b[1 << 30] = {1};\nchar c[1 << 30] = {1};\n",
    "nesting": "int f(void) { return " + "(" * 60_000 + "1" + ")" * 60_000 + "; }\n",
    "blocks": "void f(void) {" + "{" * 60_000 + "}" * 60_000 + "}\n",
    "repeat": '__asm__(".rept 2000000000\\n.quad 1\\n.endr");\n',
    "endless": '__asm__(".rept 100000\\n.rept 100000\\n.quad 1\\n.endr\\n.endr");\n',
    "incbin": '__asm__(".incbin \\"/dev/zero\\"");\n',
}
_BOMBS_CXX = {
    "templates": "template <int N> struct A { A<N + 1> a; A<N + 2> b; };\nA<0> a;\n",
    "constexpr": "constexpr int f(long n) { int s = 0; for (long i = 0; i < n; ++i) s += i & 1; return s; }\n"
    'static_assert(f(1L << 60), "");\nint a;\n',
    "doubling": "template <int N> struct T { static constexpr long v = T<N - 1>::v + T<N - 1>::v; };\n"
    "template <> struct T<0> { static constexpr long v = 1; };\n"
    "template <long... I> struct S {}; S<__integer_pack(1 << 28)...> s;\n",
}


def _source(place: Place, text: str, language: str, kill_after: float | None, surface: str) -> Request:
    """A source that takes all memory or time, in a recipe or as a module."""
    name = "a.c" if language == "c" else "a.cpp"
    place.write(f"src/{name}", text)
    flags = ["-ftemplate-depth=1000000", "-fconstexpr-steps=2147483647"] if language == "c++" else []
    flags += ["-fbracket-depth=1000000"]
    options = {} if kill_after is None else {"kill_after": kill_after}
    if surface == "recipe":
        standard = "c11" if language == "c" else "c++17"
        unit = {"language": language, "standard": standard, "sources": [name], "flags": flags}
        request = build_recipe(place, {"units": [unit]}, plugins=False)
        return Request(request.words, seconds=30.0, options=options)
    words = ["mlgo", "compile", f"src/{name}", *place.world.config, "-o", place.out / "o.o"]
    if surface == "capture":
        command = f'["cc", "-c", "{name}", "-o", "a.o"]'
        entry = f'[{{"directory": "{place.work}/src", "file": "{name}", "arguments": {command}}}]'
        place.write("src/compile_commands.json", entry)
        words = ["mlgo", "capture", "-o", place.out, "--from", "src", *place.world.config]
    return Request(words, seconds=30.0, options=options)


def _stubborn(place: Place, how: str) -> Request:
    """A compiler that leaves a process behind and does not heed signals, named by a person's own configuration."""
    clang = shutil.which("clang-19") or place.world.clang
    script = {
        "group": "(trap '' TERM INT HUP; sleep 61.25) >/dev/null 2>&1 &\n",
        "pipe": "sleep 61.25 &\n",
    }[how]
    program = place.write("clang", f'#!/bin/sh\ncase "$*" in *--version*) ;; *) {script};; esac\nexec {clang} "$@"\n')
    program.chmod(0o755)
    place.copy("a-clang.bc" if place.world.clang else "a.bc", "m.bc")
    return Request(["mlgo", "compile", "m.bc", *place.world.config, "--toolchain", program, "-o", place.out / "o.o"])


def inputs() -> Iterator[Input]:
    """All inputs of kinds E and F."""
    for folder in _FOLDERS:
        for how in (*_WAYS, *(_INNER if "cores" not in folder else _INNER[2:])):
            make = partial(_temporary, folder=folder, how=how, variable="TMPDIR")
            yield Input("E", "temporary", f"{folder[:-6]}-{how}", make, partial(_untouched, folder, how))
    for how in _WAYS:
        for folder in ("mlgo", _FOLDERS[0]):
            make = partial(_temporary, folder=folder, how=how, variable="XDG_RUNTIME_DIR")
            yield Input("E", "runtime-inner", f"{folder[:4]}-{len(folder)}-{how}", make)
        yield Input("E", "runtime", how, partial(_runtime, how=how))
    for how in ("relative", "missing", "empty"):
        yield Input("E", "runtime", how, partial(_runtime, how=how))
    for language, bombs in (("c", _BOMBS), ("c++", _BOMBS_CXX)):
        for name, text in bombs.items():
            for surface in ("recipe", "compile", "capture"):
                make = partial(_source, text=text, language=language, surface=surface)
                yield Input("F", f"bomb-{surface}", name, partial(make, kill_after=None))
                if name in ("macros", "endless", "constexpr", "templates"):
                    yield Input("F", f"killed-{surface}", name, partial(make, kill_after=1.2))
    for how in ("group", "pipe"):
        yield Input("F", "left", how, partial(_stubborn, how=how))
