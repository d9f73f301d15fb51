"""Search for smaller code: the order of its compiles on formulas, and with the real compiler."""

import dataclasses
import itertools
from collections.abc import Callable
from contextlib import contextmanager
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
import pytest

from mlgo.base.artifacts import HEADROOM, SCORES, label_schema, write_rows
from mlgo.base.config import HeadroomConfig
from mlgo.base.seeding import generator
from mlgo.base.types import TensorSpec
from mlgo.corpus.store import Module
from mlgo.errors import ArtifactError
from mlgo.evaluate import CompileHost, CompileJob, CompileOutcome
from mlgo.evaluate.baseline import ScoredModule
from mlgo.evaluate.headroom import SOLE_CALL_FEATURE, VARIANTS, measure_headroom
from mlgo.evaluate.labels import label_table
from mlgo.evaluate.search import (
    MODULE_WIDE,
    AffectedFunctions,
    LearnedPromise,
    ask_trees,
    doubt_of,
    pinned,
    run_searches,
    search,
    sizes_of,
)
from mlgo.evaluate.worker import tree_key
from mlgo.host.log import Header
from mlgo.host.session import CallAttribution, CompileResult, compile_plain, compile_under_advice
from mlgo.host.tasks.task import ConstantAdvisor, EchoAdvisor, RecordedAdvisor
from mlgo.policy.policy import OverridingAdvisor
from mlgo.pool.tree_store import ReplayStore
from tests.fakes.policies import linear_policy
from tests.fakes.scores import scores

ONE_FLIP = """
int sink(int, int);
static int often(int a) { return sink(a, 1) ^ sink(a, 2) ^ sink(a, 3) ^ sink(a, 4); }
static int once(int a) { return sink(a, 5) - sink(a, 6) - sink(a, 7); }
int g(int a) { return often(a) + once(a); }
int h(int a) { return often(a + 7) + 2; }
int k(int a) { return often(a * 3) + 3; }
"""
"""Four calls. Inlining the only call of ``once`` removes that function; a copy of ``often`` costs more than a call."""

ALL_TOGETHER = """
int sink(int);
static int pick(int a, int mode) {
  switch (mode) {
  case 0: return sink(a) + sink(a + 1) + sink(a + 2);
  case 1: return sink(a * 3) - sink(a * 5) - sink(a * 7);
  case 2: return sink(a ^ 9) ^ sink(a ^ 11) ^ sink(a ^ 13);
  default: return a;
  }
}
int g(int a) { return pick(a, 3); }
int h(int a) { return pick(a, 0); }
int k(int a) { return pick(a, 1); }
int l(int a) { return pick(a, 2); }
"""
"""Four calls of one function. Each copy keeps one case, so inlining all four pays, and three of four does not: the
heuristic stops at one."""

ECHO = EchoAdvisor("inlining_default")
NO_PROMISE = lambda header, observations, answers: np.zeros(len(answers))  # noqa: E731


@dataclass(frozen=True)
class Setting:
    """What the searches of one test share."""

    host: CompileHost
    store: ReplayStore
    modules: list[ScoredModule]
    paths: dict

    def job(self, number, advisor):
        module = self.modules[number].module
        return CompileJob(module.key, self.paths[module.key], advisor, sha256=module.sha256)

    def search(self, number, starts, budget, flips=4, promise=NO_PROMISE, seed=0):
        one = self.modules[number].module
        starts = [OverridingAdvisor(start, ignored=MODULE_WIDE) for start in starts]
        ask, rng = ask_trees(self.store, one.sha256), generator(seed, "test")
        return search(starts, ask, promise, "text_bytes", lambda done: budget - done, flips, rng)


@pytest.fixture(scope="module")
def paths(front_end, tmp_path_factory):
    """Bitcode of both modules."""
    folder, found = tmp_path_factory.mktemp("headroom"), {}
    for name, text in (("one", ONE_FLIP), ("all", ALL_TOGETHER)):
        (folder / f"{name}.c").write_text(text)
        found[f"hand/{name}"] = folder / f"{name}.bc"
        front_end.compile_to_bitcode(folder, "c", ["-std=c11", "-nostdinc"], f"{name}.c", found[f"hand/{name}"])
    return found


