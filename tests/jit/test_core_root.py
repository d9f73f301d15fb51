"""What is wrong with a core_root folder, a JIT or a collection is said once and clearly."""

import pytest

from mlgo.errors import MlgoError, SuperPmiError
from mlgo.jit.client import SuperPmiClient, check_jit, find_collection, find_core_root
from mlgo.jit.process import SuperPmi
from tests.fakes.superpmi import FEATURES
from tests.jit.conftest import GOLDEN


@pytest.fixture
def folder(tmp_path):
    root = tmp_path / "core_root"
    root.mkdir()
    (root / "superpmi").write_text("#!/bin/sh\n")
    (root / "superpmi").chmod(0o755)
    (root / "libclrjit.so").touch()
    return root


def test_a_whole_folder(folder):
    assert find_core_root(folder) == (folder / "superpmi", folder / "libclrjit.so")


@pytest.mark.parametrize(
    ("spoil", "message"),
    [
        (lambda root: root.rename(root.with_name("other")), "no folder"),
        (lambda root: (root / "superpmi").chmod(0o644), "no program superpmi"),
        (lambda root: (root / "libclrjit.so").unlink(), "no JIT"),
    ],
)
def test_folders_that_lack_something(folder, spoil, message):
    spoil(folder)
    with pytest.raises(SuperPmiError, match=message):
        find_core_root(folder)


def test_collections(tmp_path):
    path = tmp_path / "some.mch"
    with pytest.raises(SuperPmiError, match="no collection"):
        find_collection(path)
    path.touch()
    with pytest.raises(SuperPmiError, match="empty"):
        find_collection(path)
    path.write_text("x")
    assert find_collection(path) == path
    with pytest.raises(SuperPmiError, match="suffix"):
        find_collection(path.rename(tmp_path / "some.txt"))


@pytest.mark.parametrize(
    ("jit", "collection", "options", "message"),
    [
        ("libclrjit.so", "none.mch", {}, "collection .*none.mch is missing"),
        ("some.mch", "some.mch", {}, r"JIT .*suffix \.so"),
        ("libclrjit.so", "libclrjit.so", {}, r"collection .*suffix \.mc"),
        ("libclrjit.so", "some.mch", {"jit_options": {"JitRLHook": "1"}}, "JitRLHook is set by each request"),
    ],
)
def test_a_client_checks_its_files_and_options(folder, jit, collection, options, message):
    (folder / "some.mch").touch()
    with pytest.raises(SuperPmiError, match=message):
        SuperPmi(["superpmi"], folder / jit, folder / collection, **options)


def test_a_program_that_cannot_be_started(folder, tmp_path):
    collection = tmp_path / "some.mch"
    collection.touch()
    with SuperPmiClient(SuperPmi([str(tmp_path / "missing")], folder / "libclrjit.so", collection)) as client:
        with pytest.raises(SuperPmiError, match="cannot start"):
            client.compile(1, None)
    assert issubclass(SuperPmiError, MlgoError)


def test_a_checked_jit_tells_its_features(target):
    with target.client() as client:
        assert list(check_jit(client)) == FEATURES


def test_features_are_those_that_the_jit_tells(double):
    methods = [{**GOLDEN["methods"][0], "candidates": [{"features": [5, 1, -3], "score": 1, "bytes": 1}]}]
    with double(methods, feature_names=["new", "viable", "other"]).client() as client:
        assert check_jit(client) == ("new", "viable", "other")


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        ({"jit": "release"}, "Release build"),
        ({"jit": "no_hook"}, "ignores decisions"),
        ({"jit": "wrong_version"}, "interface version"),
        ({"methods": []}, "cannot be read"),
        ({"methods": GOLDEN["methods"][2:]}, "no method tried"),
        ({"faults": [[1, 0, "kill", 11]]}, "signal 11"),
        ({"faults": [[1, 0, "hang", None]]}, "no whole reply"),
    ],
)
def test_what_is_wrong_is_said(double, fields, message):
    with double(**fields).client(startup_timeout_s=0.7, max_restarts=0) as client:
        with pytest.raises(SuperPmiError, match=message) as caught:
            check_jit(client)
    assert "\n" not in str(caught.value)


def test_a_collection_that_is_cut_short(double):
    target = double()
    target.collection.write_text(target.collection.read_text()[:200])
    with target.client() as client:
        with pytest.raises(SuperPmiError, match="cannot be read: it is cut short"):
            check_jit(client)


def test_methods_that_fail_are_passed_over(double):
    with double(faults=[[1, 0, "jit_error", None]]).client() as client:
        assert list(check_jit(client)) == FEATURES
