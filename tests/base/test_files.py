"""The hash of the package's source; folders written whole or not at all."""

import os
import shutil
import subprocess
import sys
from threading import Thread
from unittest import mock

import pytest

from mlgo.base import files
from mlgo.base.files import copy_folder, hash64, is_file, is_folder, joined, locked, open_input, write_atomically
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


def test_a_copied_folder_has_what_links_lead_to(tmp_path):
    source, target = tmp_path / "s", tmp_path / "t"
    (source / "d").mkdir(parents=True)
    (source / "a.c").write_text("a")
    (source / "d/up").symlink_to(source)  # a circle
    (source / "gone").symlink_to("nothing")
    (source / "loop").symlink_to("loop")
    (source / "zero").symlink_to("/dev/zero")
    os.mkfifo(source / "fifo")
    (tmp_path / "other").mkdir()
    (tmp_path / "other/b.c").write_text("b")
    (source / "other").symlink_to("../other")
    copy_folder(source, target)
    assert sorted(path.relative_to(target).as_posix() for path in target.rglob("*")) == [
        "a.c",
        "d",
        "other",
        "other/b.c",
    ]
    assert not (target / "other").is_symlink()


def test_links_that_make_very_many_paths(tmp_path):
    for number in range(20):
        (tmp_path / f"s/d{number}").mkdir(parents=True)
        for name in "ab":
            (tmp_path / f"s/d{number}/{name}").symlink_to(f"../d{number + 1}")
    with mock.patch.object(files, "_MAX_LINKED", 100), pytest.raises(ArtifactError, match="more than 100 files"):
        copy_folder(tmp_path / "s", tmp_path / "t")


@pytest.mark.parametrize("name", ["n" * 300, "a\0b", "a\ud800", "missing", "d"])
def test_names_that_no_file_has_are_no_files(tmp_path, name):
    (tmp_path / "d").mkdir()
    assert not is_file(tmp_path / name)
    assert is_folder(tmp_path / name) == (name == "d")


def test_a_file_that_cannot_be_read_is_named(tmp_path):
    (tmp_path / "m").symlink_to("/proc/self/mem")
    with pytest.raises(OSError, match="Input/output error") as caught:
        open_input(tmp_path / "m")
    assert caught.value.filename == str(tmp_path / "m")


def test_a_lock_lets_one_in_at_a_time_and_is_not_waited_for_without_end(tmp_path):
    lock = tmp_path / "new" / "lock"
    message = rf"another process has held the lock {lock} for 0.05 seconds; end it"
    with locked(lock), pytest.raises(ArtifactError, match=message), locked(lock, within_s=0.05):
        pass
    with locked(lock, within_s=0.0):
        pass


def test_a_lock_that_its_holder_removes_is_made_anew(tmp_path):
    lock, inside = tmp_path / "lock", []

    def second():
        with locked(lock):
            inside.append(lock.exists())

    with locked(lock):
        (waiting := Thread(target=second)).start()
        lock.unlink()
    waiting.join(60.0)
    assert inside == [True]