@pytest.fixture(scope="module")
def modules(toolchain, settings, paths):
    """Both modules with their sizes under the heuristic."""
    found = []
    for number, key in enumerate(paths):
        plain = compile_plain(toolchain, paths[key], settings)
        module = Module(*key.split("/"), "c", "test", f"{number}" * 64)
        found.append(ScoredModule(module, {**plain.scores, "dedup_bytes": plain.scores["text_bytes"]}, 4))
    return found


@pytest.fixture(scope="module")
def sizes(toolchain, task, settings, paths):
    """Text of both modules under all sixteen ways to answer: ``sizes[number][answers]``."""
    ways = {bits: RecordedAdvisor(np.array(bits).tobytes()) for bits in itertools.product((0, 1), repeat=4)}

    def size(path, way):
        return compile_under_advice(toolchain, task, path, way, settings).scores["text_bytes"]

    return [{bits: size(path, way) for bits, way in ways.items()} for path in paths.values()]


@pytest.fixture
def setting_with(toolchain, task, settings, modules, paths, tmp_path):
    """Make a setting with some number of workers and trees of its own."""

    @contextmanager
    def make(num_workers):
        store = ReplayStore(tmp_path / f"trees{num_workers}", tree_key(toolchain, task, settings))
        with CompileHost(toolchain, task.name, settings, num_workers, store) as host:
            yield Setting(host, store, modules, paths)

    return make


@pytest.fixture
def setting(setting_with):
    with setting_with(1) as made:
        yield made


def test_one_flip_is_found_that_gives_the_smallest_of_all(setting, sizes):
    (result,) = run_searches(setting.host, [setting.search(0, [ConstantAdvisor(0)], 30)], setting.job)
    assert sizes[0][0, 1, 0, 0] == min(sizes[0].values()) < sizes[0][0, 0, 0, 0]
    assert result.best.result.scores["text_bytes"] == sizes[0][0, 1, 0, 0]


def test_the_heuristic_is_beaten(setting, sizes):
    starts = [ConstantAdvisor(0), ConstantAdvisor(1)]
    (_, result) = run_searches(setting.host, [setting.search(i, starts, 20) for i in (0, 1)], setting.job)
    assert sizes[1][1, 1, 1, 1] == min(sizes[1].values()) < setting.modules[1].scores["text_bytes"]
    assert result.best.result.scores["text_bytes"] == sizes[1][1, 1, 1, 1]


def test_the_most_promising_flip_comes_first(setting, sizes):
    for question, expected in ((0, (0, 0, 0, 0)), (1, (0, 1, 0, 0))):  # the first makes it larger, the second smaller

        def promise(header, observations, answers, question=question):
            assert observations.shape == (4, len(header.features))
            return np.arange(4) == question

        one = setting.search(0, [ConstantAdvisor(0)], 2, promise=promise)
        (result,) = run_searches(setting.host, [one], setting.job)
        assert result.best.result.scores["text_bytes"] == sizes[0][expected]
        assert result.num_compiles == 2


@pytest.mark.parametrize("budget", [1, 2, 3, 5])
def test_the_budget_is_kept(budget, setting):
    jobs = []

    def job(number, advisor):
        jobs.append(advisor)
        return setting.job(number, advisor)

    starts = [ConstantAdvisor(0), ConstantAdvisor(1)]
    (result,) = run_searches(setting.host, [setting.search(0, starts, budget)], job)
    assert result.num_compiles == len(jobs) == budget
    assert len(result.start) == min(budget, 2)


def test_a_search_ends_when_nothing_is_left_to_try(setting):
    (result,) = run_searches(setting.host, [setting.search(0, [ConstantAdvisor(0)], 1000)], setting.job)
    assert result.num_compiles < 60  # sixteen ways to answer, some met in more than one pass


