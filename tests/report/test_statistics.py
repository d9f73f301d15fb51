"""The page about statistics: its lines of NumPy give what the report writes."""

import json
import re
from pathlib import Path
from typing import Any

import pytest

from mlgo.base.files import read_record
from mlgo.compare import inference
from mlgo.compare.inference import Bootstrap
from tests.conftest import REPOSITORY
from tests.report.test_make_report import made, spread

MOST_LINES = 10
"""Of a block of code, without imports: a reader can take it in at once."""


def blocks() -> list[str]:
    page = (REPOSITORY / "docs/statistics.md").read_text()
    return re.findall(r"^```python\n(.*?)^```$", page, re.DOTALL | re.MULTILINE)


def redo(data: Path, learner: str, evaluate: dict[str, Any]) -> dict[str, Any]:
    """Run the page's code on the tables of a run; what its names then stand for."""
    code = "\n".join(blocks())
    for written, meant in (
        ('"marginal", "test", "text_bytes"', f'"{learner}", "test", "text_bytes"'),
        ("10_000, 0.95, 0", f"{evaluate['resamples']}, {evaluate['confidence']}, 0"),
    ):
        assert code.count(written) == 1
        code = code.replace(written, meant)
    found: dict[str, Any] = {}
    exec(compile(code.replace('"data/', f'"{data}/'), "docs/statistics.md", "exec"), found)
    return found


def check(data: Path, learner: str, name: str, evaluate: dict[str, Any]) -> dict[str, Any]:
    """Compare the page's figures with those of the report under a contender's name."""
    mine, report = redo(data, learner, evaluate), read_record(data / "report/comparisons.json")
    figures = report["test"][name]
    for i, gain in enumerate(("total", "geomean", "median")):
        assert figures[f"text_{gain}_gain_percent"] == pytest.approx(100 * mine[gain], abs=1e-4)
        for end in ("low", "high"):
            assert figures[f"text_{gain}_{end}_percent"] == pytest.approx(100 * mine[end][i], abs=1e-4)
    assert figures.get("text_sign_p") == (None if mine["sign_p"] is None else pytest.approx(mine["sign_p"], rel=1e-3))
    assert figures["text_p"] == pytest.approx(mine["p"], rel=1e-3)
    counts = [figures[f"text_projects{part}"] for part in ("", "_smaller", "_larger")]
    assert counts == [mine["n"], mine["smaller"], mine["larger"]]
    assert report["shipped"]["test"][name]["total_gain_percent"] == pytest.approx(100 * mine["shipped_total"], abs=1e-4)
    bootstrap = Bootstrap(evaluate["resamples"], evaluate["confidence"], 0)
    bca = inference.gains(mine["after"], mine["before"], bootstrap)[3]
    ends = min(mine["bca_low"], mine["total"]), max(mine["bca_high"], mine["total"])
    assert (bca.low, bca.high) == pytest.approx(ends)
    return mine


def test_no_step_takes_more_than_ten_lines():
    for block in blocks():
        lines = [line for line in block.splitlines() if line and not re.match("(import|from) ", line)]
        assert len(lines) <= MOST_LINES, block


def test_two_seeds_on_twelve_projects(world):
    """The second seed of es gains half as much; some of its modules did not compile."""
    for row in [row for row in world.results if row["policy"] == "es"]:
        text = (row["text_bytes"] + row["baseline_text_bytes"]) // 2
        world.results.append({**row, "seed": 1, "text_bytes": text if "part3" not in row["module"] else None})
    world.shipped += [{**row, "contender": "es-s1"} for row in world.shipped if row["contender"] == "es-s0"]
    world.policies = ("bc-s0", "es-s0", "es-s1")
    spread(world)
    made(world)
    evaluate = json.loads((world.root / "config.json").read_text())["evaluate"]
    mine = check(world.root, "es", "es-mean", evaluate)
    assert (mine["n"], len(mine["seeds"]), mine["verdict"]) == (10, 2, "smaller")
    figures = read_record(world.root / "report/comparisons.json")["test"]
    p_values = [figures[name]["text_p"] for name in ("bc-s0", "es-mean")]
    corrected = [figures[name]["text_corrected_p"] for name in ("bc-s0", "es-mean")]
    assert corrected == pytest.approx(mine["holm"](p_values), rel=1e-3)
    assert figures["es-mean"]["text_verdict"] == "smaller"


def test_one_seed_on_two_projects(world):
    made(world)
    evaluate = json.loads((world.root / "config.json").read_text())["evaluate"]
    for learner in ("bc", "es"):
        assert check(world.root, learner, f"{learner}-s0", evaluate)["verdict"] == "no verdict"
