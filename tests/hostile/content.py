"""Kinds G to I: flipped bits, results that are wrong in silence, and tools that say what is not so."""

import hashlib
import json
import os
import random
import shutil
from collections.abc import Iterator
from functools import partial
from typing import Any

from tests.hostile.harness import TABLES, Input, Outcome, Place, Request, Tables
from tests.hostile.options import capture

_FLIPS = 10
"""Bits of each artifact."""


def flip(data: bytes, seed: int) -> bytes:
    """Data with one bit of it changed."""
    place = random.Random(seed).randrange(8 * len(data))
    changed = bytearray(data)
    changed[place // 8] ^= 1 << place % 8
    return bytes(changed)


def _flipped(place: Place, name: str, seed: int, reader: str, arguments: tuple[str, ...]) -> Request:
    """Read an honest artifact of which one bit is another."""
    path = place.copy(name)
    file = path if path.is_file() else path / arguments[0]
    file.write_bytes(flip(file.read_bytes(), seed))
    return Request([str(path), *(arguments if path.is_file() else ())], call=reader)


def _same(name: str, reader: str, arguments: tuple[str, ...], place: Place, outcome: Outcome) -> tuple[str, str] | None:
    """A damaged artifact is refused, or says the same."""
    if outcome.status == 0:
        honest = place.world.folder / name
        expected = place.world.call(reader, str(honest), *(arguments if honest.is_file() else ()))
        if place.world.unpickled(outcome.stdout) != expected:
            return "content", f"a flipped bit in {name} is read as other content"
    return None


def _cached(place: Place, seed: int) -> Request:
    """Bitcode that an earlier run has unpacked, of which one bit is another."""
    place.project(lambda tables: None)
    rows = place.world.tables("project")[0]["PROJECT"]
    for row in rows:
        name = hashlib.sha256(row["bitcode"]).hexdigest()
        place.write(f"shared/bitcode/{name}.bc", flip(row["bitcode"], seed))
    words = ["mlgo", "corpus", "export", "--project", "p", "-o", place.out / "new", *place.world.config]
    return Request(words, {"MLGO_SHARED": str(place.work / "shared")}, may_write=["in/shared*"])


def _cache_heals(place: Place, outcome: Outcome) -> tuple[str, str] | None:
    for row in place.world.tables("project")[0]["PROJECT"]:
        path = place.out / "new" / f"{row['module']}.bc"
        if outcome.status == 0 and path.read_bytes() != row["bitcode"]:
            return "content", f"{path.name} was exported with a flipped bit"
    return None


def _inconsistent(place: Place, column: str, value: Any) -> Request:
    """A table that contradicts itself."""

    def edit(tables: Tables) -> None:
        tables["PROJECT"][0][column] = value

    place.project(edit)
    return Request(["mlgo", "corpus", "export", "--project", "p", "-o", place.out / "new", *place.world.config])


_COMMANDS = {
    "g++ -c a.c": "c++",
    "c++ -c a.c": "c++",
    "clang++ -c a.c": "c++",
    "gcc -x c++ -c a.c": "c++",
    "gcc -xc++ -c a.c": "c++",
    "gcc -c a.cc": "c++",
    "gcc -c a.C": "c++",
    "g++ -x c -c a.c": "c",
    "g++ -x c++ -c a.inc": "c++",
    "gcc -x c -c a.inc": "c",
    "g++ -x none -c a.c": "c++",
    "ccache g++ -c a.c": "c++",
    "x86_64-linux-gnu-g++ -c a.c": "c++",
    "g++-12 -c a.c": "c++",
    "gcc -x c++ -c -x none a.c": "c",
    "clang --driver-mode=g++ -c a.c": "c++",
}


def _language(place: Place, command: str, form: str) -> Request:
    """A source whose language the compiler's name or an option decides."""
    words = command.split()
    source = words[-1]
    (place.work / "a.c").unlink()
    place.write(source, "int f(int x) { return x + 1; }\n")
    if form == "bazel":
        place.write("aquery.json", json.dumps({"actions": [{"arguments": [*words, "-o", "a.o"]}]}))
        return capture(place, "aquery.json", plugins=False)
    entry = {"directory": str(place.work), "file": source, "command": f"{command} -o a.o"}
    place.write("compile_commands.json", json.dumps([entry]))
    return capture(place, "compile_commands.json", plugins=False)


def _compiled_as(language: str, place: Place, outcome: Outcome) -> tuple[str, str] | None:
    """A source is captured in its language, or left out with a reason."""
    if outcome.status:
        return None
    (row,) = place.world.call("read_rows", str(place.out / "project.parquet"), "PROJECT")
    is_cxx = b"_Z1fi" in (row["bitcode"] or b"")
    if not row["skip_reason"] and (row["language"], is_cxx) != (language, language == "c++"):
        return "content", f"captured as {row['language']}, mangled: {is_cxx}"
    return None


def _working_copy(place: Place, damage: str) -> None:
    """A working copy after a run: one module that is known, and one that no table names."""
    checkout = place.world.server.checkout
    for name in ("config", "workflow"):
        shutil.copytree(checkout / name, place.work / name, symlinks=True)
    rows, origin = place.world.tables("project")
    module = rows["PROJECT"][0]
    known = hashlib.sha256(module["bitcode"]).hexdigest()
    place.write(f"data/work/bitcode/{known}.bc", module["bitcode"])
    place.write(f"data/work/bitcode/{'0' * 64}.bc", b"unknown")
    shown = {"project": "p", "module": "a.c", "language": "c", "split": "train", "bitcode_sha256": known}
    place.table("data/corpus/modules.parquet", "MODULES", [shown], splits={"train": ["p"]})
    place.table("data/corpus/programs.parquet", "PROGRAMS_OF_CORPUS", [])
    place.table("data/corpus/projects/p.parquet", "PROJECT", [{**module, "project": "p"}], **origin["PROJECT"])
    path = place.work / "data/corpus/modules.parquet"
    if damage == "flipped":
        path.write_bytes(flip(path.read_bytes(), 1))
    elif damage == "empty":
        path.write_bytes(b"")
    elif damage == "fifo":
        path.unlink()
        os.mkfifo(path)
    elif damage == "link":
        os.replace(path, place.work / "table")  # noqa: PTH105
        path.symlink_to("../../table")


def _tool(place: Place, words: str, damage: str) -> Request:
    _working_copy(place, damage)
    return Request(["mlgo", *words.split()], {"MLGO_SHARED": ""}, may_write=["in/*"], seconds=30.0)


def _is_true(damage: str, place: Place, outcome: Outcome) -> tuple[str, str] | None:
    """A good table is not called bad, and known bitcode is not advised away, nor deleted."""
    known = hashlib.sha256(place.world.tables("project")[0]["PROJECT"][0]["bitcode"]).hexdigest()
    if not (place.work / f"data/work/bitcode/{known}.bc").is_file() or known in outcome.text:
        return "content", "bitcode that the manifest names is called unused"
    if damage in ("", "link"):
        if "BROKEN" in outcome.text or "modules.parquet" in outcome.text:
            return "content", outcome.text.strip()[-300:]
        if not (place.work / "data/corpus/modules.parquet").exists():
            return "content", "a good table was deleted"
    return None


def inputs() -> Iterator[Input]:
    """All inputs of kinds G to I."""
    artifacts: list[tuple[str, str, tuple[str, ...]]] = [
        *((f"project/{file}.parquet", "read_rows", (schema,)) for schema, file in TABLES.items()),
        ("a.episode", "read_rows", ("EPISODE",)),
        ("a.episode", "read_origin", ()),
        *((folder, "read_policy", (name,)) for folder in ("stored-s0", "tree-stored-s0") for name in ("policy.json",)),
        *((folder, "read_policy", (name,)) for folder in ("stored-s0", "tree-stored-s0") for name in ("weights.npy",)),
    ]
    for name, reader, arguments in artifacts:
        label = "-".join([name.rpartition("/")[2], reader, *arguments])
        for seed in range(_FLIPS):
            make = partial(_flipped, name=name, seed=seed, reader=reader, arguments=arguments)
            yield Input("G", "flip", f"{label}-{seed}", make, partial(_same, name, reader, arguments))
    for seed in range(4):
        yield Input("G", "unpacked", str(seed), partial(_cached, seed=seed), _cache_heals)
    for column, value in (
        *(("ir_sha256", one) for one in ("", "g" * 64, "0" * 64)),
        *(("function_hashes", one) for one in ([], [2**64 - 1] * 3, [1] * 100_000)),
        *(("function_sizes", one) for one in ([], [-1, -2], [2**31 - 1] * 2)),
        *(("bitcode", one) for one in (None, b"", b"BC\xc0\xde", b"\0" * 64, b"\xde\xc0\x17\x0b" + b"\xff" * 32)),
        *(("language", one) for one in ("", "rust", "C", "@f")),
        *(("skip_reason", one) for one in ("x", "x: " + "y" * 100_000, "\x1b[2J")),
    ):
        name = f"{column}-{ascii(value)[:16].replace('/', '_')}-{len(str(value))}"
        yield Input("G", "inconsistent", name, partial(_inconsistent, column=column, value=value))
    for command, language in _COMMANDS.items():
        for form in ("database", "bazel"):
            make = partial(_language, command=command, form=form)
            yield Input("H", form, command, make, partial(_compiled_as, language))
    for words in ("doctor", "replay prune --old --dry-run", "replay prune --old", "replay stats", "doctor --json"):
        for damage in ("", "link", "flipped", "empty", "fifo")[: 2 if "json" in words else 5]:
            make = partial(_tool, words=words, damage=damage)
            yield Input("I", words.replace(" ", "-"), damage or "honest", make, partial(_is_true, damage))
