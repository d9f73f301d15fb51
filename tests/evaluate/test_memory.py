"""Compiles with response trees in front of the real compiler, and as episodes."""

import hashlib
from dataclasses import replace
from functools import partial

import numpy as np
import pytest

from mlgo.base.config import load_config
from mlgo.base.seeding import generator
from mlgo.base.types import TensorSpec
from mlgo.corpus.store import Module
from mlgo.errors import ReplayMismatch
from mlgo.evaluate import CompileHost, CompileJob
from mlgo.evaluate.baseline import ScoredModule
from mlgo.evaluate.compiles import Quarantine
from mlgo.evaluate.episodes import (
    InlinedReader,
    compile_episodes,
    episode,
)
from mlgo.evaluate.training import sample_episodes
from mlgo.evaluate.worker import CompileWorkerSpec, tree_key
from mlgo.host.conversation import AnswerPrefix, KnownContext
from mlgo.host.session import compile_under_advice
from mlgo.host.tasks.inline import random_inliner
from mlgo.host.tasks.task import ConstantAdvisor, EchoAdvisor, Setting, get_task
from mlgo.policy.network import logits
from mlgo.policy.policy import ExploringAdvisor, Policy
from mlgo.pool.tree_store import ReplayStore, TreeKey
from tests.conftest import almost
from tests.fakes.policies import linear_policy
from tests.fakes.scores import scores
from tests.pipeline.conftest import ROOT

TASK = get_task("inline-size")
SETTINGS = load_config(ROOT / "config/config.yaml").compile


@pytest.fixture(scope="module")
def module(sample):
    """Bitcode of a sample with a few hundred questions."""
    return sample("json/parser.cpp")


@pytest.fixture(scope="module")
def never(toolchain, module):
    return compile_under_advice(toolchain, TASK, module, ConstantAdvisor(0), SETTINGS, record=True)


def policies(header, count: int) -> list[Policy]:
    names, rng = [spec.name for spec in header.features], generator(7, "policies")
    size = len(names) + 1
    base = rng.standard_normal(size)
    return [linear_policy(TASK.name, names, base + 0.05 * rng.standard_normal(size)) for _ in range(count)]


@pytest.fixture
def policy(never):
    return policies(never.header, 1)[0]


@pytest.fixture
def read(policy):
    """How whole compiles are read for that policy."""
    return partial(episode, policy=policy, objective="text_bytes")


@pytest.fixture
def store(tmp_path):
    return ReplayStore(tmp_path / "trees", TreeKey("c" * 64, "t", TASK.name, "-Oz", SETTINGS.size_stop_factor))


def known_path(result, num_known: int) -> AnswerPrefix:
    (whole,) = result.answer_prefix().contexts
    return AnswerPrefix((KnownContext("", whole.checks[:num_known], whole.answers[: 8 * num_known]),))


@pytest.mark.parametrize("share", [0.0, 0.1, 0.5, 1.0])
def test_answers_given_in_advance_change_nothing(toolchain, module, never, share):
    num_known = round(share * never.num_questions)
    again = compile_under_advice(
        toolchain, TASK, module, ConstantAdvisor(0), SETTINGS, record=True, known=known_path(never, num_known)
    )
    assert again.object_sha256 == never.object_sha256
    assert again.answers == never.answers
    assert again.observations == never.observations[num_known * never.header.payload_bytes :]


def test_another_question_than_the_known_one_and_an_end_before_it_are_hard_errors(toolchain, module, never):
    (context,) = known_path(never, 20).contexts
    checks = [check ^ (number == 13) for number, check in enumerate(context.checks)]
    other = replace(context, checks=tuple(checks))
    (whole,) = known_path(never, never.num_questions).contexts
    longer = KnownContext("", (*whole.checks, 1), whole.answers + bytes(8))
    for known, message in ((other, "question 13"), (longer, "known questions")):
        with pytest.raises(ReplayMismatch, match=message):
            compile_under_advice(toolchain, TASK, module, ConstantAdvisor(0), SETTINGS, known=AnswerPrefix((known,)))


@pytest.mark.slow
def test_same_results_with_fewer_compiles(toolchain, module, never, store):
    candidates = policies(never.header, 12)
    jobs = [CompileJob("m", module, policy, sha256="5" * 64) for policy in candidates]
    plain = [compile_under_advice(toolchain, TASK, module, policy, SETTINGS) for policy in candidates]
    with CompileHost(toolchain, TASK.name, SETTINGS, 2, store) as host:
        first, second = host.compile_all(jobs), host.compile_all(jobs)
    for expected, one, two in zip(plain, first, second, strict=True):
        for outcome in (one, two):
            assert outcome.result.object_sha256 == expected.object_sha256
            assert outcome.result.answers == expected.answers
            assert outcome.result.contexts == expected.contexts
            assert outcome.score("text_bytes") == expected.scores["text_bytes"]
    assert all(outcome.recalled for outcome in second)
    distinct = len({result.answers for result in plain})
    assert distinct <= host.num_compiled <= distinct + 1  # two workers may meet on the same path once
    assert sum(outcome.recalled for outcome in (*first, *second)) == 24 - host.num_compiled
    assert host.num_asked == 24
    assert host.num_known_questions > 0


