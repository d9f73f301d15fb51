"""Build programs of Debian as their own build systems do: captured, plain, under a policy, and as whole programs.

Sources come from `apt-get source`, by the package lists of this machine, whose state stays as it is. For each package
this prints how many sources the capture left out, the sizes of all linked files, and whether its own tests pass.

Example:
    python scripts/debian_builds.py --output debian
    python scripts/debian_builds.py --output debian --policy data/released/marginal-s0 bzip2 lz4
    python scripts/debian_builds.py --output debian --only plain --only whole --only tuned --tune 60 bzip2 lzip
"""

import argparse
import json
import os
import re
import shlex
import shutil
import subprocess
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

from mlgo.base.files import write_json
from mlgo.cli.program import positive, run_program
from mlgo.errors import MlgoError
from mlgo.host.toolchain import find_linker
from mlgo.report.pages import Table, count_column, text_column

_MLGO = Path(sys.executable).with_name("mlgo")
_CONFIG = Path(__file__).absolute().parents[1] / "config" / "config.yaml"
_SOURCE_LISTS = (Path("/etc/apt/sources.list"), Path("/etc/apt/sources.list.d"))
_CAPTURED = "captured"
_PLAIN, _LTO, _TUNED = "plain", "lto", "tuned"
_FORMS: Mapping[str, Sequence[str]] = {
    _PLAIN: ("--plain",),
    "policy": (),
    "whole": ("--whole",),
    _TUNED: ("--whole",),
    _LTO: ("--plain",),
}
"""Builds, by name, with the options of `mlgo cc`. Full link-time optimization is of the compiler, asked by a flag; a
tuned build is under what `mlgo tune` finds for this program, merged."""


_TUNED_POLICY = "tuned-policy"
_MACHINE_TOOLS = {
    "CC": "cc",
    "CXX": "c++",
    "AR": "/usr/bin/ar",
    "RANLIB": "/usr/bin/ranlib",
    "CFLAGS": "-Os",
    "CXXFLAGS": "-Os",
}


@dataclass(frozen=True)
class DebianBuild:
    """How a package of Debian is built and tested.

    Attributes:
        source: name of the source package.
        build: for a shell in its sources, with CC, CXX, AR, RANLIB, CFLAGS, CXXFLAGS and JOBS set.
        test: the same, after the build.
        programs: linked files that are tuned; all by default, also tools that a build makes for itself.
    """

    source: str
    build: str
    test: str
    programs: tuple[str, ...] = ()


_MAKE = 'make -j"$JOBS" CC="$CC" CXX="$CXX" LD="$CC" AR="$AR" RANLIB="$RANLIB" CFLAGS="$CFLAGS" CXXFLAGS="$CXXFLAGS"'
_CMAKE = 'cmake -S . -B build -DCMAKE_AR="$AR" -DCMAKE_RANLIB="$RANLIB" {} && cmake --build build -j"$JOBS"'
_CONFIGURED = 'make -j"$JOBS"'

BUILDS = {
    "figlet": DebianBuild("figlet", _MAKE, f"{_MAKE} check"),
    "mawk": DebianBuild("mawk", f"sh ./configure && {_CONFIGURED}", "make check"),
    "less": DebianBuild(
        "less", f"sh ./configure && {_CONFIGURED}", "./less --version && cat *.c *.h | ./less | cmp - <(cat *.c *.h)"
    ),
    "bzip2": DebianBuild("bzip2", f"{_MAKE} bzip2 bzip2recover", f"{_MAKE} test"),
    "tinyxml2": DebianBuild("tinyxml2", _CMAKE.format("-DBUILD_TESTING=ON"), "ctest --test-dir build"),
    "pugixml": DebianBuild("pugixml", _CMAKE.format("-DPUGIXML_BUILD_TESTS=ON"), "ctest --test-dir build"),
    "libpng": DebianBuild("libpng1.6", f"sh ./configure && {_CONFIGURED}", f"{_CONFIGURED} check"),
    "zstd": DebianBuild(
        "libzstd",
        f"{_MAKE} -C programs zstd HAVE_ZLIB=0 HAVE_LZMA=0 HAVE_LZ4=0",
        "for level in 1 9 19; do programs/zstd -q -$level -c lib/zstd.h | programs/zstd -d -c | cmp - lib/zstd.h "
        "|| exit 1; done",
    ),
    "lzip": DebianBuild(
        "lzip",
        f'sh ./configure CXX="$CXX" CXXFLAGS="$CXXFLAGS" LDFLAGS="$LDFLAGS" && {_CONFIGURED}',
        "make check",
    ),
    "jsoncpp": DebianBuild(
        "libjsoncpp",
        _CMAKE.format("-DCMAKE_BUILD_TYPE=None -DJSONCPP_WITH_POST_BUILD_UNITTEST=OFF -DBUILD_SHARED_LIBS=OFF"),
        "build/bin/jsoncpp_test",
    ),
    "sqlite": DebianBuild(  # one source and its shell, made by tclsh
        "sqlite3",
        "sh ./configure --disable-tcl && make sqlite3.c shell.c && "
        "for part in sqlite3 shell; do $CC $CFLAGS -DSQLITE_THREADSAFE=0 -I. -c $part.c || exit 1; done && "
        "$CC $LDFLAGS -o sqlite sqlite3.o shell.o",
        "echo 'create table t(a); with recursive n(i) as (select 1 union all select i + 1 from n where i < 1000) "
        "insert into t select i from n; create index s on t(a * a); select sum(a * a) from t where a * a > 9; "
        "pragma integrity_check;' | ./sqlite :memory: | cmp - <(printf '333833486\\nok\\n')",
        ("sqlite",),
    ),
    "lz4": DebianBuild("lz4", f"{_MAKE} lib lz4", f"{_MAKE} -C tests test-lz4-essentials"),
}


