"""Crates: a program of a folder of vendored sources is built as `cargo install` does, and what it ships is captured.

Such a folder is what `cargo vendor` writes, or packages librust-*-dev of Debian install. cargo needs no network. Its
configuration is its own, so a corpus does not depend on the user's.
"""

import os
import re
import shutil
from dataclasses import replace
from pathlib import Path

from mlgo.base.files import content_sha256, file_sha256, is_folder, joined, write_text
from mlgo.base.output import make_folders, remove_tables
from mlgo.corpus.capture.builds import Build, recorded_build
from mlgo.corpus.capture.invocations import CRATES, RECORDS, wrap_tools
from mlgo.corpus.capture.project import Captured, Extraction, write_project
from mlgo.corpus.recipe import Crate, Recipe
from mlgo.errors import CorpusError, ToolchainError
from mlgo.host.process import Child

_TIMEOUT_S = 3600.0
_CONFIG = """\
[source.crates-io]
replace-with = "vendored"
[source.vendored]
directory = {vendored}
[net]
offline = true
"""
_ANYWHERE = "/crates", "/target"
"""What compiled crates say instead of the folders of their sources, and of the build."""


def crate_project(recipe: Recipe, crate: Crate, vendored: Path, folder: Path, extraction: Extraction) -> Captured:
    """Make a captured project of a crate's programs, for the target of the extraction.

    Raises:
        CorpusError: the crate, or one that it needs, is not in the folder, does not build, or is not what is pinned.
        ToolchainError: there is no cargo.
    """
    vendored, folder = vendored.absolute(), folder.absolute()
    make_folders(folder, RECORDS, CRATES, "cargo")
    remove_tables(joined(folder, "parts"))
    build = capture_crate(recipe, crate, vendored, folder, extraction.num_threads)
    found = shipped_sha256(vendored, build)
    if found != recipe.sha256:
        raise CorpusError(
            f"{recipe.name}: the crates in {vendored} that it ships are other ones (sha256 {found}, pinned is "
            f"{recipe.sha256}); take the folder that the recipe was written for, or pin these"
        )
    return write_project(folder, build, folder, replace(extraction, hidden=(folder, vendored)))


def capture_crate(recipe: Recipe, crate: Crate, vendored: Path, folder: Path, num_threads: int) -> Build:
    """Build the programs of a crate, and read from the build what they consist of.

    Args:
        folder: of the build; holds folders for records and crates.
    """
    if shutil.which("cargo") is None:
        raise ToolchainError(f"{recipe.name} is a crate, and there is no cargo; install Rust")
    if not is_folder(vendored):
        raise CorpusError(
            f"{recipe.name}: there is no folder {vendored} with crates; fetch those of Debian with "
            f"python scripts/fetch_crates.py --output {vendored}, or those of your project with cargo vendor"
        )
    write_text(folder / "cargo" / "config.toml", _CONFIG.format(vendored=_quoted(vendored)))
    target, log = folder / "target", folder / "build.log"
    moved = [f"--remap-path-prefix={place}={name}" for place, name in zip((vendored, target), _ANYWHERE, strict=True)]
    inherited = {name: value for name, value in os.environ.items() if not name.startswith(("CARGO_", "RUSTFLAGS"))}
    environment = wrap_tools(
        folder,
        inherited
        | {
            "CARGO_HOME": str(folder / "cargo"),
            "CARGO_TARGET_DIR": str(target),
            "CARGO_BUILD_JOBS": str(num_threads),
            "CARGO_ENCODED_RUSTFLAGS": "\x1f".join(moved),
            "CARGO_PROFILE_RELEASE_OPT_LEVEL": crate.opt_level,
            "CARGO_PROFILE_RELEASE_PANIC": crate.panic,
            "CARGO_PROFILE_RELEASE_LTO": "off",
            "CARGO_PROFILE_RELEASE_DEBUG": "false",
            "CARGO_PROFILE_RELEASE_CODEGEN_UNITS": "1",
        },
    )
    features = [f"--features={','.join(crate.features)}"] if crate.features else []
    features += [] if crate.default_features else ["--no-default-features"]
    what = [*features, "--bins", "--", f"{recipe.name}@={recipe.version}"]
    command = ["cargo", "install", "--no-track", "--root", str(folder / "installed"), *what]
    run = Child(command, cwd=folder, env=environment, stdout=log).finish(_TIMEOUT_S)
    write_text(log, run.stderr)
    if run.returncode != 0:
        reason = f"no end within {_TIMEOUT_S:g} s" if run.returncode is None else _reason(run.stderr)
        raise CorpusError(f"{recipe.name} {recipe.version} cannot be built: {reason}; all it said is in {log}")
    return recorded_build(folder, folder, (), [folder / "installed"])


def shipped_sha256(vendored: Path, build: Build) -> str:
    """Hash of all files of the crates that a build has compiled for what it ships."""
    sources = {unit.compile.folder / unit.compile.source for unit in build.units}
    crates = {path.relative_to(vendored).parts[0] for path in sources if path.is_relative_to(vendored)}
    files = [path for name in sorted(crates) for path in sorted((vendored / name).rglob("*")) if path.is_file()]
    return content_sha256([[path.relative_to(vendored).as_posix(), file_sha256(path)] for path in files])


def _quoted(path: Path) -> str:
    """A path as a string of TOML."""
    return '"' + re.sub(r'[\\"]', r"\\\g<0>", str(path)) + '"'


def _reason(said: str) -> str:
    """The first line that says why."""
    lines = [line.strip() for line in said.splitlines() if line.strip()]
    return next((line for line in lines if line.startswith("error")), lines[-1] if lines else "cargo said nothing")[
        :300
    ]
