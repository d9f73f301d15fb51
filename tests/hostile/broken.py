"""Kind K: files of other kinds, names that are no text, values of other types, and places that cannot be written."""

import json
import os
import random
import socket
from collections.abc import Callable, Iterator
from functools import partial
from typing import Any

from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st

from tests.hostile.harness import Input, Outcome, Place, Request, Tables
from tests.hostile.options import build_recipe, capture

_FILES = (
    *("fifo", "zero", "random", "full", "socket", "folder", "dangling", "loop", "empty", "junk", "missing"),
    *("unreadable", "bom", "nul", "link", "proc"),
)


def odd_file(place: Place, name: str, kind: str) -> str:
    """A file of an odd kind; gives its name."""
    path = place.work / name
    path.parent.mkdir(parents=True, exist_ok=True)
    if kind == "fifo":
        os.mkfifo(path)
    elif kind == "folder":
        path.mkdir()
    elif kind == "socket":
        before = os.open(".", os.O_RDONLY)
        os.chdir(path.parent)
        with socket.socket(socket.AF_UNIX) as one:
            one.bind(path.name)
        os.fchdir(before)
        os.close(before)
    elif kind in ("zero", "random", "full", "dangling", "loop", "link", "proc"):
        to = {"loop": path.name, "dangling": "nothing", "link": "/etc/passwd", "proc": "/proc/self/mem"}
        path.symlink_to(to.get(kind, f"/dev/{kind if kind != 'random' else 'urandom'}"))
    elif kind != "missing":
        content = {"junk": random.Random(1).randbytes(5000), "bom": b"\xff\xfe{\0}\0", "nul": bytes(4096)}.get(
            kind, b""
        )
        path.write_bytes(content)
        path.chmod(0 if kind == "unreadable" else 0o600)
    return name


_COMMANDS = {
    "capture": "capture -o {out} --from x",
    "capture-a": "capture -o {out} --from x.a",
    "capture-json": "capture -o {out} --from compile_commands.json",
    "compile": "compile x.bc",
    "compile-source": "compile x.c",
    "compile-policy": "compile {world}/a.bc --policy x",
    "evaluate-policy": "evaluate --policy x --project {world}/project --output {out}",
    "evaluate-project": "evaluate --policy {world}/policy-s0 --project x --output {out}",
    "verify": "corpus verify --project x",
    "export": "corpus export --project x -o {out}/new",
    "export-corpus": "corpus export --corpus x -o {out}/new",
    "seen": "corpus seen --project {world}/project --against x",
    "relink": "corpus relink --project x --policy {world}/policy-s0 -o {out}",
    "episode": "replay episode x",
    "stats": "replay stats --work x",
    "merge": "replay merge x",
    "publish": "publish x -o {out}/a.zip --version 1.0.0",
    "check": "publish --check x.tar.zst",
    "check-zip": "publish --check x.zip",
    "size-diff": "size-diff x {world}/src/a.o",
    "import": "import x -o {out}/google-s0",
    "combine": "combine c=x a={world}/policy-s0 -o {out}/combined-s0",
    "config": "config show --config x",
    "preset": "compile {world}/a.bc --preset x",
    "toolchain": "compile {world}/a.bc --toolchain ./x",
    "trained": "evaluate --policy {world}/policy-s0 --project {world}/project --output {out} --trained-on x",
    "report": "report --data x",
}
_INNER = {
    "policy.json": "compile {world}/a.bc --policy policy-s0",
    "weights.npy": "compile {world}/a.bc --policy policy-s0",
    "model.tflite": "compile {world}/a.bc --policy policy-s0",
    "card.json": "publish policy-s0 -o {out}/a.zip --version 1.0.0",
    "parity.json": "publish policy-s0 -o {out}/a.zip --version 1.0.0",
    "README.md": "publish policy-s0 -o {out}/a.zip --version 1.0.0",
}
_NO_CONFIG = ("publish", "replay stats", "replay merge", "size-diff", "combine", "config", "report")


def command(place: Place, text: str, **options: Any) -> Request:
    """A command with names of the place in braces."""
    words = text.format_map({"out": place.out, "world": place.world.folder}).split(" ")
    config = [] if text.startswith(_NO_CONFIG) or "--config" in words else place.world.config
    return Request(["mlgo", *words, *config], may_write=["in/data*"], seconds=15.0, **options)