def test_failed_compiles_are_passed_over(setting, sizes, tmp_path):
    broken = tmp_path / "broken.bc"
    broken.write_bytes(b"BC\xc0\xde nonsense")
    num_failed = 0

    def job(number, advisor):
        nonlocal num_failed
        made = setting.job(number, advisor)
        if advisor.base == ConstantAdvisor(1) or len(advisor.answers) == 2:
            num_failed += 1
            return CompileJob(made.module, broken, advisor)
        return made

    starts = [ConstantAdvisor(1), ConstantAdvisor(0)]
    (result,) = run_searches(setting.host, [setting.search(0, starts, 30)], job)
    assert [outcome.failure for outcome in result.start] == ["exit", ""]
    assert result.best.result.scores["text_bytes"] == min(sizes[0].values())
    assert num_failed > 1
    (hopeless,) = run_searches(setting.host, [setting.search(0, starts[:1], 30)], job)
    assert (hopeless.best, hopeless.num_compiles) == (None, 1)


def test_a_pruned_tree_is_said(setting):
    with pytest.raises(ArtifactError, match="pruned"):
        ask_trees(setting.store, "9" * 64)(OverridingAdvisor(ConstantAdvisor(0)))


def test_doubt(setting):
    """A linear policy on one feature, whose logit is log(1 + x) - log(11)."""
    setting.host.compile_all([setting.job(0, ConstantAdvisor(0))])
    header = setting.store.load(setting.modules[0].module.sha256).header
    column = header.index("cost_estimate")
    observations = np.zeros((3, len(header.features)), np.int64)
    observations[:, column] = [0, 9, 99]  # logits -2.40, -0.10, +2.21
    doubt = doubt_of(linear_policy("inline-size", ["cost_estimate"], [1.0, -np.log(11.0)]))
    np.testing.assert_allclose(doubt(header, observations, np.array([0, 0, 1])), [-2.398, -0.095, -2.207], atol=1e-3)
    np.testing.assert_allclose(doubt(header, observations, np.array([1, 1, 0])), [2.398, 0.095, 2.207], atol=1e-3)


NEVER = linear_policy("inline-size", ["cost_estimate"], [0.0, -1.0])
CONFIG = HeadroomConfig(splits=["test"], modules=2, max_questions=10, budget=25, flips_per_round=3)
KNOWN = {"project": "hand", "advisor": "random", "num_questions": 4, "truncated": False}
UNKNOWN = dict.fromkeys(("object_sha256", "failure", "message"), "")
SCORED = pa.Table.from_pylist(
    [KNOWN | UNKNOWN | {"module": name, "exec_bytes": 11, "text_bytes": 22} for name in ("one", "all")], SCORES
)


def headroom_of(setting, config=CONFIG):
    return measure_headroom(
        setting.host, setting.store, setting.modules, setting.paths, SCORED, [NEVER], config, "text_bytes", 0
    )


def test_rows(setting, sizes, tmp_path):
    rows = headroom_of(setting)
    write_rows(tmp_path / "headroom.parquet", rows, HEADROOM, {})
    found = {(row["module"], row["variant"]): row for row in rows}
    assert list(found) == [(name, v) for name in ("one", "all") for v in VARIANTS]
    for number, name in enumerate(("one", "all")):
        text = {variant: found[name, variant]["text_bytes"] for variant in VARIANTS}
        assert text["heuristic"] == setting.modules[number].scores["text_bytes"]
        assert text["random"] == 22
        assert text["never"] == sizes[number][0, 0, 0, 0]
        assert text["always"] == sizes[number][1, 1, 1, 1]
        assert text["search"] == min(sizes[number].values())
    assert found["one", "single-call"]["text_bytes"] == sizes[0][0, 1, 0, 0]
    counts = {variant: found["one", variant]["num_compiles"] for variant in ("heuristic", "random", "never")}
    assert counts == {"heuristic": 0, "random": 0, "never": 1}
    assert all(found[name, "search"]["num_compiles"] <= 25 for name in ("one", "all"))


def test_single_calls_are_those_whose_callee_has_no_other_use(setting, toolchain, task, settings):
    advisor = EchoAdvisor(SOLE_CALL_FEATURE)
    result = compile_under_advice(toolchain, task, setting.paths["hand/one"], advisor, settings)
    assert np.frombuffer(result.answers, np.int64).tolist() == [0, 1, 0, 0]


