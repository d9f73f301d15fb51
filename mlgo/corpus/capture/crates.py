"""Crates: a program of a folder of vendored sources is built as `cargo install` does, and what it ships is captured.

Such a folder is what `cargo vendor` writes, or packages librust-*-dev of Debian install. cargo needs no network. Its
configuration is its own, so a corpus does not depend on the user's.
"""

import json
import os
import re
import shutil
import tomllib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from mlgo.base.files import content_sha256, copy_folder, file_sha256, is_file, is_folder, read_input, write_text
from mlgo.base.output import make_folders
from mlgo.corpus.capture.builds import Build, as_text, recorded_build
from mlgo.corpus.capture.invocations import CRATES, RECORDS, wrap_tools
from mlgo.corpus.capture.project import Captured, Extraction, write_project
from mlgo.corpus.recipe import Crate, Recipe
from mlgo.errors import CorpusError, ToolchainError
from mlgo.host.process import Child, Completed

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
_ANYWHERE = "/crates", "/target"
"""What compiled crates say instead of the folders of their sources, and of the build."""
_OF_USER = ("CARGO_", "MLGO_", "RUSTC", "RUSTDOC", "RUSTFLAGS")
"""Beginnings of variables that change what is built."""
_MOST_SAID = 1 << 20
_TEST = re.compile(r"^test (.+ \.\.\. (?:ok|FAILED|ignored.*))$", re.MULTILINE)
"""Result of a test, as libtest prints it."""


