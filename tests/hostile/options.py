"""Kind A: text of others that becomes a word of a compiler's or linker's command line."""

import hashlib
import json
import shlex
import struct
from collections.abc import Callable, Iterator
from functools import partial

from tests.hostile.harness import Input, Place, Request, Tables

_JOINED = """-D -U -I -iquote -isystem -idirafter -include -imacros -march= -mtune= -mcpu= -mfpmath= -ftrapv-handler=
-fconstant-string-class= -std= -fvisibility= -mabi= -mcmodel= -ffile-prefix-map=a= -frandom-seed= -ftls-model=
-fmessage-length= -fexec-charset= -finput-charset= -fdebug-prefix-map= -fdebug-compilation-dir= -ftemplate-depth=
-mstack-alignment= -fsanitize= -O -g -W -Wno- -x --target= -fmodule-map-file= -fsanitize-ignorelist= -fxray-attr-list=
-fprofile-list= -o -fthin-link-bitcode= -fmacro-prefix-map=a= -mregparm= -fdenormal-fp-math= -mprefer-vector-width=
-ftrivial-auto-var-init= -fpatchable-function-entry= -flax-vector-conversions= -fobjc-runtime= -fembed-bitcode=
-fzero-call-used-regs= -msign-return-address= -mstack-protector-guard= -ffp-model= -fcf-protection= -fveclib="""
_SEPARATE = "-D -U -I -iquote -isystem -idirafter -include -imacros -Xclang -mllvm -target -x -Xpreprocessor -o -MF -T"
_LOADING = """-fplugin={so}|-fpass-plugin={so}|-Xclang -load -Xclang {so}|-Wp,-load,{so}|-mllvm -load={so}|-B{work}
-wrapper {sh}|-wrapper={sh}|-Xpreprocessor -load -Xpreprocessor {so}|-Xarch_x86_64 -fplugin={so}|--config={work}/g
-Xarch_host -fplugin={so}|--config {work}/g|-specs={work}/g|@g|-D@f @g|-iplugindir={work} -fplugin=canary
-cc1 -load {so}|--driver-mode=cl /clang:-fplugin={so}|-fno-integrated-as -B{work}/|-fplugin-arg-x-y -fplugin={so}
-Xclang=-load -Xclang={so}|-include ./a.c -fplugin={so}|-Xclang -fplugin={so}|-Wa,@f|-Xassembler @f|-I a.c @f
-ccc-install-dir {work}|-ccc-gcc-name {sh}|-fuse-ld={sh}|-foffload={sh}|-fno-integrated-cc1 -B{work}|--prefix={work}
-DX=1 -DY @f|-isystem @f -I.|-std=c11 -D@./f|-I.@f -I@f|-D@{work}/f|-U@{work}/f"""
_WRITING = """-fproc-stat-report={out}|-ftime-trace={out}|-foptimization-record-file={out}|-MD -MF {out}|-MJ {out}
--serialize-diagnostics {out}|-serialize-diagnostics {out}|-gen-cdb-fragment-path {root}/outside|-aux-info {out}
-save-temps={root}/outside|-fcrash-diagnostics-dir={root}/outside -D@w|-fmodule-output={out}|-o{out}|-o {out}
-fmodules -fmodules-cache-path={out}|-fdump-tree-all={out}|-gsplit-dwarf -dumpdir {root}/outside/fired|-MMD -MF{out}
-Wp,-MD,{out}|-Wp,-MMD,{out}|-fproc-stat-report -dumpdir {root}/outside/|-D@w|-mtune=@w|-include@w|--coverage|-E -o{out}
-ftest-coverage -fcoverage-data-file={out}|-fstack-usage|-save-temps|-fsave-optimization-record={out}|-index-store-path
{out}|-fcs-profile-generate={root}/outside|-fdiagnostics-format=sarif-file|--output={out}|-dependency-dot {out}
-fsyntax-only -Xclang -ast-dump={out}|-fcallgraph-info=su|-freport-bug|-print-stats-file={out}|-save-stats={out}"""