@pytest.mark.slow
def test_results_do_not_depend_on_workers_or_trees(setting, setting_with):
    once = headroom_of(setting)
    assert headroom_of(setting) == once  # all recalled
    with setting_with(2) as other:
        assert headroom_of(other) == once


INT64 = np.dtype(np.int64)
HEADER = Header((TensorSpec("a", INT64, (1,)),), TensorSpec("decision", INT64, (1,)))
START = OverridingAdvisor(ConstantAdvisor(0))


def asking(num_questions: int) -> Callable:
    """How a search asks about questions that hold their own number."""
    payloads = np.arange(num_questions, dtype=np.int64)[:, None].view(np.uint8)
    return lambda advisor: (HEADER, payloads, advisor.decide_for(HEADER)(payloads))


def rounds(size_of: Callable, num_questions: int, budget: int, flips: int = 3, seed: int = 0):
    """Run a search on questions that hold their own number; the answers it compiles, round by round, and its result."""

    def in_order(header, observations, answers):
        return -observations[:, 0]

    def outcome(answers):
        size = size_of(*answers)
        return CompileOutcome(None, "exit") if size is None else CompileOutcome(CompileResult(scores(0, size), "", 0.0))

    ask = asking(num_questions)
    return driven(
        search([START], ask, in_order, "text_bytes", lambda done: budget - done, flips, generator(seed, "test")),
        ask,
        outcome,
    )


def driven(one, ask, outcome):
    """Do the compiles that a search asks for."""
    asked, advisors = [], next(one)
    while True:
        asked.append([tuple(ask(advisor)[2].tolist()) for advisor in advisors])
        try:
            advisors = one.send([outcome(answers) for answers in asked[-1]])
        except StopIteration as end:
            return asked, end.value


def of_functions(savings, apart, starts=(START,), take=lambda labels: None):
    """A search of as many calls as there are savings, each in a caller of its own; the callee is one, or one for each.

    Returns:
        Answers by round, and the result.
    """
    num = len(savings)
    names = np.arange(2 * num if apart else num + 1, dtype=np.uint64)
    callers, callees = np.arange(num, dtype=np.int32), np.arange(num, 2 * num if apart else num + 1, dtype=np.int32)

    def outcome(answers):
        sizes = np.full(len(names), 10.0, np.float32)
        sizes[:num] -= np.array(answers) * savings
        credit = CallAttribution(names, sizes, callers, np.resize(callees, num))
        return CompileOutcome(CompileResult(scores(0, int(sizes.sum())), "", 0.0, credit=credit))

    ask = asking(num)
    left, rng = lambda done: 12 - done, generator(0, "test")
    return driven(search(starts, ask, lambda *_: -np.arange(num), "text_bytes", left, 2, rng, take=take), ask, outcome)


def test_calls_of_functions_of_their_own_are_tried_in_one_compile():
    asked, result = of_functions([-3, 5, -1, 2], apart=True)
    assert asked[:3] == [[(0, 0, 0, 0)], [(1, 1, 1, 1)], [(0, 1, 0, 1)]]  # what helped, together
    assert result.best.result.scores["text_bytes"] == 80 - 5 - 2


def test_each_round_tells_what_its_flips_have_saved():
    found = []
    of_functions([-3, 5, -1, 2], apart=True, take=found.append)
    assert {tuple(flipped): saved for flipped, saved in found[0].flips} == {(0,): -3, (1,): 5, (2,): -1, (3,): 2}
    by_then = [-3, -5, -1, -2]  # the second and the fourth are inlined
    assert len(found[1].flips) == 15  # single ones and all groups
    assert all(saved == sum(by_then[number] for number in flipped) for flipped, saved in found[1].flips)
    table = label_table("p", 3, found[1])
    assert table.schema == label_schema(["a"])
    rows = {tuple(row[name] for name in ("a", "answer", "caller_bytes")) for row in table.to_pylist()}
    assert rows == {(0, 0, 10), (1, 1, 5), (2, 0, 10), (3, 1, 8)}
    rows = {
        tuple(row[name] for name in ("project", "round", "callee_bytes", "callee_calls")) for row in table.to_pylist()
    }
    assert rows == {("p", 3, 10, 1)}
    saved = {row["flip"]: row["saved"] for row in table.to_pylist()}
    assert [saved[flip] for flip in range(15)] == [saved for _, saved in found[1].flips]
    assert len(label_table("p", 0, dataclasses.replace(found[1], credit=None))) == 0