def main() -> None:
    """Fetch, build and print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--output", type=Path, required=True, metavar="DIR", help="for sources, builds and results")
    parser.add_argument("--policy", type=Path, metavar="DIR", help="folder of the policy (default: as for mlgo cc)")
    parser.add_argument("--languages", metavar="L", help="as of mlgo cc: c,c++ asks the policy in C, too")
    parser.add_argument("--sources", type=Path, metavar="DIR", help="sources that are here as DIR/NAME: fetch nothing")
    parser.add_argument("--tune", type=positive, metavar="N", help="compiles to tune a program with, for form tuned")
    parser.add_argument("--jobs", type=positive, default=2, help="jobs of a build (default: %(default)s)")
    parser.add_argument("--timeout", type=positive, default=1800, help="seconds for a command (default: %(default)s)")
    parser.add_argument("--only", choices=[_CAPTURED, *_FORMS], action="append", help="one of the builds; repeatable")
    parser.add_argument("--json", action="store_true", help="print JSON instead of a table")
    parser.add_argument("names", nargs="*", metavar="NAME", help=f"of {', '.join(BUILDS)} (default: all)")
    args = parser.parse_args()
    for name in args.names:
        if name not in BUILDS:
            raise MlgoError(f"no package {name}; there are {', '.join(BUILDS)}")
    if args.only and _TUNED in args.only and not args.tune:
        raise MlgoError("form tuned needs --tune N, the compiles that a program is tuned with")
    output, names = args.output.absolute(), args.names or list(BUILDS)
    sources = args.sources.absolute() if args.sources else fetch(names, output)
    rows = []
    for name in names:
        rows.append({"name": name, **show(BUILDS[name], sources / name, output / name, args)})
        write_json(output / f"{name}.json", rows[-1])
        print(f"{name}: done", file=sys.stderr, flush=True)
    print(json.dumps(rows, indent=2) if args.json else _table(rows).markdown())


def fetch(names: Sequence[str], output: Path) -> Path:
    """Fetch and unpack source packages; returns the folder that holds them by name.

    The machine's lists often name binary packages alone. So apt runs on a copy of them that names sources, with its
    state in ``output``.
    """
    state, sources = output / "apt", output / "sources"
    if missing := [name for name in names if not (sources / name).is_dir()]:
        apt = _private_apt(state)
        _run([*apt, "update"], output)
        for name in missing:
            _run([*apt, "source", "--download-only", BUILDS[name].source], state)
            (description,) = state.glob(f"{BUILDS[name].source}_*.dsc")
            sources.mkdir(exist_ok=True)
            _run(
                ["dpkg-source", "--no-check", "--no-copy", "-x", str(description), str(sources / f"{name}.part")],
                output,
            )
            (sources / f"{name}.part").rename(sources / name)
    return sources


def _private_apt(state: Path) -> list[str]:
    lists = state / "sources.list.d"
    for folder in (lists, state / "state" / "lists" / "partial", state / "cache" / "archives" / "partial"):
        folder.mkdir(parents=True, exist_ok=True)
    for path in [_SOURCE_LISTS[0], *sorted(_SOURCE_LISTS[1].glob("*"))]:
        if path.suffix in (".list", ".sources") and path.is_file():
            entries = path.read_text().split("\n" if path.suffix == ".list" else "\n\n")
            # mirrors often hold no sources of security updates
            entries = [one for one in entries if "debian" in one and "security" not in one]
            text = re.sub(r"^deb(?= )", "deb-src", "\n\n".join(entries), flags=re.MULTILINE)
            text = re.sub(r"^Types:.*", "Types: deb-src", text, flags=re.MULTILINE)
            (lists / path.name).write_text(f"{text}\n")
    options = {
        "Dir::Etc::SourceList": "/dev/null",
        "Dir::Etc::SourceParts": lists,
        "Dir::State": state / "state",
        "Dir::State::Status": "/var/lib/dpkg/status",
        "Dir::Cache": state / "cache",
        "APT::Sandbox::User": "root",
    }
    return ["apt-get", "-qq", *(word for key, value in options.items() for word in ("-o", f"{key}={value}"))]


def show(build: DebianBuild, source: Path, folder: Path, args: argparse.Namespace) -> dict[str, Any]:
    """Capture a package, build and test it in each form; returns what a row of the table says."""
    row: dict[str, Any] = {}
    folder.mkdir(parents=True, exist_ok=True)
    if not args.only or _CAPTURED in args.only:
        row[_CAPTURED] = capture(build, source, folder / _CAPTURED, _MACHINE_TOOLS, args)
    forms = [form for form in _FORMS if (form != _TUNED or args.tune) and (not args.only or form in args.only)]
    tools = {form: tools_of(form, folder, args) for form in forms}
    if _TUNED in forms:
        row["tuning"] = tune(build, source, folder, tools[_TUNED], args)
        if "failed" in row["tuning"]:
            forms.remove(_TUNED)
    for form in forms:  # all before the tests, which link more
        log = folder / f"{form}.log"
        _copy(source, folder / form)
        failed = _shell(["bash", "-c", build.build], folder / form, tools[form], args, log).returncode
        row[form] = {"failed": _end(log)} if failed else {}
    if _PLAIN in forms and not row[_PLAIN]:
        for form in forms:
            row[form] |= _size(folder / _PLAIN, folder / form) if not row[form] else {}
    for form in forms:
        if "failed" not in row[form]:
            row[form]["tests"] = _test(build, folder / form, tools[form], args)
    return row


def capture(
    build: DebianBuild, source: Path, project: Path, tools: Mapping[str, str], args: argparse.Namespace
) -> dict[str, Any]:
    """Capture the build by some compilers; returns modules, sources left out, and why."""
    tree, log = _copy(source, project.parent / "built"), project.with_suffix(".log")
    shutil.rmtree(project, ignore_errors=True)
    command = [str(_MLGO), "capture", "--json", "--config", str(_CONFIG), "-o", str(project), "--root", str(tree), "--"]
    run = _shell([*command, "bash", "-c", f"exec >&2; {build.build}"], tree, tools, args, log)
    if run.returncode or not run.stdout:
        return {"failed": _end(log)}
    found = json.loads(run.stdout[run.stdout.index("{") :])
    reasons = sorted({str(reason).split(":")[0] for reason in found["skipped"].values()})
    return {
        **{key: found[key] for key in ("modules", "programs")},
        "left_out": len(found["skipped"]),
        "reasons": reasons,
        "links_left_out": len(found["left_out"]),
    }


def tune(
    build: DebianBuild, source: Path, folder: Path, tools: Mapping[str, str], args: argparse.Namespace
) -> dict[str, Any]:
    """Capture the program by the compiler of `mlgo cc` and tune it, merged; returns what `mlgo tune` says."""
    zig = shlex.quote(str(find_linker()))
    compilers = {"CC": f"{zig} cc -mcpu=baseline", "CXX": f"{zig} c++ -mcpu=baseline"}
    captured = capture(build, source, folder / "to-tune", {**tools, **compilers}, args)
    if "failed" in captured:
        return captured
    words = ["--policy", str(args.policy.absolute())] if args.policy else []
    command = [str(_MLGO), "tune", str(folder / "to-tune"), "-o", str(folder / _TUNED_POLICY), *words, "--json"]
    command += ["--ships", "whole,sections=yes", "--budget", str(args.tune)]
    command += [word for name in build.programs for word in ("--program", name)]
    run = _shell(command, folder, {}, args, folder / "tune.log")
    return json.loads(run.stdout) if run.returncode == 0 else {"failed": _end(folder / "tune.log")}


def tools_of(form: str, folder: Path, args: argparse.Namespace) -> dict[str, str]:
    """Variables that name compilers, archiver and flags of a form."""
    policy = folder / _TUNED_POLICY if form == _TUNED else args.policy
    words = [*_FORMS[form], *(["--policy", str(policy.absolute())] if policy else [])]
    words += ["--languages", args.languages] if args.languages else []
    cc, cxx = (shlex.join([str(_MLGO), driver, *words, "--"]) for driver in ("cc", "c++"))
    zig, flags = shlex.quote(str(find_linker())), "-Oz -ffunction-sections -fdata-sections"
    flags += " -flto" if form == _LTO else ""
    wrappers = {name: folder / name for name in ("ar", "ranlib")}
    for name, path in wrappers.items():  # CMake takes an archiver as one file
        path.write_text(f'#!/bin/sh\nexec {zig} {name} "$@"\n')
        path.chmod(0o755)
    return {
        **{"CC": cc, "CXX": cxx, "CFLAGS": flags, "CXXFLAGS": flags, "LDFLAGS": "-Wl,--gc-sections"},
        **{name.upper(): str(path) for name, path in wrappers.items()},
    }


def _test(build: DebianBuild, tree: Path, tools: Mapping[str, str], args: argparse.Namespace) -> str:
    """Run a package's own tests; returns how they ended, with the counts that automake prints."""
    log = tree.parent / f"{tree.name}.test.log"
    status = _shell(["bash", "-c", build.test], tree, tools, args, log).returncode
    counts = dict(re.findall(r"^# (PASS|FAIL|ERROR): +(\d+)", log.read_text(errors="replace"), re.MULTILINE))
    counted = f" ({counts['PASS']})" if counts.get("PASS") else ""
    return _end(log) if status else f"passed{counted}"


