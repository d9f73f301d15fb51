"""The best known compile, found in trees that the real compiler filled."""

from dataclasses import replace
from functools import partial

import numpy as np

from mlgo.corpus.store import Module
from mlgo.evaluate import CompileHost, CompileJob
from mlgo.evaluate.episodes import best_of_each, best_remembered, compile_episodes, episode, episodes_hash
from mlgo.host.tasks.advisors import ConstantAdvisor
from mlgo.pool.trees import ReplayStore, TreeKey
from tests.evaluate.test_episodes import jobs
from tests.evaluate.test_memory import SETTINGS, TASK, module, never, policies  # noqa: F401


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
