"""Programs of task inline-speed: the sources of the default corpus, pinned to the same archives, split alike."""

from pathlib import Path

import pytest

from mlgo.base.config import load_config
from mlgo.base.sealed import load_sealed
from mlgo.corpus.recipe import load_recipe
from tests.conftest import REPOSITORY

SPEED, CORPORA = REPOSITORY / "config/speed", REPOSITORY / "config/corpora"
REAL = sorted(path.stem for path in SPEED.glob("*.yaml") if not path.is_symlink())
DEFAULT = REPOSITORY / "config/config.yaml"


@pytest.fixture(autouse=True)
def _in_checkout(monkeypatch):
    monkeypatch.chdir(REPOSITORY)


@pytest.mark.parametrize("name", REAL)
def test_a_real_program_is_of_the_archive_that_the_corpus_has(name):
    recipe, corpus = load_recipe(SPEED / f"{name}.yaml"), load_recipe(CORPORA / f"{name}.yaml")
    assert (recipe.name, recipe.version, recipe.sha256) == (corpus.name, corpus.version, corpus.sha256)
    assert recipe.driver is not None
    assert not recipe.python
    assert any(f"driver/{Path(recipe.driver).name}" in unit.sources for unit in recipe.units)
    assert recipe.expected.endswith(b"\n")


def test_what_is_held_out_is_of_projects_that_nothing_is_trained_on():
    ours = load_config(DEFAULT, REPOSITORY / "config/presets/speed.yaml").corpus.splits
    corpus = load_config(DEFAULT).corpus.splits
    assert set(ours.projects) == {path.stem for path in SPEED.glob("*.yaml")}
    assert not set(ours.projects) & set(load_sealed().names)
    assert set(ours.test) & set(REAL) == set(corpus.validation) & set(REAL)
    assert {*ours.train, *ours.validation} & set(REAL) == set(corpus.train) & set(REAL)
    own = sorted(set(ours.projects) - set(REAL))
    by_split = [next(s for s in ("train", "validation", "test") if name in getattr(ours, s)) for name in own]
    assert by_split == ["train"] * 6 + ["validation"] * 2 + ["test"] * 4
