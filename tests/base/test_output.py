"""Folders for output: nothing of others is lost in them."""

import pytest

from mlgo.base.artifacts import VERIFIED, write_rows
from mlgo.base.output import MADE, check_output, claim, make_folders, remove_tables
from mlgo.errors import ArtifactError, ConfigError

KNOWN = ("verified.parquet", "parts", "tools", "records")


def table(path):
    write_rows(path, [], VERIFIED, {"made": "here"})


def test_folders_that_are_new_empty_or_ours_are_taken(tmp_path):
    claim(tmp_path / "new")
    claim(tmp_path / "new")
    (tmp_path / "empty").mkdir()
    claim(tmp_path / "empty")
    make_folders(tmp_path / "new", "tools")
    (tmp_path / "new/tools/cc").touch()
    (tmp_path / "new/notes.txt").touch()  # it stays, too
    claim(tmp_path / "new")
    make_folders(tmp_path / "new", "tools")
    assert sorted(path.name for path in (tmp_path / "new").rglob("*")) == [MADE, "notes.txt", "tools"]


@pytest.mark.parametrize("place", ["verified.parquet", "parts/0123.parquet"])
def test_folders_of_earlier_versions_are_taken_where_all_of_it_is_known(tmp_path, place):
    table(tmp_path / place)
    (tmp_path / "tools").mkdir()
    claim(tmp_path, KNOWN)
    make_folders(tmp_path, "tools")
    with pytest.raises(ArtifactError, match="is not of an earlier run"):
        (tmp_path / "records").mkdir()
        make_folders(tmp_path, "tools", "records")
    assert (tmp_path / "tools").is_dir()


@pytest.mark.parametrize("mine", ["tools/precious", "parts/precious.parquet", "verified.parquet", "a b\n", ".hidden"])
def test_folders_of_others_are_refused_and_stay(tmp_path, mine):
    (tmp_path / mine).parent.mkdir(exist_ok=True)
    (tmp_path / mine).write_text("precious")
    with pytest.raises(ConfigError, match=r"is not empty and holds no output of an earlier run, but '.*name a new"):
        claim(tmp_path, KNOWN)
    table(tmp_path / "of-ours.parquet")
    with pytest.raises(ConfigError, match="is not empty"):
        claim(tmp_path, KNOWN)
    assert (tmp_path / mine).read_text() == "precious"
    assert not (tmp_path / MADE).exists()


def test_what_is_always_there_may_be_the_proof(tmp_path):
    known = ("policy.json", "cpp")
    (tmp_path / "cpp").mkdir()
    with pytest.raises(ConfigError, match="but 'cpp'"):
        check_output(tmp_path, known, "policy.json")
    (tmp_path / "policy.json").touch()
    check_output(tmp_path, known, "policy.json")
    with pytest.raises(ConfigError, match="is not empty"):
        check_output(tmp_path, known)


@pytest.mark.parametrize("made", ["{}", "3", "[[]]", '["../precious"]'])
def test_a_list_of_others_removes_nothing_outside_or_unlisted(tmp_path, made):
    for name in ("precious", "out/tools"):
        (tmp_path / name).mkdir(parents=True)
        (tmp_path / name / "file").touch()
    (tmp_path / "out" / MADE).write_text(made)
    for name in ("tools", "../precious"):
        with pytest.raises(ArtifactError):
            make_folders(tmp_path / "out", name)
    (tmp_path / "out" / MADE).write_text('["link", "inside"]')
    (tmp_path / "out/link").symlink_to(tmp_path / "precious")
    (tmp_path / "out/inside").symlink_to("tools")
    for name in ("link", "inside"):
        with pytest.raises(ArtifactError):
            make_folders(tmp_path / "out", name)
    assert len(list(tmp_path.rglob("file"))) == 2


def test_only_tables_of_ours_are_removed(tmp_path):
    table(tmp_path / "parts/p.results.parquet")
    table(tmp_path / "parts/org/p.results.parquet")
    (tmp_path / "parts/0123456789abcdef.parquet").write_bytes(b"damaged")
    remove_tables(tmp_path / "parts")
    assert not list(tmp_path.iterdir())
    table(tmp_path / "parts/p.results.parquet")
    (tmp_path / "parts/mine.parquet").write_text("precious")
    remove_tables(tmp_path / "parts")
    remove_tables(tmp_path / "nothing")
    assert [path.name for path in (tmp_path / "parts").iterdir()] == ["mine.parquet"]