def attacks() -> list[tuple[str, list[str], bool]]:
    """Name, words with names of the place in braces, and whether only a clang with plug-ins can show it."""
    found = [(f"{one}@f", [f"{one}@f"], True) for one in _JOINED.split()]
    found += [(f"{one} @f", [one, "@f"], True) for one in _SEPARATE.split()]
    found += [(one, one.split(), True) for one in _LOADING.replace("\n", "|").split("|")]
    found += [(one, one.split(), False) for one in _WRITING.replace("\n{out}", " {out}").replace("\n", "|").split("|")]
    return [(name.replace("/", "_"), words, needs) for name, words, needs in found]


def arm(place: Place, words: list[str]) -> list[str]:
    """Put the files that attacks name into a place, and name them in words."""
    place.write("f", f"X\n-load\n{place.plugin}\n")  # the first word becomes the value of the option before it
    place.write("g", f"-fplugin={place.plugin}\n")
    place.write("w", f"X\n-serialize-diagnostic-file\n{place.forbidden}\n")
    names = {"so": place.plugin, "sh": place.program, "out": place.forbidden, "work": place.work, "root": place.root}
    return [word.format_map(names) for word in words]


def capture(place: Place, source: str, *more: str, plugins: bool = True) -> Request:
    """Capture what is written down in the place."""
    config = place.world.plugins if plugins else place.world.config
    return Request(["mlgo", "capture", "-o", place.out, "--from", source, "--jobs", "1", *more, *config])


def _database(place: Place, words: list[str], *, plugins: bool, text: bool) -> Request:
    command = ["cc", *arm(place, words), "-c", "a.c", "-o", "a.o"]
    entry = {"directory": str(place.work), "file": "a.c"}
    entry |= {"command": shlex.join(command)} if text else {"arguments": command}
    place.write("compile_commands.json", json.dumps([entry]))
    return capture(place, "compile_commands.json", plugins=plugins)


def _bazel(place: Place, words: list[str], *, plugins: bool) -> Request:
    command = ["/usr/bin/gcc", *arm(place, words), "-c", "a.c", "-o", "a.o"]
    place.write("aquery.json", json.dumps({"actions": [{"mnemonic": "CppCompile", "arguments": command}]}))
    return capture(place, "aquery.json", plugins=plugins)


def cmake_reply(place: Place, group: dict[str, object], source: str = "a.c", **target: object) -> None:
    """A reply of CMake's file API with one library."""
    paths = {"source": str(place.work), "build": str(place.work / "build")}
    reply = "build/.cmake/api/v1/reply/"
    what = {"name": "t", "type": "STATIC_LIBRARY", "paths": {"source": ".", "build": "."}}
    what |= {"artifacts": [{"path": "libt.a"}], "sources": [{"path": source}]}
    what |= {"compileGroups": [{"language": "C", "sourceIndexes": [0], **group}], **target}
    files = {
        "index-1.json": {"objects": [{"kind": "codemodel", "jsonFile": "model.json"}]},
        "model.json": {"paths": paths, "configurations": [{"name": "", "targets": [{"jsonFile": "t.json"}]}]},
        "t.json": what,
    }
    for name, content in files.items():
        place.write(reply + name, json.dumps(content))


def _cmake(place: Place, words: list[str], *, plugins: bool, role: str) -> Request:
    armed = arm(place, words)
    groups = {
        "fragment": {"compileCommandFragments": [{"fragment": shlex.join(armed)}]},
        "define": {"defines": [{"define": word} for word in (armed[0].removeprefix("-D"),)]},
        "include": {"includes": [{"path": armed[0].removeprefix("-I"), "isSystem": True}]},
    }
    cmake_reply(place, groups[role])
    return capture(place, "build", plugins=plugins)


