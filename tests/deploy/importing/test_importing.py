"""Models of others compile here as TensorFlow decides by them. TensorFlow runs in a process of its own."""

import json
import pickle
import subprocess
import sys
from dataclasses import replace

import numpy as np
import pyarrow as pa
import pytest

from mlgo.base.artifacts import column_type, trace_schema
from mlgo.base.files import file_sha256, read_record, write_record
from mlgo.base.types import TensorSpec
from mlgo.deploy.drivers import DriverChoice, default_policy, make_driver
from mlgo.deploy.import_model import (
    NUM_QUESTIONS,
    check_importable,
    compare_answers,
    drawn_questions,
    policy_of,
    read_converted,
)
from mlgo.errors import ArtifactError, MlgoError, PackageError, PolicyError
from mlgo.evaluate import CompileHost
from mlgo.evaluate.worker import CompileJob
from mlgo.host.actions import Binary
from mlgo.host.frontend import FrontEnd
from mlgo.host.log import Header
from mlgo.host.session import compile_under_advice, probe_channel
from mlgo.host.tasks.regalloc import FIRST_LEGAL
from mlgo.host.tasks.task import ConstantAdvisor, PureAdvisor, get_task
from mlgo.policy.stored import load_policy, load_stored, model_file, save_imported
from mlgo.pool.tree_store import ReplayStore, TreeKey
from mlgo.research.commands.distill import agreement, distil, taught_questions
from tests.conftest import SAMPLE

pytestmark = pytest.mark.slow

INT64 = np.dtype(np.int64)
CHEAP = 20  # as in models.py, which this process cannot import
SOURCES = {"inline-size": "json/parser.cpp", "regalloc-evict": "matrix/lu.cpp", "regalloc-priority": "matrix/lu.cpp"}
TASKS = {
    "cheap": "inline-size",
    "always": "inline-size",
    "learned": "inline-size",
    "first": "regalloc-evict",
    "lightest": "regalloc-evict",
    "longest": "regalloc-priority",
}

REFUSALS = {
    "no-decision": ("no output inlining_decision or index_to_evict or priority, only chosen",),
    "two-decisions": ("decides for inline-size, regalloc-priority", "--task"),
    "small-decision": ("'inlining_decision' is int32 [1], not one int64",),
    "wide-decision": ("'inlining_decision' is int64 [2], not one int64",),
    "no-features": ("no features", "discount, reward, step_type"),
    "no-mask": ("lacks the input mask",),
    "text": ("'cost_estimate' is of type string",),
    "no-shape": ("'cost_estimate' has no fixed shape",),
    "operator": ("TensorFlow Lite lacks operators", "MatrixDeterminant"),
    "other-key": ("no signature 'action', only __saved_model_init_op, serving_default",),
    "other-tag": ("no graph with the tag 'serve', only with train",),
    "damaged": ("saved_model.pb cannot be read",),
    "no-variables": ("cannot convert",),
    "writing": ("/writing has operators that may touch files, or are unknown: 'WriteFile'; save it without",),
    "reading": ("'ReadFile', 'StringToNumber'",),
}

CALL = "import sys\nfrom tests.deploy.importing import models\ngetattr(models, sys.argv[1])(*sys.argv[2:])\n"


@pytest.fixture(scope="module")
def inliner_features(toolchain, settings, task):
    """Names of what the compiler sends the inliner."""
    header = probe_channel(toolchain, task, settings)
    return [spec.name for spec in header.features if spec.name != "inlining_default"]


@pytest.fixture(scope="module")
def interpreter():
    pytest.importorskip("ai_edge_litert", reason="the interpreter is not installed: make setup EXTRA=import")


@pytest.fixture(scope="module")
def refused(in_tensorflow, tmp_path_factory):
    root = tmp_path_factory.mktemp("bad")
    in_tensorflow(CALL, "convert_models", root, " ".join(REFUSALS))
    return root