def test_functions_that_another_start_answers_better_are_as_there():
    asked, result = of_functions([-3, 5, -1, 2], apart=True, starts=[START, OverridingAdvisor(ConstantAdvisor(1))])
    assert asked[:2] == [[(0, 0, 0, 0), (1, 1, 1, 1)], [(0, 1, 0, 1)]]  # the second start is smaller
    assert result.best.result.scores["text_bytes"] == 80 - 5 - 2


def test_calls_of_one_function_are_tried_apart():
    asked, result = of_functions([-3, 5, -1, 2], apart=False)
    assert asked[1] == [(1, 0, 0, 0), (0, 1, 0, 0)]
    assert result.best.result.scores["text_bytes"] == 50 - 5 - 2


def test_a_function_that_disappears_with_its_last_call_is_found():
    """Each copy costs 2 bytes, and the callee, of 10, goes with the last of three calls; two others each save 1."""
    names = np.arange(8, dtype=np.uint64)
    callers, callees = np.arange(5, dtype=np.int32), np.array([5, 5, 5, 6, 7], np.int32)

    def outcome(answers):
        sizes = np.full(8, 10.0, np.float32)
        sizes[:3] += 2 * np.array(answers[:3])
        sizes[3:5] -= answers[3:]
        sizes[5] = -1 if all(answers[:3]) else 10
        credit = CallAttribution(names, sizes, callers, callees)
        return CompileOutcome(CompileResult(scores(0, int(sizes[sizes > 0].sum())), "", 0.0, credit=credit))

    ask, promise = asking(5), lambda *_: -np.arange(5)
    one = search([START], ask, promise, "text_bytes", lambda done: 20 - done, 4, generator(0, "test"))
    _, result = driven(one, ask, outcome)
    assert result.best.result.scores["text_bytes"] == 80 + 6 - 10 - 2


def test_what_does_not_help_in_company_is_left_out():
    """Calls of one function, in callers of 40 bytes: each saves alone; the second costs the first caller 20."""
    names = np.arange(4, dtype=np.uint64)
    callers, callees = np.arange(3, dtype=np.int32), np.full(3, 3, np.int32)

    def outcome(answers):
        a, b, c = answers
        sizes = np.array([40 - 6 * a + 20 * a * b, 40 - 5 * b, 40 - 2 * c, 9], np.float32)
        credit = CallAttribution(names, sizes, callers, callees)
        return CompileOutcome(CompileResult(scores(0, int(sizes.sum())), "", 0.0, credit=credit))

    ask = asking(3)
    one = search([START], ask, NO_PROMISE, "text_bytes", lambda done: 7 - done, 3, generator(0, "test"))
    asked, result = driven(one, ask, outcome)
    assert asked[1:4] == [[(1, 0, 0), (0, 1, 0), (0, 0, 1)], [(1, 1, 1)], [(0, 1, 1)]]
    assert result.best.result.scores["text_bytes"] == 129 - 5 - 2


def test_a_flip_whose_unions_fail_is_left_out():
    """Two calls are tried together and seem to save 50 and 5; the first costs 100 elsewhere."""
    names = np.arange(5, dtype=np.uint64)
    callers, callees = np.arange(2, dtype=np.int32), np.array([2, 3], np.int32)

    def outcome(answers):
        a, b = answers
        sizes = np.array([200 - 50 * a, 100 - 5 * b, 9, 9, 10 + 100 * a], np.float32)
        credit = CallAttribution(names, sizes, callers, callees)
        return CompileOutcome(CompileResult(scores(0, int(sizes.sum())), "", 0.0, credit=credit))

    ask = asking(2)
    one = search([START], ask, NO_PROMISE, "text_bytes", lambda done: 12 - done, 1, generator(0, "test"))
    asked, result = driven(one, ask, outcome)
    assert asked[1] == [(1, 1)]
    assert result.best.result.scores["text_bytes"] == 328 - 5


