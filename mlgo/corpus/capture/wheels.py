"""Wheels: a source distribution is built as an index's wheels are, and what people would install is captured.

pip builds it by the rules of PEP 517, in an environment of its own with what the project asks for, against the headers
of the running Python. The compilers are those of the ziglang wheel, so a machine needs none. Generated sources stay
where they were made until the folder is removed.
"""

import os
import re
import shlex
import sys
import sysconfig
import tomllib
from collections.abc import Mapping, Sequence
from dataclasses import replace
from importlib.util import find_spec
from pathlib import Path

from mlgo.base.files import file_sha256, joined, write_text
from mlgo.base.output import make_folders, remove_tables
from mlgo.base.packages import canonical_name
from mlgo.corpus.build import unpack, unpack_all
from mlgo.corpus.capture.builds import Build, BuiltProgram, recorded_build
from mlgo.corpus.capture.invocations import RECORDS, read_invocations, wrap_tools
from mlgo.corpus.capture.origins import objects_in
from mlgo.corpus.capture.project import Captured, Extraction, write_project
from mlgo.corpus.recipe import Wheel, headers_beside
from mlgo.errors import CorpusError, ObjectError
from mlgo.host.process import Child, without_folders
from mlgo.host.toolchain import find_linker, zig_environment
from mlgo.objects.elf import global_symbols

_OTHER_TOOLS = ("ranlib", "objcopy")
"""Further tools of the multi-tool, by the names that builds look for."""

_FOLDER_OF_BUILD = ("scikit-build-core", "meson-python")
"""Build systems that compile in a temporary folder unless they are given one."""

_PIP = ("--no-deps", "--use-pep517", "--no-clean", "--no-input", "--disable-pip-version-check", "--verbose")
_TIMEOUT_S = 1800.0
_ERROR = re.compile(r"\b(?:fatal )?error:", re.IGNORECASE)

_HEADERS = Path(sysconfig.get_path("include"))
_OWN_LINKS = {"LDSHARED": "cc -shared", "LDCXXSHARED": "c++ -shared"}
"""Links of extension modules without what Debian's Python adds, which zig's driver does not take."""

_FOR_ANY_MACHINE = 'for word do shift; case $word in -m*=native) ;; *) set -- "$@" "$word" ;; esac; done'
"""Leaves out the options for the machine that builds: a wheel for others has none, and a corpus would depend on it."""

_ENTRY = b"PyInit_"
_ONLY_ENTRY = "{ global: PyInit_*; local: *; };\n"


def wheel_project(sdist: Path, folder: Path, wheel: Wheel, extraction: Extraction, log: Path | None = None) -> Captured:
    """Make a captured project of a source distribution, for the target and with the threads of the extraction.

    Args:
        log: file of what pip says, in the folder unless it is given.
    """
    make_folders(folder, "source", "unpacked", RECORDS, "tmp", "wheel")
    remove_tables(joined(folder, "parts"))
    # Without its version: pip would keep the wheel of a folder with one, and build nothing the next time.
    source = unpack(sdist, folder / "unpacked").rename(folder / "source")
    build = capture_wheel(source, folder, wheel, extraction, log or folder / "build.log")
    return write_project(folder, build, source, replace(extraction, hidden=temporary_folders(source, folder)))


def capture_wheel(source: Path, folder: Path, wheel: Wheel, extraction: Extraction, log: Path) -> Build:
    """Build a wheel of a source distribution, and read from the build what its linked files consist of."""
    if find_spec("pip") is None:
        raise CorpusError(f"building a wheel needs pip; install it for {sys.executable}")
    for name in ("bin", "tmp", "wheel", RECORDS):
        joined(folder, name).mkdir(parents=True, exist_ok=True)
    commands = _commands(extraction.front_end.toolchain.target)
    environment = wrap_tools(folder, _environment(folder, wheel, extraction, commands), commands, _FOR_ANY_MACHINE)
    log.parent.mkdir(parents=True, exist_ok=True)
    log.unlink(missing_ok=True)
    settings = dict(wheel.settings)
    if any(name in _requirements(source) for name in _FOLDER_OF_BUILD):
        settings.setdefault("build-dir", str(source / "build"))
    given = [f"--config-settings={name}={value}" for name, value in settings.items()]
    command = [sys.executable, "-m", "pip", "wheel", *_PIP, *given, "-w", str(folder / "wheel"), str(source)]
    run = Child(command, cwd=source, env=environment, stdout=log).finish(_TIMEOUT_S)
    with log.open("a") as file:
        file.write(run.stderr)
    if run.returncode != 0:
        reason = f"no end within {_TIMEOUT_S:g} s" if run.returncode is None else _reason(log)
        raise CorpusError(f"{source.name} cannot be built as a wheel: {reason}; all it said is in {log}")
    source, folder = source.absolute(), folder.absolute()
    wheel_file, content = sorted((folder / "wheel").glob("*.whl"))[0], folder / "unpacked"
    unpack_all(wheel_file, content)
    temporary = (content, *temporary_folders(source, folder))
    return _installed(recorded_build(folder, source, temporary, [content]), wheel_file, folder)


