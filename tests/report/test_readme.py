"""The tables of README.md are those that the kept results give."""

import json
import subprocess
import sys
from argparse import Namespace

import pytest

from mlgo.cli.show_report import with_block
from mlgo.errors import ConfigError
from mlgo.report import headline_page
from mlgo.report.pages import RenderedPage
from tests.conftest import REPOSITORY

KEPT = REPOSITORY / "docs/results"


def kept(name: str) -> RenderedPage:
    return headline_page.show(Namespace(data=KEPT / name, preset=None, learner=None))


@pytest.mark.slow
def test_the_table_of_the_readme_is_made_from_the_kept_looks_at_the_sealed_set(monkeypatch):
    monkeypatch.chdir(REPOSITORY)  # where the configuration is
    readme = REPOSITORY / "README.md"
    assert with_block(readme, "truth", kept("sealed").block) == readme.read_text(), "run make readme"


def test_the_page_of_the_default_run_is_made_from_its_kept_results(monkeypatch):
    monkeypatch.chdir(REPOSITORY)
    assert kept("run").markdown == (KEPT / "run.md").read_text(), "run make readme"


@pytest.mark.slow
def test_what_the_pages_say_of_the_sealed_set_is_what_its_kept_tables_say():
    command = [sys.executable, "scripts/sealed_readings.py", "--json"]
    said = json.loads(subprocess.run(command, cwd=REPOSITORY, capture_output=True, text=True, check=True).stdout)
    assert [round(100 * share) for share in said["known"].values()] == [69, 78, 3]  # README.md
    assert len(said["seen"]) == 7  # docs/sealed.md, decision 39
    assert set(said["nanobind"]) == {"pymeshfix", "ruckig", "soxr", "tetgen"}
    gains = {of: one["total"]["value"] for of, one in said["gains"].items()}
    assert round(100 * gains["without pycld2"], 2) == 2.29
    assert said["gains"]["mainly C++ (config/sealed.yaml)"]["num_projects"] == 14


def test_the_kept_results_are_small():
    assert sum(path.stat().st_size for path in KEPT.rglob("*.parquet")) < 520_000


def test_a_page_goes_to_its_place_and_nowhere_else(tmp_path):
    path = tmp_path / "page.md"
    path.write_text("before\n<!-- mlgo report truth -->\nold\n<!-- end -->\nafter\n")
    assert with_block(path, "truth", "new\n") == ("before\n<!-- mlgo report truth -->\n\nnew\n\n<!-- end -->\nafter\n")
    path.write_text("no place\n")
    with pytest.raises(ConfigError, match=r"page\.md has no place for the page: lines <!-- mlgo report truth -->"):
        with_block(path, "truth", "new")
    with pytest.raises(ConfigError, match=r"cannot read .*none\.md"):
        with_block(tmp_path / "none.md", "truth", "new")
