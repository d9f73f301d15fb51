"""Marginal costs: equations by hand, and fits of costs that are known. TensorFlow runs in a process of its own."""

import json

import numpy as np
import pyarrow as pa
import pytest

from mlgo.base.artifacts import trace_schema
from mlgo.base.config import load_config
from mlgo.corpus.store import Module
from mlgo.errors import NothingCompiled, TrainingError
from mlgo.evaluate.baseline import ScoredModule
from mlgo.evaluate.episodes import Inlined
from mlgo.host.session import CallAttribution
from mlgo.learn.cloning import CloneData
from mlgo.learn.marginal.evidence import ArrayFile, CompileFile, EquationFile, Evidence, join
from mlgo.learn.marginal.fit import CostFitter
from mlgo.learn.marginal.loop import _rewards, heuristic_evidence, learn_costs
from mlgo.policy.features import Normalisation
from mlgo.policy.network import Architecture
from tests.fakes.scores import scores
from tests.pipeline.conftest import ROOT

CONFIG = load_config(ROOT / "config/config.yaml").marginal


def compiled(module, inputs, answers, score, credit=None):
    return Inlined.of(module, score, np.array(inputs, np.float16), np.array(answers, np.uint8), credit)


@pytest.fixture
def file(tmp_path):
    with CompileFile(tmp_path / "fits", 1) as file:
        yield file


def equations(file, baseline, episodes):
    """Equations of a module, made, kept and read again."""
    with EquationFile(file) as sums:
        return sums.batch([sums.make(baseline, [file.store(one) for one in episodes])])


def test_arrays_come_back_whatever_lies_between_them(tmp_path):
    arrays = [np.arange(6, dtype=np.float16).reshape(3, 2), np.zeros((0, 4), np.int32), np.array([7, 2**63], np.uint64)]
    with ArrayFile(tmp_path / "new folder") as file:
        begins = [file.append(*arrays[i:]) for i in range(3)]
        assert begins == [0, 28, 44]  # 12 and 16 bytes
        for i, begin in enumerate(begins):
            found = file.read(begin, *((one.dtype, one.shape) for one in arrays[i:]))
            assert [one.tolist() for one in found] == [one.tolist() for one in arrays[i:]]
        assert file.num_bytes == 60
        assert list(file.folder.iterdir()) == []  # the file has no name that a kill could leave behind


def test_a_compile_keeps_what_was_inlined(file):
    one = file.store(telling([1, 0, 1], 62.0, [36, 26, -1]))
    assert file.inputs([one, one]).tolist() == [[1.0], [3.0], [1.0], [3.0]]
    credit = file.credit(one)
    assert [array.tolist() for array in (credit.names, credit.sizes)] == [[1, 2, 3], [36.0, 26.0, -1.0]]
    assert [array.tolist() for array in (credit.callers, credit.callees)] == [[1, 0], [2, 2]]
    assert file.credit(file.store(compiled("a", [[1.0]], [1], 9.0))) is None


def test_gains_of_a_round_by_hand(file):
    first, second, other = (
        file.store(compiled(name, [[1.0]], [answer], score))
        for name, answer, score in (("a", 0, 62.0), ("a", 1, 110.0), ("b", 1, 190.0))
    )
    evidence = {"a": Evidence(100.0, (first, second)), "b": Evidence(200.0, (other,)), "c": Evidence(300.0, ())}
    found = _rewards(evidence, [second, other])
    assert found == pytest.approx({"mean_reward": -0.025, "best_known_reward": 0.215, "equations": 3})


def test_equations_of_modules_by_hand(tmp_path):
    first = compiled("a", [[1.0, 0.0], [2.0, 0.0], [3.0, 0.0]], [1, 0, 1], 90.0)
    second = compiled("a", [[4.0, 0.0]], [0], 100.0)
    third = compiled("b", [[5.0, 1.0]], [1], 250.0)
    with CompileFile(tmp_path, 2) as file, EquationFile(file) as sums:
        one, other = (
            sums.make(baseline, [file.store(each) for each in known])
            for baseline, known in ((100.0, [first, second]), (200.0, [third]))
        )
        batch, turned = sums.batch([one, other]), sums.batch([other, one])
    assert turned.inputs.tolist() == [[5.0, 1.0], [1.0, 0.0], [3.0, 0.0]]
    assert batch.inputs.tolist() == [[1.0, 0.0], [3.0, 0.0], [5.0, 1.0]]  # inlined questions only
    assert batch.modules.of.tolist() == [0, 0, 2]
    assert batch.modules.group.tolist() == [0, 0, 1]
    assert batch.modules.values.tolist() == [90.0, 100.0, 250.0]
    assert batch.percent_per_byte.tolist() == [1.0, 1.0, 0.5]
    assert batch.callers.of.tolist() == batch.callees.of.tolist() == [-1, -1, -1]  # no compile told its functions


