"""What the driver and the contexts must see to for every learner; modules are toys, rewards are planned."""

from collections import Counter
from dataclasses import replace

import numpy as np
import pytest

from mlgo.base.config import LOCAL_WORKERS, Settings, load_config
from mlgo.base.files import read_json
from mlgo.base.registry import LEARNERS
from mlgo.errors import ConfigError
from mlgo.learn.base import State, Trained
from mlgo.learn.checkpoint import load_state
from mlgo.learn.choices import ChoiceContext
from mlgo.learn.context import TrainOrder
from mlgo.learn.cost import read_cost
from mlgo.learn.driver import open_context, train
from mlgo.learn.marginal.loop import MarginalState
from mlgo.learn.modules import ModuleContext
from mlgo.learn.progress import TrainingProgress
from mlgo.policy.network import Architecture
from mlgo.policy.policy import Policy
from tests.conftest import REPOSITORY
from tests.learn.toys import PLANNED, SIZE, Toy, ToyModules, es_context, module_order, train_on_modules, write_home


def order(folder, learner: str, task: str) -> TrainOrder:
    settings = Settings(load_config(REPOSITORY / "config/config.yaml").model_dump() | {"task": task})
    return TrainOrder(LEARNERS.get(learner), settings, 0, folder, folder, folder, workers=1, where=LOCAL_WORKERS)


def test_a_failed_compile_of_a_validation_never_counts_as_nothing(tmp_path):
    context = es_context(tmp_path)
    context.host.failing.add("checked/m1.c")
    with context.training(1, "step"):
        weights = context.start.weights
        assert context.validate(weights).tolist() == [-0.5, -1.0, -0.5]
        assert context.validate(np.stack([weights] * 3)).tolist() == [[-0.125, -1.0, -0.125]] * 3


def test_a_failed_compile_of_a_small_module_outweighs_what_the_module_counts(tmp_path):
    context = es_context(tmp_path)
    small, large, other = context.validation
    context.validation = [
        small,
        replace(large, scores=large.scores | {"text_bytes": 9 * SIZE}),
        replace(other, module=replace(other.module, project="checked/other")),
    ]
    assert context.validation_weights.tolist() == pytest.approx([0.15, 1.35, 1.5])  # 3 modules, 2 projects; 10, 90 %
    context.host.failing = {one.module.key for one in context.validation}
    with context.training(1, "step"):
        assert context.validate(context.start.weights).tolist() == pytest.approx([-1.0, -1.35, -1.5])


def test_projects_take_turns_in_what_a_step_compiles(tmp_path):
    context = es_context(tmp_path)
    one = context.train[0]
    context.train = [
        replace(one, module=replace(one.module, project=project, name=f"m{i}.c"))
        for project, num in (("large", 40), ("middle", 3), ("small", 1))
        for i in range(num)
    ]
    context.order = replace(context.order, by_project=True)
    with context.training(1, "step"):
        drawn = Counter(one.module.project for one in context.draw(8, 0))
        assert drawn == {"large": 4, "middle": 3, "small": 1}
        assert len({tuple(one.module.name for one in context.draw(8, number)) for number in range(9)}) > 1
    assert context.origin["draw"] == "projects"


def test_a_learner_that_trains_outside_the_block_of_a_training(tmp_path):
    context = es_context(tmp_path)
    with pytest.raises(RuntimeError, match="learner es has begun no training"):
        context.write(Trained(context.start, []))


def test_a_stopped_training_goes_on_with_what_it_knew(tmp_path):
    short = es_context(tmp_path / "stopped")
    compile_each = short.host.compile_each

    def interrupted(jobs, label=""):
        if len(short.host.batches) == 4:
            raise KeyboardInterrupt
        return compile_each(jobs, label)

    short.host.compile_each = interrupted
    with pytest.raises(KeyboardInterrupt):
        short.order.learner.train(short)
    resumed, calm = es_context(tmp_path / "stopped"), es_context(tmp_path / "calm")
    resumed.host.validated = short.host.validated[:2]  # what was planned goes on where it was
    found, wanted = (one.order.learner.train(one) for one in (resumed, calm))
    assert found.history == wanted.history
    assert found.policy.weights.tolist() == wanted.policy.weights.tolist()
    assert [len(one.host.validated) for one in (resumed, calm)] == [5, 5]


@pytest.mark.parametrize(("learner", "task"), [("bcmax", "jit-cse"), ("sb3", "inline-size")])
def test_a_learner_that_does_not_learn_such_tasks(tmp_path, learner, task):
    with pytest.raises(ConfigError, match=f"learner {learner} does not learn task {task}"):
        open_context(order(tmp_path, learner, task))