@pytest.mark.parametrize("name", REFUSALS)
def test_one_line_says_what_is_wrong(name, refused):
    with pytest.raises(PolicyError) as caught:
        read_converted(refused / name / "out")
    message = str(caught.value)
    assert "\n" not in message
    assert len(message) < 500
    for part in REFUSALS[name]:
        assert part in message
    assert not (refused / name / "canary").exists()


def test_the_task_that_is_given_counts(refused, in_tensorflow, tmp_path):
    output = "no output index_to_evict, only inlining_decision, priority"
    for task, words in (("regalloc-evict", output), ("jit-cse", "asks no questions"), ("unrolling", "unrolling")):
        in_tensorflow(CALL, "convert", refused / "two-decisions", task, tmp_path / task)
        assert words in json.loads((tmp_path / task / "result.json").read_text())["refused"]


def test_questions_that_are_drawn():
    shapes = {"mask": (INT64, (1, 33)), "progress": (np.dtype(np.float32), ()), "max_stage": (INT64, (33,))}
    inputs = [TensorSpec(name, dtype, shape) for name, (dtype, shape) in shapes.items()]
    drawn = drawn_questions(get_task("regalloc-evict"), inputs)
    assert {name: (values.shape, values.dtype.name) for name, values in drawn.items()} == {
        "mask": ((NUM_QUESTIONS, 33), "int64"),
        "progress": ((NUM_QUESTIONS, 1), "float32"),
        "max_stage": ((NUM_QUESTIONS, 33), "int64"),
    }
    assert set(np.unique(drawn["mask"])) == {0, 1}
    assert drawn["mask"][:, -1].all()
    assert 0.4 < drawn["mask"][:, :-1].mean() < 0.6
    assert 0.0 <= drawn["progress"].min() <= drawn["progress"].max() < 1.0
    assert 2**19 < np.abs(drawn["max_stage"]).max() < 2**20
    assert {-1, 0} <= set(np.sign(drawn["max_stage"]).flat)
    again = drawn_questions(get_task("regalloc-evict"), inputs)
    assert all(np.array_equal(drawn[name], again[name]) for name in drawn)


def test_what_is_no_model_or_not_installed_is_refused_at_once(refused, tmp_path, without):
    for folder in (tmp_path, tmp_path / "none"):
        with pytest.raises(ArtifactError, match=r"holds no saved_model.pb; give the folder"):
            check_importable(folder)
    for name in ("ai-edge-litert", "tensorflow"):
        without(name)
        with pytest.raises(PackageError, match=rf"{name}.* \(not installed\); run make setup EXTRA=import"):
            check_importable(refused / "no-features")


@pytest.fixture(scope="module")
def built(interpreter, in_tensorflow, tmp_path_factory, inliner_features):
    """Folder of a model of models.py, with what it was converted to in ``out``."""
    root = tmp_path_factory.mktemp("models")

    def model(name):
        if not (root / name).exists():
            in_tensorflow(CALL, "convert_models", root, name, *inliner_features)
        return root / name

    return model


@pytest.fixture(scope="module")
def imported(built, tmp_path_factory):
    """A policy as it is read from disk, by the model's name."""
    folder = tmp_path_factory.mktemp("policies")

    def policy(name):
        if not (folder / name).exists():
            converted = read_converted(built(name) / "out")
            made = policy_of(converted, built(name))
            assert compare_answers(made, converted).differing == 0
            save_imported(made, folder / name)
        return load_stored(folder / name)

    return policy


@pytest.fixture(scope="module")
def compiled(toolchain, settings, tmp_path_factory):
    """A sample under an advisor, with the questions that were asked."""
    folder = tmp_path_factory.mktemp("modules")

    def run(task, advisor):
        task, level = get_task(task), "-Oz" if task == "inline-size" else "-O2"
        how = settings.model_copy(update={"optimization": level, "objective": task.measure.name})
        path = folder / f"{level}.bc"
        if not path.exists():
            FrontEnd(toolchain, how, folder, task).module_of(SAMPLE / SOURCES[task.name], path)
        return compile_under_advice(toolchain, task, path, advisor, how, record=True)

    return run


