"""Compiles as episodes, with and without response trees in front of the real compiler."""

from dataclasses import replace
from functools import partial

import numpy as np

from mlgo.base.seeding import generator
from mlgo.corpus.store import Module
from mlgo.evaluate import CompileHost, CompileJob
from mlgo.evaluate.baseline import ScoredModule
from mlgo.evaluate.compiles import Quarantine
from mlgo.evaluate.episodes import (
    InlinedReader,
    best_of_each,
    best_remembered,
    compile_episodes,
    episode,
    episodes_hash,
)
from mlgo.evaluate.training import sample_episodes
from mlgo.host.tasks.task import ConstantAdvisor
from mlgo.policy.network import logits
from mlgo.policy.policy import ExploringAdvisor
from mlgo.pool.tree_store import ReplayStore, TreeKey
from tests.evaluate.test_memory import SETTINGS, TASK, module, never, policies  # noqa: F401
from tests.fakes.scores import scores


def jobs(bitcode, policy, count):
    return [
        CompileJob("m", bitcode, ExploringAdvisor(policy, 0.0, 0.02, seed), record=True, sha256="a" * 64)
        for seed in range(count)
    ]


def test_episodes_are_whole_whatever_the_trees_know(toolchain, module, never, tmp_path):  # noqa: F811
    (policy,) = policies(never.header, 1)
    scaling, read = policy.normalisation, partial(episode, policy=policy, objective="text_bytes")
    with CompileHost(toolchain, TASK.name, SETTINGS, 2) as host:
        plain = compile_episodes(host, jobs(module, policy, 4), read)
    store = ReplayStore(tmp_path, TreeKey("c" * 64, "t", TASK.name, "-Oz", 4.0))
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
    header = never.header
    rows = header.scalars(never.observations)[:1]
    assert np.array_equal(plain[0].inputs[0], scaling(rows)[0].astype(np.float16))


def test_what_workers_read_is_what_the_driver_would(toolchain, bitcode, never):  # noqa: F811
    (policy,) = policies(never.header, 1)
    functions = [f"int f{i}(int x) {{ return x * {i} + f{i - 1}(x) * f{i - 1}(x + 1); }}" for i in range(1, 12)]
    source = bitcode("\n".join(["int f0(int x);", *functions]))
    advisors = (ExploringAdvisor(policy, 0.0, 0.3, seed) for seed in range(2))
    asked = [CompileJob("m", source, one, record=True, with_credit=True) for one in advisors]
    read = InlinedReader(policy.normalisation, "text_bytes")
    with CompileHost(toolchain, TASK.name, SETTINGS, 1) as host:
        whole = compile_episodes(host, asked, partial(episode, policy=policy, objective="text_bytes"))
        found = compile_episodes(host, [replace(job, read=read) for job in asked], lambda key, one: one)
        (_, sent), *_ = host.compile_each([replace(asked[0], read=read)])
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


def test_a_failed_compile_is_told_and_leaves_a_gap(toolchain, module, never, tmp_path):  # noqa: F811
    (policy,) = policies(never.header, 1)
    broken = tmp_path / "broken.bc"
    broken.write_bytes(b"nothing")
    told = []
    with CompileHost(toolchain, TASK.name, SETTINGS, 1) as host:
        episodes = compile_episodes(
            host,
            [*jobs(broken, policy, 1), *jobs(module, policy, 1)],
            partial(episode, policy=policy, objective="text_bytes"),
            note=lambda key, reason: told.append((key, bool(reason))),
        )
    assert episodes[0] is None
    assert episodes[1] is not None
    assert told == [("m", True), ("m", False)]


def test_the_smallest_compile_is_found(toolchain, module, never, tmp_path):  # noqa: F811
    (policy,) = policies(never.header, 1)
    store = ReplayStore(tmp_path, TreeKey("c" * 64, "t", TASK.name, "-Oz", 4.0))
    assert best_remembered(store, "m", "a" * 64, policy, "text_bytes") is None
    wanted = [*jobs(module, policy, 3), CompileJob("m", module, ConstantAdvisor(0), record=True, sha256="a" * 64)]
    with CompileHost(toolchain, TASK.name, SETTINGS, 1, store) as host:
        episodes = compile_episodes(host, wanted, partial(episode, policy=policy, objective="text_bytes"))
    best = min(episodes, key=lambda one: one.score)
    assert len({one.score for one in episodes}) > 1
    found = best_remembered(store, "m", "a" * 64, policy, "text_bytes")
    assert (found.module, found.score, found.object_sha256) == ("m", best.score, best.object_sha256)
    assert np.array_equal(found.answers, best.answers)
    assert np.array_equal(found.inputs, best.inputs)
    known, unknown = (Module("p", name, "c", "train", name * 64) for name in "ab")
    (again,) = best_of_each(store, [unknown, known], policy, "text_bytes")
    assert (again.module, again.object_sha256) == (known.key, best.object_sha256)
    others = [replace(again, module="m"), replace(again, score=1.0), replace(again, answers=1 - again.answers)]
    assert len({episodes_hash(some) for some in ([], [again], *([one] for one in others), [again, again])}) == 6
    assert episodes_hash([again]) == episodes_hash([replace(again, answers=again.answers.copy())])


def test_answers_follow_the_probabilities_and_the_luck(toolchain, module, never):  # noqa: F811
    (policy,) = policies(never.header, 1)
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
