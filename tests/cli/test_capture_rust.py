"""`mlgo capture -- cargo build`: crates as modules, and programs as rustc links them, with its own libraries."""

import json

import pyarrow.parquet as pq
import pytest

from mlgo.base.artifacts import PROGRAMS_OF_PROJECT, PROJECT, read_table
from mlgo.errors import LinkError
from mlgo.host.rustc import library_of_rust, rust_library
from tests.cargo import NEEDS_CARGO, write_package
from tests.deploy.publish.conftest import RELEASED

pytestmark = NEEDS_CARGO


def capture(mlgo, folder, output):
    write_package(folder)
    build = ["--", "cargo", "build", "--release", "--manifest-path", folder / "Cargo.toml"]
    run = mlgo("capture", "-o", output, "--root", folder, "--json", *build)
    assert run.returncode == 0, run.stderr
    return json.loads(run.stdout)


@pytest.fixture(scope="module")
def captured(mlgo, tmp_path_factory):
    folder = tmp_path_factory.mktemp("rust")
    said = capture(mlgo, folder / "app", folder / "captured")
    assert (said["modules"], said["programs"], said["skipped"], said["edited"]) == (2, 1, {}, {})
    return folder / "captured"


def test_what_ships_is_captured(captured):
    """Not the build script, which runs while others are built."""
    modules = {row["module"]: row for row in read_table(captured / "project.parquet", PROJECT).to_pylist()}
    assert {name: row["language"] for name, row in modules.items()} == {
        "src/main.rs": "rust",
        "words/src/lib.rs": "rust",
    }
    (program,) = read_table(captured / "programs.parquet", PROGRAMS_OF_PROJECT).to_pylist()
    assert (program["program"], program["kind"]) == ("target/release/deps/app", "program")
    assert program["parts"] == [
        {"kind": "object", "modules": ["src/main.rs"]},
        {"kind": "archive", "modules": ["words/src/lib.rs"]},
    ]
    own = [name for name in program["foreign"] if name.startswith("rustlib:")]
    assert any("/libstd-" in name for name in own)
    for name in own:
        assert library_of_rust(rust_library(name)) == name


def test_another_folder_gives_the_same(captured, mlgo, tmp_path):
    capture(mlgo, tmp_path / "another/folder", tmp_path / "again")
    for table in ("project", "programs"):
        one, other = (
            pq.read_table(folder / f"{table}.parquet").to_pylist() for folder in (captured, tmp_path / "again")
        )
        for row in one + other:
            row["project"] = ""
        assert one == other


def test_it_is_evaluated_as_it_is_linked(captured, mlgo):
    run = mlgo("evaluate", "--policy", RELEASED / "marginal-s0", "--project", captured, "--json")
    assert run.returncode == 0, run.stderr
    rows = [row for row in json.loads(run.stdout)["shipped"] if not row["folded"]]
    total = {row["contender"]: row["total"] for row in rows}
    assert {row["language"] for row in rows} == {"rust"}
    assert total["heuristic"] > 200_000  # most of it is of the standard library
    assert total["never"] > total["heuristic"] != total["marginal-s0"]


def test_libraries_of_another_rustc_are_named():
    with pytest.raises(LinkError, match=r"libstd-0123\.rlib is not in .* captured with another rustc"):
        rust_library("rustlib:x86_64-unknown-linux-gnu/libstd-0123.rlib")
    for name in ("rustlib:../x/libstd.rlib", "rustlib:../libstd.rlib", "/etc/passwd", "rustlib:x/../libstd.rlib"):
        with pytest.raises(LinkError, match="is no library of rustc"):
            rust_library(name)
