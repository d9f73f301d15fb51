"""Where working copies share what they share."""

from pathlib import Path

from mlgo.base.scratch import SHARED, experiment_origin, shared_folder
from mlgo.learn.cost import TrainingCost, cost_path, read_experiments, recorded_cost


class Counts:
    num_asked, num_compiled = 10, 4


def test_a_plain_working_copy_keeps_to_itself(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv(SHARED, raising=False)
    assert shared_folder(Path("data/work")) == Path("data/work")


def test_copies_of_experiments_share_with_where_they_come_from(tmp_path, monkeypatch):
    monkeypatch.delenv(SHARED, raising=False)
    for copy in (".dvc/tmp/exps/tmpabc", ".dvc/tmp/exps/standalone/tmpdef"):
        (tmp_path / copy).mkdir(parents=True)
        monkeypatch.chdir(tmp_path / copy)
        assert shared_folder(Path("data/work")) == tmp_path / "data/work"


def test_the_variable_wins(tmp_path, monkeypatch):
    monkeypatch.setenv(SHARED, str(tmp_path / "elsewhere"))
    (tmp_path / ".dvc/tmp/exps/tmpabc").mkdir(parents=True)
    monkeypatch.chdir(tmp_path / ".dvc/tmp/exps/tmpabc")
    assert shared_folder(Path("data/work")) == tmp_path / "elsewhere"


def test_what_is_no_copy_of_an_experiment(tmp_path):
    for folder in (".dvc/tmp/exps", ".dvc/tmp", "exps/tmpabc", "dvc/tmp/exps/x"):
        assert experiment_origin(tmp_path / folder) is None


def test_costs_of_experiments_outlive_their_copies(tmp_path, monkeypatch):
    monkeypatch.delenv(SHARED, raising=False)
    copy = tmp_path / ".dvc/tmp/exps/tmpabc"
    copy.mkdir(parents=True)
    monkeypatch.chdir(copy)
    monkeypatch.setenv("DVC_EXP_NAME", "tidy-newt")
    with recorded_cost(Path("data/work"), "es-s0", TrainingCost("run", 1), Counts()):
        pass
    assert cost_path(copy / "data/work", "es-s0").exists()
    monkeypatch.chdir(tmp_path)
    found = read_experiments(Path("data/work"))
    assert {name: list(costs) for name, costs in found.items()} == {"tidy-newt": ["es-s0"]}
    cost = found["tidy-newt"]["es-s0"]
    assert (cost.evaluations, cost.compiles, cost.complete) == (10, 4, True)


def test_a_plain_run_is_no_experiment(tmp_path, monkeypatch):
    monkeypatch.delenv(SHARED, raising=False)
    monkeypatch.chdir(tmp_path)
    with recorded_cost(Path("data/work"), "es-s0", TrainingCost("run", 1), Counts()):
        pass
    assert read_experiments(Path("data/work")) == {}
