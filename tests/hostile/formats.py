"""Kind K: models, objects, remarks and response trees that are damaged or nested, and odd commands of drivers."""

import base64
import hashlib
import json
import random
import shlex
import struct
import zlib
from collections.abc import Iterator
from functools import partial

from hypothesis import strategies as st

from tests.hostile.broken import drawn, odd_file
from tests.hostile.harness import Input, Place, Request
from tests.hostile.options import capture

_EXTREMES = (bytes(4), b"\xff" * 4, b"\xff\xff\xff\x7f", b"\x01\0\0\0", b"\xff" * 8, b"\0" * 64)
_DEEP = 100_000


def damaged(data: bytes, seed: int, start: int = 0) -> bytes:
    """Data of which some bits or words after its start are others, or that is cut short."""
    draw, changed = random.Random(seed), bytearray(data)
    for _ in range(draw.choice((1, 1, 3, 10))):
        at = draw.randrange(start, len(data))
        if draw.random() < 0.5:
            changed[at] ^= 1 << draw.randrange(8)
        else:
            word = draw.choice(_EXTREMES)[: len(data) - at]
            changed[at : at + len(word)] = word
    return bytes(changed[: draw.randrange(len(data))] if draw.random() < 0.1 else changed)


def _field(number: int, payload: bytes | str) -> bytes:
    """A field of a protocol buffer that has a length."""
    data, length = payload if isinstance(payload, bytes) else payload.encode(), b""
    size = len(data)
    while size > 0x7F:
        length, size = length + bytes((size & 0x7F | 0x80,)), size >> 7
    return bytes((number << 3 | 2,)) + length + bytes((size,)) + data


def _node(operator: str, attributes: bytes = b"") -> bytes:
    return _field(1, "n") + _field(2, operator) + attributes


def saved_model(graph: bytes, collections: bytes = b"") -> bytes:
    """A SavedModel with tag ``serve`` of a graph that is said to decide about inlining."""
    tensor = _field(2, _field(1, "n:0") + b"\x10\x09" + _field(3, b""))
    answers = _field(1, _field(1, "callee_users") + tensor) + _field(2, _field(1, "inlining_decision") + tensor)
    signature = _field(5, _field(1, "action") + _field(2, answers))
    return b"\x08\x01" + _field(2, _field(1, _field(4, "serve")) + _field(2, graph) + collections + signature)


def _nested(depth: int) -> bytes:
    """An attribute whose function has an attribute, and so on."""
    value = b""
    for _ in range(depth):
        value = _field(10, _field(1, "f") + _field(2, _field(1, "a") + _field(2, value)))
    return _field(5, _field(1, "a") + _field(2, value))


_INITIALIZER = _field(4, _field(1, "saved_model_main_op") + _field(2, _field(1, _field(1, "n"))))
_HONEST = saved_model(_field(1, _node("NoOp")))
_SAVED_MODELS = {
    "writes": saved_model(_field(1, _node("WriteFile"))),
    "initializer": saved_model(_field(1, _node("WriteFile")), _INITIALIZER),
    "function": saved_model(_field(2, _field(1, _field(1, _field(1, "f")) + _field(3, _node("WriteFile"))))),
    "unknown": saved_model(_field(1, _node("Evil>\x1b]0;owned\x07"))),
    "deep": saved_model(_field(1, _node("NoOp", _nested(5_000)))),
    "damaged": damaged(_HONEST, 3),
}


def _import(place: Place, model: bytes) -> Request:
    """Import a SavedModel of others."""
    place.write("m/saved_model.pb", model)
    for name in ("variables", "assets"):
        (place.work / "m" / name).mkdir()
    words = ["mlgo", "import", "m", "-o", place.out / "google-s0", *place.world.config]
    return Request(words, may_write=["home/.keras*"], seconds=60.0, options={"addresses": 1 << 45})


_GRAPH = zlib.decompress(
    base64.b85decode(
        r"c-n1KJ#Q015S`eEV;RdBVS)=6E>c7SS$1$5NF*#Lfk<%@1q+GlIN7UcCHsQTmo!O16{SWgDN|CUNQL+T`~-w3_zj2(2`+DT=Pnn+%I`coA8%"
        r")7XKO^%U*CLOp*q#5N);+o5xP7%kO?}X3*OHVeF44#msukG2qL_Qe*TFfj$!|0AP0DZQ1AQKKEo)AvLfFFv_I0m_V?VO8t92}r3|njK4<WcW"
        r"0`y4jYcYP4<;&@U`xOMM$rwMy0$S-TVlV1Cnxefpu4^GYHj!B#`c!mTkCgLJN*u7Et-1su-{7gj<xRw2Y#r>$~^=(XE_V~XW$a}2%G~SfMbb"
        r"!AKAR#0A;c(Po;#Pb@N7>GrBl8GPT70cT8QcA3puoJ{t69q$WptyVzK4HJbl&Fn6obYFnFK^XSt8@CaxEZQu^{z0Hl?dUxMPU7;E_%so|1L@"
        r"CLFxl5w2NsaG-Q#o(!X+Q4wv!vca5?he_Da))d;<?F)Z#-)S^KboQdq!$V$EJ0h!w<>nh3wbSe>PVnZ|SX5$EOJ!&)$v~gqp`w4Z9efC(YCu"
        r"CsXlR8=qtOEo^-M&jaO!DoA2JO~pu#4&U=RZ1<D*;HJm;#<@gu=KVd8?%6d9tu42TPc`u+$G#KC)Hltq{=?5X)ukW5kkgXoSt{bR+m_Pwe#P"
        r"ont^in&ni&"
    )
)
"""Answers whether `callee_users` are more than `caller_users`."""