def questions_of(result):
    """Features by name, [num, num_elements]."""
    width, data = result.header.payload_bytes, result.observations
    rows = [result.header.unpack(data[at : at + width]) for at in range(0, len(data), width)]
    return {name: np.array([row[name] for row in rows]) for name in rows[0]}


def answers_of(result):
    return np.frombuffer(result.answers, result.header.advice.dtype)


@pytest.mark.parametrize("name", TASKS)
def test_a_compile_is_decided_as_tensorflow_decides(name, built, imported, compiled, in_tensorflow, tmp_path):
    task = get_task(TASKS[name])
    result = compiled(task.name, imported(name))
    found, asked = answers_of(result), questions_of(result)
    assert len(found) > 50
    assert result.num_repaired_answers == 0
    np.savez(tmp_path / "asked.npz", **asked)
    in_tensorflow(CALL, "save_answers", built(name), tmp_path / "asked.npz", task.decision)
    assert found.tolist() == np.load(tmp_path / "asked.npy").tolist()
    payloads = np.frombuffer(result.observations, np.uint8).reshape(len(found), -1)
    assert imported(name).decide_for(result.header)(payloads).tolist() == found.tolist()
    by_hand = {
        "cheap": lambda: asked["cost_estimate"][:, 0] < CHEAP,
        "always": lambda: np.ones(len(found)),
        "first": lambda: asked["mask"].argmax(axis=-1).ravel(),
        "lightest": lambda: np.where(asked["mask"] != 0, asked["use_def_density"], np.inf).argmin(axis=-1).ravel(),
        "longest": lambda: asked["li_size"][:, 0],
        "learned": lambda: found,  # only TensorFlow knows
    }
    assert found.tolist() == by_hand[name]().tolist()
    if name != "always":
        assert len(set(found.tolist())) > 1


def test_the_same_object_as_under_the_same_rule_written_in_numpy(imported, compiled):
    for name, advisor in (("always", ConstantAdvisor(1)), ("first", FIRST_LEGAL)):
        mine, theirs = (compiled(TASKS[name], one) for one in (imported(name), advisor))
        assert mine.object_sha256 == theirs.object_sha256
        assert mine.answers == theirs.answers


def test_our_own_export_decides_as_the_policy_itself(interpreter, compiled, in_tensorflow, tmp_path):
    policy = load_policy(default_policy())
    expected = compiled("inline-size", policy)
    schema = pa.schema([(spec.name, column_type(spec)) for spec in expected.header.features])
    (tmp_path / "trace").write_bytes(pickle.dumps(schema.empty_table()))
    in_tensorflow(CALL, "convert_export", tmp_path, default_policy())
    again = policy_of(read_converted(tmp_path / "out"), tmp_path / "model")
    assert sorted(again.features) == sorted(policy.features)
    found = compiled("inline-size", again)
    assert found.answers == expected.answers
    assert found.object_sha256 == expected.object_sha256
    assert 50 < np.count_nonzero(answers_of(found)) < len(answers_of(found)) - 50


def test_workers_answer_and_remember(imported, compiled, toolchain, settings, sample, tmp_path):
    """The policy travels to other processes, and known questions need no compiler."""
    path, policy = sample("json/parser.cpp"), imported("cheap")
    how = settings.model_copy(update={"objective": "exec_bytes"})
    expected = compile_under_advice(toolchain, get_task("inline-size"), path, policy, how)
    job = CompileJob("parser", path, policy, sha256=file_sha256(path))
    store = ReplayStore(tmp_path, TreeKey("c", "t", "inline-size", "-Oz", how.size_stop_factor))
    with CompileHost(toolchain, "inline-size", how, 2, store) as host:
        outcomes = [host.compile_all([job])[0] for _ in range(2)]
        assert host.num_compiled == 1
    for one in outcomes:
        assert one.result.answers == expected.answers
        assert one.result.scores == expected.scores