def test_what_an_earlier_search_tried_in_vain_is_not_tried_again():
    tried: set[int] = set()

    def asked_with(budget):
        ask = asking(3)
        one = search([START], ask, NO_PROMISE, "text_bytes", lambda done: budget - done, 2, generator(0, "test"), tried)
        asked, _ = driven(
            one, ask, lambda answers: CompileOutcome(CompileResult(scores(0, 100 + sum(answers)), "", 0.0))
        )
        return asked[1:]

    assert asked_with(3) == [[(1, 0, 0), (0, 1, 0)]]
    assert asked_with(3)[0][0] == (0, 0, 1)
    assert all(sum(one) > 1 for one in itertools.chain(*asked_with(4)))  # all single ones are known


def test_what_flips_saved_says_which_to_try_next():
    header = Header(HEADER.features, HEADER.advice)
    learned = LearnedPromise(lambda header, observations, answers: np.zeros(len(answers)))
    observations, answers = np.arange(400)[:, None], np.arange(400) % 2
    assert not learned(header, observations, answers).any()
    learned.learn({number: 30.0 if number % 2 else -float(number) for number in range(300)})
    ranked = learned(header, observations, answers)
    assert ranked[1::2].min() > ranked[0::2].max()  # answers of 1 were worth changing
    assert (np.diff(ranked[20::2]) < 0).all()  # and of 0 the less, the greater the number


def test_flips_that_help_are_combined():
    asked, result = rounds(lambda a, b, c, d: 100 - 5 * a + b - 9 * c - d, 4, 8)
    assert asked == [
        [(0, 0, 0, 0)],
        [(1, 0, 0, 0), (0, 1, 0, 0), (0, 0, 1, 0)],  # a and c help, c more
        [(1, 0, 1, 0)],
        [(1, 0, 1, 1)],  # the last that has not been tried
        [(0, 0, 1, 1), (1, 1, 1, 1)],  # it helped, so another pass, as far as the budget goes
    ]
    assert (result.best.result.scores["text_bytes"], result.num_compiles) == (85, 8)


def test_the_better_half_is_tried_too():
    # Any two of the flips help more than one, but all four get into each other's way.
    def size_of(*answers):
        return 100 - sum(answers) * (4 - sum(answers)) - answers[0]

    asked, result = rounds(size_of, 4, 7, flips=4)
    assert asked[2:4] == [[(1, 1, 1, 1)], [(1, 1, 0, 0)]]
    assert result.best.result.scores["text_bytes"] == 95


def test_random_groups_of_many_questions_are_flipped_when_no_single_flip_helps():
    def size_of(*answers):
        return 90 if answers[1] and answers[4] else 100 + sum(answers)

    asked, result = rounds(size_of, 11, 200)
    assert all(sum(answers) == 1 for one in asked[1:5] for answers in one)
    assert all(2 <= sum(answers) <= 4 for answers in asked[5])
    assert result.best.result.scores["text_bytes"] == 90
    assert rounds(size_of, 11, 200) == (asked, result)
    assert rounds(size_of, 11, 200, seed=1)[0] != asked


def test_of_few_questions_every_group_is_tried():
    """The smallest of 64 ways to answer needs five answers at once; each other way is the larger, the more it turns."""

    def size_of(*answers):
        return 90 if answers == (1, 0, 1, 1, 1, 1) else 100 + sum(answers)

    asked, result = rounds(size_of, 6, 1000)
    assert result.best.result.scores["text_bytes"] == 90
    order = [sum(answers) for one in asked for answers in one]
    assert order[: order.index(5)] == [0] + [1] * 6 + [2] * 15 + [3] * 20 + [4] * 15
    assert result.num_compiles < 200  # it ends: around the best, once more


