"""Behavioural cloning. TensorFlow runs in processes of its own: it is large and its determinism is global."""

import json
import sys
from collections import Counter

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from mlgo.base.artifacts import trace_schema
from mlgo.errors import PolicyError, TrainingError
from mlgo.host.actions import Binary
from mlgo.learn.bc import clone
from mlgo.learn.cloning import CloneData
from mlgo.learn.dataset import bounded_rows, check_trace, clone_data
from mlgo.learn.progress import write_history
from mlgo.policy.features import Normalisation
from tests.learn.toys import cloning_config

CONFIG = cloning_config(3, 2, 16, 0.01)

PROGRAM = """
import hashlib, json
import numpy as np
from mlgo.host.actions import Binary
from mlgo.errors import TrainingError
from mlgo.learn.bc import clone
from mlgo.learn.cloning import CloneData
from mlgo.policy.network import flatten, logits
from tests.learn.toys import cloning_config

config = cloning_config(25, 5, 64, 0.01)
rng = np.random.default_rng(0)

def data(count):
    inputs = rng.uniform(-2, 2, (count, 3)).astype(np.float32)
    return CloneData(inputs, (inputs @ np.array([1.0, -2.0, 0.5]) > 0.3).astype(np.float32))

train, validation, unseen = data(600), data(200), data(1000)
first, history = clone(train, validation, Binary(), [8], config, 1)
again, same_history = clone(train, validation, Binary(), [8], config, 1)
other, _ = clone(train, validation, Binary(), [8], config, 2)
correct = (logits(first, unseen.inputs) > 0) == (unseen.answers > 0)
constant = CloneData(validation.inputs, np.ones_like(validation.answers))
one_sided, _ = clone(train, constant, Binary(), [], config.model_copy(update={"max_epochs": 2}), 1)
equal = CloneData(train.inputs, train.answers, np.ones_like(train.answers))
equal_unseen = CloneData(validation.inputs, validation.answers, np.ones(200, np.float32))
_, weighed = clone(equal, equal_unseen, Binary(), [8], config, 1)
# the same questions with contradicting answers; the heavier ones win
torn = CloneData(np.tile(train.inputs, (2, 1)), np.concatenate([1 - train.answers, train.answers]))
torn = CloneData(torn.inputs, torn.answers, np.repeat([0.2, 1.8], 600).astype(np.float32))
heavy, _ = clone(torn, validation, Binary(), [8], config, 1)
followed = (logits(heavy, unseen.inputs) > 0) == (unseen.answers > 0)
best = min(history, key=lambda record: record["validation_loss"])
outputs = logits(first, validation.inputs)
scores = np.logaddexp(0, outputs) - validation.answers * outputs
try:
    clone(CloneData(train.inputs * np.nan, train.answers), validation, Binary(), [8], config, 1)
    message = ""
except TrainingError as error:
    message = str(error)
print(json.dumps({
    "accuracy": float(correct.mean()),
    "digests": [hashlib.sha256(flatten(run).tobytes()).hexdigest() for run in (first, again, other)],
    "shapes": [[list(m.shape), list(b.shape)] for m, b in first],
    "history": history,
    "same_history": history == same_history,
    "no_hidden": len(one_sided),
    "best_loss": best["validation_loss"],
    "loss_of_result": float(scores.mean()),
    "nan": message,
    "weighed": [weighed[0][name] - history[0][name] for name in ("loss", "validation_loss")],
    "followed": float(followed.mean()),
}))
"""


@pytest.fixture(scope="module")
def report(in_tensorflow):
    return json.loads(in_tensorflow(PROGRAM))


