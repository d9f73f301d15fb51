"""Compiles as episodes, with and without response trees in front of the real compiler."""

from dataclasses import replace
from functools import partial

import numpy as np

from mlgo.evaluate import CompileHost, CompileJob
from mlgo.evaluate.episodes import InlinedReader, compile_episodes, episode
from mlgo.policy.exploring import ExploringAdvisor
from mlgo.pool.trees import ReplayStore, TreeKey
from tests.evaluate.test_memory import SETTINGS, TASK, module, never, policies  # noqa: F401


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
