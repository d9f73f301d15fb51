"""The hash of the package's source; folders written whole or not at all."""

import os
import shutil
import subprocess
import sys

import pytest

from mlgo.base.files import hash64, write_atomically
from mlgo.errors import PolicyError
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
