"""What is published: everything that was checked, and nothing else."""

import json
import shutil
from pathlib import Path

import numpy as np
import pytest

from mlgo.deploy.release import check_archive, check_version, find_policies, read_archive, read_release
from mlgo.errors import ArtifactError, ConfigError, PolicyError
from tests.deploy.publish.conftest import RELEASED, publish


def edited(path: Path, change) -> None:
    value = json.loads(path.read_text())
    change(value)
    path.write_text(json.dumps(value))


def edit(file: str, change):
    """Damage: a file of JSON is edited."""
    return lambda folder: edited(folder / file, change)


def without_card(folder: Path) -> None:
    for name in ("card.json", "README.md"):
        (folder / name).unlink()


def test_an_archive_has_all_files_and_a_card_with_the_version(released, tmp_path, capsys):
    publish(released, "--version", "3.1.0-rc.1", "-o", tmp_path / "out/tree.tar.zst", "--json")
    said = json.loads(capsys.readouterr().out)
    assert (said["version"], said["policies"]) == ("3.1.0-rc.1", {"tree8-s0": ["cpp"]})
    assert said["bytes"] == (tmp_path / "out/tree.tar.zst").stat().st_size
    files = read_archive(tmp_path / "out/tree.tar.zst")
    own = {path.relative_to(released.parent).as_posix() for path in released.rglob("*") if path.is_file()}
    assert set(files) == own
    unchanged = [path for path in own if not path.endswith(("card.json", "README.md"))]
    assert all(files[path] == (released.parent / path).read_bytes() for path in unchanged)
    assert json.loads(files["tree8-s0/card.json"])["version"] == "3.1.0-rc.1"
    assert files["tree8-s0/README.md"].startswith(b"# tree8-s0 3.1.0-rc.1\n")
    assert check_archive(tmp_path / "out/tree.tar.zst") == {"tree8-s0": 7}


def test_what_was_published_can_be_published_again_with_the_same_bytes(released, tmp_path):
    publish(released, "--version", "2.0.0", "-o", tmp_path / "a.zip")
    shutil.unpack_archive(tmp_path / "a.zip", tmp_path / "unpacked")
    publish(tmp_path / "unpacked/tree8-s0", "-o", tmp_path / "b.zip")
    assert (tmp_path / "a.zip").read_bytes() == (tmp_path / "b.zip").read_bytes()


def test_policy_and_forms_of_a_run_lie_in_two_folders(released, tmp_path):
    policy, exported = tmp_path / "policies/tree8-s0", tmp_path / "export/tree8-s0"
    policy.mkdir(parents=True)
    shutil.copytree(released, exported)
    for name in ("policy.json", "weights.npy"):
        (exported / name).rename(policy / name)
    publish(policy, "--exports", tmp_path / "export", "--version", "1.0.0", "-o", tmp_path / "a.zip")
    publish(released, "--version", "1.0.0", "-o", tmp_path / "b.zip")
    assert (tmp_path / "a.zip").read_bytes() == (tmp_path / "b.zip").read_bytes()


def test_some_forms(released, tmp_path):
    (released / "other").mkdir()
    (released / "other/file").write_bytes(b"x")
    digest = "2d711642b726b04401627ca9fbac32f5c8530fb1903cc4db02258717921a4881"  # of the letter x
    edited(released / "parity.json", lambda one: one.update(other={**one["cpp"], "files": {"file": digest}}))
    without_card(released)
    whole = read_release(released, released)
    assert set(whole.parity) == {"cpp", "other"}
    assert whole.files["other/file"] == b"x"
    some = read_release(released, released, ["other"])
    assert set(some.files) == {"policy.json", "weights.npy", "parity.json", "other/file"}
    assert set(json.loads(some.files["parity.json"])) == {"other"}
    with pytest.raises(ConfigError, match="has no tosa; it has cpp, other"):
        read_release(released, released, ["tosa"])


def test_a_folder_of_policies(released, tmp_path):
    shutil.copytree(RELEASED / "marginal-s0", released.parent / "marginal-s0")
    (released.parent / "README.md").write_text("no policy")
    assert [path.name for path in find_policies(released.parent)] == ["marginal-s0", "tree8-s0"]
    publish(released.parent, "-o", tmp_path / "all.tar.gz")
    assert check_archive(tmp_path / "all.tar.gz") == {"marginal-s0": 7, "tree8-s0": 7}
    with pytest.raises(ArtifactError, match="two policies are called tree8-s0"):
        publish(released, released, "-o", tmp_path / "b.zip")