def _odd(place: Place, text: str, kind: str) -> Request:
    names = (word.rpartition("=")[2].removeprefix("./") for word in text.split())
    odd_file(place, next(name for name in names if name.startswith(("x", "compile_"))), kind)
    return command(place, text)


def _inner(place: Place, file: str, text: str, kind: str) -> Request:
    place.copy("policy-s0")
    (place.work / "policy-s0" / file).unlink(missing_ok=True)
    odd_file(place, f"policy-s0/{file}", kind)
    return command(place, text)


def _table(place: Place, file: str, text: str, kind: str) -> Request:
    place.project(lambda tables: None)
    (place.work / "p" / file).unlink()
    odd_file(place, f"p/{file}", kind)
    return command(place, text)


_PLAIN = "compile {world}/a.bc --policy never"
_STARTS: dict[str, tuple[str, dict[str, Any]]] = {
    "stdout-closed": (_PLAIN, {"options": {"close": (1,)}}),
    "stderr-closed": (_PLAIN, {"options": {"close": (2,)}}),
    "stderr-closed-error": ("compile missing.bc", {"options": {"close": (2,)}}),
    "temporary-lines": (_PLAIN, {"environment": {"TMPDIR": "/tmp\n"}}),
    "addresses": (_PLAIN, {"options": {"addresses": 3 << 30}}),
    "ascii": ("capture -o {out} --from \udcff", {"options": {"encoding": ("ascii", "strict")}}),
    "latin": ("compile \u20ac.c", {"options": {"encoding": ("latin-1", "strict")}}),
    "removed-folder": (_PLAIN, {"options": {"remove_folder": True}}),
    "output-is-file": ("capture -o a.c --from a.c", {}),
    "output-below-file": ("compile {world}/a.bc -o a.c/x.o", {}),
    "output-is-device": ("compile {world}/a.bc -o /dev/full", {}),
    "output-in-proc": ("compile {world}/a.bc -o /proc/x.o", {}),
    "export-on-file": ("corpus export --project {world}/project -o a.c", {}),
    "export-in-proc": ("corpus export --project {world}/project -o /proc/new", {}),
    "publish-on-folder": ("publish {world}/policy-s0 -o {world}/src.zip/a.zip --version 1.0.0", {}),
    "log-in-proc": ("compile {world}/a.bc --log /proc/x", {}),
    "work-in-proc": ("replay stats --work /proc/1/task", {}),
    "home": (_PLAIN, {"environment": {"HOME": "/nonexistent", "TMPDIR": "/nonexistent"}}),
    "path": (_PLAIN, {"environment": {"PATH": ""}}),
    "shared": (_PLAIN, {"environment": {"MLGO_SHARED": "/dev/null/x"}}),
    "shared-export": (
        "corpus export --project {world}/project -o {out}/new",
        {"environment": {"MLGO_SHARED": "/dev/null/x"}},
    ),
    "locale": (_PLAIN, {"environment": {"LANG": "xx", "LC_ALL": "yy"}}),
    "quotes": ("capture -o {out} -- make", {"environment": {"CC": "cc 'x"}}),
    "no-program": ("capture -o {out} -- make", {"environment": {"CC": "/nonexistent"}}),
    "empty-words": ("capture -o {out} -- ", {}),
    "workers": (_PLAIN, {"environment": {"MLGO_WORKERS": "[" * 5000}}),
}


def _start(place: Place, text: str, how: dict[str, Any]) -> Request:
    return command(place, text, **how)


_TEXTS = ["", "\0", "a\0b", "\ud800", "\udcff", "\u202e", "\x1b[31m", "\n", "x" * 300, "x" * 100_000, "../x", "'", '"']
_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.just(10**400) | st.floats() | st.sampled_from(_TEXTS),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from(["a", "", "\0"]), inner, max_size=2),
    max_leaves=4,
)


def drawn(strategy: st.SearchStrategy[Any], count: int) -> list[Any]:
    """Values of a strategy, the same each time."""
    found: list[Any] = []

    @settings(
        max_examples=count, database=None, derandomize=True, phases=[Phase.generate], suppress_health_check=HealthCheck
    )
    @given(strategy)
    def take(value: Any) -> None:
        found.append(value)

    take()
    return found[:count]


def _changed(honest: Any, path: tuple[Any, ...], value: Any) -> Any:
    """A copy of JSON values in which one has been replaced."""
    if not path:
        return value
    copy = honest.copy()
    copy[path[0]] = _changed(honest[path[0]], path[1:], value)
    return copy


