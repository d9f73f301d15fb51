"""The sealed test set: no training recipe may take from it, and no project may be in two splits."""

from pathlib import Path

import pytest
import yaml

from mlgo.base.config import load_config, read_yaml
from mlgo.base.sealed import check_corpus, check_projects, load_sealed, sealed_sets
from mlgo.corpus.recipe import load_recipe
from mlgo.errors import ConfigError

CONFIG = Path("config/config.yaml")
A, B = "a" * 64, "b" * 64


@pytest.fixture
def sealed(tmp_path):
    """A set of one project, PyThing 1.0, and a folder of other recipes."""
    write(tmp_path / "sealed/thing.yaml", name="Py_Thing", version="1.0", sha256=A)
    project = {"name": "thing", "language": "c", "domain": "text", "holds": "libthing"}
    write(tmp_path / "sealed.yaml", date="2026-01-01", criteria=["good"], projects=[project])
    write(tmp_path / "recipes/other.yaml", name="other", version="1.0", sha256=B)
    return tmp_path / "sealed.yaml"


def write(path, **values):
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(yaml.safe_dump(values))


def check(sealed, **splits):
    check_projects(sealed.parent / "recipes", splits, [sealed])


@pytest.mark.parametrize(
    "recipe",
    [
        {"name": "py.thing", "version": "2.0", "sha256": B},
        {"name": "PY-THING", "version": "1.0", "sha256": A},
        {"name": "renamed", "version": "1.0", "sha256": A},
    ],
    ids=["name", "both", "hash"],
)
@pytest.mark.parametrize("split", ["train", "validation", "test"])
def test_a_sealed_project_in_a_split_names_both_recipes(sealed, recipe, split):
    path = sealed.parent / "recipes/mine.yaml"
    write(path, **recipe)
    with pytest.raises(ConfigError) as caught:
        check(sealed, **{split: ["mine"]})
    parts = (str(path), str(sealed.parent / "sealed/thing.yaml"), f"corpus.splits.{split}")
    assert [part for part in parts if part not in str(caught.value)] == []
    assert "\n" not in str(caught.value)


def test_names_of_the_file_and_of_a_captured_wheel_count_but_other_projects_pass(sealed, tmp_path):
    (tmp_path / "captured/wheel").mkdir(parents=True)
    (tmp_path / "captured/wheel/py_thing-1.0-cp311-cp311-linux_x86_64.whl").touch()
    write(tmp_path / "recipes/app.yaml", name="app", license="MIT", captured=str(tmp_path / "captured"))
    for project, named in (("Thing", "thing"), ("app", "py-thing")):
        with pytest.raises(ConfigError, match=f"project {named} of the sealed test set"):
            check(sealed, train=[project])
    check(sealed, train=["other"], validation=["nowhere"], test=[])


@pytest.mark.parametrize(
    ("again", "common"),
    [
        ({"name": "Other", "sha256": "c" * 64}, "project other"),
        ({"name": "new", "sha256": B}, "source distribution bbbbbbbbbbbb"),
    ],
)
def test_a_project_in_two_splits_under_two_recipes(sealed, again, common):
    write(sealed.parent / "recipes/again.yaml", **again)
    with pytest.raises(ConfigError, match=r"other\.yaml \(corpus\.splits\.train\) and .*again\.yaml") as caught:
        check(sealed, train=["other"], test=["again"])
    assert f"the same {common}; a project is in one split" in str(caught.value)
    check(sealed, train=["other", "again"])


@pytest.mark.parametrize("form", ["whole", "thin"])
def test_a_project_in_another_form_is_the_same_project(sealed, form):
    with pytest.raises(ConfigError, match="project thing of the sealed test set"):
        check(sealed, train=[f"thing@{form}"])
    with pytest.raises(ConfigError, match="are the same project other; a project is in one split"):
        check(sealed, train=[f"other@{form}"], validation=["other"])
    check(sealed, train=["other", f"other@{form}"])


def test_lists_that_are_missing_or_no_list_or_name_what_has_no_recipe(sealed, tmp_path):
    assert load_sealed(tmp_path / "none.yaml").names == []
    (tmp_path / "wrong.yaml").write_text("projects: [thing]")
    with pytest.raises(ConfigError, match=r"wrong\.yaml: .*date"):
        load_sealed(tmp_path / "wrong.yaml")
    (sealed.parent / "sealed/thing.yaml").unlink()
    with pytest.raises(ConfigError, match=r"sealed\.yaml names thing, but there is no .*thing\.yaml"):
        load_sealed(sealed)


@pytest.mark.parametrize("preset", sorted(Path("config/presets").glob("*.yaml")), ids=lambda path: path.stem)
def test_no_preset_takes_from_the_sealed_set(preset):
    check_corpus(load_config(CONFIG, preset))


def test_no_recipe_is_of_a_sealed_project():
    for folder in map(Path("config/corpora").joinpath, ("", "wheels", "sample", "crates")):
        check_projects(folder, {"train": [path.stem for path in folder.glob("*.yaml")]})


def test_the_set_in_rust():
    """Popular tools among 12 programs or more, none of which has code of C."""
    found = load_sealed(sealed_sets()["sealed-rust"])
    assert len(found.projects) >= 12
    assert {one.language for one in found.projects} == {"rust"}
    recipes = [load_recipe(Path(f"config/sealed-rust/{name}.yaml")) for name in found.names]
    assert all(recipe.crate is not None for recipe in recipes)
    assert {recipe.crate.panic for recipe in recipes} == {"abort", "unwind"}


def test_the_page_lists_the_set():
    lines = Path("docs/results/sealed-projects.md").read_text().splitlines()
    cells = [[cell.strip() for cell in line.strip("|").split("|")] for line in lines if line.startswith("| ")]
    told = {tuple(row[:1] + row[2:3]) for row in cells if len(row) == 9 and row[0] not in ("project", "---")}
    found = load_sealed()
    versions = {name: read_yaml(Path(f"config/sealed/{name}.yaml"))["version"] for name in found.names}
    assert told == {(f"{one.name} {versions[one.name]}", one.language) for one in found.projects}
    cplusplus = [one for one in found.projects if one.language == "c++"]
    assert len(found.projects) >= 24
    assert len(cplusplus) >= max(12, len(found.projects) // 2)