@pytest.mark.parametrize(
    ("damage", "kind", "message"),
    [
        (lambda one: shutil.rmtree(one), ArtifactError, "holds no policy and no folder of one"),
        (lambda one: (one / "weights.npy").unlink(), ArtifactError, "weights.npy is missing"),
        (lambda one: np.save(one / "weights.npy", np.full(55, np.nan, np.float32)), PolicyError, "not finite"),
        (lambda one: (one / "parity.json").write_text("{}"), ArtifactError, "tells of no form"),
        (lambda one: (one / "more").mkdir(), ArtifactError, "nothing was checked of more"),
        (lambda one: shutil.rmtree(one / "cpp"), ArtifactError, "not those that were checked"),
        (lambda one: (one / "cpp/more.h").write_text(""), ArtifactError, "not those that were checked"),
        (edit("parity.json", lambda one: one["cpp"].update(mismatches=3)), PolicyError, "its policy in 3 of 902665"),
        (edit("parity.json", lambda one: one["cpp"].update(questions=0)), PolicyError, "its policy in 0 of 0"),
        (edit("parity.json", lambda one: one["cpp"].pop("mismatches")), PolicyError, "its policy in unknown"),
        (edit("policy.json", lambda one: one["provenance"].update(seed=1)), PolicyError, "made of another policy"),
        (
            edit("card.json", lambda one: one["files"].pop("parity.json")),
            ArtifactError,
            "parity.json is not in the card",
        ),
        (
            edit("card.json", lambda one: one["files"]["weights.npy"].update(sha256="0")),
            ArtifactError,
            "weights.npy has changed since card.json",
        ),
        (lambda one: (one / "card.json").write_text("1"), ArtifactError, "card.json is no card"),
        (without_card, ArtifactError, "has no model card"),
        *(
            (edit("card.json", lambda card, fact=fact: card.pop(fact)), ArtifactError, "is no card of this version")
            for fact in ("task", "gains", "trained", "corpus", "limits")
        ),
        (
            edit("card.json", lambda one: one.update(gains=[{"answers": 1}])),
            ArtifactError,
            "is no card of this version",
        ),
        (lambda one: one.rename(one.parent / "tree"), ArtifactError, "names no policy"),
    ],
)
def test_what_is_not_published(released, damage, kind, message, tmp_path):
    damage(released)
    with pytest.raises(kind, match=message):
        publish(released.parent, "--version", "1.0.0", "-o", tmp_path / "a.zip")
    assert not list(tmp_path.glob("*.zip"))


def test_a_policy_that_was_not_exported(released, tmp_path):
    (released / "parity.json").unlink()
    with pytest.raises(ArtifactError, match=r"has no parity.json; export the policy first"):
        publish(released, "--exports", tmp_path, "-o", tmp_path / "a.zip")


def test_an_output_that_exists_is_kept(released, tmp_path):
    (tmp_path / "a.zip").write_bytes(b"precious")
    with pytest.raises(ArtifactError, match="exists; --force replaces it"):
        publish(released, "-o", tmp_path / "a.zip")
    assert (tmp_path / "a.zip").read_bytes() == b"precious"
    publish(released, "-o", tmp_path / "a.zip", "--force")
    assert check_archive(tmp_path / "a.zip") == {"tree8-s0": 7}


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["data"], "name a policy's folder and -o PATH"),
        (["-o", "a.zip"], "name a policy's folder and -o PATH"),
        (["data", "--check", "a.zip"], "stands alone"),
        (["data", "-o", "a.7z"], "ends in"),
        (["data", "-o", "a.zip", "--version", "1.0"], "not a semantic version"),
    ],
)
def test_words_that_do_not_fit(words, message):
    with pytest.raises(ConfigError, match=message):
        publish(*words)


def test_a_version_is_needed(released, tmp_path):
    edited(released / "card.json", lambda card: card.update(version=None))
    with pytest.raises(ConfigError, match="give --version"):
        publish(released, "-o", tmp_path / "a.zip")


SEMANTIC = "0.0.4 1.2.3 10.20.30 1.1.2-prerelease+meta 1.0.0-alpha.1 1.0.0-0A.is.legal 1.0.0--.-"
OTHER = "1 1.2 1.2.3.4 01.1.1 1.2.3-0123 1.2.3- 1.2.3+ v1.2.3 1.2.3-a..b \u0661.2.3"


@pytest.mark.parametrize("version", SEMANTIC.split())
def test_semantic_versions(version):
    assert check_version(version) == version


@pytest.mark.parametrize("version", ["", "1.2.3\n", *OTHER.split()])
def test_other_versions(version):
    with pytest.raises(ConfigError, match="not a semantic version"):
        check_version(version)