def _size(plain: Path, tree: Path) -> dict[str, Any]:
    """Bytes of code, constants and unwind tables in all linked files of two builds."""
    command = [str(_MLGO), "size-diff", str(plain), str(tree), "--form", "linked", "--json"]
    run = subprocess.run(command, capture_output=True, text=True, check=False)
    if run.returncode:
        return {"not_compared": run.stderr.strip()[:200]}
    total = json.loads(run.stdout)["sections"]["total"]
    return {"bytes": total["after"], "change_percent": round(100.0 * (total["after"] / total["before"] - 1.0), 2)}


def _copy(source: Path, tree: Path) -> Path:
    shutil.rmtree(tree, ignore_errors=True)
    shutil.copytree(source, tree, symlinks=True)
    return tree


def _shell(
    command: Sequence[str], folder: Path, tools: Mapping[str, str], args: argparse.Namespace, log: Path
) -> subprocess.CompletedProcess[str]:
    environment = {**os.environ, **tools, "JOBS": str(args.jobs), "LC_ALL": "C"}
    with log.open("w") as file:
        return subprocess.run(
            ["timeout", "--kill-after=10", str(args.timeout), *command],
            cwd=folder,
            env=environment,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE if "--json" in command else file,
            stderr=file,
            text=True,
            check=False,
        )


