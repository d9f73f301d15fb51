"""Decision problems and the reward."""

from pathlib import Path

import numpy as np
import pytest

from mlgo.errors import ConfigError
from mlgo.host.tasks.task import get_task
from mlgo.objects.measures import relative_reward


def test_unknown_tasks_are_named():
    with pytest.raises(ConfigError, match=r"unknown task 'regalloc'; known: inline-size, inline-speed"):
        get_task("regalloc")
    with pytest.raises(ConfigError, match="task jit-cse asks no questions while a module is compiled"):
        get_task("jit-cse")


# Section 2.1 of the fact sheet; every LLVM option goes through -mllvm.
FLAGS = {
    "inline-size": """
        -enable-ml-inliner=release -inliner-interactive-channel-base=/x/channel
        -ml-advisor-size-increase-threshold=10""",
    "regalloc-evict": "-regalloc-enable-advisor=release -regalloc-evict-interactive-channel-base=/x/channel",
    "regalloc-priority": """
        -regalloc-enable-priority-advisor=release -regalloc-priority-interactive-channel-base=/x/channel""",
}


@pytest.mark.parametrize("name", FLAGS)
def test_flags(name):
    before = ["-Xclang", "-disable-llvm-passes"] if name.startswith("regalloc") else []
    flags = get_task(name).flags(Path("/x/channel"), 10.0, with_heuristic_feature=False)
    assert flags == [*before, *(word for option in FLAGS[name].split() for word in ("-mllvm", option))]


def test_flags_that_ask_for_the_heuristics_decision():
    more = get_task("inline-size").flags(Path("/x/channel"), 1.5, with_heuristic_feature=True)
    assert "-inliner-interactive-include-default" in more
    assert "-ml-advisor-size-increase-threshold=1.5" in more
    for name in ("regalloc-evict", "regalloc-priority"):
        with pytest.raises(ConfigError, match=f"does not tell its own decisions for task {name}"):
            get_task(name).flags(Path("/x/channel"), 4.0, with_heuristic_feature=True)


def test_objectives_that_a_task_does_not_measure():
    for task, objective in (("inline-size", "dedup_bytes"), ("regalloc-evict", "spill_cost")):
        get_task(task).check_objective(objective)
    assert get_task("inline-speed").objectives[0] == "instructions"
    assert "instructions" not in get_task("inline-size").objectives  # nothing is run
    message = r"spill_cost is not measured for task inline-size; choose one of text_bytes, exec_bytes, dedup_bytes"
    with pytest.raises(ConfigError, match=message):
        get_task("inline-size").check_objective("spill_cost")
    with pytest.raises(ConfigError, match="dedup_bytes is not measured for task regalloc-evict"):
        get_task("regalloc-evict").check_objective("dedup_bytes")


def test_reward_by_hand():
    score = np.array([90.0, 100.0, 125.0, np.nan])
    baseline = np.array([100.0, 100.0, 100.0, 100.0])
    assert relative_reward(score, baseline)[:3].tolist() == pytest.approx([0.1, 0.0, -0.25])
    assert np.isnan(relative_reward(score, baseline)[3])
    with_offset = relative_reward(np.array([0.0, 3.0, 0.0]), np.array([0.0, 1.0, 1.0]), 1.0)
    assert with_offset.tolist() == pytest.approx([0.0, -np.log(2.0), np.log(2.0)])
    table = relative_reward(np.array([[50.0, 10.0], [100.0, 20.0]]), np.array([100.0, 10.0]))
    assert table.tolist() == [[0.5, 0.0], [0.0, -1.0]]