def test_failures_are_passed_over():
    _, result = rounds(lambda a, b: None if a else 100 - b, 2, 10)
    assert result.best.result.scores["text_bytes"] == 99
    asked, result = rounds(lambda a, b: None, 2, 10)
    assert (len(asked), result.best, result.num_compiles) == (1, None, 1)


def test_a_module_without_questions_needs_no_search():
    asked, result = rounds(lambda: 100, 0, 10)
    assert (asked, result.num_compiles, result.best.result.scores["text_bytes"]) == ([[()]], 1, 100)


MAIN, F, G, H = 1, 2, 3, 4


def credit(calls, sizes=(0.0, 0.0, 0.0, 0.0)):
    """Of calls as pairs of caller and callee, by name; functions are numbered by their names."""
    callers, callees = (np.array(side, np.int32) - 1 for side in zip(*calls, strict=True))
    return CallAttribution(np.array([MAIN, F, G, H], np.uint64), np.array(sizes, np.float32), callers, callees)


def test_caller_callee_and_what_the_callee_calls():
    reach = AffectedFunctions(credit([(MAIN, F), (F, G), (G, H)]), np.array([0, 0, 0]))
    assert reach.of([0]) == {MAIN, F, G}
    assert reach.of([1]) == {F, G, H}
    assert reach.of([2]) == {G, H}
    assert reach.of([0, 2]) == {MAIN, F, G, H}


def test_what_the_caller_was_inlined_into():
    calls = [(G, H), (F, G), (MAIN, F)]
    assert AffectedFunctions(credit(calls), np.array([0, 1, 1])).of([0]) == {G, H, F, MAIN}
    assert AffectedFunctions(credit(calls), np.array([0, 0, 1])).of([0]) == {G, H}
    assert AffectedFunctions(credit([(F, G), (G, F)]), np.array([1, 1])).of([0]) == {F, G}  # they call each other


def test_saved_by_hand():
    affected = AffectedFunctions(credit([(MAIN, F), (F, G)]), np.array([0, 0]))
    before = sizes_of(credit([(MAIN, F)], [30, 20, -1, 5]))
    after = sizes_of(credit([(MAIN, F)], [44, -1, 7, 5]))
    assert before == {MAIN: 30, F: 20, H: 5}
    assert affected.saved(before, after, [frozenset({MAIN, F}), frozenset({G})]) == [6, -7]  # 20 bytes gone, 14 more
    assert affected.saved(before, after, [frozenset({MAIN, F}), frozenset({F, G})]) == [-14 + 10, 10 - 7]  # F is shared
    assert affected.saved(before, after, [frozenset({H}), frozenset({MAIN})]) == [0, 6]  # F is called by MAIN, G is not


def test_what_a_flip_makes_new_is_inlined_where_the_start_and_the_most_similar_question_say_so():
    header = Header(
        tuple(TensorSpec(name, INT64, (1,)) for name in ("x", "callee_users", "caller_users")), HEADER.advice
    )
    rows = [(1, 2, 7), (50, 2, 7), (3, 1, 7), (3, 1, 900)]
    payloads = np.array(rows, np.int64).view(np.uint8)
    for constant in (0, 1):
        start = OverridingAdvisor(ConstantAdvisor(constant), {}, ("caller_users",))
        advisor = pinned(start, header, payloads, np.array([1, 0, 1, 0]))

        def answers(*questions, of=advisor):
            return of.decide_for(header)(np.array(questions, np.int64).view(np.uint8)).tolist()

        assert answers(*rows) == [1, 0, constant, 0]  # the last two are told apart by their callers alone
        assert answers((1, 99, 7), (50, 1, 7), (51, 2, 7), (3, 5, 8)) == [constant, 0, 0, constant]
        again = pinned(advisor, header, payloads[:1], np.array([0]))
        assert answers(*rows, of=again) == [0, 0, 0, 0]  # what is not asked any more stays known
        for question, answer in (((51, 2, 7), 0), ((2, 2, 7), constant)):
            found = advisor.respond_to(header)(np.array(question, np.int64).tobytes())
            assert np.frombuffer(found, np.int64).tolist() == [answer]
