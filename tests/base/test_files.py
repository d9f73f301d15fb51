"""The hash of the package's source; folders written whole or not at all."""

import os
import shutil
import subprocess
import sys

import pytest

from mlgo.base.files import hash64, joined, write_atomically
from mlgo.errors import ArtifactError, PolicyError
from tests.conftest import REPOSITORY

PROGRAM = "from mlgo.base.files import source_hash; print(source_hash())"


@pytest.mark.parametrize("changed", ["base/seeding.py", "host/log.py", "learn/context.py"])
def test_a_change_anywhere_in_the_package_changes_the_hash(changed, tmp_path):
    def hash_of_copy():
        environment = {**os.environ, "PYTHONPATH": str(tmp_path)}
        return subprocess.check_output([sys.executable, "-c", PROGRAM], cwd=tmp_path, env=environment)

    shutil.copytree(REPOSITORY / "mlgo", tmp_path / "mlgo")
    before = hash_of_copy()
    assert hash_of_copy() == before
    path = tmp_path / "mlgo" / changed
    path.write_text(path.read_text() + "# another line\n")
    assert hash_of_copy() != before


def test_a_folder_appears_as_a_whole_and_replaces_an_earlier_one(tmp_path):
    target, left = tmp_path / "model", tmp_path / ".model.0123abcd.tmp"
    left.mkdir()
    (left / "half").write_text("of a killed process")
    for name in ("old", "new"):
        write_atomically(target, lambda folder, name=name: (folder / name).write_text(name), is_folder=True)
        assert [path.name for path in target.iterdir()] == [name]

    def broken(folder):
        (folder / "half").write_text("")
        raise PolicyError("stop")

    with pytest.raises(PolicyError):
        write_atomically(target, broken, is_folder=True)
    assert [path.name for path in tmp_path.iterdir()] == ["model"]
    assert [path.name for path in target.iterdir()] == ["new"]


def test_of_two_that_draft_one_folder_the_last_to_finish_stays_and_both_are_whole(tmp_path):
    target = tmp_path / "model"

    def outer(folder):
        (folder / "a").write_text("")
        write_atomically(target, lambda other: (other / "b").write_text(""), is_folder=True)
        assert [path.name for path in target.iterdir()] == ["b"]

    write_atomically(target, outer, is_folder=True)
    assert [path.name for path in target.iterdir()] == ["a"]


def test_a_hash_of_64_bits_is_that_of_b2sum_the_first_byte_lowest():
    assert hash64(b"abc").to_bytes(8, "little").hex() == "d8bb14d833d59559"


@pytest.mark.parametrize("name", ["a", "a/b.c", "./a", "a//b", "...", "a..b", "\u00fc\udcff", ".", "-", "x" * 240])
def test_a_name_from_outside_is_joined_where_it_stays_inside(name, tmp_path):
    assert joined(tmp_path, name) == tmp_path / name


@pytest.mark.parametrize(
    "name", ["", "/etc/x", "..", "../x", "a/../../x", "a/..", "a\0b", "x" * 241, "a/" * 2000, "\ud800", "//x"]
)
def test_a_name_from_outside_that_leads_out_or_is_none_is_refused(name, tmp_path):
    with pytest.raises(ArtifactError, match=r"name '.*leads out of its folder, or is none"):
        joined(tmp_path, name)


def test_links_are_followed_inside_the_folder_alone(tmp_path):
    root = tmp_path / "root"
    (root / "own").mkdir(parents=True)
    for name, target in {"in": "own", "up": "..", "far": "/etc", "hung": "/nowhere", "round": "round"}.items():
        (root / name).symlink_to(target)
    (root / "own" / "back").symlink_to("../../root")
    (tmp_path / "alias").symlink_to(root)
    for name in ("in/x", "own/back/in/x"):
        assert joined(root, name) == root / name
        assert joined(tmp_path / "alias", name) == tmp_path / "alias" / name
    for name in ("up", "up/x", "far", "far/x", "hung", "own/back/far/x"):
        with pytest.raises(ArtifactError, match=r"leads out of .* through a link"):
            joined(root, name)
    with pytest.raises(ArtifactError, match="cannot be followed"):
        joined(root, "round/x")


def test_links_to_links_that_are_too_long_together_lead_nowhere(tmp_path):
    root = folder = tmp_path / "root"
    root.mkdir()
    for letter in "abcdefghijklmnopqr":  # each folder is long, each link to it short
        (folder / (letter * 240)).mkdir()
        (folder / letter).symlink_to(letter * 240)
        folder /= letter
    up = root / "up"
    up.symlink_to("/".join(["/".join("abcdefghijklmnopqr"), *[".."] * 19]))
    assert (up / "root").is_dir()  # it leads out of the folder
    with pytest.raises(ArtifactError, match="cannot be followed"):
        joined(root, "up/evil")