@pytest.mark.slow
def test_a_separable_toy_is_learnt(report):
    assert report["accuracy"] > 0.97
    assert report["shapes"] == [[[3, 8], [8]], [[8, 1], [1]]]
    assert report["no_hidden"] == 1
    first, again, other = report["digests"]  # the seed decides
    assert first == again != other
    assert report["same_history"]
    history = report["history"]
    assert [record["epoch"] for record in history] == list(range(1, len(history) + 1))
    assert history[-1]["loss"] < history[0]["loss"]
    assert 0.97 < max(record["validation_accuracy"] for record in history) <= 1.0
    assert report["loss_of_result"] == pytest.approx(report["best_loss"], rel=1e-3)  # of the best epoch
    assert report["weighed"] == pytest.approx([0.0, 0.0], abs=1e-5)  # weights that are all the same are as none
    assert report["followed"] > 0.95
    assert "not a number" in report["nan"]


def data(answers):
    return CloneData(np.zeros((len(answers), 2), np.float32), np.array(answers, np.float32))


@pytest.mark.parametrize(
    ("train", "validation", "message"),
    [
        (data([]), data([0, 1]), "the training trace holds no question"),
        (data([0, 1]), data([]), "the validation trace holds no question"),
        (data([1, 1]), data([0, 1]), "only one kind of answer"),
        (data([0, 0]), data([0, 1]), "only one kind of answer"),
    ],
)
def test_data_without_anything_to_learn(train, validation, message, monkeypatch):
    monkeypatch.setitem(sys.modules, "tensorflow", None)  # found out before anything large is loaded: it cannot be
    with pytest.raises(TrainingError, match=message):
        clone(train, validation, Binary(), [4], CONFIG, 0)


SCALING = Normalisation(("b", "a"), np.zeros(2, np.float32), np.ones(2, np.float32))


def trace(rows):
    """Rows of (project, module, step, a, b, answer)."""
    names = ["project", "module", "step", "a", "b", "answer"]
    dictionaries = [dict(zip(names, row, strict=True)) | {"context": ""} for row in rows]
    return pa.Table.from_pylist(dictionaries, schema=trace_schema(["a", "b"]).remove_metadata())


ROWS = [
    *(("p", "m", i, i, 100 + i, i % 2) for i in range(10)),
    *(("p", "n", i, 50 + i, 0, 1) for i in range(2)),
    *(("q", "m", i, 70 + i, 0, 0) for i in range(3)),
]


def test_dataset_takes_projects_and_orders_features():
    found = clone_data(trace(ROWS), {"q"}, Binary(), SCALING, 100, 0)
    assert found.inputs[:, 0].tolist() == [0.0, 0.0, 0.0]  # b comes first
    assert found.inputs[:, 1] == pytest.approx(np.log([71, 72, 73]), rel=1e-5)
    assert found.answers.tolist() == [0.0, 0.0, 0.0]
    assert found.answers.dtype == found.inputs.dtype == np.float32
    assert len(clone_data(trace(ROWS), {"p", "q"}, Binary(), SCALING, 100, 0).answers) == 15
    empty = clone_data(trace(ROWS), {"other"}, Binary(), SCALING, 4, 0)
    assert (empty.inputs.shape, empty.answers.shape) == ((0, 2), (0,))


def test_what_is_drawn_follows_from_the_seed_and_the_module():
    found, other, alone = (
        clone_data(trace(ROWS), projects, Binary(), SCALING, 4, seed)
        for projects, seed in (({"p", "q"}, 0), ({"p", "q"}, 1), ({"p"}, 0))
    )
    assert len(found.answers) == 4 + 2 + 3
    assert not np.array_equal(found.inputs, other.inputs)
    assert np.array_equal(alone.inputs, found.inputs[:6])  # other projects do not change what is drawn


module_sizes = st.dictionaries(st.tuples(st.sampled_from("pq"), st.sampled_from("mno")), st.integers(1, 12))