def _end(log: Path) -> str:
    """The last line of a log that says something."""
    lines = [line.strip() for line in log.read_text(errors="replace").splitlines() if line.strip()]
    return f"{log.name}: {lines[-1][:160] if lines else 'nothing was printed'}"


def _run(command: Sequence[str], folder: Path) -> None:
    run = subprocess.run(command, cwd=folder, capture_output=True, text=True, check=False)
    if run.returncode:
        said = (run.stdout + run.stderr).strip().splitlines()
        raise MlgoError(f"{shlex.join(command)[:200]} ended with status {run.returncode}: {' | '.join(said[-3:])}")


def _table(rows: list[dict[str, Any]]) -> Table:
    def left_out(row: dict[str, Any]) -> str:
        found = row.get(_CAPTURED)
        if not found or "failed" in found:
            return found["failed"] if found else "-"
        total = found["modules"] + found["left_out"]
        return f"{found['left_out']} of {total} ({100.0 * found['left_out'] / total:.1f} %)"

    def size(row: dict[str, Any], form: str) -> str:
        found = row.get(form, {})
        if "bytes" not in found:
            return "-"
        return f"{found['bytes']:,}" if form == _PLAIN else f"{found['change_percent']:+.2f} %"

    def tests(row: dict[str, Any], form: str) -> str:
        found = row.get(form, row.get("tuning", {}) if form == _TUNED else {})
        return str(found.get("tests") or found.get("failed") or "-")

    return Table(
        [
            text_column("package", lambda row: row["name"]),
            text_column("left out", left_out),
            count_column("programs", lambda row: row.get(_CAPTURED, {}).get("programs")),
            *(text_column(form, partial(size, form=form)) for form in _FORMS),
            *(text_column(f"tests, {form}", partial(tests, form=form)) for form in _FORMS),
        ],
        rows,
    )


if __name__ == "__main__":
    run_program(main)