def test_nothing_inlined_is_an_equation_too(file):
    unasked = compiled("a", np.zeros((0, 1)), [], 100.0)
    batch = equations(file, 100.0, [compiled("a", [[1.0]], [0], 100.0), unasked])
    assert batch.inputs.shape == (0, 1)
    assert batch.modules.values.tolist() == [100.0, 100.0]


def telling(answers, score, sizes):
    """Two calls, of f and of g, in main; g is called in f, too. Functions are main (1), f (2) and g (3)."""
    names = np.array([1, 2, 3], np.uint64)
    calls = np.array([1, 0, 0], np.int32), np.array([2, 1, 2], np.int32)
    return compiled(
        "a", [[1.0], [2.0], [3.0]], answers, score, CallAttribution(names, np.array(sizes, np.float32), *calls)
    )


def test_equations_of_functions_by_hand(file):
    nothing = telling([0, 0, 0], 60.0, [30, 20, 10])
    into_f = telling([1, 0, 0], 66.0, [30, 26, 10])
    gone = telling([1, 0, 1], 62.0, [36, 26, -1])
    batch = equations(file, 60.0, [nothing, into_f, gone])
    assert batch.inputs.tolist() == [[1.0], [1.0], [3.0]]
    # Callers whose size or calls differ: main and f in all three compiles; g calls nothing and has one size.
    assert batch.callers.values.tolist() == [30.0, 20.0, 30.0, 26.0, 36.0, 26.0]
    assert batch.callers.group.tolist() == [0, 1, 0, 1, 0, 1]
    assert batch.callers.of.tolist() == [3, 5, 4]  # f in the second and the third compile, main in the third
    # Callees: g alone was inlined, and it is gone in the third compile; 10 is its mean size where it is known.
    assert batch.callees.values.tolist() == [0.0, 0.0, -10.0]
    assert batch.callees.group.tolist() == [0, 0, 0]
    assert batch.callees.of.tolist() == [1, 2, 2]


def test_functions_of_joined_modules_are_their_own(file):
    part = equations(file, 60.0, [telling([0, 0, 0], 60.0, [30, 20, 10]), telling([1, 0, 1], 62.0, [36, 26, -1])])
    both = join([part, part])
    for side, twice in ((part.callers, both.callers), (part.callees, both.callees)):
        num = len(side.values)
        assert twice.values.tolist() == 2 * side.values.tolist()
        assert twice.of.tolist() == [*side.of.tolist(), *(side.of + num).tolist()]
        assert twice.group.tolist() == [*side.group.tolist(), *(side.group + side.group.max() + 1).tolist()]


def test_the_same_answers_again_are_no_evidence_unless_they_come_with_functions(file):
    silent, same, other, longer = (
        file.store(compiled("a", [[1.0]] * len(answers), answers, score))
        for answers, score in (([0], 100.0), ([0], 100.0), ([1], 99.0), ([0, 0], 99.0))
    )
    known = Evidence(100.0, (silent,))
    assert known.add(same) is known
    assert len(known.add(other).compiles) == len(known.add(longer).compiles) == 2
    silent = file.store(compiled("a", [[1.0], [2.0], [3.0]], [0, 0, 0], 60.0))
    with_functions = file.store(telling([0, 0, 0], 60.0, [30, 20, 10]))
    known = Evidence(60.0, (silent,)).add(with_functions)
    assert known.compiles == (with_functions,)
    assert known.add(silent) is known


