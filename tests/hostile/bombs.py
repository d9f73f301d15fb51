"""Kind J: archives, tables and texts that take much longer to read than to write, or that name themselves."""

import io
import json
import struct
import tarfile
import zipfile
import zlib
from collections.abc import Callable, Iterator
from functools import partial

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from tests.hostile.harness import Input, Outcome, Place, Request, Tables
from tests.hostile.options import build_recipe, capture, evaluate, wrapped

_DEEP = 100_000
_MANY = 30_000


def _pax(size: int) -> bytes:
    """An extended header of zeros, compressed; the block says the size."""
    block = bytearray(tarfile.TarInfo("PaxHeader").tobuf())
    block[124:136] = b"%011o\0" % size
    block[156:157] = b"x"
    block[148:156] = b" " * 8
    block[148:156] = b"%06o\0 " % sum(block)
    packer = zlib.compressobj(1, wbits=31)
    parts = [packer.compress(bytes(block))]
    parts += [packer.compress(bytes(1 << 24)) for _ in range(size >> 24)]
    return b"".join([*parts, packer.flush()])


def _tar(count: int, size: int = 0, kind: bytes = tarfile.REGTYPE) -> bytes:
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode="w:gz", compresslevel=1) as archive:
        for number in range(count):
            info = tarfile.TarInfo(f"p-s0/{number}")
            info.size, info.type, info.linkname = size, kind, "../" * 60
            archive.addfile(info, io.BytesIO(bytes(size)))
    return buffer.getvalue()


def _zip(count: int, size: int) -> bytes:
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w", zipfile.ZIP_DEFLATED, compresslevel=1) as archive:
        for number in range(count):
            archive.writestr(f"p-s0/{number}", bytes(size))
    return buffer.getvalue()


def _ar(count: int, name: bytes, data: bytes = b"") -> bytes:
    header = b"%-16s%-12d%-6d%-6d%-8o%-10d`\n" % (name, 0, 0, 0, 0o644, len(data))
    return b"!<arch>\n" + (header + data + b"\n" * (len(data) % 2)) * count