def build_recipe(place: Place, recipe: dict[str, object] | str, *, plugins: bool, project: str = "x") -> Request:
    """Build a project by a recipe, given as values or as YAML."""
    text = recipe if isinstance(recipe, str) else json.dumps({"name": "x", "license": "MIT", "path": "src", **recipe})
    place.write("recipe.yaml", text)
    (place.work / "src").mkdir(exist_ok=True)
    for name in ("a.c", "f", "g", "w", "canary.so"):
        if (place.work / name).exists() and not (place.work / "src" / name).exists():
            (place.work / "src" / name).write_bytes((place.work / name).read_bytes())
    if plugins and place.world.clang:
        text = (place.world.folder / "config.yaml").read_text()
        config = place.write("config.yaml", text.replace("toolchain: auto", f"toolchain: {place.world.clang}"))
    else:
        config = place.world.folder / "config.yaml"
    script = place.world.server.checkout / "scripts/build_project.py"
    words = [
        script,
        "--config",
        config,
        "--recipe",
        "recipe.yaml",
        "--project",
        project,
        "--work",
        place.root / "tmp/w",
    ]
    return Request([*words, "--output", place.out / "p.parquet", "--programs", place.out / "programs.parquet"])


def _recipe(place: Place, words: list[str], *, plugins: bool, key: str) -> Request:
    armed = arm(place, words)
    unit: dict[str, object] = {"language": "c", "standard": "c11", "sources": ["a.c"]}
    unit |= {
        "flags": {"flags": armed},
        "include": {"include": [armed[-1].removeprefix("-I")]},
        "defines": {"defines": {armed[-1].removeprefix("-D"): None}},
        "value": {"defines": {"X": armed[-1].removeprefix("-D")}},
        "standard": {"standard": armed[-1].removeprefix("-std=")},
        "sources": {"sources": [armed[-1]]},
    }[key]
    return build_recipe(place, {"units": [unit]}, plugins=plugins)


def _llvm_corpus(place: Place, words: list[str], *, plugins: bool, override: bool) -> Request:
    bitcode = place.copy("a-clang.bc" if plugins and place.world.clang else "a.bc", "c/a.bc")
    command = ["-cc1", "-triple", "x86_64-unknown-linux-gnu", *arm(place, words)]
    bitcode.with_suffix(".cmd").write_text("".join(f"{word}\0" for word in command))
    extra = {"global_command_override": command[1:]} if override else {}
    place.write("c/corpus_description.json", json.dumps({"modules": ["a"], "has_thinlto": False, **extra}))
    return capture(place, "c", plugins=plugins)


def wrapped(bitcode: bytes, options: list[str], attached: bytes = b"") -> bytes:
    """Bitcode in LLVM's wrapper, with options of code generation in its gap, unchecked."""
    gap = b"".join(one.encode(errors="surrogateescape") + b"\0" for one in options) + attached
    gap += bytes(-(20 + len(gap)) % 16)
    return struct.pack("<5I", 0x0B17C0DE, 0, 20 + len(gap), len(bitcode), 0xFFFFFFFF) + gap + bitcode


def _wrapper(place: Place, words: list[str], *, plugins: bool, form: str) -> Request:
    name = "a-clang.bc" if plugins and place.world.clang else "a.bc"
    config = place.world.plugins if plugins else place.world.config
    module = wrapped((place.world.folder / name).read_bytes(), arm(place, words))
    place.write("m.bc", module)
    if form == "capture":
        return capture(place, "m.bc", plugins=plugins)
    if form == "compile":
        return Request(["mlgo", "compile", "m.bc", *config, "-o", place.out / "m.o"])
    place.project(lambda tables: tables["PROJECT"][0].update(bitcode=module), clang=plugins)
    return evaluate(place, plugins=plugins)


def evaluate(place: Place, *more: str, plugins: bool = True) -> Request:
    config = place.world.plugins if plugins else place.world.config
    policy = place.world.folder / "policy-s0"
    words = ["mlgo", "evaluate", "--policy", policy, "--project", "p", "--output", place.out, "--workers", "1"]
    return Request([*words, "--no-references", *more, *config], seconds=40.0)


def _options(place: Place, words: list[str], *, plugins: bool) -> Request:
    place.copy("a-clang.bc" if plugins and place.world.clang else "a.bc", "m.bc")
    return capture(place, "m.bc", f"--options={shlex.join(arm(place, words))}", plugins=plugins)


