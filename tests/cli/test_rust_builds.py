"""Programs in Rust as people ship them: built by the real cargo, under the released policy and without it."""

import json
import shutil
import subprocess
import sys

import pytest
import yaml

from tests.cargo import NEEDS_CARGO, write_vendored
from tests.conftest import REPOSITORY
from tests.deploy.publish.conftest import RELEASED

pytestmark = NEEDS_CARGO
PINNED = "12e2716bf8ec38d45a1f543cf89ede23b56fac0950caf0cf5883cb1e628ad0ee"  # see test_crates.py


@pytest.fixture
def builds(tmp_path):
    """Run the script on `app` of tests/cargo.py in some forms."""
    crate = {"sources": str(write_vendored(tmp_path / "crates"))}
    recipe = {"name": "app", "version": "0.1.0", "sha256": PINNED, "license": "MIT", "crate": crate}
    (tmp_path / "app.yaml").write_text(yaml.safe_dump(recipe))

    def run(*forms, policy="marginal-s0", more=()):
        words = [*more, "--output", tmp_path / "out", "--policy", RELEASED / policy, "--json", "--jobs", "1"]
        command = [sys.executable, "scripts/rust_builds.py", *words, *(f"--form={form}" for form in forms)]
        run = subprocess.run(
            [*command, tmp_path / "app.yaml"], cwd=REPOSITORY, capture_output=True, text=True, check=False, timeout=600
        )
        assert run.returncode == 0, run.stderr
        return json.loads(run.stdout)["app"]

    run.folder = tmp_path
    return run


def test_a_policy_changes_files_and_not_what_they_print(builds):
    found = builds("s", "z", "z,policy", "z,16")
    assert {one["printed"] for one in found.values()} == {found["z"]["printed"]}
    assert found["z,policy"]["advised"] == 2
    assert len({found[form]["code"] for form in ("s", "z", "z,policy")}) > 1
    for one in found.values():
        assert one["stripped"] > one["code"] > 100_000  # mostly the standard library

    # What is known is not built again; under another policy it is, and what fails is not kept.
    shutil.rmtree(builds.folder / "crates")
    assert builds("s", "z", "z,16") == {form: found[form] for form in ("s", "z", "z,16")}
    (builds.folder / "out/app.z.json").unlink()
    assert "there is no folder" in builds("s", "z")["z"]["failed"]
    assert not (builds.folder / "out/app.z.json").exists()


def test_programs_pass_their_own_tests_under_a_policy(builds):
    without = builds("z")["z"]
    assert "tests" not in without
    found = builds("z", "z,policy", more=["--tests"])
    assert {form: one["tests"] for form, one in found.items()} == {"z": 1, "z,policy": 1}
    assert found["z"]["tested"] == found["z,policy"]["tested"]
    assert found["z"]["printed"] == without["printed"]
    assert builds("z")["z"] == found["z"]  # known, and kept with its tests