def test_answers_of_a_rule_do_not_belong_to_the_sizes_of_the_heuristic(file):
    one = ScoredModule(Module("json", "a.c", "c", "train", "a" * 64), scores(90, 100, 100), 2)
    columns = {"project": ["json"] * 2, "module": ["a.c"] * 2, "context": [""] * 2, "step": [0, 1]}
    trace = pa.table({**columns, "f": [0, 1], "answer": [0, 1]}, schema=trace_schema(["f"]))
    scaling = Normalisation(("f",), np.zeros(1, np.float32), np.ones(1, np.float32))
    told, untold = (heuristic_evidence(trace, [one], scaling, "exec_bytes", known, file) for known in (True, False))
    assert told["json/a.c"].baseline == told["json/a.c"].compiles[0].score == 90.0
    assert file.inputs(told["json/a.c"].compiles).tolist() == [[np.float16(np.log1p(1.0))]]  # the second was inlined
    assert untold == {"json/a.c": Evidence(90.0, ())}
    assert len(untold["json/a.c"].add(file.store(compiled("json/a.c", [[1.0]], [1], 80.0))).compiles) == 1


def test_without_differing_compiles_there_is_nothing_to_fit(file):
    shape = Architecture((1, 1))
    only = {"a": Evidence(100.0, (file.store(compiled("a", [[1.0]], [0], 100.0)),))}
    heuristic = CloneData(np.zeros((1, 1), np.float32), np.zeros(1, np.float32))
    with pytest.raises(TrainingError, match="two compiles with different answers"):
        CostFitter(shape, heuristic, file, CONFIG, 0).fit(np.zeros(4, np.float32), only, 0, 0)


def test_a_round_in_which_all_compiles_fail_ends_the_training(file):
    heuristic = CloneData(np.zeros((1, 1), np.float32), np.zeros(1, np.float32))
    start, kept = np.zeros((1, 2), np.float32), []
    for asked, message in (
        ([None, None], "all 2 compiles of round 1 failed; raise compile.compile_timeout_s or compile.max_memory_gb"),
        ([], "no training module is left to compile; raise marginal.quarantine_after"),
    ):
        with pytest.raises(NothingCompiled, match=message):
            learn_costs(
                start,
                {},
                CostFitter(Architecture((1, 1)), heuristic, file, CONFIG, 0),
                lambda members, number, asked=asked: asked,
                lambda members: np.zeros(1),
                after_round=kept.append,
            )
    assert kept == []  # no checkpoint


