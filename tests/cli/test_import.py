"""`mlgo import`: from a SavedModel to compiles under it."""

import json
import shutil

import pytest

from mlgo.errors import MlgoError
from mlgo.policy.stored import save_policy
from tests.cli.conftest import run_here
from tests.cli.test_capture import captured, project
from tests.fakes.policies import linear_policy

__all__ = ["captured", "project"]

PARSER = "data/sample/json/parser.cpp"
BUILD = """
import sys
from pathlib import Path
from tests.deploy.importing.models import build
root = Path(sys.argv[1])
build("always", root / "always", ["cost_estimate", "threshold"])
for name in ("unknown-feature", "drawing", "other-key"):
    build(name, root / name, [])
"""


@pytest.fixture(scope="module")
def models(in_tensorflow, tmp_path_factory):
    pytest.importorskip("ai_edge_litert", reason="the interpreter is not installed: make setup EXTRA=import")
    root = tmp_path_factory.mktemp("models")
    in_tensorflow(BUILD, root)
    return root


@pytest.fixture(scope="module")
def always(models, prints):
    """A model that always inlines, imported."""
    text = prints("import", models / "always", "-o", models / "policies" / "always-s0")
    assert text.startswith(f"{models / 'policies' / 'always-s0'}: a policy of inline-size\n")
    assert "it looks at 2 of the 38 features that ziglang clang 22.1.8 sends\n" in text
    assert "200 of 200 drawn questions are answered as TensorFlow runs the model; it gives 1 diff" in text
    return models / "policies" / "always-s0"


@pytest.mark.slow
def test_compiles_as_the_rule_does(always, prints):
    found = [json.loads(prints("compile", PARSER, "--policy", policy, "--json")) for policy in (always, "always")]
    for record in found:
        del record["policy"], record["seconds"]
    assert found[0] == found[1]
    assert found[0]["inlined"] == found[0]["questions"] > 100


@pytest.mark.slow
@pytest.mark.skipif(not shutil.which("make"), reason="needs make")
def test_a_project_is_evaluated_as_under_the_same_rule_with_weights(always, captured, mlgo, tmp_path):
    save_policy(linear_policy("inline-size", ["cost_estimate"], [0, 1]), tmp_path / "other-s0")
    found = []
    for policy in (always, tmp_path / "other-s0"):
        run = mlgo(
            "evaluate", "--policy", policy, "--project", captured, "--workers", "2", "--search", "3",
            "--output", tmp_path / f"out-{policy.name}", "--json",
        )  # fmt: skip
        assert run.returncode == 0, run.stderr
        rows = json.loads(run.stdout)["shipped"]
        found.append([{**row, "contender": row["contender"].replace(policy.name, "it")} for row in rows])
    assert found[0] == found[1]
    assert "it" in {row["contender"] for row in found[0]}


@pytest.mark.slow
@pytest.mark.parametrize(
    ("model", "words"),
    [
        ("other-key", "has no signature 'action', only __saved_model_init_op, serving_default"),
        ("unknown-feature", "the compiler lacks 1 of the policy's features (loop_depth)"),
        ("drawing", "a model that draws its answers cannot be imported"),
    ],
)
def test_what_is_refused_leaves_nothing(model, words, models, refuses, tmp_path):
    assert words in refuses("import", models / model, "-o", tmp_path / "policies" / "it-s0")
    assert not list(tmp_path.iterdir())


def test_mistakes_are_found_before_tensorflow_starts(tmp_path):
    model = tmp_path / "model"
    model.mkdir()
    (model / "saved_model.pb").touch()
    (tmp_path / "there-s0").mkdir()
    for words, message in (
        ((model, "-o", tmp_path / "there-s0"), r"there-s0 is there already; remove it, or name another folder"),
        ((model, "-o", tmp_path / "unnamed"), r"unnamed"),
        ((model, "-o", tmp_path / "new-s0", "--task", "unrolling"), r"unrolling"),
        ((tmp_path, "-o", tmp_path / "new-s0"), r"holds no saved_model.pb; give the folder of a SavedModel"),
    ):
        with pytest.raises(MlgoError, match=message):
            run_here("import", *words)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["model", "there-s0"]