def test_its_graph_is_asked_without_tensorflow(imported, tmp_path):
    policy = imported("cheap")
    save_imported(policy, tmp_path / "cheap-s0")
    program = (
        "import sys\nimport numpy as np\nfrom pathlib import Path\nfrom mlgo.policy.stored import load_stored\n"
        "policy = load_stored(Path(sys.argv[1]))\n"
        "print(policy.answers({name: np.zeros(1, np.int64) for name in policy.features}).tolist())\n"
        "assert 'tensorflow' not in sys.modules\n"
    )
    run = subprocess.run([sys.executable, "-c", program, tmp_path / "cheap-s0"], capture_output=True, text=True)
    assert (run.returncode, run.stderr) == (0, "")
    assert run.stdout.strip() in ("[0]", "[1]")


def test_provenance_and_the_same_bytes_again(built, imported, tmp_path):
    policy = imported("cheap")
    assert isinstance(policy, PureAdvisor)
    assert "inlining_default" not in policy.features
    assert (policy.task, policy.origin["algorithm"], policy.origin["model"]) == ("inline-size", "import", "cheap")
    other = policy_of(read_converted(built("learned") / "out"), built("learned"))
    assert len({policy.origin["model_hash"], other.origin["model_hash"]}) == 2
    for name in ("one", "two"):
        save_imported(policy, tmp_path / name)
    one, two = ({path.name: path.read_bytes() for path in (tmp_path / name).iterdir()} for name in ("one", "two"))
    assert one == two
    assert sorted(one) == ["model.tflite", "policy.json"]
    assert model_file(tmp_path / "one").name == "model.tflite"
    assert load_stored(tmp_path / "one", Binary) == policy


def test_what_needs_a_model_of_its_own_says_so(imported, toolchain, tmp_path):
    save_imported(imported("cheap"), tmp_path / "cheap-s0")
    save_imported(imported("first"), tmp_path / "first-s0")
    words = r"cheap-s0 was imported: .*; take another policy, or a tree of it: mlgo distill \S+ -o"
    with pytest.raises(PolicyError, match=words):
        make_driver(DriverChoice.of(str(tmp_path / "cheap-s0")), toolchain)
    with pytest.raises(PolicyError, match=r"first-s0 was imported: .*; take another policy$"):
        load_policy(tmp_path / "first-s0")
    with pytest.raises(PolicyError, match=r"actions that are binary, not a policy of regalloc-evict"):
        load_stored(tmp_path / "first-s0", Binary)


def test_a_tree_of_it(imported):
    """All questions count alike. The rule is found again: cost_estimate < 20."""
    rng, features = np.random.default_rng(0), imported("cheap").features
    costs = np.concatenate([rng.integers(-100, 200, 380), [CHEAP - 1, CHEAP] * 10])
    key = {"project": "p", "module": "m.c", "context": "", "answer": 0} | dict.fromkeys(features, 1)
    rows = [{**key, "step": step, "cost_estimate": int(cost)} for step, cost in enumerate(costs)]
    trace = pa.Table.from_pylist(rows, schema=trace_schema(features))
    taught = taught_questions(imported("cheap"), trace, ["p"])
    assert taught.logits.tolist() == np.where(costs < CHEAP, 1.0, -1.0).tolist()
    tree = distil(taught, "inline-size", 4, {})
    assert tree.features == ("cost_estimate",)
    assert (tree.model.threshold[0], agreement(tree, taught).equal) == (CHEAP - 1, 1.0)


SENT = "the compiler sends cost_estimate as 1 int64, not "


