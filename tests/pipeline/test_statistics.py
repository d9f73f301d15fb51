"""The page about statistics on the tables of a finished run."""

from mlgo.base.config import load_config
from tests.report.test_statistics import check


def test_a_reader_finds_what_the_report_says(finished):
    preset = finished.root / "config/presets/tiny.yaml"
    evaluate = load_config(finished.root / "config/config.yaml", preset).evaluate.model_dump()
    for learner in ("marginal", "es", "bc"):
        mine = check(finished.root / "data", learner, f"{learner}-s0", evaluate)
        assert mine["verdict"] == "no verdict"  # two projects