def _objects(place: Place, words: list[str], *, plugins: bool, column: str) -> Request:
    """The honest project, as another clang would have made it, with one foreign cell."""
    armed = arm(place, words)
    source = hashlib.sha256((place.work / "a.c").read_bytes()).hexdigest()

    def edit(tables: Tables) -> None:
        row = tables["OBJECTS_OF_BUILD"][0]
        row |= {"folder": str(place.work), "source": "a.c", "driver": "clang", "level": "-Os", "source_sha256": source}
        row[column] = armed if column == "options" else armed[-1]

    place.project(edit)
    config = place.world.plugins if plugins else place.world.config
    verify = ["mlgo", "corpus", "verify", "--project", "p", "--jobs", "1", *config]
    return Request(verify, may_write=["in/p", "in/p/verified.parquet"])


def _programs(place: Place, words: list[str], *, plugins: bool, column: str) -> Request:
    """The honest project with a foreign cell in the table of its linked files."""
    armed = arm(place, words)
    place.write("l", f"-Map={place.forbidden}\n--reproduce={place.forbidden}.tar\n-o\n{place.forbidden}2\n")

    def edit(tables: Tables) -> None:
        for row in tables["PROGRAMS_OF_PROJECT"]:
            row[column] = armed if isinstance(row[column], list) else armed[-1]

    place.project(edit)
    return evaluate(place, plugins=False)


_LINKER = """@l|-Map={out}|--reproduce={out}|-o{out}|-plugin={so}|--load-pass-plugin={so}|-mllvm=-load={so}
--dependency-file={out}|--why-extract={out}|--print-symbol-order={out}|-plugin-opt=stats-file={out}|--lto-obj-path={out}
--error-handling-script={sh}|--time-trace={out}|-T{work}/l|--version-script=@l|--chroot={root}|--emit-llvm
--thinlto-cache-dir={root}/outside/fired|--save-temps=prelink|--cs-profile-path={out}|--out-implib={out}""".replace(
    "\n", "|"
).split("|")
_Make = Callable[..., Request]
_SURFACES: dict[str, _Make] = {
    "bazel": _bazel,
    "objects": partial(_objects, column="options"),
    "database-text": partial(_database, text=True),
    "cmake": partial(_cmake, role="fragment"),
    "recipe": partial(_recipe, key="flags"),
    "corpus-override": partial(_llvm_corpus, override=True),
    "corpus-cmd": partial(_llvm_corpus, override=False),
    "wrapper-capture": partial(_wrapper, form="capture"),
    "wrapper-compile": partial(_wrapper, form="compile"),
    "wrapper-project": partial(_wrapper, form="evaluate"),
    "options": _options,
}
"""Surfaces that take some of the attacks, each others; a compile database takes all."""
_VALUES: dict[str, _Make] = {
    "cmake-define": partial(_cmake, role="define"),
    "cmake-include": partial(_cmake, role="include"),
    **{f"recipe-{key}": partial(_recipe, key=key) for key in ("include", "defines", "value", "standard", "sources")},
    **{f"objects-{one}": partial(_objects, column=one) for one in ("source", "level", "compiler", "driver", "folder")},
}
"""Surfaces that take one word, which becomes a part of an option or a name."""
_WORDS = (
    *("@f", "@./f", "@{work}/f", "@g", "@w", "-fplugin={so}", "-Xclang", "-load", "-o{out}", "./@f", "{so}", "-D@f"),
    "-fproc-stat-report={out}",
)


def inputs() -> Iterator[Input]:
    """All inputs of kind A."""
    for number, (name, words, needs) in enumerate(attacks()):
        some = [one for place, one in enumerate(_SURFACES.items()) if (place + number) % 8 == 0]
        for surface, make in [("database", partial(_database, text=False)), *some]:
            yield Input("A", surface, name, partial(make, words=words, plugins=needs), needs_plugins=needs)
    for surface, make in _VALUES.items():
        for word in _WORDS:
            needs = "out" not in word and word != "@w"
            name = word.replace("/", "_")
            yield Input("A", surface, name, partial(make, words=[word], plugins=needs), needs_plugins=needs)
    for column in ("entry", "options", "libraries", "version_script", "kind", "program"):
        for word in _LINKER if column in ("entry", "options") else _LINKER[:4]:
            name = word.replace("/", "_")
            yield Input("A", f"programs-{column}", name, partial(_programs, words=[word], plugins=False, column=column))