def test_advisors_that_look_at_more_than_the_observation_are_compiled(toolchain, module, store, tmp_path):
    echo = CompileJob("m", module, EchoAdvisor("inlining_default"), with_heuristic_feature=True, sha256="5" * 64)
    random = CompileJob("m", module, random_inliner(Setting(1, "m", 0.5, "")), sha256="5" * 64)
    with CompileHost(toolchain, TASK.name, SETTINGS, 1, store) as host:
        for _ in range(2):
            assert not any(outcome.recalled for outcome in host.compile_all([echo, random]))
    assert list(tmp_path.rglob("*.tree")) == []


def test_a_compile_whose_object_is_wanted_is_not_recalled(toolchain, module, policy, store, tmp_path):
    job = CompileJob("m", module, policy, sha256="5" * 64)
    with CompileHost(toolchain, TASK.name, SETTINGS, 1, store) as host:
        (first,) = host.compile_all([job])
        (second,) = host.compile_all([replace(job, object_path=tmp_path / "m.o")])
        (third,) = host.compile_all([job])
    assert [first.recalled, second.recalled, third.recalled] == [False, False, True]
    assert hashlib.sha256((tmp_path / "m.o").read_bytes()).hexdigest() == first.result.object_sha256


def test_batched_decisions_equal_single_ones(never):
    header = never.header
    rows = np.frombuffer(never.observations, np.uint8).reshape(-1, header.payload_bytes)
    for policy in policies(header, 5):
        respond = policy.respond_to(header)
        single = [int.from_bytes(respond(row.tobytes()), "little") for row in rows]
        assert policy.decide_for(header)(rows).tolist() == single


def test_continuous_answers_are_compiled_every_time_and_not_kept(
    toolchain, never, module, store, tmp_path, monkeypatch
):
    priority = TensorSpec("priority", np.dtype(np.float32), (1,))
    answers = np.full(never.num_questions, 0.5, np.float32).tobytes()
    continuous = replace(never, header=replace(never.header, advice=priority), answers=answers)
    recorded = []

    def compiled(*args, record, **options):
        recorded.append(record)
        return continuous

    monkeypatch.setattr("mlgo.evaluate.worker.compile_under_advice", compiled)
    worker = CompileWorkerSpec(toolchain, TASK.name, SETTINGS, trees=store)()
    job = CompileJob("m", module, ConstantAdvisor(0), sha256="5" * 64)
    assert [worker(job).recalled for _ in range(2)] == [False, False]
    assert recorded == [True, False]  # from then on not even recorded
    assert list(tmp_path.rglob("*.tree")) == []


def test_everything_that_decides_a_compile_is_part_of_the_key(toolchain):
    settings = SETTINGS.model_copy(update={"optimization": "-Oz", "size_stop_factor": 4.0})
    other_flags = replace(TASK, mode_flags=(*TASK.mode_flags, "-mllvm", "-another-option"))
    keys = [
        tree_key(toolchain, TASK, settings),
        tree_key(toolchain, TASK, settings.model_copy(update={"size_stop_factor": 2.0})),
        tree_key(toolchain, TASK, settings.model_copy(update={"optimization": "-O2"})),
        tree_key(toolchain, other_flags, settings),
        tree_key(toolchain, get_task("regalloc-evict"), settings),
        tree_key(replace(toolchain, target="aarch64-linux-gnu"), TASK, settings),
        *(
            tree_key(toolchain, TASK, settings, shares)
            for shares in ({}, {"p": {b"group": 2}}, {"p": {b"group": 3}}, {"q": {b"group": 2}})
        ),
    ]
    assert len({key.folder for key in keys}) == len(keys)
    assert replace(keys[0], compiler_sha256=almost(toolchain.sha256)).folder != keys[0].folder
    longer = settings.model_copy(update={"compile_timeout_s": 99.0, "answer_timeout_s": 9.0})
    assert tree_key(toolchain, TASK, longer) == keys[0]  # deadlines change no result


def jobs(bitcode, policy, count):
    return [
        CompileJob("m", bitcode, ExploringAdvisor(policy, 0.0, 0.02, seed), record=True, sha256="a" * 64)
        for seed in range(count)
    ]


