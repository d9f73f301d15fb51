"""Unusable input, by learner: one line that names the thing and the remedy, and the last policy stays as it was."""

import json
import re
import shutil
from functools import partial
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pytest

from mlgo.base.artifacts import MODULES, VOCABULARY, provenance, read_provenance, read_table, trace_schema, write_table
from mlgo.base.files import read_record, write_record
from mlgo.policy.stored import save_model, save_policy
from tests.pipeline.conftest import OTHER, STARTED, Checkout, contents

slow = partial(pytest.param, marks=pytest.mark.slow)
LEARNERS = ["bc", "bcmax", "es", "marginal", "ppo"]
SHORT = {"compile": {"compile_timeout_s": 0.001}}
"""No compile ends in time."""


class World:
    """Inputs of a training that a test may spoil, and a policy of the same name from an earlier one."""

    def __init__(self, checkout: Checkout, root: Path) -> None:
        self.checkout, self.root = checkout, root
        data = checkout.root / "data"
        for part in ("corpus", "baseline"):
            shutil.copytree(data / part, root / part)
        shutil.copytree(data / "policies/bc-s0", root / "bc-s0")
        self.earlier = data / "policies/es-s0"

    def write(self, path: str, table: pa.Table, schema: pa.Schema, **changes) -> None:
        origin = {**read_provenance(self.root / path), **changes}
        write_table(self.root / path, table, schema, provenance(**{k: v for k, v in origin.items() if k != "package"}))

    @property
    def trace(self) -> pa.Table:
        return read_table(self.root / "baseline/trace.parquet")

    def write_trace(self, trace: pa.Table, **changes) -> None:
        plain = trace_schema([]).names
        schema = trace_schema([name for name in trace.column_names if name not in plain])
        self.write("baseline/trace.parquet", trace, schema, **changes)

    def change_policy(self, **changes) -> None:
        path = self.root / "bc-s0/policy.json"
        write_record(path, read_record(path) | changes)

    def refuses(self, learner: str, message: str, settings: dict[str, dict] | None = None) -> str:
        """Run a learner's program and expect one line, which is returned."""
        output, changes = self.root / f"{learner}-s0-again", settings or {}
        shutil.copytree(self.earlier, output)
        before = contents(output)
        run = self.checkout.run_forked(*self._command(learner, output, changes))
        assert run.returncode == 1, run.stderr[-3000:]
        (line,) = [line for line in run.stderr.splitlines() if line.startswith("error: ")]
        assert message in line
        assert run.stderr.rstrip().endswith(line)  # nothing after it, no traceback before it
        assert "Traceback" not in run.stderr
        assert contents(output) == before
        return line

    def _command(self, learner: str, output: Path, changes: dict[str, dict]) -> list[str]:
        start = ["--start", str(self.root / "bc-s0")] if learner in STARTED else []
        own = ["--home", str(self.root), "--work", str(self.root / "work"), "--output", str(output)]
        return self.checkout.training(learner, f"bad-{learner}", *start, *own, **changes)


@pytest.fixture
def world(finished, tmp_path) -> World:
    return World(finished, tmp_path)


@pytest.mark.parametrize("learner", LEARNERS)
def test_a_corpus_whose_splits_leak(world, learner):
    modules = read_table(world.root / "corpus/modules.parquet", MODULES)
    rows = modules.to_pylist()
    train = next(row for row in rows if row["split"] == "train" and not row["skip_reason"])
    test = next(row for row in rows if row["split"] == "test" and not row["skip_reason"])
    test["bitcode_sha256"] = train["bitcode_sha256"]
    world.write("corpus/modules.parquet", pa.Table.from_pylist(rows, MODULES.remove_metadata()), MODULES)
    world.refuses(learner, f"{test['project']}/{test['module']} (test) is the same code as {train['project']}/")


@pytest.mark.parametrize("learner", STARTED)
def test_a_start_policy_of_another_task(world, learner):
    save_policy(OTHER, world.root / "bc-s0")
    world.refuses(learner, "bc-s0 was trained for task regalloc-evict, ")


def test_a_start_policy_of_an_unknown_task(world):
    world.change_policy(task="unrolling")
    world.refuses("es", "bc-s0 is for task 'unrolling', which this version does not know")