@dataclass(frozen=True)
class CrateBuild:
    """A crate whose programs are built, and where."""

    name: str
    version: str
    pinned: str  # hash of all sources that it needs
    crate: Crate
    vendored: Path  # folder of sources, absolute
    folder: Path  # of the build, absolute

    @classmethod
    def of(cls, recipe: Recipe, shared: Path, folder: Path) -> "CrateBuild":
        """The build of a recipe's crate in a new folder.

        Args:
            shared: folder that working copies share, where crates lie unless the recipe says otherwise.
        """
        crate = recipe.crate or Crate()
        vendored = Path(crate.sources or shared / "crates").absolute()
        return cls(recipe.name, str(recipe.version), str(recipe.sha256), crate, vendored, folder.absolute())

    def check(self) -> None:
        """See that cargo is there, and that the sources are those that are pinned."""
        if shutil.which("cargo") is None:
            raise ToolchainError(f"{self.name} is a crate, and there is no cargo; install Rust")
        if not is_folder(self.vendored):
            raise CorpusError(
                f"{self.name}: there is no folder {self.vendored} with crates; fetch those of Debian with "
                f"python scripts/fetch_crates.py --output {self.vendored} --mirror URL, or those of your project with "
                "cargo vendor"
            )
        if (found := self.needed_sha256()) != self.pinned:
            raise CorpusError(
                f"{self.name}: the crates in {self.vendored} that it needs are other ones (sha256 {found}, pinned is "
                f"{self.pinned}); take the folder that the recipe was written for, or pin these"
            )

    def needed_sha256(self) -> str:
        """Hash of all files of the crate and of those that it needs on any machine, as cargo chooses them."""
        default, features = json.dumps(self.crate.default_features), json.dumps(self.crate.features)
        place = self.folder / "needed"
        manifest = _NEEDING.format(name=self.name, version=self.version, features=features, default=default)
        write_text(place / "Cargo.toml", manifest)
        write_text(place / "lib.rs", "")
        self._run(["generate-lockfile", f"--manifest-path={place / 'Cargo.toml'}"], {})
        locked = tomllib.loads(read_input(place / "Cargo.lock").decode())["package"]
        crates = [self.sources_of(one["name"], one["version"]) for one in locked if "source" in one]
        return content_sha256(sorted([name, digest] for crate in crates for name, digest in self._files(crate)))

    def sources_of(self, name: str, version: str) -> Path:
        """Folder of a crate; names of folders mean nothing to cargo."""
        folders = [self.vendored / f"{name}-{version}", self.vendored / name, *self.vendored.glob(f"{name}-*")]
        for folder in filter(is_folder, folders):
            if re.search(rf'^name = "{re.escape(name)}"$', text := _manifest(folder), re.MULTILINE) and re.search(
                rf'^version = "{re.escape(version)}"$', text, re.MULTILINE
            ):
                return folder
        raise CorpusError(f"{self.name} needs {name} {version}, whose folder in {self.vendored} is not named after it")

    def _files(self, crate: Path) -> Iterator[tuple[str, str]]:
        """Names and hashes of the files of a crate, the same in any locale."""
        for path in crate.rglob("*"):
            if path.is_symlink():
                raise CorpusError(f"{path} is a link; put what it leads to in its place")
            if is_file(path):
                yield as_text(path.relative_to(self.vendored).as_posix()), file_sha256(path)

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
        return {name: value for name, value in os.environ.items() if not name.startswith(_OF_USER)} | {
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
        make_folders(self.folder, "target", "installed")
        installed = self.folder / "installed"
        what = [*self._features, "--bins", "--", f"{self.name}@={self.version}"]
        self._run(["install", "--no-track", f"--root={installed}", *what], environment, cargo)
        if not list(installed.glob("bin/*")):
            raise CorpusError(f"{self.name} {self.version} has no program with these features")
        return installed

    def test(self, environment: Mapping[str, str], cargo: Sequence[str] = ("cargo",)) -> list[str]:
        """Run the crate's own tests, built for release: names and what became of each, sorted.

        Args:
            cargo: see `install`.

        Raises:
            CorpusError: they do not end, or cannot be built, for example since a crate that only they need is missing.
        """
        source, said = self.folder / "source", self.folder / "tests.txt"
        copy_folder(self.sources_of(self.name, self.version), source)
        words = ["test", "--release", "--tests", "--no-fail-fast", f"--manifest-path={source / 'Cargo.toml'}"]
        run = self._cargo([*words, *self._features], environment, cargo, said)
        results = sorted(_TEST.findall(read_input(said).decode(errors="replace")))
        if run.returncode is None or not results:  # a status other than 0 means that some failed, or were not built
            self._check(run)
        return results

    @property
    def _features(self) -> list[str]:
        default = [] if self.crate.default_features else ["--no-default-features"]
        return [*default, f"--features={','.join(self.crate.features)}"]

    def _run(self, words: Sequence[str], environment: Mapping[str, str], cargo: Sequence[str] = ("cargo",)) -> None:
        self._check(self._cargo(words, environment, cargo))

    def _cargo(
        self, words: Sequence[str], environment: Mapping[str, str], cargo: Sequence[str], stdout: Path | None = None
    ) -> Completed:
        """Run cargo, with a configuration of its own: in a folder of the user it would read that of the user."""
        home = self.folder / "cargo"
        write_text(home / "config.toml", _CONFIG.format(json.dumps(str(self.vendored))))
        environment = {
            **(environment or self.environment(1)),
            "CARGO_HOME": str(home),
            "CARGO_TERM_COLOR": "never",
            "CARGO_RESOLVER_INCOMPATIBLE_RUST_VERSIONS": "allow",
        }
        child = Child([*cargo, *words], cwd=Path("/"), env=environment, tail_bytes=_MOST_SAID, stdout=stdout)
        return child.finish(_TIMEOUT_S)

    def _check(self, run: Completed) -> None:
        if run.returncode is None:
            raise CorpusError(f"{self.name} {self.version} cannot be built: no end within {_TIMEOUT_S:g} s")
        if run.returncode != 0:
            raise CorpusError(f"{self.name} {self.version} cannot be built: {_reason(run.stderr)}")


def crate_project(build: CrateBuild, extraction: Extraction) -> Captured:
    """Make a captured project of a crate's programs, with the threads of the extraction.

    Raises:
        CorpusError: the crate, or one that it needs, is not in the folder, does not build, or is not what is pinned.
        ToolchainError: there is no cargo.
    """
    make_folders(build.folder, "parts")
    build.check()
    captured = build.capture(extraction.num_threads)
    hidden = (build.folder, build.vendored)
    return write_project(build.folder, captured, build.folder, replace(extraction, hidden=hidden))


def _manifest(folder: Path) -> str:
    """Text of a crate's manifest, without what stands there of others."""
    try:
        text = read_input(folder / "Cargo.toml").decode(errors="replace")
    except OSError:
        return ""
    return text.partition("[package]")[2].partition("\n[")[0]


_MISSING = re.compile(r"cannot find -l[\w+.-]+|Could not run `[^`]*pkg-config[^`]*`")
"""What a linker or a build script says of a library of the system."""
_MOST_SHOWN = 400


def _reason(said: str) -> str:
    """What a user should know of all that cargo said: what is missing, or the first error, in one line."""
    if missing := _MISSING.search(said):
        return missing[0]
    lines = [line.strip() for line in said.splitlines() if line.strip()] or ["cargo said nothing"]
    first = next((number for number, line in enumerate(lines) if line.startswith("error")), len(lines) - 1)
    return " ".join(lines[first : first + 6])[:_MOST_SHOWN]