def _installed(build: Build, wheel: Path, folder: Path) -> Build:
    """The linked files of a build that are in a wheel; extension modules export their entry points only."""
    files = list(objects_in([folder / "unpacked"]))
    names, contents = {file.name for file in files}, set(map(file_sha256, files))
    programs = tuple(
        _exporting(one, folder) for one in build.programs if one.file.name in names or file_sha256(one.file) in contents
    )
    if not programs:
        raise CorpusError(f"{wheel.name} holds no linked file that was seen while it was built; is it pure Python?")
    wanted = {name for one in programs for part in one.parts for name in part.units}
    return replace(build, units=tuple(one for one in build.units if one.name in wanted), programs=programs)


def temporary_folders(source: Path, folder: Path) -> tuple[Path, ...]:
    """Folders of a wheel's build with random or machine-specific names; the longest first."""
    within, calls = folder / "tmp", read_invocations(folder / RECORDS)
    used = {path for call in calls for file in call.contents for path in (call.folder / file).parents}
    return (*sorted({*within.iterdir(), *(path for path in used if path.parent == within)}), folder, source)


def _exporting(program: BuiltProgram, folder: Path) -> BuiltProgram:
    link = program.link
    try:
        exported, _ = global_symbols(program.file.read_bytes(), dynamic=True)
    except (OSError, ObjectError):
        return program
    if link.kind != "shared" or not any(name.startswith(_ENTRY) for name in exported):
        return program
    script = folder / "exports.map"
    write_text(script, _ONLY_ENTRY)
    return replace(program, link=replace(link, version_script=script))


def _requirements(source: Path) -> set[str]:
    """Names of what a project says builds it, as PEP 503 writes them."""
    try:
        words = tomllib.loads((source / "pyproject.toml").read_text(errors="replace"))["build-system"]["requires"]
        return {canonical_name(re.split(r"[^\w.-]", word.strip(), maxsplit=1)[0]) for word in words}
    except (OSError, tomllib.TOMLDecodeError, KeyError, TypeError, AttributeError):
        return set()


def _commands(target: str) -> dict[str, list[str]]:
    """Compilers and archiver for a build, by all names that it may have for them; they leave frame pointers out."""
    zig = str(find_linker())
    after = ["-idirafter", str(_HEADERS.parent)] if headers_beside(_HEADERS) else []
    c, cxx = ([zig, name, "-target", target, "-fomit-frame-pointer", *after] for name in ("cc", "c++"))
    names = {**dict.fromkeys(("cc", "gcc", "clang"), c), **dict.fromkeys(("c++", "g++", "clang++"), cxx)}
    return names | {"ar": [zig, "ar"]}


def _environment(
    folder: Path, wheel: Wheel, extraction: Extraction, commands: Mapping[str, Sequence[str]]
) -> dict[str, str]:
    for name in _OTHER_TOOLS:
        script = folder / "bin" / name
        write_text(script, f'#!/bin/sh\nexec {shlex.quote(str(find_linker()))} {name} "$@"\n')
        script.chmod(0o755)
    constraints = folder / "constraints.txt"
    write_text(constraints, "".join(f"{requirement}\n" for requirement in wheel.requirements))
    zig = zig_environment(extraction.front_end.cache_dir)
    inherited = {name: value for name, value in zig.items() if name != "PYTHONPATH"}
    return inherited | {
        "CC": shlex.join(commands["cc"]),
        "CXX": shlex.join(commands["c++"]),
        "AR": shlex.join(commands["ar"]),
        "PATH": f"{folder / 'bin'}{os.pathsep}{inherited.get('PATH', os.defpath)}",
        "TMPDIR": str(folder / "tmp"),
        "PIP_CONSTRAINT": constraints.absolute().as_uri(),  # pip splits a path at spaces
        # One folder for objects of each build: zig's cache has given one build's object to another.
        "ZIG_LOCAL_CACHE_DIR": str(folder / "tmp" / "zig"),
        "CMAKE_BUILD_PARALLEL_LEVEL": str(extraction.num_threads),
        "MAKEFLAGS": f"-j{extraction.num_threads}",
        **(_OWN_LINKS if headers_beside(_HEADERS) else {}),
        **wheel.environment,
    }


def _reason(log: Path) -> str:
    """The line of a failed build that most likely says why."""
    lines = log.read_text(errors="replace").splitlines()
    errors = [line.strip() for line in lines if _ERROR.search(line) and "dependency resolver" not in line]
    return without_folders((errors or lines or ["pip ended without a word"])[0])[:300]