LONG = [pytest.param(learner, marks=pytest.mark.slow) for learner in ("bcmax", "marginal")]
VALIDATING = [*LONG, "es", "ppo"]


@pytest.fixture(scope="module")
def on_modules(tmp_path_factory):
    """Trainings of each learner on modules; with a split whose data are others."""
    known = {}

    def trained(learner: str, altered: str = "") -> Toy:
        if (learner, altered) not in known:
            known[learner, altered] = train_on_modules(tmp_path_factory.mktemp(learner), learner, altered)
        return known[learner, altered]

    return trained


@pytest.mark.parametrize("learner", VALIDATING)
def test_every_learner_returns_its_best_validated_round(on_modules, learner):
    toy = on_modules(learner)
    validated = [policy.weights for policy in toy.host.validated]
    assert len(validated) == 5  # the start, and after each of four steps
    assert not np.array_equal(validated[1], validated[4])  # or this would show nothing
    assert np.array_equal(toy.trained.policy.weights, validated[1])
    written = toy.context.order.output
    assert read_json(written / "policy.json")["provenance"]["validation_reward"] == -0.125
    assert np.load(written / "weights.npy").tolist() == validated[1].tolist()
    assert [record["validation_reward"] for record in toy.trained.history] == list(PLANNED)


@pytest.mark.parametrize("learner", VALIDATING)
def test_every_learner_compiles_training_modules_and_validates_on_all_of_validation(on_modules, learner):
    host = on_modules(learner).host
    validations = [batch for batch in host.batches if any(key.startswith("checked/") for key in batch)]
    assert validations == [[f"checked/m{i}.c" for i in range(3)]] * 5
    others = [batch for batch in host.batches if batch not in validations]
    assert others
    assert {key for batch in others for key in batch} <= {f"learnt/m{i}.c" for i in range(3)}
    assert all(len(set(batch)) == 2 for batch in others)  # as many as the setting says


@pytest.mark.parametrize("learner", [*VALIDATING, "bc"])
def test_nothing_of_the_test_projects_matters(on_modules, learner):
    """Features, answers and sizes of test are others: neither weights nor scales nor the history change."""
    plain, altered = on_modules(learner), on_modules(learner, "test")
    assert plain.trained.policy.weights.tolist() == altered.trained.policy.weights.tolist()
    assert list(plain.trained.history) == list(altered.trained.history)
    scales = [toy.trained.policy.normalisation for toy in (plain, altered)]
    assert scales[0].centre.tolist() == scales[1].centre.tolist()
    assert scales[0].scale.tolist() == scales[1].scale.tolist()


@pytest.mark.parametrize("learner", ["bc", pytest.param("marginal", marks=pytest.mark.slow)])
def test_cloning_stops_by_the_validation_projects(on_modules, learner):
    """Where the heuristic answers the other way round, another epoch is the best one."""
    plain, altered = on_modules(learner), on_modules(learner, "validation")
    assert plain.trained.policy.weights.tolist() != altered.trained.policy.weights.tolist()


@pytest.mark.slow
@pytest.mark.parametrize("caution", [0.0, 3.0])
def test_the_configured_caution_is_in_the_joint_policy(tmp_path, caution):
    policy = train_on_modules(tmp_path, "marginal", rounds=0, caution=caution).trained.policy
    if caution == 0.0:
        assert policy.architecture.groups == 2  # of two members, the mean
    else:
        matrix, _ = policy.layers[-1]
        assert matrix[:, 0].tolist() == [1.0, -1.0, *[caution / 2] * 4, *[-caution / 2] * 4]


@pytest.mark.parametrize("learner", ["es", "ppo"])
def test_a_mean_of_members_is_gone_on_from(tmp_path, learner, monkeypatch):
    shape = Architecture((2, 6, 4, 1), groups=2)
    weights = np.random.default_rng(0).standard_normal(shape.num_params).astype(np.float32)
    start = Policy("inline-size", ToyModules.start.fget(es_context(tmp_path)).normalisation, shape, weights)
    monkeypatch.setattr(ToyModules, "start", start)
    toy = train_on_modules(tmp_path, learner)
    inputs = np.random.default_rng(1).standard_normal((50, 2)).astype(np.float32)
    first, *later = (policy.model.logits(inputs) for policy in toy.host.validated)
    assert np.array_equal(first > 0, start.model.logits(inputs) > 0)  # PPO softens them
    assert len(later) == 4
    assert any(not np.array_equal(one, first) for one in later)
    assert toy.trained.policy.architecture.widths == shape.widths


@pytest.mark.slow
def test_members_start_from_clones_of_their_own_and_are_fitted_from_them(tmp_path):
    # Steps too small to change a weight: what was fitted is what it was fitted from.
    toy = train_on_modules(tmp_path, "marginal", rounds=1, learning_rate=1e-30, held_out_share=0.0)
    start, fitted = _members(toy)
    assert not np.array_equal(start[0], start[1])
    assert np.array_equal(start, fitted)