def _graph(place: Place, seed: int) -> Request:
    """A policy with a damaged graph of TensorFlow Lite, of which it names the hash."""
    graph = place.write("google-s0/model.tflite", damaged(_GRAPH, seed, 8) if seed else _GRAPH)
    hashed = {"graph_sha256": hashlib.sha256(graph.read_bytes()).hexdigest(), "provenance": {}}
    record = {"format": 4, "task": "inline-size", "features": ["callee_users", "caller_users"], **hashed}
    place.write("google-s0/policy.json", json.dumps(record))
    return Request(["mlgo", "compile", place.world.folder / "a.bc", "--policy", "google-s0", *place.world.config])


def _object(place: Place, name: str, seed: int, command: str) -> Request:
    """A damaged object or program where sizes are compared, or bitcode is looked for."""
    data = damaged((place.world.folder / "src" / name).read_bytes(), seed, 24)
    if command == "capture":
        place.write("x.o", data)
        return capture(place, "x.o", plugins=False)
    place.write(f"x/{name}", data)
    place.copy(f"src/{name}", f"y/{name}")
    return Request(["mlgo", "size-diff", "x", "y", "--demangle"])


_REMARK = b"--- !Missed\nPass:            regalloc\nName:            SpillReloadCopies\nFunction:        main\nArgs:\n"
_COST = b"  - NumReloads:      '2'\n  - String:          ' reloads '\n  - TotalReloadsCost: '1.125000e+00'\n...\n"
_CALL = b"--- !Passed\nPass: inline-ml\nName: InliningSuccess\nFunction: f\nArgs:\n  - Callee:          g\n...\n"
_REMARKS = {
    "honest": _REMARK + _COST,
    "calls": _CALL * 3,
    "deep": _REMARK + b"  - x: " + b"[" * _DEEP + b"\n...\n",
    "spaces": b"--- !" + b" " * _DEEP + b"\nName: " + b" " * _DEEP + b"\n",
    "starts": b"--- !" * _DEEP,
    "numbers": _REMARK + b"  - NumReloads: '" + b"9" * _DEEP + b"'\n...\n",
    "infinite": _REMARK + b"  - TotalReloadsCost: '1e999'\n  - NumSpills: 'nan'\n...\n",
    "bytes": _REMARK.replace(b"main", b"\xff\0\xfe") + _COST,
}


def _parsed(place: Place, kind: str, data: bytes) -> Request:
    """Bytes that no command reads by itself, given to their parser."""
    return Request([kind, str(place.write("x", data))], call="read_other")


_LEAVES = (b"[" * _DEEP, b"[[]]", b"[{}]", b"[1]", b'[{"native":1e999}]', b"\xff", b"", b"[" * 90 + b"]" * 90)


def _frame(magic: str, payload: bytes) -> bytes:
    return struct.pack("<4sII", magic.encode(), len(payload), zlib.crc32(payload)) + payload


def _tree(place: Place, how: str, command: str) -> Request:
    """Response trees of others, of which one is odd."""
    key, magic, folder = place.world.call("tree_key")
    (header,) = (
        row["header"] for row in place.world.call("read_rows", str(place.world.folder / "a.episode"), "EPISODE")
    )
    where, name = f"w/replay/{folder}", "0" * 64
    place.write(f"{where}/key.json", json.dumps(key))
    kind, _, number = how.partition("-")
    contexts = {"contexts": b"[" * _DEEP, "names": json.dumps(["x"] * 9).encode()}.get(kind, b'[""]')
    data = _frame(magic, bytes(16) + zlib.compress(header.rstrip(b"\n") + b"\n" + contexts, 0))
    leaves = _LEAVES[int(number)] if kind == "leaf" else b"[[]]"
    count = 2**32 - 1 if kind == "count" else 1
    growth = struct.pack("<II", count, len(leaves)) + leaves + struct.pack("<IqqI", 0, 0, 0, 1) + bytes(8 + 312)
    growth = damaged(growth, int(number)) if kind == "damaged" else growth
    data += _frame(magic, zlib.compress(bytes(1 << 24)) if kind == "bomb" else zlib.compress(growth, 0))
    if kind in ("fifo", "zero", "loop", "folder", "unreadable", "socket"):
        odd_file(place, f"{where}/{name}.tree", kind)
    else:
        place.write(f"{where}/{name}.tree", data)
    words = command.format(out=place.out).split()
    config = place.world.config if "verify" in words else []
    return Request(["mlgo", *words, *config], {"MLGO_SHARED": ""}, may_write=["in/*"])


