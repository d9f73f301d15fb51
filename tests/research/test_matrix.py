"""Grids worked out by hand, and sweeps that cannot be made."""

import copy

import pytest

from mlgo.base.config import parse_config, read_yaml
from mlgo.errors import ConfigError
from mlgo.research.matrix import expand
from tests.conftest import REPOSITORY


def values(**sweep):
    """The default configuration with this sweep."""
    config = read_yaml(REPOSITORY / "config/config.yaml")
    return config | {"sweep": config["sweep"] | sweep}


def test_every_combination_is_a_point():
    grid = expand(values(points={"es.step_size": [0.02, 0.05], "es.pairs": [4, 8, 16]}, seeds=[0, 1]))
    assert [point.name for point in grid.points] == [  # settings in the order of their names
        f"es,es.pairs={pairs},es.step_size={size}" for pairs in (4, 8, 16) for size in (0.02, 0.05)
    ]
    other = expand(values(points={"es.pairs": [4, 8, 16], "es.step_size": [0.02, 0.05]}, seeds=[0, 1]))
    assert (len(grid.policies), other.policies) == (12, grid.policies)
    assert grid.policies[:2] == ["es,es.pairs=4,es.step_size=0.02-s0", "es,es.pairs=4,es.step_size=0.02-s1"]


def test_a_point_is_the_configuration_with_its_settings_changed():
    base = values(points={"es.step_size": [0.02], "es.pairs": [3]}, seeds=[0, 1])
    (point,) = expand(base).points
    expected = copy.deepcopy(base)
    expected["es"]["step_size"], expected["es"]["pairs"] = 0.02, 3
    assert point.config == expected
    assert parse_config(point.config).es.step_size == 0.02


def test_what_a_learner_does_not_read_does_not_multiply_it():
    grid = expand(values(learners=["bc", "marginal", "es"], points={"es.step_size": [0.1, 0.2]}))
    swept = ["es,es.step_size=0.1", "es,es.step_size=0.2"]
    assert [point.name for point in grid.points] == ["bc,base", "marginal,base", *swept]
    started = {name: one.start for name, one in grid.trainings.items() if one.learner == "es"}
    assert started == dict.fromkeys(swept, "bc,base")
    assert grid.homes == {}  # corpus and baseline are the default run's


def test_settings_of_the_start_reach_the_learner_and_the_start_can_be_swept():
    grid = expand(values(learners=["es"], points={"bc.balance": [False, True]}))
    assert {point.name: point.start for point in grid.points} == {
        f"es,bc.balance={one}": f"bc,bc.balance={one}" for one in (False, True)
    }
    grid = expand(values(learners=["es"], points={"es.start": ["bc", "marginal"], "marginal.caution": [0.5, 1.0]}))
    assert {point.name: point.start for point in grid.points} == {
        "es,es.start=bc": "bc,base",
        "es,es.start=marginal,marginal.caution=0.5": "marginal,marginal.caution=0.5",
        "es,es.start=marginal,marginal.caution=1.0": "marginal,marginal.caution=1.0",
    }


def test_what_corpus_and_baseline_follow_from_has_a_home():
    grid = expand(values(points={"compile.optimization": ["-Oz", "-Os"], "es.step_size": [0.1, 0.2]}))
    assert {point.name: point.home for point in grid.points} == {
        f"es,compile.optimization={level},es.step_size={size}": home
        for level, home in (("-Oz", ""), ("-Os", "compile.optimization=-Os"))  # -Oz is the configuration's
        for size in (0.1, 0.2)
    }
    assert grid.homes["compile.optimization=-Os"]["compile"]["optimization"] == "-Os"


def test_tasks():
    tasks = {"inline": [], "evict": [str(REPOSITORY / "config/presets/regalloc.yaml")]}
    grid = expand(values(tasks=tasks, points={"es.step_size": [0.1, 0.2]}))
    assert [(point.name, point.home, point.config["task"]) for point in grid.points] == [
        ("es,evict,es.step_size=0.1", "evict", "regalloc-evict"),
        ("es,evict,es.step_size=0.2", "evict", "regalloc-evict"),
        ("es,inline,es.step_size=0.1", "", "inline-size"),
        ("es,inline,es.step_size=0.2", "", "inline-size"),
    ]
    assert grid.points[0].config["es"]["pairs"] == 16  # the preset's


def test_tasks_that_choose_among_candidates(tmp_path):
    preset = tmp_path / "jit.yaml"
    preset.write_text("task: jit-cse\nes: {start: marginal}\n")
    grid = expand(values(tasks={"inline": [], "pre": [str(preset)]}, points={"cse.max_trials": [64, 128]}))
    assert [(point.name, point.home, point.kind, point.start) for point in grid.points] == [
        ("es,inline,base", "", "modules", "bc,inline,base"),  # reads nothing of section cse
        *(
            (f"es,{home}", home, "choices", f"marginal,{home}")  # the labels of each come from another search
            for home in ("pre,cse.max_trials=64", "pre,cse.max_trials=128")
        ),
    ]
    base = values(points={"es.step_size": [0.1, 0.2]}) | {"task": "jit-cse"}
    assert [point.home for point in expand(base).points] == ["", ""]  # baseline and labels are the default run's


def test_names_of_values_that_are_no_words():
    grid = expand(values(learners=["bc"], points={"policy.hidden": [[], [16, 8]]}))
    assert [point.name for point in grid.points] == ["bc,policy.hidden=none", "bc,policy.hidden=16+8"]
    grid = expand(values(points={"toolchain": ["auto", "/usr/bin/clang-19"]}))
    assert [point.home[:10] for point in grid.points] == ["", "toolchain="]
    assert "/" not in grid.points[1].name


@pytest.mark.parametrize(
    ("sweep", "message"),
    [
        ({"points": {"es.stepsize": [0.1, 0.2]}}, "unknown setting 'es.stepsize'; known there: flip_share, "),
        ({"points": {"es.step_size.x": [1]}}, "unknown setting 'es.step_size.x'; known there: none"),
        ({"points": {"es.step_size": [0.1, -1]}}, "sweep point es.step_size=-1: es.step_size: input should be greater"),
        ({"points": {"es.step_size": []}}, "sweep.points.es.step_size: list should have at least 1 item"),
        ({"points": {"ppo.epochs": [1, 2]}}, "ppo.epochs is read by none of sweep.learners (es)"),
        ({"points": {"train.seeds": [[0], [1]]}}, "train.seeds cannot be swept; use sweep.learners and sweep.seeds"),
        ({"points": {"task": ["inline-size", "jit-cse"]}, "learners": ["bcmax"]}, "there is no bcmax for task jit-cse"),
        ({"points": {"compile.objective": ["spill_cost"]}}, "spill_cost"),
        ({"learners": []}, "sweep.learners: list should have at least 1 item"),
        ({"learners": ["es", "es"]}, "must not name anything twice"),
        ({"tasks": {"evict": ["nowhere.yaml"]}}, "cannot read nowhere.yaml"),
        ({}, "the sweep holds one training, so there is nothing to compare; give sweep.points"),
    ],
)
def test_what_cannot_be_made_is_said(sweep, message):
    with pytest.raises(ConfigError) as caught:
        expand(values(**sweep))
    assert message in str(caught.value)