_POLICY_KEYS = (
    *("format", "task", "widths", "features", "centre", "scale", "unit", "provenance", "groups", "languages"),
)
_PROVENANCE = ("compile", "seed", "languages", "optimization", "learner", "corpus")


def _policy(place: Place, keys: tuple[str, ...], value: Any, text: str) -> Request:
    place.copy("policy-s0")
    record = json.loads((place.work / "policy-s0/policy.json").read_text())
    for key in ("sha256", "checksum", "record_sha256"):
        record.pop(key, None)
    if len(keys) == 2:
        record.setdefault(keys[0], {})
        record[keys[0]] = {**record[keys[0]], keys[1]: value}
    else:
        record[keys[0]] = value
    place.write("policy-s0/policy.json", json.dumps(record))
    return command(place, text)


_RECIPE: dict[str, Any] = {"name": "x", "license": "MIT", "path": "src"}
_RECIPE["units"] = [{"language": "c", "standard": "c11", "sources": ["a.c"], "defines": {"X": 1}, "flags": ["-Os"]}]
_ENTRY: list[Any] = [{"directory": ".", "file": "a.c", "arguments": ["cc", "-c", "a.c"], "output": "a.o"}]
_CORPUS: dict[str, Any] = {"modules": ["a"], "has_thinlto": False, "global_command_override": ["-cc1"]}
_PATHS: dict[str, tuple[Any, list[tuple[Any, ...]]]] = {
    "recipe": (
        _RECIPE,
        [*((key,) for key in _RECIPE), *(("units", 0, key) for key in _RECIPE["units"][0]), ("units", 0, "flags", 0)],
    ),
    "database": (_ENTRY, [(0,), *((0, key) for key in _ENTRY[0]), (0, "arguments", 0), (0, "arguments", 2)]),
    "corpus": (_CORPUS, [*((key,) for key in _CORPUS), ("modules", 0)]),
}


def _json(place: Place, surface: str, path: tuple[Any, ...], value: Any) -> Request:
    text = json.dumps(_changed(_PATHS[surface][0], path, value))
    if surface == "recipe":
        return build_recipe(place, text, plugins=False)
    if surface == "corpus":
        place.copy("a.bc", "c/a.bc")
    name = {"database": "compile_commands.json", "corpus": "corpus_description.json"}[surface]
    place.write(f"c/{name}", text)
    place.write("c/a.c", "int f(void) { return 1; }\n")
    return capture(place, "c", plugins=False)


_WORDS = (
    *("cc", "c++", "-c", "a.c", "-o", "a.o", "-x", "c", "c++", "none", "-", "@r", "-I", "-D", "-Os", "-O9", "-include"),
    *("-Wl,", "-l", "-L", "cd", "&&", ";", "|", "'", '"', "\\", "ar", "rcs", "--", "env", "x=1", "\0", "\udcff", "-MF"),
)
_LINES = st.lists(st.sampled_from(_WORDS), max_size=9)


def _line(place: Place, words: list[str]) -> Request:
    """A command of a database, put together by a grammar."""
    place.write("r", " ".join(words))
    entry = {"directory": str(place.work), "file": "a.c", "command": " ".join(["cc", *words])}
    place.write("compile_commands.json", json.dumps([entry, {**entry, "command": "cc -c a.c"}]))
    return capture(place, "compile_commands.json", plugins=False)


_SPEAKING = (
    "\x1b]0;owned\x07",
    "\x1b[2Jx",
    "a\nb: 1 modules and 1 programs",
    "\u202etxt.c",
    "\r all is well",
    "\x9b31m",
)


def _speaking(place: Place, name: str, surface: str) -> Request:
    """A name that speaks to the terminal."""
    if surface == "path":
        return command(place, "capture -o {out} --from " + name.replace(" ", "_"))
    if surface == "archive":
        member = name.encode()[:15].ljust(16)
        place.write("x.a", b"!<arch>\n%b%-12d%-6d%-6d%-8o%-10d`\n" % (member, 0, 0, 0, 0o644, 4) + b"BC\xc0\xde")
        return capture(place, "x.a", plugins=False)
    if surface == "project":

        def edit(tables: Tables) -> None:
            tables["PROJECT"][0]["module"] = name

        place.project(edit)
        return command(place, "corpus export --project p -o {out}/new")
    entry = {"directory": str(place.work), "file": f"{name}.c", "arguments": ["cc", "-c", f"{name}.c"]}
    place.write("compile_commands.json", json.dumps([entry]))
    return capture(place, "compile_commands.json", plugins=False)