@pytest.mark.slow
def test_episodes_are_whole_whatever_the_trees_know(toolchain, module, never, policy, read, store):
    with CompileHost(toolchain, TASK.name, SETTINGS, 2) as host:
        plain = compile_episodes(host, jobs(module, policy, 4), read)
    with CompileHost(toolchain, TASK.name, SETTINGS, 1, store) as host:
        first = compile_episodes(host, jobs(module, policy, 4), read)
        again = compile_episodes(host, jobs(module, policy, 4), read)
    assert host.num_known_questions > 0
    assert host.num_asked - host.num_compiled == 4
    for episodes in (first, again):
        for one, other in zip(plain, episodes, strict=True):
            assert one is not None
            assert len(one.answers) > 100
            assert np.array_equal(one.inputs, other.inputs)
            assert np.array_equal(one.answers, other.answers)
            assert (one.score, one.object_sha256) == (other.score, other.object_sha256)
    rows = never.header.scalars(never.observations)[:1]
    assert np.array_equal(plain[0].inputs[0], policy.normalisation(rows)[0].astype(np.float16))


def test_what_workers_read_is_what_the_driver_would(toolchain, bitcode, policy, read):
    functions = [f"int f{i}(int x) {{ return x * {i} + f{i - 1}(x) * f{i - 1}(x + 1); }}" for i in range(1, 12)]
    source = bitcode("\n".join(["int f0(int x);", *functions]))
    advisors = (ExploringAdvisor(policy, 0.0, 0.3, seed) for seed in range(2))
    asked = [CompileJob("m", source, one, record=True, with_credit=True) for one in advisors]
    of_inlined = InlinedReader(policy.normalisation, "text_bytes")
    with CompileHost(toolchain, TASK.name, SETTINGS, 1) as host:
        whole = compile_episodes(host, asked, read)
        found = compile_episodes(host, [replace(job, read=of_inlined) for job in asked], lambda key, one: one)
        (_, sent), *_ = host.compile_each([replace(asked[0], read=of_inlined)])
    assert sent.result is not None, sent.reason
    left = sent.result.header, sent.result.answers, sent.result.observations, sent.result.credit
    assert left == (None, b"", b"", None)  # nothing is sent twice
    assert sent.result.num_questions > 0
    for one, other in zip(whole, found, strict=True):
        yes = one.answers == 1
        assert 0 < yes.sum() < len(yes)
        assert np.array_equal(one.inputs[yes], other.inputs)
        assert (one.module, one.score) == (other.module, other.score)
        assert np.array_equal(one.credit.callers[yes], other.credit.callers)
        assert np.array_equal(one.credit.callees[yes], other.credit.callees)
        assert np.array_equal(one.credit.names, other.credit.names)
        assert np.array_equal(one.credit.sizes, other.credit.sizes)
    assert len({one.answers for one in found}) == len({one.answers.tobytes() for one in whole}) > 1


def test_a_failed_compile_is_told_and_leaves_a_gap(toolchain, module, policy, read, tmp_path):
    broken = tmp_path / "broken.bc"
    broken.write_bytes(b"nothing")
    both, told = [*jobs(broken, policy, 1), *jobs(module, policy, 1)], []
    with CompileHost(toolchain, TASK.name, SETTINGS, 1) as host:
        episodes = compile_episodes(host, both, read, note=lambda key, reason: told.append((key, bool(reason))))
    assert episodes[0] is None
    assert episodes[1] is not None
    assert told == [("m", True), ("m", False)]


@pytest.mark.slow
def test_answers_follow_the_probabilities_and_the_luck(toolchain, module, policy):
    policy = policy.with_weights(policy.weights / 50)
    scored = ScoredModule(Module("json", "parser.cpp", "c++", "train", "a" * 64), scores(1, 1, 1), 1)
    read = partial(episode, policy=policy, objective="text_bytes")
    files, quarantine = {scored.module.key: module}, Quarantine(10)
    with CompileHost(toolchain, TASK.name, SETTINGS, 2) as host:
        first, again, others = (
            sample_episodes(host, policy, [scored], files, read, quarantine, 2, generator(seed, "luck"))
            for seed in (0, 0, 1)
        )
    assert quarantine.state()[scored.module.key]["compiles"] == 6
    assert [one.answers.tolist() for one in first] == [one.answers.tolist() for one in again]
    assert len({one.answers.tobytes() for one in (*first, *others)}) == 4
    inputs = np.concatenate([one.inputs for one in (*first, *others)]).astype(np.float32)
    answers = np.concatenate([one.answers for one in (*first, *others)])
    chances = 1.0 / (1.0 + np.exp(-logits(policy.architecture.unflatten(policy.weights), inputs)))
    assert 0.1 < chances.mean() < 0.9
    # Standard error of the mean of some thousand answers is about 0.01; equal questions share their luck.
    assert abs(answers.mean() - chances.mean()) < 0.06