def _flat_parquet(place: Place, column: str, count: int) -> Request:
    """A table of few bytes on disk and many in memory."""

    def edit(tables: Tables) -> None:
        rows = tables["PROJECT" if column != "options" else "OBJECTS_OF_BUILD"]
        value = {"bitcode": bytes(count), "module": "m" * count, "options": ["-Os"] * (count // 64)}.get(column)
        rows[0][column] = [1] * (count // 8) if value is None else value

    place.project(edit)
    return Request(["mlgo", "corpus", "export", "--project", "p", "-o", place.out / "new", *place.world.config])


def _repeated(place: Place, how: dict[str, object]) -> Request:
    """A table of a few kilobytes in which one value of 64 MB stands 40 times."""
    place.project(lambda tables: None)
    path = place.work / "p/project.parquet"
    row = pq.read_table(path).slice(0, 1)
    at, field = row.schema.get_field_index("bitcode"), row.schema.field("bitcode")
    row = row.set_column(at, field, pa.array([bytes(1 << 26)], field.type))
    pq.write_table(pa.concat_tables([row] * 40), path, compression="zstd", **how)
    return Request(["mlgo", "corpus", "export", "--project", "p", "-o", place.out / "new", *place.world.config])


def _is_refused(place: Place, outcome: Outcome) -> tuple[str, str] | None:
    return None if outcome.status else ("content", "2.6 GB were unpacked")


def _archive(place: Place, name: str, make: Callable[[], bytes]) -> Request:
    place.write(name, make())
    if name.endswith((".a", ".bc", ".o")):
        return capture(place, name, plugins=False)
    return Request(["mlgo", "publish", "--check", name])


def _response(place: Place, files: dict[str, str], form: str) -> Request:
    for name, text in files.items():
        place.write(name, text)
    command = ["cc", "@r", "-c", "a.c", "-o", "a.o"]
    entry = {"directory": str(place.work), "arguments": command, "file": "a.c"}
    if form == "database":
        place.write("compile_commands.json", json.dumps([entry]))
        return capture(place, "compile_commands.json", plugins=False)
    place.write("aquery.json", json.dumps({"actions": [{"arguments": command}] * 20}))
    return capture(place, "aquery.json", plugins=False)


_TEXTS = {
    "brackets": "[" * _DEEP,
    "braces": '{"a":' * _DEEP,
    "closed": "[" * _DEEP + "]" * _DEEP,
    "number": "1" * 1_000_000,
    "exponent": "1e" + "9" * 5000,
    "text": '"' + "a" * 30_000_000 + '"',
    "list": "[" + "0," * 3_000_000 + "0]",
    "keys": "{" + ",".join(f'"k{number}":0' for number in range(300_000)) + "}",
}
_YAML = {
    "laughs": "a0: &a0 [x, x, x, x, x, x, x, x, x]\n"
    + "".join(f"a{n}: &a{n} [{', '.join([f'*a{n - 1}'] * 9)}]\n" for n in range(1, 12))
    + "name: *a11\n",
    "indents": "".join(" " * number + "a:\n" for number in range(3000)),
    "dashes": "- " * _DEEP,
    "questions": "? " * _DEEP,
    "merge": "a: &a {b: 1}\n" + "".join(f"c{n}: &c{n} {{<<: [{', '.join(['*a'] * 100)}]}}\n" for n in range(300)),
    "anchors": "".join(f"a{n}: &b{n} x\n" for n in range(30_000)),
    "self": "a: &a [*a]\nname: *a\n",
    "tag": "!!python/object/apply:os.system ['touch canary.sh.fired']\n",
}


def _read(place: Place, text: str, surface: str) -> Request:
    """A text where JSON or YAML is read."""
    config = place.world.config
    if surface == "recipe":
        return build_recipe(place, text, plugins=False)
    if surface in ("config", "preset"):
        place.write("c.yaml", text)
        named = ["--config", "c.yaml"] if surface == "config" else [*config, "--preset", "c.yaml"]
        return Request(["mlgo", "compile", place.world.folder / "a.bc", *named])
    if surface == "policy":
        place.copy("policy-s0")
        place.write("policy-s0/policy.json", text)
        return Request(["mlgo", "compile", place.world.folder / "a.bc", "--policy", "policy-s0", *config])
    if surface == "card":
        place.copy("policy-s0")
        place.write("policy-s0/card.json", text)
        return Request(["mlgo", "publish", "policy-s0", "-o", place.out / "a.zip", "--version", "1.0.0"])
    name = {"database": "compile_commands.json", "corpus": "corpus_description.json"}[surface]
    place.write(f"c/{name}", text)
    return capture(place, "c", plugins=False)


def _glob(place: Place, pattern: str) -> Request:
    folder = place.work / "src"
    for number in range(9):
        folder = folder / f"d{number}"
    folder.mkdir(parents=True)
    (folder / "up").symlink_to(place.work / "src")
    unit = {"language": "c", "standard": "c11", "sources": [pattern]}
    return build_recipe(place, {"units": [unit]}, plugins=False)


def _policy(place: Place, changes: dict[str, object], weights: int = 1) -> Request:
    place.copy("policy-s0")
    record = json.loads((place.work / "policy-s0/policy.json").read_text())
    place.write("policy-s0/policy.json", json.dumps(record | changes))
    np.save(place.work / "policy-s0/weights.npy", np.zeros(weights, np.float32))
    words = ["mlgo", "compile", place.world.folder / "a.bc", "--policy", "policy-s0", *place.world.config]
    return Request(words)


def _bitcode(place: Place, data: bytes) -> Request:
    place.write("m.bc", data)
    return capture(place, "m.bc", plugins=False)


def _deep_tree(place: Place, depth: int) -> Request:
    (place.work / "t").mkdir()
    where = place.work / "t"
    for _ in range(depth):
        where = where / "d"
    where.mkdir(parents=True)
    return Request(["mlgo", "size-diff", "t", "t"])


def _many_modules(place: Place, count: int) -> Request:
    """A project of many equal names and parts."""

    def edit(tables: Tables) -> None:
        row = tables["PROGRAMS_OF_PROJECT"][0]
        row["parts"] = [{"kind": "object", "modules": ["a.c"]}] * count
        row["libraries"] = ["x"] * count

    place.project(edit)
    return evaluate(place, plugins=False)


def inputs() -> Iterator[Input]:
    """All inputs of kind J."""
    archives: dict[str, Callable[[], bytes]] = {
        "pax.tar.gz": partial(_pax, 1 << 29),
        "members.tar.gz": partial(_tar, 40_000),
        "links.tar.gz": partial(_tar, 20_000, 0, tarfile.SYMTYPE),
        "large.tar.gz": partial(_tar, 4, 1 << 28),
        "members.zip": partial(_zip, 40_000, 0),
        "large.zip": partial(_zip, 1, 1 << 29),
        "equal.a": partial(_ar, _MANY, b"a.o/"),
        "bitcode.a": partial(_ar, _MANY, b"a.bc/", b"BC\xc0\xde" + bytes(16)),
        "objects.a": partial(_ar, 20_000, b"a.o/", b"\x7fELF\x02\x01\x01" + bytes(60)),
        "empty-names.a": partial(_ar, _MANY, b"/"),
        "names.a": partial(_ar, 1, b"//", b"x" * 20_000_000),
        "modules.bc": lambda: (b"BC\xc0\xde" + struct.pack("<2I", 1, 1) + bytes(12)) * 100_000,
        "blocks.bc": lambda: b"BC\xc0\xde" + struct.pack("<2I", 1, 0) * 3_000_000,
        "zeros.bc": lambda: b"BC\xc0\xde" + bytes(50_000_000),
    }
    for name, make in archives.items():
        yield Input("J", "archive", name, partial(_archive, name=name, make=make))
    responses = {
        "self": {"r": "@r\n"},
        "twice": {"r": "@r @r\n"},
        "mutual": {"r": "@s @s\n", "s": "@r @r\n"},
        "chain": {"r": "@r0\n", **{f"r{n}": f"@r{n + 1} @r{n + 1}\n" for n in range(40)}},
        "long": {"r": "-DX=1 " * 500_000},
        "quotes": {"r": "\\" * 1_000_000},
        "many": {"r": " ".join(f"-DX{n}=1" for n in range(10_000))},
        "absolute": {"r": "@/dev/zero\n"},
    }
    for name, files in responses.items():
        for form in ("database", "bazel"):
            yield Input("J", f"response-{form}", name, partial(_response, files=files, form=form))
    for name, text in {**_TEXTS, **_YAML}.items():
        yaml = ("recipe", "config", "preset")
        for surface in yaml if name in _YAML else (*yaml, "policy", "card", "database", "corpus"):
            yield Input("J", f"text-{surface}", name, partial(_read, text=text, surface=surface))
    for pattern in ("**/**/**/**/**/**/*.c", "*" * 2000, "**/" * 200 + "*", "[" * 1000, "{a,b}" * 50, "**/up/**/*.c"):
        name = pattern[:24].replace("/", "_")
        yield Input("J", "glob", f"{name}-{len(pattern)}", partial(_glob, pattern=pattern))
    policies: dict[str, tuple[dict[str, object], int]] = {
        "widths": ({"widths": [38, 10**9, 1]}, 1),
        "layers": ({"widths": [38] + [1] * 100_000}, 1),
        "groups": ({"groups": 10**18}, 1),
        "nodes": ({"format": 3, "nodes": 10**12}, 1),
        "features": ({"features": ["x"] * 1_000_000}, 1),
        "weights": ({}, 50_000_000),
    }
    for name, (changes, weights) in policies.items():
        yield Input("J", "policy", name, partial(_policy, changes=changes, weights=weights))
    bombs = {
        "attached": wrapped(b"BC\xc0\xde" + bytes(16), [], b"\0program\0" + struct.pack("<I", 0xFFFFFFF0)),
        "options": wrapped(b"BC\xc0\xde" + bytes(16), ["-fPIC"] * 1_000_000),
        "nested": wrapped(wrapped(wrapped(b"BC\xc0\xde" + bytes(16), []), []), []),
        "offset": struct.pack("<5I", 0x0B17C0DE, 0, 0xFFFFFF00, 0xFFFFFF00, 0) + bytes(64),
    }
    for name, data in bombs.items():
        yield Input("J", "wrapper", name, partial(_bitcode, data=data))
    for column in ("bitcode", "module", "options", "function_hashes"):
        yield Input("J", "table", column, partial(_flat_parquet, column=column, count=20_000_000))
    for name, how in {"dictionary": {}, "plain": {"use_dictionary": False}, "groups": {"row_group_size": 1}}.items():
        yield Input("J", "table-repeated", name, partial(_repeated, how=how), _is_refused)
    yield Input("J", "folder", "deep", partial(_deep_tree, depth=900))
    yield Input("J", "parts", "many", partial(_many_modules, count=30_000))
