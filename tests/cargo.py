"""A small package for cargo: a program, and a library that has a build script."""

import os
import shutil
from pathlib import Path

import pytest

NEEDS_CARGO = pytest.mark.skipif(
    not (shutil.which("cargo") or os.environ.get("MLGO_REQUIRE_RUST")), reason="no cargo is installed here"
)
"""Marks tests that are skipped where no Rust is, but not in CI."""

WORDS = """
pub fn count(text: &str) -> std::collections::BTreeMap<String, usize> {
    let mut found = std::collections::BTreeMap::new();
    for word in text.split_whitespace() { *found.entry(word.to_lowercase()).or_insert(0) += 1; }
    found
}
"""
MAIN = """
fn main() {
    let text = std::env::args().skip(1).collect::<Vec<_>>().join(" ");
    for (word, number) in words::count(&text) { println!("{word} {number}"); }
}
#[test]
fn counts() { assert_eq!(words::count("a b a")["a"], 2); }
"""
PACKAGE = '[package]\nname = "{name}"\nversion = "0.1.0"\nedition = "2021"\n'


def write_package(folder: Path) -> Path:
    """Write it to a folder, to be compiled for size; return the folder."""
    profile = '[profile.release]\nopt-level = "z"\n'
    for name, text in {
        "Cargo.toml": PACKAGE.format(name="app") + '[dependencies]\nwords = { path = "words" }\n' + profile,
        "src/main.rs": MAIN,
        "words/Cargo.toml": PACKAGE.format(name="words") + 'build = "build.rs"\n',
        "words/build.rs": "fn main() {}\n",
        "words/src/lib.rs": WORDS,
    }.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text(text)
    return folder


def write_vendored(folder: Path) -> Path:
    """Write it to a folder of vendored sources, as crates app 0.1.0 and words 0.1.0; return the folder."""
    write_package(folder / "app-0.1.0")
    (folder / "app-0.1.0/words").rename(folder / "words-0.1.0")
    manifest = folder / "app-0.1.0/Cargo.toml"
    manifest.write_text(manifest.read_text().replace('{ path = "words" }', '"0.1"'))
    for crate in ("app", "words"):
        (folder / f"{crate}-0.1.0/.cargo-checksum.json").write_text('{"files": {}}')
    return folder