_DRIVER_WORDS = (
    *(
        "-c",
        "a.c",
        "-o",
        "a.o",
        "x.o",
        "-",
        "@r",
        "@@r",
        "@",
        "@none",
        "@.",
        "@/dev/null",
        "-Oz",
        "-O9",
        "-x",
        "c",
    ),
    *(
        "c++",
        "-I",
        "-D",
        "-D@r",
        "-I@r",
        "@odd.c",
        "-odd.c",
        "a b.c",
        "\udcff.c",
        "n" * 300,
        ".",
        "",
        "-E",
        "-S",
    ),
    *(
        "-MD",
        "-MF",
        "-",
        "-Wl,",
        "-Wl,@r",
        "-l",
        "-L",
        "-flto",
        "-shared",
        "-###",
        "--version",
        "-v",
        "a.a",
        "-Xlinker",
    ),
)
_DRIVER_LINES = st.lists(st.sampled_from(_DRIVER_WORDS), max_size=8)
_RESPONSES = ("-c a.c -o a.o", "@r @r", "'", "\\", '"' * 999, "\xff\xfe", "-DX=1 " * 20_000, "\0", "-Oz\r\n-c\r\na.c")


def _driver(place: Place, tool: str, words: list[str], response: str, log: str) -> Request:
    """A command of a build, by the driver that it starts."""
    place.write("r", response.encode("latin-1"))
    for name in ("@odd.c", "-odd.c", "a b.c"):
        place.write(name, "int odd(void) { return 1; }\n")
    place.write("x.o", (place.world.folder / "src/a.o").read_bytes())
    place.write("a.a", b"!<arch>\n" + bytes(60))
    odd_file(place, "fifo", "fifo")
    options = ["--log", odd_file(place, "log", log)] if log else []
    home = {"HOME": str(place.world.folder / "home")}  # with zig's cache, which the first links take a minute to fill
    seconds = 180.0 if tool == "ld" else 30.0
    return Request(["mlgo", tool, *options, "--", *words], home, may_write=["in/*"], seconds=seconds)


def inputs() -> Iterator[Input]:
    """All inputs of this module."""
    for name, model in _SAVED_MODELS.items():
        yield Input("K", "saved-model", name, partial(_import, model=model))
    for seed in range(20):
        yield Input("K", "graph", str(seed), partial(_graph, seed=seed))
    for seed in range(12):
        for name in ("a.o", "prog"):
            yield Input("K", "object-diff", f"{name}-{seed}", partial(_object, name=name, seed=seed, command="diff"))
        yield Input("K", "object-capture", str(seed), partial(_object, name="a.o", seed=seed, command="capture"))
    for name, data in _REMARKS.items():
        for kind in ("remarks", "calls"):
            yield Input("K", kind, name, partial(_parsed, kind=kind, data=data))
            yield Input("K", kind, f"{name}-damaged", partial(_parsed, kind=kind, data=damaged(data, 1)))
    odd = ["fifo", "zero", "loop", "folder", "unreadable", "count", "bomb", "contexts", "names"]
    odd += [f"leaf-{number}" for number in range(len(_LEAVES))] + [f"damaged-{seed}" for seed in range(6)]
    commands = ("replay stats --work w", "replay export {out}/t.parquet --work w", "replay verify --work w")
    for number, how in enumerate(odd):
        for place in range(2):
            command = commands[(number + place) % len(commands)]
            yield Input("K", "tree", f"{how}-{command.split()[1]}", partial(_tree, how=how, command=command))
    logs = ("", "", "", "fifo", "zero", "folder", "full", "loop")
    for number, words in enumerate(drawn(_DRIVER_LINES, 40)):
        tool = ("cc", "ld")[number % 2]
        response = _RESPONSES[2 + number % (len(_RESPONSES) - 2)]
        make = partial(_driver, tool=tool, words=words, response=response, log=logs[number % len(logs)])
        yield Input("K", f"driver-{tool}", str(number), make)
    for number, response in enumerate(_RESPONSES):
        make = partial(_driver, tool="cc", words=shlex.split("@r -c a.c"), response=response, log=logs[number % 8])
        yield Input("K", "driver-response", str(number), make)