@given(module_sizes, st.integers(1, 8), st.integers(0, 5))
def test_dataset_keeps_a_bounded_ordered_part_of_each_module(sizes, bound, seed):
    rows, number = [], 0
    for (project, module), size in sorted(sizes.items()):
        rows += [(project, module, step, number + step, number + step, step % 2) for step in range(size)]
        number += size
    found, again = (clone_data(trace(rows), {"p", "q"}, Binary(), SCALING, bound, seed) for _ in range(2))
    assert np.array_equal(found.inputs, again.inputs)
    assert np.array_equal(found.answers, again.answers)
    assert len(found.answers) == sum(min(size, bound) for size in sizes.values())
    assert np.all(np.diff(found.inputs[:, 0]) > 0)  # in the trace's order, none twice
    values = np.rint(np.expm1(found.inputs[:, 0])).astype(int)  # b, the row's number
    assert found.answers.tolist() == [float(rows[value][5]) for value in values]
    kept = Counter(rows[value][:2] for value in values)
    assert kept == {key: min(size, bound) for key, size in sizes.items()}


def test_dataset_weighs_modules():
    found = clone_data(trace(ROWS), {"p", "q"}, Binary(), SCALING, 4, 0, "module", False)
    assert found.weights == pytest.approx([0.75] * 4 + [1.5] * 2 + [1.0] * 3)  # p/m has 4 of 10, p/n 2, q/m 3
    roots = clone_data(trace(ROWS), {"p", "q"}, Binary(), SCALING, 4, 0, "sqrt", False)
    expected = np.array([0.5] * 4 + [0.5**0.5] * 2 + [3**-0.5] * 3) * 9 / (2 + 2**0.5 + 3**0.5)
    assert roots.weights == pytest.approx(expected, rel=1e-5)
    assert clone_data(trace(ROWS), {"p", "q"}, Binary(), SCALING, 4, 0).weights is None


def test_dataset_balances_answers():
    found = clone_data(trace(ROWS), {"p", "q"}, Binary(), SCALING, 4, 0, "question", True)
    assert found.weights[found.answers == 1].sum() == pytest.approx(4.5)
    assert found.weights[found.answers == 0].sum() == pytest.approx(4.5)


def test_a_trace_that_does_not_fit():
    check_trace(trace(ROWS), {"task": "inline-size"}, "inline-size", SCALING)
    check_trace(trace(ROWS), {}, "inline-size", SCALING)
    with pytest.raises(
        TrainingError, match="the trace is of task 'u', not 'inline-size'; run the baseline stage again"
    ):
        check_trace(trace(ROWS), {"task": "u"}, "inline-size", SCALING)
    with pytest.raises(TrainingError, match=r"the vocabulary lacks 1 features of the trace \(a\)"):
        check_trace(trace(ROWS), {}, "inline-size", Normalisation(("b",), SCALING.centre[:1], SCALING.scale[:1]))
    with pytest.raises(PolicyError, match=r"the trace lacks 1 .* \(z\)"):
        check_trace(trace(ROWS), {}, "inline-size", Normalisation(("b", "a", "z"), np.zeros(3), np.ones(3)))
    with pytest.raises(PolicyError, match=r"the trace lacks 1 .* \(z\)"):
        clone_data(trace(ROWS), {"p"}, Binary(), Normalisation(("a", "z"), np.zeros(2), np.ones(2)), 4, 0)


def test_history_as_csv(tmp_path):
    write_history(tmp_path / "h.csv", [{"a": 1, "b": 0.5}, {"b": None, "c": "x,y"}])
    assert (tmp_path / "h.csv").read_text() == 'a,b,c\n1,0.5,\n,,"x,y"\n'


def test_many_modules_give_fewer_questions_each():
    columns = {"project": ["p"] * 16, "module": [*"a" * 10, *"b" * 5, "c"]}
    for most, counts in ((16, [8, 5, 1]), (13, [7, 5, 1]), (9, [4, 4, 1]), (2, [1, 1, 1])):  # 8 of each, but 13 in all
        rows, modules = bounded_rows(pa.table(columns), 8, 0, most)
        assert np.bincount(modules).tolist() == counts
        assert rows.tolist() == sorted(set(rows.tolist()))
