"""`mlgo distill`: from a policy to a tree that the compiler can be asked with."""

import json

import numpy as np
import pyarrow as pa
import pytest

from mlgo.base.artifacts import MODULES, trace_schema, write_table
from mlgo.errors import MlgoError
from mlgo.policy.stored import load_policy, save_policy
from tests.cli.conftest import run_here
from tests.fakes.policies import linear_policy

FEATURES = ("cost_estimate", "callee_users")
EDGE = 20


@pytest.fixture(scope="module")
def world(tmp_path_factory):
    """A corpus of two projects with its trace, and a policy that inlines what costs at most 20."""
    folder = tmp_path_factory.mktemp("world")
    modules = [
        {field.name: 0 if pa.types.is_integer(field.type) else "" for field in MODULES}
        | {"project": project, "module": "m.c", "language": "c", "split": split, "bitcode_sha256": project * 64}
        for project, split in (("a", "train"), ("b", "validation"))
    ]
    write_table(folder / "corpus/modules.parquet", pa.Table.from_pylist(modules, schema=MODULES), MODULES, {})
    rng, rows = np.random.default_rng(0), []
    for project, count in (("a", 400), ("b", 200)):
        for step in range(count):
            cost = EDGE + step % 2 if step < 20 else int(rng.integers(-100, 100))
            key = {"project": project, "module": "m.c", "context": "", "step": step}
            rows.append({**key, "cost_estimate": cost, "callee_users": int(rng.integers(1, 9)), "answer": 1})
    schema = trace_schema(FEATURES)
    write_table(folder / "trace.parquet", pa.Table.from_pylist(rows, schema=schema), schema, {"task": "inline-size"})
    bias = np.log1p(EDGE + 0.5)  # slog(cost) is below it for at most 20
    save_policy(linear_policy("inline-size", FEATURES, [-1, 0, bias]), folder / "teacher-s0")
    return folder


def words(world, output):
    tables = ("--trace", world / "trace.parquet", "--corpus", world / "corpus")
    return ["distill", world / "teacher-s0", *tables, "-o", output]


def distil(world, output, *more):
    run_here(*words(world, output), *more)


@pytest.mark.slow
def test_from_a_policy_to_a_compile(prints, world, tmp_path):
    text = prints(*words(world, tmp_path / "tree-s0"))
    assert text.startswith(
        "// Above 0 is yes, below is no; the further from 0, the surer.\n"
        "float logit(int64_t cost_estimate) {\n"
        "  if (cost_estimate <= 20)\n"
        "    return 9.99f; // leaf 0\n"
        "  return -9.99f; // leaf 1\n"
        "}\n"
    )
    assert "100.00% of 200 questions of 1 projects held out" in text
    assert sorted(path.name for path in (tmp_path / "tree-s0").iterdir()) == [
        "agreement.json", "cpp", "policy.json", "weights.npy",
    ]  # fmt: skip
    agreement = json.loads((tmp_path / "tree-s0/agreement.json").read_text())
    assert (agreement["parity"]["questions"], agreement["parity"]["mismatches"]) == (200, 0)
    origin = load_policy(tmp_path / "tree-s0").origin
    assert (origin["teacher"], origin["fitted"], origin["equal_held_out"]) == ("teacher-s0", ["a"], 1.0)
    source = "data/sample/json/parser.cpp"
    found = [
        json.loads(prints("compile", source, "--policy", folder, "--json"))
        for folder in (world / "teacher-s0", tmp_path / "tree-s0")
    ]
    for record in found:
        del record["policy"], record["seconds"]
    assert found[0] == found[1]
    assert 0 < found[0]["inlined"] < found[0]["questions"]


def test_json_and_the_same_bytes_again(world, tmp_path, capsys):
    distil(world, tmp_path / "tree-s0", "--leaves", "2", "--json")
    record = json.loads(capsys.readouterr().out)
    distil(world, tmp_path / "tree-s1", "--leaves", "2")
    assert record["features"] == ["cost_estimate"]
    assert (record["fitted"]["questions"], record["held_out"]["questions"]) == (400, 200)
    assert [leaf["answer"] for leaf in record["held_out"]["leaves"]] == [1, 0]
    assert sum(leaf["questions"] for leaf in record["held_out"]["leaves"]) == 200
    for path in (tmp_path / "tree-s0").rglob("*.*"):
        assert path.read_bytes() == (tmp_path / "tree-s1" / path.relative_to(tmp_path / "tree-s0")).read_bytes()


def test_a_tree_can_be_a_teacher(world, tmp_path, capsys):
    distil(world, tmp_path / "tree-s0")
    run_here("distill", tmp_path / "tree-s0", *words(world, tmp_path / "again-s0")[2:])
    first, second = (load_policy(tmp_path / name) for name in ("tree-s0", "again-s0"))
    assert first.weights.tolist() == second.weights.tolist()
    assert second.origin["teacher"] == "tree-s0"


def trace_of(path, features, task):
    schema = trace_schema(features)
    write_table(path, pa.Table.from_pylist([], schema=schema), schema, {"task": task})
    return path


def test_refusals_leave_nothing(world, tmp_path, capsys):
    def refused(output, *more):
        with pytest.raises(MlgoError) as found:
            distil(world, output, *more)
        assert not output.exists()
        return str(found.value)

    output, other = tmp_path / "tree-s0", tmp_path / "other.parquet"
    assert "its folder must be called <learner>-s<seed>" in refused(tmp_path / "tree")
    assert "other.parquet is missing" in refused(output, "--trace", other)
    assert "callee_users" in refused(output, "--trace", trace_of(other, ["cost_estimate", "odd"], "inline-size"))
    assert "is of task 'regalloc-evict', not of 'inline-size'" in refused(
        output, "--trace", trace_of(other, FEATURES, "regalloc-evict")
    )
    assert "no question of 1 projects" in refused(output, "--trace", trace_of(other, FEATURES, "inline-size"))
    with pytest.raises(SystemExit):
        distil(world, output, "--leaves", "1")
    assert "give at least 2" in capsys.readouterr().err


def test_two_policies_in_one_class(world, tmp_path, capsys):
    distil(world, tmp_path / "tree-s0")
    capsys.readouterr()
    policies = f"size={world / 'teacher-s0'}", f"quick={tmp_path / 'tree-s0'}"

    def combine(*more):
        run_here("combine", *policies, *more, "--trace", world / "trace.parquet", "-o", tmp_path / "both")

    combine("--json")
    parity = json.loads(capsys.readouterr().out)["parity"]
    assert {name: (one["questions"], one["mismatches"]) for name, one in parity.items()} == {
        "size": (600, 0),
        "quick": (600, 0),
    }
    assert "// quick" in (tmp_path / "both/InlinerSizeModel.cpp").read_text()
    with pytest.raises(MlgoError, match="size names two policies"):
        combine(f"size={world / 'teacher-s0'}")
    with pytest.raises(SystemExit):
        combine("quick")
    assert "quick is not NAME=DIR" in capsys.readouterr().err
