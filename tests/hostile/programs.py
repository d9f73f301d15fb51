"""Kinds B to D: programs that others name, names that lead elsewhere, and folders that are not ours to delete."""

import json
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import Any

from tests.hostile.harness import Input, Outcome, Place, Request, Tables
from tests.hostile.options import build_recipe, cmake_reply, evaluate

_PROGRAMS = """{sh}|{work}/canary.sh|sh {sh}|env {sh}|/bin/sh -c {sh}|./canary.sh|../in/canary.sh
make -f {work}/Makefile
cc -B{work}/|cc -wrapper {sh}|cc -fuse-ld={sh}|cc --ld-path={sh}|cc @g|cc -specs={work}/spec|{clang} -fplugin={so}
cc -Wl,--plugin={so}|cc -Wl,-Map={out}|cc -Wl,--reproduce={out}|cc -o {out}|cc -Wl,-o,{out}|cc -Xlinker -Map={out}
cc -Wl,-T,{work}/script|python3 -c open('{out}','w')|cc -save-temps -dumpdir {root}/outside/fired
cc -Wl,--dependency-file={out}|ld -o {out}|cc -Wl,@{work}/l|cc -flto -Wl,-plugin-opt=-pass-through={sh}""".replace(
    "\n", "|"
)
_NAMES = (
    *("../../outside/fired", "{root}/outside/fired", "..", "a/../../../outside/fired", "./../../outside/fired", "."),
    *("link/fired", "a\0b", "n" * 300, "x\n../../outside/fired", "/", "", "//outside", "..\\..\\fired", "~/fired"),
    *("a/" * 200 + "b", "fired/../../../outside/fired", "%2e%2e/fired", "\x1b[2Jx", "con\ud800"),
)
_MINE = (
    *("mine", "parts/a.parquet", "replay/mine", "bitcode/mine.bc", "checkpoints/mine"),
    *(f"{name}/mine" for name in ("tools", "parts", "records", "modules", "projects", "linked")),
)
"""Files of a person."""
_SPEC = "*link:\n%:sanitize(address) -plugin {so}\n\n*cc1:\n+ -fplugin={so}\n"


def _relink(place: Place, words: str, tool: str, environment: dict[str, str]) -> Request:
    """A foreign captured folder whose record of the link names a program."""
    place.project(lambda tables: None)
    names = {"so": place.plugin, "sh": place.program, "out": place.forbidden, "work": place.work, "root": place.root}
    program = words.format_map({**names, "clang": place.world.clang or "clang"})
    for name, text in {
        "g": "-fplugin={so}\n",
        "spec": _SPEC,
        "l": "-Map={out}\n",
        "Makefile": "all:\n\t{sh}\n",
    }.items():
        place.write(name, text.format_map(names))
    place.write("script", f'SECTIONS {{}}\nOUTPUT("{place.forbidden}")\n')
    for number, path in enumerate(sorted((place.world.folder / "project/records").iterdir())):
        fields = path.read_bytes().split(b"\0")
        if b"prog" in fields:
            fields[0], fields[1] = tool.encode(), program.encode()
        place.write(f"p/records/{number}-0", b"\0".join(fields))
    again = ["mlgo", "corpus", "relink", "--project", "p", "--policy", place.world.folder / "policy-s0"]
    named = {key: value.format_map(names) for key, value in environment.items()}
    return Request([*again, "-o", place.out, "--workers", "1", *place.world.config], named, seconds=30.0)


def _link_in(place: Place) -> None:
    (place.work / "link").symlink_to(place.root / "outside")


def _named(place: Place, name: str, column: str) -> Request:
    """A captured project in which something has such a name."""
    _link_in(place)
    name = name.replace("{root}", str(place.root)).encode(errors="replace").decode()

    def edit(tables: Tables) -> None:
        if column == "project":
            for rows in tables.values():
                for row in rows:
                    row["project"] = name
        elif column == "program":
            tables["PROGRAMS_OF_PROJECT"][0]["program"] = name
        else:
            tables["PROJECT"][1]["module"] = tables["PROGRAMS_OF_PROJECT"][0]["parts"][1]["modules"][0] = name

    place.project(edit)
    if column == "module":
        (place.out / "new").parent.mkdir()
        return Request(["mlgo", "corpus", "export", "--project", "p", "-o", place.out / "new", *place.world.config])
    return evaluate(place, plugins=False)


