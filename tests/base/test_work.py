"""Where working copies share what they share."""

from pathlib import Path

import pytest

from mlgo.base.scratch import SHARED, experiment_origin, shared_folder
from mlgo.learn.cost import TrainingCost, cost_path, read_experiments, recorded_cost


class Counts:
    num_asked, num_compiled = 10, 4


@pytest.fixture
def standing_in(tmp_path, monkeypatch):
    """Go to a folder, where no variable names what is shared."""
    monkeypatch.delenv(SHARED, raising=False)

    def go(folder):
        (tmp_path / folder).mkdir(parents=True, exist_ok=True)
        monkeypatch.chdir(tmp_path / folder)
        return tmp_path / folder

    return go


def test_copies_of_experiments_share_with_where_they_come_from_unless_the_variable_says_where(
    standing_in, tmp_path, monkeypatch
):
    standing_in(".")
    assert shared_folder(Path("data/work")) == Path("data/work")
    for copy in (".dvc/tmp/exps/tmpabc", ".dvc/tmp/exps/standalone/tmpdef"):
        standing_in(copy)
        assert shared_folder(Path("data/work")) == tmp_path / "data/work"
    for folder in (".dvc/tmp/exps", ".dvc/tmp", "exps/tmpabc", "dvc/tmp/exps/x"):
        assert experiment_origin(tmp_path / folder) is None
    monkeypatch.setenv(SHARED, str(tmp_path / "elsewhere"))
    assert shared_folder(Path("data/work")) == tmp_path / "elsewhere"


def test_costs_of_experiments_outlive_their_copies(standing_in, monkeypatch):
    copy = standing_in(".dvc/tmp/exps/tmpabc")
    monkeypatch.setenv("DVC_EXP_NAME", "tidy-newt")
    with recorded_cost(Path("data/work"), "es-s0", TrainingCost("run", 1), Counts()):
        pass
    assert cost_path(copy / "data/work", "es-s0").exists()
    standing_in(".")
    found = read_experiments(Path("data/work"))
    assert {name: list(costs) for name, costs in found.items()} == {"tidy-newt": ["es-s0"]}
    cost = found["tidy-newt"]["es-s0"]
    assert (cost.evaluations, cost.compiles, cost.complete) == (10, 4, True)


def test_a_plain_run_is_no_experiment(standing_in):
    standing_in(".")
    with recorded_cost(Path("data/work"), "es-s0", TrainingCost("run", 1), Counts()):
        pass
    assert read_experiments(Path("data/work")) == {}
