"""Show on real builds that a capture is true and useful: capture, verify, evaluate, train, run the project's own tests.

Example:
    python scripts/real_builds.py --policy data/policies/marginal-s0 --output captured/real pyclipper contourpy
"""

import argparse
import json
import os
import shlex
import shutil
import subprocess
import sys
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml

from mlgo.base.artifacts import RESULTS, SHIPPED_SIZES, read_table
from mlgo.base.files import write_json
from mlgo.base.packages import Package, fetch_package
from mlgo.base.scratch import shared_folder
from mlgo.cli.program import run_program
from mlgo.corpus.build import unpack
from mlgo.errors import MlgoError
from mlgo.host.toolchain import find_linker

ROOT = Path(__file__).parents[1]
_TIMEOUT_S = 3600.0
_COPIED = ("Snakefile", "config", "data/sample", "mlgo", "requirements.lock", "scripts", "workflow")
_MODULES_TO_TRAIN_ON = 12
_MOST_QUESTIONS = 100_000  # of a module: one that Cython has generated asks thousands


@dataclass(frozen=True)
class RealBuild:
    """A project whose build is shown.

    Attributes:
        kind: of its build.
        package: its source distribution.
        folder: in the source distribution, of a build that is no wheel.
        build: command of such a build, for a shell.
        tests: its own tests: arguments of pytest within the source distribution; of a build that is no wheel, the
            folder of its test programs.
        needs: what these tests need besides, as pip takes it.
    """

    kind: str
    package: Package
    folder: str = ""
    build: str = ""
    tests: Sequence[str] = ()
    needs: Sequence[str] = ()


def _sdist(name: str, version: str, sha256: str) -> Package:
    return Package(name, version, sha256, "sdist")


BUILDS = {
    "ninja": RealBuild(
        "CMake and Ninja, C++",
        _sdist("ninja", "1.13.2", "525bfa3fc88aa30a4467df270fd5be6f9fcae8061d54d4df74ea1dc5abd5a975"),
        tests=["tests/test_ninja.py", "-k", "not script"],  # which asks for an environment that ninja is installed in
        needs=["importlib_metadata==10.2.0"],
    ),
    "libsodium": RealBuild(
        "autotools and make, C",
        _sdist("pynacl", "1.6.2", "018494d6d696ae03c7e656e5e74cdfd8ea1326962cc401bcf018f1ed8436811c"),
        folder="src/libsodium",
        build="sh ./configure --disable-shared --disable-dependency-tracking && make -j2 && make -j2 check",
        tests=["test/default"],
    ),
    "contourpy": RealBuild(
        "wheel: Meson and pybind11, C++",
        _sdist("contourpy", "1.3.3", "083e12155b210502d0bca491432bb04d56dc3432f95a979b429f2848c3dbe880"),
        tests=[
            "tests",
            "-k",
            "not image and not renderer and not text and not codebase and not typecheck and not cache",
        ],
    ),
    "pyclipper": RealBuild(
        "wheel: Cython, C++",
        _sdist("pyclipper", "1.4.0", "9882bd889f27da78add4dd6f881d25697efc740bf840274e749988d25496c8e1"),
        tests=["tests/test_pyclipper.py"],
    ),
    "fasttext": RealBuild(
        "wheel: setuptools and pybind11, C++",
        _sdist("fasttext", "0.9.3", "eb03f2ef6340c6ac9e4398a30026f05471da99381b307aafe2f56e4cd26baaef"),
    ),
    "ujson": RealBuild(
        "wheel: setuptools, C and C++",
        _sdist("ujson", "6.1.0", "aef7ea4cd9e2e9f8a35c4538a9780d58c80d76c5da66a8dad269b4cc6d930c29"),
        tests=["tests/test_ujson.py"],
    ),
}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--policy", type=Path, required=True, metavar="DIR", help="folder of the policy")
    parser.add_argument("--output", type=Path, required=True, metavar="DIR", help="for captured projects and results")
    parser.add_argument("--no-training", action="store_true", help="leave the tiny run of the pipeline out")
    parser.add_argument("names", nargs="*", metavar="NAME", help=f"of {', '.join(BUILDS)} (default: all)")
    args = parser.parse_args()
    for name in args.names or BUILDS:
        if name not in BUILDS:
            raise MlgoError(f"no build {name}; there are {', '.join(BUILDS)}")
        found = show(name, BUILDS[name], args.output.absolute() / name, args.policy, train=not args.no_training)
        write_json(args.output / f"{name}.json", found)
        print(json.dumps(found), flush=True)


def show(name: str, build: RealBuild, folder: Path, policy: Path, *, train: bool) -> dict[str, Any]:
    """Do everything with one build, and say how it went."""
    start = time.monotonic()
    project, source = capture(build, folder)
    seconds = time.monotonic() - start
    verified = json.loads(_mlgo("corpus", "verify", "--project", project, "--json"))
    _mlgo("evaluate", "--policy", policy, "--project", project)
    zig = shlex.quote(str(find_linker()))
    tools = [f"{zig} {name}{target}" for name in ("cc", "c++") for target in ("", " -target x86_64-linux-gnu")]
    again = ("--project", project, "--policy", policy, "-o", folder / "again", "--tools", *tools)
    relinked = json.loads(_mlgo("corpus", "relink", *again, "--json"))
    return {
        "name": name,
        "kind": build.kind,
        "capture_seconds": round(seconds),
        **{key: verified[key] for key in ("modules", "reproduced", "same_contents", "reasons")},
        "programs": len(relinked["programs"]),
        **_gain(project / "evaluation" / policy.resolve().name),
        "training": _train(project, folder / "training") if train else "not run",
        "tests": _test(build, project, source, folder) if build.tests else "none that run without further data",
    }