def _is_quiet(name: str, place: Place, outcome: Outcome) -> tuple[str, str] | None:
    """No control characters, and no line that a name began."""
    found = outcome.text
    if any(letter in found for letter in "\x1b\x07\x9b\r\u202e") or "\nb: 1 modules and" in found:
        return "display", ascii(found.strip()[-200:])
    return None


_NO_NAMES = {"long": "n" * 300, "nul": "a\0b.c", "half": "a\ud800.c", "deep": "d/" * 3000 + "a.c", "file": "a.c/b.c"}


def _no_name(place: Place, name: str, key: str) -> Request:
    """A database with a name that no file has in one entry, and another entry that is well."""
    well = {"directory": str(place.work), "file": "a.c", "arguments": ["cc", "-c", "a.c", "-o", "a.o"]}
    words = {"option": ["cc", "-c", "a.c", f"-I{name}"], "output": ["cc", "-c", "a.c", "-o", name]}
    odd = {**well, "file": name, "arguments": words.get(key, ["cc", "-c", name])}
    odd["directory"] = f"{place.work}/{name}" if key == "directory" else str(place.work)
    place.write("compile_commands.json", json.dumps([odd, well]))
    return capture(place, "compile_commands.json", plugins=False)


def _goes_on(place: Place, outcome: Outcome) -> tuple[str, str] | None:
    """The other entry is captured."""
    return ("control", outcome.text[-300:]) if outcome.status else None


def inputs() -> Iterator[Input]:
    """All inputs of kind K."""
    for name, text in _NO_NAMES.items():
        for key in ("file", "output", "directory", "option"):
            yield Input("K", "no-name", f"{name}-{key}", partial(_no_name, name=text, key=key), _goes_on)
    for number, (name, text) in enumerate(_COMMANDS.items()):
        for place, kind in enumerate(_FILES):
            if (number + place) % 2 == 0 or kind == "fifo":
                yield Input("K", f"file-{name}", kind, partial(_odd, text=text, kind=kind))
    for file, text in _INNER.items():
        for kind in ("fifo", "zero", "folder", "junk", "loop", "empty", "missing"):
            yield Input("K", f"policy-{file}", kind, partial(_inner, file=file, text=text, kind=kind))
    for file in ("project.parquet", "objects.parquet", "programs.parquet"):
        text = (
            "corpus verify --project p" if file.startswith("o") else "evaluate --policy {world}/policy-s0 --project p"
        )
        for kind in ("fifo", "zero", "folder", "junk", "loop", "empty", "missing"):
            yield Input("K", f"table-{file}", kind, partial(_table, file=file, text=text, kind=kind))
    for name, (text, how) in _STARTS.items():
        yield Input("K", "start", name, partial(_start, text=text, how=how))
    values = drawn(_values, 40)
    commands = (_PLAIN.replace("never", "policy-s0"), "publish policy-s0 -o {out}/a.zip --version 1.0.0")
    keys: list[tuple[str, ...]] = [*((key,) for key in _POLICY_KEYS), *(("provenance", key) for key in _PROVENANCE)]
    for number, one in enumerate(keys):
        for place in range(4):
            value = values[(7 * number + 11 * place) % len(values)]
            make: Callable[..., Request] = partial(_policy, keys=one, value=value, text=commands[place % 2])
            yield Input("K", "policy-value", f"{'.'.join(one)}-{place}", make)
    for name, odd in {"factor": {"size_stop_factor": "1e999"}, "level": {"optimization": "@f"}, "list": [1]}.items():
        make = partial(_policy, keys=("provenance", "compile"), value=odd, text=commands[0])
        yield Input("K", "policy-compile", name, make)
    for surface, (_, paths) in _PATHS.items():
        for number, path in enumerate(paths):
            for place in range(4):
                value = values[(5 * number + 9 * place) % len(values)] if place else _TEXTS[(3 * number) % len(_TEXTS)]
                make = partial(_json, surface=surface, path=path, value=value)
                yield Input("K", f"value-{surface}", f"{'.'.join(map(str, path))}-{place}", make)
    for number, words in enumerate(drawn(_LINES, 60)):
        yield Input("K", "command-line", str(number), partial(_line, words=words))
    for number, name in enumerate(_SPEAKING):
        for surface in ("path", "archive", "project", "database"):
            make = partial(_speaking, name=name, surface=surface)
            yield Input("K", f"speaking-{surface}", str(number), make, partial(_is_quiet, name))