def _relinked_name(place: Place, name: str) -> Request:
    """A build that links outside its root: the file of the build must stay as it is."""
    request = _relink(place, "cc", "cc", {"CC": "cc"})
    output = name.replace("{root}", str(place.root))
    place.project(lambda tables: tables["PROGRAMS_OF_PROJECT"][0].update(program=output))
    for path in (place.work / "p/records").iterdir():
        path.write_bytes(path.read_bytes().replace(b"\0prog\0", b"\0" + output.encode() + b"\0"))
    return request


def _hash(place: Place, name: str) -> Request:
    """A corpus whose manifest names bitcode by something else than a hash."""
    name = name.replace("{root}", str(place.root)).encode(errors="replace").decode()
    rows, origin = place.world.tables("project")
    shown = {"project": "p", "module": "a.c", "language": "c", "split": "test", "bitcode_sha256": name}
    module = {**rows["PROJECT"][0], "project": "p"}
    place.table("c/modules.parquet", "MODULES", [shown])
    place.table("c/projects/p.parquet", "PROJECT", [module], **origin["PROJECT"])
    place.table("c/programs.parquet", "PROGRAMS_OF_CORPUS", [])
    words = ["mlgo", "corpus", "export", "--corpus", "c", "-o", place.out / "new", *place.world.config]
    return Request(words, {"MLGO_SHARED": str(place.work / "shared")}, may_write=["in/shared*"])


def _in_recipe(place: Place, name: str, key: str) -> Request:
    """A recipe that writes or reads such a file."""
    (place.work / "src").mkdir()
    (place.work / "src/link").symlink_to(place.root / "outside")
    name = name.replace("{root}", str(place.root))
    unit: dict[str, Any] = {"language": "c", "standard": "c11", "sources": ["a.c"]}
    file: dict[str, Any] = {"path": "x.h", "content": "x"}
    file |= {"path": {"path": name}, "copy": {"content": None, "copy": name}}.get(key, {})
    file |= {"content": None, "template": name} if key == "template" else {}
    unit |= {"sources": [name]} if key == "sources" else {}
    recipe: dict[str, Any] = {"units": [unit], "files": [file] if key in ("path", "copy", "template") else []}
    return build_recipe(place, recipe | ({"name": name} if key == "name" else {}), plugins=False)


def _in_corpus(place: Place, name: str) -> Request:
    """A corpus of LLVM's tools that lists such a module."""
    name = name.replace("{root}", str(place.root))
    place.copy("a.bc", "c/a.bc")
    command = place.write("c/a.cmd", "-cc1\0-triple\0x86_64-unknown-linux-gnu\0")
    for path in (command, place.work / "c/a.bc"):
        (place.root / "outside/fired-input").with_suffix(path.suffix).write_bytes(path.read_bytes())
    place.write("c/corpus_description.json", json.dumps({"modules": [name, name, "a"], "has_thinlto": False}))
    words = ["mlgo", "capture", "-o", place.out, "--from", "c", *place.world.config]
    return Request(words, may_write=["outside/fired-input*"])


def _linked_place(place: Place, link: str, command: str) -> Request:
    """A folder that came from others, in which a link leads to a folder of ours."""
    if command == "relink":
        request = _relink(place, "cc", "cc", {"CC": "cc"})
    else:
        place.project(lambda tables: None)
        request = evaluate(place, plugins=False)
    folder = place.work / "p"
    if command == "capture":
        build = ["mlgo", "capture", "-o", "p", "--root", "src", *place.world.config, "--", "make", "-s", "-C", "src"]
        place.copy("src")
        for name in ("a.o", "b.o", "main.o", "prog"):
            (place.work / "src" / name).unlink()
        request = Request(build, may_write=["in/p/*", "in/src/*", "in/p", "in/src"])
    elif command == "verify":
        words = ["mlgo", "corpus", "verify", "--project", "p", *place.world.config]
        request = Request(words, may_write=["in/p", "in/p/verified.parquet"])
    elif command == "cmake":
        folder = place.work / "build"
        cmake_reply(place, {})
        for path in (folder / ".cmake/api/v1/reply").iterdir():
            path.unlink()
        (folder / "CMakeCache.txt").write_text("")
        (folder / ".cmake/api/v1/reply").rmdir()
        (folder / ".cmake/api/v1").rmdir()
        (folder / ".cmake/api").rmdir()
        may = ["in/build/.cmake*"]
        words = ["mlgo", "capture", "-o", place.out, "--from", "build", *place.world.config]
        request = Request(words, may_write=may)
    elif command == "evaluate":
        request = Request([word for word in request.words if word not in ("--output", place.out)], may_write=["in/p/*"])
    path = folder / link
    path.parent.mkdir(parents=True, exist_ok=True)
    if path.is_file():
        path.unlink()
    if not path.exists():
        path.symlink_to(place.root / "outside")
    return request