def _members(toy: Toy) -> tuple[np.ndarray, np.ndarray]:
    """Before and after the first round, float32 [num_members, num_params of their costs]."""
    (path,) = (toy.context.shared / "checkpoints").iterdir()
    return load_state(path, MarginalState)[0].costs


@pytest.mark.parametrize("asks_again", [False, True])
def test_failures_are_counted_over_sessions_or_asked_for_again(tmp_path, asks_again):
    """And validations of a training that asks again are not counted; what both sessions cost adds up."""
    for session in range(2):
        context = es_context(tmp_path)
        context.host.failing.add("checked/m0.c")
        with context.training(3, "step", (State,), asks_again=asks_again) as state:
            assert (context.quarantine.state() == {}) == (asks_again or session == 0)
            assert (state is None) == (session == 0)
            assert context.validate(context.start.weights).tolist() == [-1.0, -0.5, -0.5]
            assert ("checked/m0.c" in context.quarantine.state()) != asks_again
            if session:
                assert asks_again or context.quarantine.state()["checked/m0.c"]["failures"] == 2
                assert state.done == 1
            context.after(State(context.start.weights, 0.5, ({"evaluations": 0}, {"evaluations": 3})))
    cost = read_cost(tmp_path / "es-s0-work", "es-s0")
    assert (cost.sessions, cost.evaluations, cost.compiles, cost.complete) == (2, 6, 6, True)


def test_a_training_with_other_settings_begins_anew_and_says_so(tmp_path, capfd):
    for step_size in (0.1, 0.1, 0.2):
        order = module_order(tmp_path / "home", "es", tmp_path / "es-s0", step_size=step_size)
        write_home(order.home)
        context = ToyModules(order)
        with context.training(3, "step", (State,)) as state:
            context.after(state or State(context.start.weights, 0.5, ({}, {})))
    said = [line for line in capfd.readouterr().err.splitlines() if "anew" in line]
    assert said == ["es-s0 begins anew: its checkpoint is of other settings, inputs or code"]


def test_what_is_logged_of_a_step(tmp_path, monkeypatch):
    logged = []

    class Watched(TrainingProgress):
        def advance(self, step, record, **shown):
            logged.append((step, record, shown))
            super().advance(step, record, **shown)

    monkeypatch.setattr("mlgo.learn.context.TrainingProgress", Watched)
    context = es_context(tmp_path)
    with context.training(2, "step"):
        context.validate(context.start.weights)
        context.host.num_compiled = 2  # one was known
        context.after(State(context.start.weights, 0.5, ({"evaluations": 0}, {"evaluations": 3})))
        context.log([{"epoch": 2.0, "loss": 0.25}], "epoch")
        context.counts = None  # as where nothing compiles
        context.after(State(context.start.weights, 0.5, ({}, {"loss": 0.5})))
    (step, record, shown), last, without = logged
    assert (step, record["evaluations"], record["compiles"], record["cache_hits"]) == (1, 3, 2, 1)
    assert record["recalled_share"] == pytest.approx(1 / 3)
    assert record["evaluations_per_second"] == pytest.approx(3 / record["elapsed_s"])
    assert record["compiles_per_second"] == pytest.approx(2 / record["elapsed_s"])
    assert shown == {"best": "+0.5000", "compiles": 2, "recalled": record["recalled_share"]}
    assert last == (2, {"epoch": 2.0, "loss": 0.25}, {})
    assert without == (1, {"loss": 0.5}, {"best": "+0.5000"})


def test_the_driver_opens_the_context_of_the_task_and_writes_all(tmp_path, monkeypatch):
    assert type(open_context(order(tmp_path, "es", "jit-cse"))) is ChoiceContext
    assert type(open_context(order(tmp_path, "es", "inline-size"))) is ModuleContext
    monkeypatch.setattr("mlgo.learn.driver.ModuleContext", ToyModules)
    write_home(tmp_path / "home")
    train(module_order(tmp_path / "home", "es", tmp_path / "es-s0", generations=1))
    files = ["failures.parquet", "history.csv", "policy.json", "weights.npy"]
    assert sorted(path.name for path in (tmp_path / "es-s0").iterdir()) == files
    lines = (tmp_path / "es-s0/history.csv").read_text().splitlines()
    assert lines[0].startswith("generation,evaluations,skipped,validation_reward,mean_reward")
    assert lines[1].startswith("0,3,0,-0.5,")  # three modules
    assert lines[2].startswith("1,22,0,-0.125,")  # 8 candidates on 2 modules, and three modules