@pytest.mark.parametrize(
    ("learner", "what"),
    [("bcmax", "the trace"), ("es", "the compiler"), slow("ppo", "the compiler")],
)
def test_a_start_policy_with_features_of_another_compiler(world, learner, what):
    features = json.loads((world.root / "bc-s0/policy.json").read_text())["features"]
    world.change_policy(features=[*features[:-1], "colour"])
    world.refuses(learner, f"{what} lacks 1 of the policy's features (colour); it was trained for another task or LLVM")


@pytest.mark.parametrize("learner", STARTED)
def test_a_start_policy_without_numbers(world, learner):
    folder = world.root / "bc-s0"
    weights, record = np.load(folder / "weights.npy"), read_record(folder / "policy.json")
    weights[:2] = np.nan
    save_model(weights, {name: value for name, value in record.items() if name != "weights_sha256"}, folder)
    world.refuses(learner, "bc-s0: 2 weights are not finite; train it again")


def test_a_vocabulary_that_does_not_fit_the_trace(world):
    vocabulary = read_table(world.root / "baseline/vocabulary.parquet", VOCABULARY)
    name = vocabulary["feature"][0].as_py()
    world.write("baseline/vocabulary.parquet", vocabulary.slice(1), VOCABULARY)
    world.refuses("marginal", f"the vocabulary lacks 1 features of the trace ({name}); it was made of another trace")


@pytest.mark.parametrize(
    ("learner", "change", "message"),
    [
        ("bc", lambda trace: trace.slice(0, 0), "the training trace holds no question"),
        ("marginal", lambda trace: trace.slice(0, 0), "the training trace holds no question; add training projects"),
        ("bcmax", lambda trace: trace.slice(0, 0), "the trace lacks 12 modules that have scores, the first is "),
        (
            "bc",
            lambda trace: trace.filter(pc.equal(trace["answer"], 1)),
            "the training trace holds only one kind of answer",
        ),
        (
            "bc",
            lambda trace: trace.drop_columns(["num_loops"]),
            "the trace lacks 1 of the policy's features (num_loops)",
        ),
        (
            "bc",
            lambda trace: trace.append_column("colour", trace["num_loops"]),
            "the vocabulary lacks 1 features of the trace (colour)",
        ),
    ],
)
def test_an_unusable_trace(world, learner, change, message):
    world.write_trace(change(world.trace))
    world.refuses(learner, message)


@pytest.mark.parametrize("learner", ["bc", "marginal"])
def test_a_trace_of_another_task(world, learner):
    world.write_trace(world.trace, task="regalloc")
    world.refuses(learner, "the trace is of task 'regalloc', not 'inline-size'; run the baseline stage again")


@pytest.mark.parametrize("learner", ["bcmax", "es", "marginal", "ppo"])
def test_no_module_of_a_usable_size(world, learner):
    world.refuses(
        learner,
        f"no train module asks between 1 and 1 questions; raise {learner}.max_questions",
        {learner: {"max_questions": 1}},
    )


@pytest.mark.parametrize(
    ("learner", "message"),
    [
        ("es", "3 generations in a row had too few candidates that compile; raise compile.compile_timeout_s"),
        slow("bcmax", "every compile under the policy of round 0 failed; raise "),
        slow("marginal", "compiles of round 1 failed; raise compile.compile_timeout_s"),
        slow("ppo", "all 8 compiles of an iteration failed; raise "),
    ],
)
def test_compiles_that_all_fail_are_explained(world, learner, message):
    line = world.refuses(learner, message, {**SHORT, "es": {"generations": 5}})
    assert re.search(r" \(for example \w+/\S+: timeout: .*\)$", line)


@pytest.mark.parametrize(
    ("learner", "message", "changes"),
    [
        ("es", "range of numbers; lower es.step_size", {"step_size": 1e40}),
        slow("bc", "the cloning loss is not a number; lower bc.learning_rate", {"learning_rate": 1e38}),
        slow("bcmax", "the loss of BC-Max is not a number; lower bcmax.", {"learning_rate": 1e39}),
        slow("marginal", "costs is not a number; lower marginal.", {"learning_rate": 1e39}),
        slow("ppo", "lower ppo.learning_rate", {"learning_rate": 1e39}),
    ],
)
def test_a_step_beyond_all_numbers(world, learner, message, changes):
    world.refuses(learner, message, {learner: changes})