def _kept(place: Place, folder: str, words: list[str]) -> Request:
    """A person's own folder that is named for output; nothing in it may be lost."""
    mine = place.work / folder
    for name in _MINE:
        (mine / name).parent.mkdir(parents=True, exist_ok=True)
        (mine / name).write_text("years of work\n")
    entry = {"directory": str(place.work), "arguments": ["cc", "-Os", "-c", "a.c"], "file": "a.c"}
    place.write("db/compile_commands.json", json.dumps([entry]))
    place.copy("src")
    place.project(lambda tables: None)
    names = {"mine": folder, "policy": place.world.folder / "policy-s0", "world": place.world.folder}
    command = [word.format_map(names) for word in words]
    config = [] if words[0] in ("publish", "replay", "size-diff") else place.world.config
    at = command.index("--") if "--" in command else len(command)
    return Request(["mlgo", *command[:at], *config, *command[at:]], may_write=["in/*"])


def _nothing_lost(folder: str, place: Place, outcome: Outcome) -> tuple[str, str] | None:
    for name in _MINE:
        path = place.work / folder / name
        if not path.is_file() or path.read_text() != "years of work\n":
            return "outside", f"{folder}/{name} is lost"
    return None


_OUTPUTS = {
    "capture": "capture -o {mine} --root src -- make -B -s -C src",
    "capture-from": "capture -o {mine} --from db",
    "relink": "corpus relink --project p --policy {policy} -o {mine}",
    "export": "corpus export --project p -o {mine}",
    "compile": "compile {world}/a.bc -o {mine}",
    "compile-log": "compile {world}/a.bc --log {mine}",
    "publish": "publish {policy} -o {mine} --version 1.0.0 --force",
    "publish-wheel": "publish {policy} -o {mine} --version 1.0.0 --wheel --force",
    "evaluate": "evaluate --policy {policy} --project p --output {mine} --no-references",
    "prune": "replay prune --old --work {mine} --data {mine}",
    "prune-size": "replay prune --max-gb 0 --work {mine}",
}


def inputs() -> Iterator[Input]:
    """All inputs of kinds B to D."""
    for words in _PROGRAMS.split("|"):
        name = words.replace("/", "_")
        yield Input("B", "records", name, partial(_relink, words=words, tool="cc", environment={}))
        if words.startswith("cc "):
            given = {"CC": "cc", "CXX": "c++", "LD": "ld"}
            yield Input("B", "records-CC", name, partial(_relink, words=words, tool="cc", environment=given))
    for tool in ("c++", "ld", "ar", "ranlib"):
        yield Input("B", "records-tool", tool, partial(_relink, words="{sh}", tool=tool, environment={}))
    for number, name in enumerate(_NAMES):
        label = f"{number}-{ascii(name[:30]).replace('/', '_')}"
        for column in ("project", "module"):
            yield Input("C", f"captured-{column}", label, partial(_named, name=name, column=column))
        yield Input("C", "manifest", label, partial(_hash, name=name))
        yield Input("C", "llvm-corpus", label, partial(_in_corpus, name=name))
        for key in ("path", "copy", "template", "sources", "name"):
            if number < 8 or key == "path":
                yield Input("C", f"recipe-{key}", label, partial(_in_recipe, name=name, key=key))
        if number < 7 and "\0" not in name:
            yield Input("C", "relink-output", label, partial(_relinked_name, name=name))
            yield Input("C", "captured-program", label, partial(_named, name=name, column="program"))
    for command, links in {
        "capture": ("records", "tools", "parts", "project.parquet", "objects.parquet"),
        "verify": ("verified.parquet",),
        "cmake": (".cmake", ".cmake/api", ".cmake/api/v1", ".cmake/api/v1/query"),
        "evaluate": ("evaluation", "evaluation/policy-s0"),
    }.items():
        for link in links:
            name = f"{command}-{Path(link).name}"
            yield Input("C", "links", name, partial(_linked_place, link=link, command=command))
    for folder in ("mine", "."):
        for name, text in _OUTPUTS.items():
            make = partial(_kept, folder=folder, words=text.split())
            yield Input("D", "output", f"{name}-{folder}", make, partial(_nothing_lost, folder))
