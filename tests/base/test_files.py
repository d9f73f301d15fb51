"""The hash of the package's source; folders written whole or not at all."""

import os
import shutil
import subprocess
import sys

import pytest

from mlgo.base.files import hash64, write_folder
from mlgo.errors import PolicyError
from tests.conftest import REPOSITORY

PROGRAM = "from mlgo.base.files import source_hash; print(source_hash())"


def hash_of(folder):
    environment = {**os.environ, "PYTHONPATH": str(folder)}
    return subprocess.check_output([sys.executable, "-c", PROGRAM], cwd=folder, env=environment)


@pytest.mark.parametrize("changed", ["base/seeding.py", "host/log.py", "learn/context.py"])
def test_a_change_anywhere_in_the_package_changes_the_hash(changed, tmp_path):
    shutil.copytree(REPOSITORY / "mlgo", tmp_path / "mlgo")
    before = hash_of(tmp_path)
    assert hash_of(tmp_path) == before
    path = tmp_path / "mlgo" / changed
    path.write_text(path.read_text() + "# another line\n")
    assert hash_of(tmp_path) != before


def test_a_folder_appears_as_a_whole_and_replaces_an_earlier_one(tmp_path):
    target = tmp_path / "model"
    for name in ("old", "new"):
        write_folder(target, lambda folder, name=name: (folder / name).write_text(name))
        assert [path.name for path in target.iterdir()] == [name]

    def broken(folder):
        (folder / "half").write_text("")
        raise PolicyError("stop")

    with pytest.raises(PolicyError):
        write_folder(target, broken)
    assert [path.name for path in tmp_path.iterdir()] == ["model"]
    assert [path.name for path in target.iterdir()] == ["new"]


def test_two_threads_draft_one_folder(tmp_path):
    """The first is in the middle of it while the second finishes; both are whole, the last to finish stays."""
    target = tmp_path / "model"

    def outer(folder):
        (folder / "a").write_text("")
        write_folder(target, lambda other: (other / "b").write_text(""))
        assert [path.name for path in target.iterdir()] == ["b"]

    write_folder(target, outer)
    assert [path.name for path in target.iterdir()] == ["a"]


def test_a_folder_that_a_kill_left_behind_is_removed(tmp_path):
    target, left = tmp_path / "model", tmp_path / ".model.0123abcd.tmp"
    left.mkdir()
    (left / "half").write_text("")
    write_folder(target, lambda folder: None)
    assert [path.name for path in tmp_path.iterdir()] == ["model"]


def test_a_hash_of_64_bits():
    """As ``printf abc | b2sum -l 64`` has it, the first byte lowest."""
    assert hash64(b"abc").to_bytes(8, "little").hex() == "d8bb14d833d59559"