@pytest.mark.parametrize(
    ("name", "words"),
    [
        ("unknown-feature", r"the compiler lacks 1 of the policy's features \(loop_depth\)"),
        ("float-feature", f"{SENT}1 float32; the policy was trained for"),
        ("wide-feature", f"{SENT}2 int64; the policy was trained for"),
    ],
)
def test_a_model_for_another_compiler_is_refused(name, words, built, compiled):
    policy = policy_of(read_converted(built(name) / "out"), built(name))
    with pytest.raises(PolicyError, match=words):
        compiled("inline-size", policy)


def test_a_compiler_of_other_columns_or_features_is_refused(imported):
    policy, specs = imported("first"), tuple(TensorSpec(name, INT64, (1, 17)) for name in ("mask", "is_free"))
    header = Header(specs, TensorSpec("index_to_evict", INT64, (1,)))
    with pytest.raises(PolicyError, match=r"sends is_free as 17 int64, not 33 int64, mask as 17 int64, not 33 int64"):
        policy.respond_to(header)
    with pytest.raises(PolicyError, match=r"lacks 1 of the policy's features \(is_free\)"):
        policy.decide_for(replace(header, features=specs[:1]))


def test_a_graph_that_has_lost_its_weights_is_refused(built):
    lost = replace(read_converted(built("learned") / "out"), graph=read_converted(built("cheap") / "out").graph)
    words = rf"answers \d+ of {NUM_QUESTIONS} questions otherwise than .* may have lost its weights"
    with pytest.raises(PolicyError, match=words):
        compare_answers(policy_of(lost, built("learned")), lost)


def describe(folder, **changes):
    changed = read_record(folder / "policy.json") | changes
    kept = {name: value for name, value in changed.items() if value is not None}
    write_record(folder / "policy.json", kept)


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"graph_sha256": "0"}, "does not belong to model.tflite"),
        ({"format": 2}, "weights.npy is missing"),
        ({"features": ["li_size"]}, "has not its inputs and output"),
        ({"features": []}, "has not its inputs and output"),
        ({"features": [["li_size"]]}, "does not hold a readable policy"),
        ({"features": "cost_estimate"}, "features is not a list"),
        ({"task": "regalloc-evict"}, "has not its inputs and output"),
        ({"task": "unrolling"}, "'unrolling', which this version does not know"),
        ({"provenance": 3}, "does not hold a readable policy"),
        ({"provenance": None}, "does not hold a readable policy"),
    ],
)
def test_a_damaged_description_is_refused(changes, words, imported, tmp_path):
    save_imported(imported("cheap"), tmp_path)
    describe(tmp_path, **changes)
    with pytest.raises(MlgoError, match=words):
        load_stored(tmp_path)


@pytest.mark.parametrize("content", [b"", b"x" * 500, None], ids=["empty", "garbage", "cut"])
def test_a_damaged_graph_is_refused(content, imported, tmp_path):
    save_imported(imported("learned"), tmp_path)
    path = tmp_path / "model.tflite"
    path.write_bytes(path.read_bytes()[:5000] if content is None else content)
    with pytest.raises(ArtifactError, match=r"does not belong to model\.tflite"):
        load_stored(tmp_path)
    describe(tmp_path, graph_sha256=file_sha256(path))
    with pytest.raises(ArtifactError, match="no graph of TensorFlow Lite"):
        load_stored(tmp_path)


def test_a_missing_graph_or_interpreter_is_named(imported, tmp_path, without):
    save_imported(imported("cheap"), tmp_path / "cut")
    (tmp_path / "cut" / "model.tflite").unlink()
    with pytest.raises(ArtifactError, match=r"model\.tflite"):
        load_stored(tmp_path / "cut")
    save_imported(imported("cheap"), tmp_path)
    without("ai-edge-litert")
    with pytest.raises(PackageError, match=r"\(not installed\); run make setup EXTRA=import"):
        load_stored(tmp_path)
