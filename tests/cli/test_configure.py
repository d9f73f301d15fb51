"""`mlgo config`: show, use, schema."""

import json

import pytest
import yaml

from mlgo.base.config import OF_CHECKOUT, default_config, load_config
from mlgo.errors import ConfigError
from tests.cli.conftest import run_here
from tests.conftest import REPOSITORY

PATH = REPOSITORY / "config" / "config.yaml"
PRESETS = REPOSITORY / "config" / "presets"
SCHEMA = REPOSITORY / "workflow" / "schemas" / "config.schema.json"


@pytest.fixture
def copy(tmp_path):
    """A configuration that may be changed."""
    path = tmp_path / "config.yaml"
    path.write_text(PATH.read_text())
    return path


FIRST, *OTHERS = sorted(path.stem for path in PRESETS.glob("*.yaml"))


@pytest.mark.parametrize("preset", [FIRST, *(pytest.param(one, marks=pytest.mark.slow) for one in OTHERS)])
def test_using_a_preset_gives_a_valid_configuration(preset, prints, copy):
    assert prints("config", "use", preset, "--config", copy) == f"{copy} now holds preset {preset}\n"
    assert load_config(copy) == load_config(PATH, PRESETS / f"{preset}.yaml")


def test_nothing_of_an_earlier_preset_is_left(prints, copy):
    for preset in ("workstation", "tiny"):
        prints("config", "use", preset, "--config", copy)
    assert load_config(copy) == load_config(PATH, PRESETS / "tiny.yaml")


def test_the_default_is_put_back_to_the_byte(prints, copy):
    copy.write_text(copy.read_text() + "# mine\n")
    before = copy.read_text()
    for preset in ("default", "workstation", "tiny", "default"):
        prints("config", "use", preset, "--config", copy)
    assert copy.read_text() == before
    assert list(copy.parent.iterdir()) == [copy]


def test_a_preset_that_does_not_fit_changes_nothing(refuses, copy, tmp_path):
    (tmp_path / "bad.yaml").write_text("es: {pairz: 2}\n")
    for preset, message in ((tmp_path / "bad.yaml", "es.pairz"), ("no-such", "no-such")):
        assert message in refuses("config", "use", preset, "--config", copy)
        assert copy.read_text() == PATH.read_text()
        assert not copy.with_name("default.yaml").exists()


def test_presets_are_listed(prints):
    assert prints("config", "use", "--list").splitlines() == [
        "default",
        *sorted(path.stem for path in PRESETS.glob("*.yaml")),
    ]


def test_what_is_shown_is_the_checked_configuration(prints):
    values = load_config(PATH, PRESETS / "tiny.yaml").model_dump()
    arguments = ("config", "show", "--preset", PRESETS / "tiny.yaml")
    assert json.loads(prints(*arguments, "--json")) == values
    assert yaml.safe_load(prints(*arguments)) == values


def test_the_committed_schema_is_up_to_date(prints, tmp_path):
    prints("config", "schema", "--output", tmp_path / "schema.json")
    assert (tmp_path / "schema.json").read_bytes() == SCHEMA.read_bytes()


def test_any_folder_has_the_configuration_of_the_package(tmp_path, monkeypatch, clone, capsys):
    monkeypatch.chdir(tmp_path)
    assert default_config().samefile(PATH)  # a wheel has it as package data
    (tmp_path / "config").mkdir()
    (tmp_path / "config/config.yaml").write_text("database: of somebody else\n")
    run_here("config", "show", "--json")
    assert json.loads(capsys.readouterr().out) == load_config(PATH).model_dump(mode="json")
    with pytest.raises(ConfigError, match="run this in a checkout"):
        run_here("config", "use", "tiny", "--config", tmp_path / "config.yaml")
    monkeypatch.chdir(clone)
    assert default_config() == OF_CHECKOUT
