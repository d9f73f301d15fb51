"""`mlgo explain`: tables, and one-line errors."""

import json

import pyarrow.parquet as pq
import pytest

from mlgo.research.commands.explain import Departure, Explanation, _text
from tests.compare.conftest import make_world


@pytest.fixture
def data(tmp_path):
    """Results on made-up modules; es-s0 inlines where feature a is positive."""
    return make_world(tmp_path, 2).write()


def test_importance(prints, data):
    arguments = ("explain", "--importance", "--policy", data / "policies" / "es-s0", "--data", data)
    assert [line.split()[0] for line in prints(*arguments).splitlines()] == ["es-s0:", "a", "b"]
    (first,) = json.loads(prints(*arguments, "--json", "--top", "1"))
    assert first["feature"] == "a"
    assert 0.35 < first["changed_share"] < 0.65


def test_no_regression(prints, data):
    text = prints("explain", "--policy", data / "policies" / "es-s0", "--data", data)
    assert text == "es-s0 makes no test module larger.\n"


def test_a_policy_that_was_not_evaluated(refuses, data):
    (data / "policies" / "bc-s0").rename(data / "policies" / "bc-s7")
    error = refuses("explain", "--policy", data / "policies" / "bc-s7", "--data", data)
    assert error.startswith("the evaluation holds no modules of bc-s7 on test; it holds: bc-s0 on test, ")


@pytest.mark.parametrize(
    ("table", "column", "options"),
    [("evaluation/results.parquet", "policy", ()), ("corpus/modules.parquet", "project", ("--importance",))],
)
def test_a_table_without_one_of_its_columns(refuses, data, table, column, options):
    pq.write_table(pq.read_table(data / table).drop_columns(column), data / table)
    error = refuses("explain", "--policy", data / "policies" / "es-s0", "--data", data, *options)
    assert error.startswith(f"{data / table} ")
    assert repr(column) in error


def test_table():
    flips = (
        Departure(7, 2, 1, 0, 1.5, -12, "", {"callee_users": 3, "cost_estimate": -40}),
        Departure(3, 1, 0, 1, -0.25, None, "timeout", {"callee_users": 1, "cost_estimate": 5}),
    )
    explanation = Explanation("p/m.c", 1000, 1025, 9, 3, -20, flips)
    title, summary, head, first, second = _text(explanation, "text_bytes").splitlines()
    assert title == "p/m.c: text_bytes 1000 under the heuristic, 1025 under the policy (+2.50 %)"
    assert "3 of 9 questions" in summary
    assert "all at once -20 bytes" in summary
    assert head.split()[:5] == ["question", "policy", "heuristic", "logit", "bytes"]
    assert first.split() == ["7", "inline", "call", "+1.50", "-12", "3", "-40", "-", "-", "-", "-", "x2"]
    assert second.split()[:5] == ["3", "call", "inline", "-0.25", "timeout"]
