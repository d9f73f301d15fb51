"""The corpus of programs as shipped: its recipes, its splits, and what the page of measured builds says of them."""

import re

import pytest

from mlgo.base.config import load_config
from mlgo.base.packages import canonical_name
from mlgo.base.sealed import check_corpus, load_sealed
from mlgo.corpus.recipe import load_recipe
from tests.conftest import REPOSITORY

DEFAULT = REPOSITORY / "config/config.yaml"
PRESET = REPOSITORY / "config/presets/merged.yaml"
RECIPES = REPOSITORY / "config/corpora/wheels"
PAGES = [REPOSITORY / "docs" / page for page in ("results/built-wheels.md", "results/wheels.md")]


@pytest.fixture(scope="module")
def splits():
    return load_config(DEFAULT, PRESET).corpus.splits


def measured():
    """Language and number of executables of each project, by the two pages that have a table of builds."""
    found = {}
    for page in PAGES:
        lines = [line.split("|")[1:-1] for line in page.read_text().splitlines() if line.startswith("| ")]
        names, *rows = [[cell.strip().lower() for cell in line] for line in lines]
        for cells in (dict(zip(names, row, strict=True)) for row in rows):
            if cells["language"] in ("c", "c++"):  # of what did not build it is not known
                found[cells["project"].split(" ")[0]] = cells["language"], int(cells.get("executables", 0))
    return found


@pytest.mark.parametrize("path", sorted(RECIPES.glob("*.yaml")), ids=lambda path: path.stem)
def test_a_recipe_pins_its_sources_and_what_builds_them(path):
    recipe = load_recipe(path)
    assert canonical_name(recipe.name) == canonical_name(path.stem)
    assert recipe.wheel is not None
    assert recipe.license
    assert [one for one in recipe.wheel.requirements if not re.fullmatch(r"[\w.-]+==[\w.!+]+", one)] == []


def test_no_project_is_in_two_splits_or_sealed(splits, monkeypatch):
    monkeypatch.chdir(REPOSITORY)
    check_corpus(load_config(DEFAULT, PRESET))
    assert splits.test == []
    held = {library.strip().lower() for one in load_sealed().projects for library in one.holds.split(",")}
    assert held & {name.lower() for name in [*splits.train, *splits.validation]} == set()


def test_numbers_of_projects_and_languages(splits):
    rows = measured()
    named = [rows[name.lower()] for name in (*splits.train, *splits.validation)]
    of_validation = [rows[name.lower()] for name in splits.validation]
    assert len(named) >= 60
    assert sum(language == "c++" for language, _ in named) >= 35
    assert sum(executables for _, executables in named) >= 6
    assert len(of_validation) >= 12
    assert sum(language == "c++" for language, _ in of_validation) >= 7


def test_the_cost_that_make_prints_is_of_these_projects(splits):
    (said,) = re.findall(r"^# It costs .* (\d+) projects", PRESET.read_text(), re.MULTILINE)
    assert int(said) == len(splits.train) + len(splits.validation)
    printed = "sed -n 's/^# \\(It costs .*\\)/\\1/p' config/presets/$(PRESET).yaml"
    assert printed in (REPOSITORY / "Makefile").read_text()
