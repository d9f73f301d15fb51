"""Recipes of crates: programs of vendored sources, built by the real cargo without a network."""

import hashlib
import json
import shutil

import pyarrow.parquet as pq
import pytest

from mlgo.base.artifacts import PROGRAMS_OF_PROJECT, PROJECT, read_table
from mlgo.corpus.capture.crates import CrateBuild, crate_project
from mlgo.corpus.capture.project import Extraction
from mlgo.corpus.recipe import Crate, Recipe
from mlgo.errors import CorpusError
from tests.cargo import NEEDS_CARGO, write_vendored

pytestmark = NEEDS_CARGO
PINNED = "12e2716bf8ec38d45a1f543cf89ede23b56fac0950caf0cf5883cb1e628ad0ee"


@pytest.fixture
def build(front_end):
    """Capture program `app` of a folder of crates."""

    def go(vendored, folder, version="0.1.0"):
        recipe = Recipe(name="app", license="MIT", version=version, sha256=PINNED, crate=Crate(sources=str(vendored)))
        build = CrateBuild.of(recipe, folder, folder)
        return crate_project(build, Extraction("app", "MIT", front_end, 2))

    return go


def test_what_its_programs_ship_is_captured_anywhere_alike(build, tmp_path, monkeypatch):
    vendored = write_vendored(tmp_path / "crates")
    files = [
        [str(path.relative_to(vendored)), hashlib.sha256(path.read_bytes()).hexdigest()]
        for path in sorted(vendored.rglob("*"))
        if path.is_file()
    ]
    assert hashlib.sha256(json.dumps(files, separators=(",", ":")).encode()).hexdigest() == PINNED
    first = build(vendored, tmp_path / "one")
    assert (first.modules, first.programs, first.skipped, first.left_out) == (2, 1, {}, {})
    (program,) = read_table(tmp_path / "one/programs.parquet", PROGRAMS_OF_PROJECT).to_pylist()
    assert program["parts"] == [
        {"kind": "object", "modules": ["app-0.1.0/src/main.rs"]},
        {"kind": "archive", "modules": ["words-0.1.0/src/lib.rs"]},
    ]
    rows = read_table(tmp_path / "one/project.parquet", PROJECT).to_pylist()
    assert {row["language"] for row in rows} == {"rust"}

    # Neither folders nor what the user has set for cargo are in the bytes.
    (tmp_path / "home").mkdir()
    (tmp_path / "home/config.toml").write_text('[build]\nrustflags = ["-Copt-level=3"]\n')
    monkeypatch.setenv("CARGO_HOME", str(tmp_path / "home"))
    monkeypatch.setenv("RUSTFLAGS", "-Coverflow-checks=on")
    build(shutil.copytree(vendored, tmp_path / "another place/x"), tmp_path / "other")
    for table in ("project", "programs"):
        one, other = (pq.read_table(tmp_path / folder / f"{table}.parquet") for folder in ("one", "other"))
        assert one.equals(other)


def test_what_is_pinned_is_needed(build, tmp_path):
    vendored = write_vendored(tmp_path / "crates")
    with (vendored / "words-0.1.0/src/lib.rs").open("a") as file:
        file.write("// another one\n")
    with pytest.raises(
        CorpusError, match=r"app: the crates in .* that it needs are other ones \(sha256 [0-9a-f]{64}, pinned is 12e2"
    ):
        build(vendored, tmp_path / "out")


def test_the_pin_is_of_all_files_under_any_name(build, tmp_path):
    vendored = write_vendored(tmp_path / "crates")
    (vendored / "words-0.1.0").rename(vendored / "words-0.1")  # as Debian names one whose version says more
    with pytest.raises(CorpusError, match="are other ones") as first:
        build(vendored, tmp_path / "out")
    (vendored / "words-0.1/new.rs").write_text("")
    with pytest.raises(CorpusError, match="are other ones") as second:
        build(vendored, tmp_path / "out")
    assert str(first.value) != str(second.value)
    (vendored / "words-0.1/new.rs").unlink()
    (vendored / "words-0.1/new.rs").symlink_to("/etc/hostname")
    with pytest.raises(CorpusError, match=r"new\.rs is a link; put what it leads to in its place"):
        build(vendored, tmp_path / "out")


def test_a_crate_that_is_not_there_is_named(build, tmp_path):
    with pytest.raises(CorpusError, match=r"app: there is no folder .*fetch_crates\.py --output .*cargo vendor"):
        build(tmp_path / "nowhere", tmp_path / "out")
    vendored = write_vendored(tmp_path / "crates")
    with pytest.raises(CorpusError, match=r"app 0\.2\.0 cannot be built: error: .* `app = \"=0\.2\.0\"`"):
        build(vendored, tmp_path / "out", version="0.2.0")
    shutil.rmtree(vendored / "words-0.1.0")
    with pytest.raises(CorpusError, match=r"app 0\.1\.0 cannot be built: error: no matching package named `words`"):
        build(vendored, tmp_path / "out")


def test_a_crate_runs_its_own_tests(tmp_path):
    vendored = write_vendored(tmp_path / "crates")
    recipe = Recipe(name="app", license="MIT", version="0.1.0", sha256=PINNED, crate=Crate(sources=str(vendored)))

    def results(place):
        one = CrateBuild.of(recipe, tmp_path, tmp_path / place)
        return one.test(one.environment(1))

    assert results("passing") == ["counts ... ok"]
    main = vendored / "app-0.1.0/src/main.rs"
    panicking = "{ panic!() }\n"
    more = (
        f"#[test] fn fails() {panicking}#[test] #[should_panic] fn panics() {panicking}#[test] #[ignore] fn not() {{}}"
    )
    main.write_text(main.read_text() + more)
    assert results("failing") == [
        "counts ... ok",
        "fails ... FAILED",
        "not ... ignored",
        "panics - should panic ... ok",
    ]
    main.write_text(main.read_text() + "fn wrong() -> u8 { }")
    with pytest.raises(CorpusError, match=r"app 0\.1\.0 cannot be built: error.*mismatched types"):
        results("broken")
    with (vendored / "app-0.1.0/Cargo.toml").open("a") as manifest:
        manifest.write('[dev-dependencies]\nproptest = "1"\n')
    with pytest.raises(CorpusError, match="proptest"):
        results("lacking")


def test_tests_that_never_end_have_no_results(tmp_path, monkeypatch):
    vendored = write_vendored(tmp_path / "crates")
    main = vendored / "app-0.1.0/src/main.rs"
    main.write_text(main.read_text() + "#[test] fn waits() { loop { std::thread::park() } }")
    recipe = Recipe(name="app", license="MIT", version="0.1.0", sha256=PINNED, crate=Crate(sources=str(vendored)))
    one = CrateBuild.of(recipe, tmp_path, tmp_path / "out")
    monkeypatch.setattr("mlgo.corpus.capture.crates._TIMEOUT_S", 8.0)
    with pytest.raises(CorpusError, match="no end within 8 s"):  # and not the results of those that did end
        one.test(one.environment(1))