PROGRAM = """
import json
from pathlib import Path
import numpy as np
from mlgo.base.config import load_config
from mlgo.errors import TrainingError
from mlgo.learn.cloning import CloneData
from mlgo.learn.marginal.evidence import CompileFile
from mlgo.learn.marginal.evidence import EquationFile, Evidence
from mlgo.learn.marginal.fit import CostFitter, as_costs, as_policy
from mlgo.learn.marginal.loop import learn_costs
from mlgo.learn.marginal.loop import sure_clones
from mlgo.learn.marginal.fit import _CostNetwork
from mlgo.policy.network import Architecture, logits
from mlgo.evaluate.episodes import Inlined
from mlgo.base.seeding import generator

whole_config = load_config(Path("config/config.yaml"))
config = whole_config.marginal.model_copy(
    update={
        **{"members": 2, "hidden": [16], "start_logit": 7.0, "rounds": 2, "anchors": [0.01]},
        **{"max_epochs": 16, "later_epochs": 16, "patience": 16, "learning_rate": 0.04},
    }
)
SHAPE = Architecture((2, 16, 1))

def cost(inputs):
    "Bytes that inlining adds: 40 where the first feature is positive, else -20."
    return np.where(inputs[:, 0] > 0, 40.0, -20.0)

def module(name):
    rng = generator(1, name)
    return rng.uniform(-2, 2, (30, 2)).astype(np.float16)

MODULES = {f"m{i}": module(f"m{i}") for i in range(24)}
SIZE = 5000.0  # without any inlining

def compiled(name, answers):
    inputs = MODULES[name]
    return Inlined.of(name, SIZE + cost(inputs)[answers == 1].sum(), inputs, answers)

# The heuristic inlines where the second feature is positive: it knows nothing of the costs.
heuristic_answers = {name: (inputs[:, 1] > 0).astype(np.uint8) for name, inputs in MODULES.items()}
heuristic = CloneData(
    np.concatenate(list(MODULES.values())).astype(np.float32),
    np.concatenate(list(heuristic_answers.values())).astype(np.float32),
)
known = {}
file = CompileFile(Path("."), 2)
for name, answers in heuristic_answers.items():
    one = file.store(compiled(name, answers))
    known[name] = Evidence(one.score, (one,))

def explore(members, round_):
    episodes = []
    weights = members[0]
    for name, inputs in MODULES.items():
        greedy = logits(SHAPE.unflatten(weights), inputs.astype(np.float32)) > 0
        for i in range(6):
            flips = generator(2, name, round_, i).random(len(greedy)) < (0.2 if i else 0.0)
            episodes.append(file.store(compiled(name, greedy ^ flips)))
    return [*episodes, None]  # a compile that failed

def validate(members):
    rewards = []
    weights = members[0]
    for i in range(5):
        inputs = module(f"unseen{i}")
        answers = logits(SHAPE.unflatten(weights), inputs.astype(np.float32)) > 0
        rewards.append(1 - (SIZE + cost(inputs)[answers].sum()) / (SIZE + cost(inputs)[inputs[:, 1] > 0].sum()))
    return np.array(rewards)

start = (0.1 * generator(3, "start").standard_normal((2, SHAPE.num_params))).astype(np.float32)
states = []
fitter = CostFitter(SHAPE, heuristic, file, config, 0)
whole = learn_costs(start, known, fitter, explore, validate, None, states.append)
resumed = learn_costs(start, known, fitter, explore, validate, states[0], [].append, 2)
unseen = module("unseen")
fitted = SHAPE.unflatten(as_policy(whole.costs[-1][0], SHAPE))
predicted = -config.unit_bytes * logits(fitted, unseen.astype(np.float32))
rich = {name: one.add(file.store(compiled(name, 1 - heuristic_answers[name]))) for name, one in known.items()}

sums = EquationFile(file)
silent = sums.batch([sums.make(one.baseline, one.compiles) for one in known.values()])  # no error to mend
network = _CostNetwork(as_costs(start[0], SHAPE), SHAPE, config)
for _ in range(200):
    equation_loss = network.step(silent, heuristic, np.arange(len(heuristic.answers)), 1.0)
held_to = SHAPE.unflatten(as_policy(network.weights(), SHAPE))
agreement = (logits(held_to, heuristic.inputs) > 0) == (heuristic.answers > 0)
try:
    fitter.fit(as_costs(start[0], SHAPE) * np.nan, rich, 0, 0)
    message = ""
except TrainingError as error:
    message = str(error)
cloning = whole_config.bc.model_copy(update={"max_epochs": 12})
clones = sure_clones(heuristic, heuristic, config, cloning, 0)
clone_logits = [logits(SHAPE.unflatten(one), heuristic.inputs) for one in clones]
ideal = []
for i in range(5):
    inputs = module(f"unseen{i}")
    ideal.append(1 - (SIZE + cost(inputs)[cost(inputs) < 0].sum()) / (SIZE + cost(inputs)[inputs[:, 1] > 0].sum()))
print(json.dumps({
    "median_error": float(np.median(np.abs(predicted - cost(unseen)))),
    "best_reward": whole.best_reward,
    "ideal": float(np.mean(ideal)),
    "same": np.array_equal(whole.costs, resumed.costs) and whole.history == resumed.history,
    "evaluations": [record["evaluations"] for record in whole.history],
    "rounds": [whole.done, len(whole.history)],
    "agreement": float(agreement.mean()),
    "silent_loss": equation_loss,
    "nan": message,
    "clone_sizes": [float(np.median(np.abs(each))) for each in clone_logits],
    "clone_agreement": [float(((each > 0) == (heuristic.answers > 0)).mean()) for each in clone_logits],
}))
"""


@pytest.fixture(scope="module")
def learned(in_tensorflow):
    return json.loads(in_tensorflow(PROGRAM))


def test_costs_of_single_decisions_are_found_from_sums(learned):
    assert learned["median_error"] < 10.0  # of costs of 40 and -20 bytes
    assert learned["best_reward"] > 0.9 * learned["ideal"] > 0.03
    assert learned["evaluations"] == [5, 155, 305]  # 24 modules, 6 compiles each, a failed one; 5 to validate


def test_a_resumed_run_equals_an_undisturbed_one(learned):
    assert learned["same"]
    assert learned["rounds"] == [2, 3]


def test_clones_are_as_sure_as_configured(learned):
    assert learned["clone_sizes"] == pytest.approx([7.0, 7.0], rel=1e-3)
    assert min(learned["clone_agreement"]) > 0.9


def test_where_compiles_say_nothing_the_anchor_pulls_towards_the_heuristic(learned):
    assert learned["silent_loss"] == pytest.approx(0.0, abs=1e-6)
    assert learned["agreement"] > 0.97
    assert "marginal.learning_rate" in learned["nan"]