def capture(build: RealBuild, folder: Path) -> tuple[Path, Path]:
    """Capture a build; returns the folder of the project, and that of the sources."""
    package, project = build.package, folder / "project"
    shutil.rmtree(folder, ignore_errors=True)
    if not build.build:
        _mlgo("capture", "-o", project, "--sdist", str(package).replace(" ", "=="), "--sha256", package.sha256)
        return project, project / "source"
    archive = fetch_package(package, shared_folder() / "sdists")
    source = unpack(archive, folder / "sources") / build.folder
    zig = shlex.quote(str(find_linker()))
    command = ("sh", "-c", f"cd {shlex.quote(str(source))} && {build.build}")
    _mlgo("capture", "-o", project, "--root", source, "--", *command, CC=f"{zig} cc", CXX=f"{zig} c++", AR=f"{zig} ar")
    return project, source


def _gain(evaluation: Path) -> dict[str, Any]:
    """What all linked files gain under the policy, in percent of their sizes under the heuristic."""
    rows = read_table(evaluation / "shipped.parquet", SHIPPED_SIZES).to_pylist()
    totals: dict[bool, int] = {True: 0, False: 0}
    for row in rows:
        if not row["folded"] and row["contender"] in ("heuristic", evaluation.name):
            totals[row["contender"] == "heuristic"] += row["total"] or 0
    failed = sum(bool(kind) for kind in read_table(evaluation / "results.parquet", RESULTS)["failure"].to_pylist())
    gain = 100.0 * (totals[True] - totals[False]) / totals[True] if totals[True] else None
    return {"shipped_bytes": totals[True], "gain_percent": None if gain is None else round(gain, 2), "failed": failed}


def _train(project: Path, folder: Path) -> str:
    """Run the tiny preset with the project to train on; returns how it ended."""
    for name in _COPIED:
        target = folder / name
        target.parent.mkdir(parents=True, exist_ok=True)
        copy = shutil.copytree if (ROOT / name).is_dir() else shutil.copy2
        copy(ROOT / name, target)
    recipes = folder / "config" / "corpora" / "sample"
    (recipes / "own.yaml").write_text(yaml.safe_dump({"name": "own", "license": "", "captured": str(project)}))
    corpus = {
        "splits": {"train": ["own"], "validation": ["codec", "graph"], "test": ["calc", "geometry"]},
        "max_modules_per_project": _MODULES_TO_TRAIN_ON,
    }
    learners = {name: {"max_questions": _MOST_QUESTIONS} for name in ("es", "marginal")}
    (folder / "own.yaml").write_text(yaml.safe_dump({"corpus": corpus, **learners}))
    presets = ("config/presets/tiny.yaml", "own.yaml")
    profile = ("--workflow-profile", "workflow/profiles/default")
    _run(["snakemake", *profile, "--cores", "2", "--configfile", *presets], folder, PYTHONPATH=str(folder))
    policies = sorted(path.parent.name for path in (folder / "data" / "policies").glob("*/weights.npy"))
    return f"report with {', '.join(policies)}"


def _test(build: RealBuild, project: Path, source: Path, folder: Path) -> str:
    """Run the project's own tests on the files that were linked again; returns how that ended."""
    if build.build:
        return _run_programs(source, folder, build.tests[0])
    installed = folder / "installed"
    (wheel,) = (project / "wheel").glob("*.whl")
    pip = (sys.executable, "-m", "pip", "install", "--quiet", "--target", str(installed))
    _run([*pip, "--no-deps", str(wheel), *build.needs])
    replaced = 0
    for file in (path for path in (folder / "again").rglob("*") if path.is_file()):
        for place in installed.rglob(file.name):
            if place.is_file() and place.read_bytes()[:4] == b"\x7fELF":
                shutil.copy2(file, place)
                replaced += 1
    if not replaced:
        raise MlgoError(f"{build.package}: no linked file of the wheel was replaced")
    path = f"{installed / 'bin'}{os.pathsep}{os.environ['PATH']}"
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", *build.tests]
    environment = {**os.environ, "PYTHONPATH": str(installed), "PATH": path}
    run = subprocess.run(
        command, cwd=source, env=environment, capture_output=True, text=True, timeout=_TIMEOUT_S, check=False
    )
    return run.stdout.strip().splitlines()[-1].strip("= ")


def _run_programs(source: Path, folder: Path, place: str) -> str:
    """Run each test program that was linked again: it compares what it prints with a file of its folder."""
    tests, files = source / place, sorted((folder / "again" / place).iterdir())
    programs = [path for path in files if (tests / f"{path.name}.exp").exists()]
    failed = []
    for program in programs:
        run = subprocess.run([program], cwd=tests, capture_output=True, timeout=_TIMEOUT_S, check=False)
        failed += [program.name] if run.returncode else []
    which = f", not {', '.join(failed)}" if failed else ""
    return f"{len(programs) - len(failed)} of {len(programs)} programs passed{which}"


def _mlgo(*words: str | Path, **variables: str) -> str:
    return _run([str(Path(sys.executable).with_name("mlgo")), *map(str, words)], ROOT, **variables)


def _run(command: Sequence[str], folder: Path = ROOT, **variables: str) -> str:
    environment = {**os.environ, **variables}
    run = subprocess.run(
        command, cwd=folder, env=environment, capture_output=True, text=True, timeout=_TIMEOUT_S, check=False
    )
    if run.returncode:
        said = (run.stdout + run.stderr).strip().splitlines()
        raise MlgoError(f"{shlex.join(command)[:300]} ended with status {run.returncode}: {' | '.join(said[-5:])}")
    return run.stdout


if __name__ == "__main__":
    run_program(main)
