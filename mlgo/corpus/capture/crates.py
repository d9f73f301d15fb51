"""Crates: a program of a folder of vendored sources is built as `cargo install` does, and what it ships is captured.

Such a folder is what `cargo vendor` writes, or packages librust-*-dev of Debian install. cargo needs no network. Its
configuration is its own, so a corpus does not depend on the user's.
"""

import json
import os
import re
import shutil
import tomllib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from mlgo.base.files import content_sha256, file_sha256, is_file, is_folder, joined, write_text
from mlgo.base.output import make_folders, remove_tables
from mlgo.corpus.capture.builds import Build, recorded_build
from mlgo.corpus.capture.invocations import CRATES, RECORDS, wrap_tools
from mlgo.corpus.capture.project import Captured, Extraction, write_project
from mlgo.corpus.recipe import Crate
from mlgo.errors import CorpusError, ToolchainError
from mlgo.host.process import Child

_TIMEOUT_S = 3600.0
_CONFIG = """\
[source.crates-io]
replace-with = "vendored"
[source.vendored]
directory = {}
[net]
offline = true
"""
_NEEDING = """\
[package]
name = "needs-{name}"
version = "0.0.0"
[lib]
path = "lib.rs"
[workspace]
[dependencies]
{name} = {{ version = "={version}", features = {features}, default-features = {default} }}
"""
_MISSING = re.compile(r"cannot find -l[\w+.-]+|Could not run `[^`]*pkg-config[^`]*`")
"""What a linker or a build script says of a library of the system."""
_ANYWHERE = "/crates", "/target"
"""What compiled crates say instead of the folders of their sources, and of the build."""


@dataclass(frozen=True)
class CrateBuild:
    """A crate whose programs are built, and where."""

    name: str
    version: str
    crate: Crate
    vendored: Path  # folder of sources, absolute
    folder: Path  # of the build, absolute

    @property
    def log(self) -> Path:
        """What cargo said last."""
        return self.folder / "build.log"

    def needed_sha256(self) -> str:
        """Hash of all files of the crate and of those that it needs on any machine, as cargo chooses them."""
        default, features = json.dumps(self.crate.default_features), json.dumps(self.crate.features)
        place = self.folder / "needed"
        manifest = _NEEDING.format(name=self.name, version=self.version, features=features, default=default)
        write_text(place / "Cargo.toml", manifest)
        write_text(place / "lib.rs", "")
        self._run(["generate-lockfile", f"--manifest-path={place / 'Cargo.toml'}"], os.environ)
        locked = tomllib.loads((place / "Cargo.lock").read_text())["package"]
        crates = [self._sources_of(one["name"], one["version"]) for one in locked if "source" in one]
        files = [path for crate in crates for path in sorted(crate.rglob("*")) if is_file(path)]
        return content_sha256([[path.relative_to(self.vendored).as_posix(), file_sha256(path)] for path in files])

    def _sources_of(self, name: str, version: str) -> Path:
        folder = joined(self.vendored, f"{name}-{version}")
        return folder if is_folder(folder) else joined(self.vendored, name)  # as cargo vendor names one of one version

    def capture(self, num_threads: int) -> Build:
        """Build the programs, and read from the build what they consist of."""
        make_folders(self.folder, RECORDS, CRATES)
        environment = self.environment(num_threads)
        environment["CARGO_ENCODED_RUSTFLAGS"] += "\x1f-Cno-prepopulate-passes"  # what it links is not kept
        installed = self.install(wrap_tools(self.folder, environment))
        return recorded_build(self.folder, self.folder, (), [installed])

    def environment(self, num_jobs: int) -> dict[str, str]:
        """Variables under which cargo compiles as the recipe says, one unit a crate, and nothing says where."""
        target = self.folder / "target"
        moved = zip((self.vendored, target), _ANYWHERE, strict=True)
        inherited = {name: value for name, value in os.environ.items() if not name.startswith(("CARGO_", "RUSTFLAGS"))}
        return inherited | {
            "CARGO_TARGET_DIR": str(target),
            "CARGO_BUILD_JOBS": str(num_jobs),
            "CARGO_ENCODED_RUSTFLAGS": "\x1f".join(f"--remap-path-prefix={path}={name}" for path, name in moved),
            "CARGO_PROFILE_RELEASE_OPT_LEVEL": self.crate.opt_level,
            "CARGO_PROFILE_RELEASE_PANIC": self.crate.panic,
            "CARGO_PROFILE_RELEASE_LTO": "off",
            "CARGO_PROFILE_RELEASE_DEBUG": "false",
            "CARGO_PROFILE_RELEASE_CODEGEN_UNITS": "1",
        }

    def install(self, environment: Mapping[str, str], cargo: Sequence[str] = ("cargo",)) -> Path:
        """Build the programs with some variables; return the folder whose ``bin`` they are in.

        Args:
            cargo: words of the program that is called as cargo is.
        """
        installed = self.folder / "installed"
        what = [f"--features={','.join(self.crate.features)}", "--bins", "--", f"{self.name}@={self.version}"]
        what = what if self.crate.default_features else ["--no-default-features", *what]
        self._run(["install", "--no-track", f"--root={installed}", *what], environment, cargo)
        return installed

    def _run(self, words: Sequence[str], environment: Mapping[str, str], cargo: Sequence[str] = ("cargo",)) -> None:
        home = self.folder / "cargo"
        write_text(home / "config.toml", _CONFIG.format(json.dumps(str(self.vendored))))
        environment = {**environment, "CARGO_HOME": str(home)}
        run = Child([*cargo, *words], cwd=self.folder, env=environment).finish(_TIMEOUT_S)
        write_text(self.log, run.stderr)
        if run.returncode != 0:
            lines = [line.strip() for line in run.stderr.splitlines() if line.strip()] or ["cargo said nothing"]
            missing = (found[0] for line in lines if (found := _MISSING.search(line)))
            reason = next(missing, next((line for line in lines if line.startswith("error")), lines[-1])[:300])
            reason = f"no end within {_TIMEOUT_S:g} s" if run.returncode is None else reason
            raise CorpusError(f"{self.name} {self.version} cannot be built: {reason}; all it said is in {self.log}")


def crate_project(build: CrateBuild, pinned: str, extraction: Extraction) -> Captured:
    """Make a captured project of a crate's programs, with the threads of the extraction.

    Args:
        pinned: what `CrateBuild.needed_sha256` must be.

    Raises:
        CorpusError: the crate, or one that it needs, is not in the folder, does not build, or is not what is pinned.
        ToolchainError: there is no cargo.
    """
    if shutil.which("cargo") is None:
        raise ToolchainError(f"{build.name} is a crate, and there is no cargo; install Rust")
    if not is_folder(build.vendored):
        raise CorpusError(
            f"{build.name}: there is no folder {build.vendored} with crates; fetch those of Debian with "
            f"python scripts/fetch_crates.py --output {build.vendored}, or those of your project with cargo vendor"
        )
    make_folders(build.folder, "needed", "cargo")
    remove_tables(joined(build.folder, "parts"))
    if (found := build.needed_sha256()) != pinned:
        raise CorpusError(
            f"{build.name}: the crates in {build.vendored} that it needs are other ones (sha256 {found}, pinned is "
            f"{pinned}); take the folder that the recipe was written for, or pin these"
        )
    hidden = (build.folder, build.vendored)
    return write_project(
        build.folder, build.capture(extraction.num_threads), build.folder, replace(extraction, hidden=hidden)
    )
