"""Compiles under samples from a policy, with the real compiler."""

from functools import partial

import numpy as np

from mlgo.base.seeding import generator
from mlgo.corpus.store import Module
from mlgo.evaluate import CompileHost
from mlgo.evaluate.baseline_modules import ScoredModule
from mlgo.evaluate.episodes import episode
from mlgo.evaluate.exploration import sample_episodes
from mlgo.evaluate.failures import Quarantine
from mlgo.policy.network import logits
from tests.evaluate.test_memory import SETTINGS, TASK, module, never, policies  # noqa: F401
from tests.fakes.scores import scores


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
