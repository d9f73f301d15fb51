"""Environments backed by response trees: what is known needs no compiler, and nothing else changes."""

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from mlgo.base.seeding import generator
from mlgo.errors import ConfigError, ReplayMismatch, ToolchainError
from mlgo.evaluate import CompileHost
from mlgo.evaluate.worker import CompileJob, tree_key
from mlgo.host.tasks.regalloc import LIGHTEST
from mlgo.host.tasks.task import ConstantAdvisor
from mlgo.pool.tree_store import ReplayStore
from tests.envs.conftest import INLINING, SMALL


def legal(env, seed):
    """Random legal answers, the same for equal seeds."""
    rng = generator(seed, "test", "legal")
    return lambda: int(rng.choice(np.flatnonzero(env.action_masks())))


def play(env, answers, module=None):
    """All that an episode shows: observations as bytes, contexts, rewards; and the last info."""
    observation, info = env.reset(options={"module": module} if module else None)
    shown, over = [], False
    while not over:
        shown.append((b"".join(one.tobytes() for one in observation.values()), info["context"], info["question"]))
        observation, reward, terminated, truncated, info = env.step(answers())
        shown.append((reward, terminated, truncated))
        over = terminated or truncated
    return shown, info


def without_compiler(env):
    """Take the compiler away: whatever is started from now on does not exist."""
    env.toolchain = replace(env.toolchain, binary=Path("/nonexistent/compiler"))


BOTH = pytest.mark.parametrize(
    ("name", "module"), [("mlgo/InlineSize-v0", INLINING[0]), ("mlgo/RegallocEvict-v0", SMALL)]
)


@BOTH
def test_a_known_episode_starts_no_compiler_and_is_the_same(name, module, make, tmp_path):
    plain, trees = make(name, [module]), make(name, [module], trees=str(tmp_path))
    expected, ended = play(plain, legal(plain, 1))
    first, once = play(trees, legal(trees, 1))
    assert ended["compiled"] is once["compiled"] is True
    without_compiler(trees)
    again, told = play(trees, legal(trees, 1))
    assert first == again == expected
    assert told["compiled"] is False
    assert (told["score"], told["questions"]) == (ended["score"], ended["questions"])
    # Trees of functions know costs, no objects.
    assert told["object_sha256"] == (ended["object_sha256"] if name == "mlgo/InlineSize-v0" else "")
    with pytest.raises(ToolchainError, match="nonexistent"):  # it does take a compiler where an answer is new
        play(trees, legal(trees, 2))


@BOTH
def test_a_compiler_starts_at_the_first_unknown_question(name, module, make, tmp_path):
    plain, trees = make(name, [module]), make(name, [module], trees=str(tmp_path))
    play(trees, legal(trees, 1))

    def turned(env):
        """The known answers for 40 questions, then others; what is told each time."""
        known, other, compiled = legal(env, 1), legal(env, 2), []

        def answer():
            compiled.append(env._compiled.is_set())
            return known() if len(compiled) <= 40 else other()

        return answer, compiled

    expected = play(plain, turned(plain)[0])
    answer, compiled = turned(trees)
    assert play(trees, answer) == expected
    assert compiled[:41] == [False] * 41  # the question after 40 known answers is known, too
    assert compiled[-1] is True
    without_compiler(trees)
    assert play(trees, turned(trees)[0])[0] == expected[0]


def test_trees_of_training_are_used(make, toolchain, tmp_path):
    """What a rollout has compiled, an environment with the same settings knows."""
    env = make("mlgo/InlineSize-v0", [SMALL], trees=str(tmp_path))
    store = ReplayStore(tmp_path, tree_key(toolchain, env.task, env.settings))
    with CompileHost(toolchain, env.task.name, env.settings, 1, store) as host:
        job = CompileJob("m", env.problem.bitcode, ConstantAdvisor(0), sha256=env.problem.sha256)
        (outcome,) = host.compile_all([job])
    without_compiler(env)
    _, info = play(env, lambda: 0)
    assert (info["compiled"], info["object_sha256"]) == (False, outcome.result.object_sha256)


def test_training_uses_the_trees_of_an_environment(make, toolchain, tmp_path):
    env = make("mlgo/RegallocEvict-v0", [SMALL], trees=str(tmp_path))
    rule = LIGHTEST.respond_to(env.header)
    _, info = play(env, lambda: int.from_bytes(rule(env._event.payload), "little"))
    store = ReplayStore(tmp_path, tree_key(toolchain, env.task, env.settings))
    job = CompileJob("m", env.problem.bitcode, LIGHTEST, sha256=env.problem.sha256, costs_only=True)
    with CompileHost(toolchain, env.task.name, env.settings, 1, store) as host:
        (outcome,) = host.compile_all([job])
    assert (outcome.recalled, outcome.score("spill_cost")) == (True, info["score"])


def test_illegal_columns_are_counted_whether_known_or_not(make, tmp_path):
    env = make("mlgo/RegallocEvict-v0", [SMALL], trees=str(tmp_path))

    def illegal():
        return int(np.flatnonzero(~env.action_masks())[0])

    first, told = play(env, illegal)
    without_compiler(env)
    again, known = play(env, illegal)
    assert first == again
    assert told["repaired_answers"] == known["repaired_answers"] == told["questions"] > 0


def test_sizes_of_modules_with_functions_take_a_compiler_at_the_end(make, tmp_path):
    env = make("mlgo/RegallocEvict-v0", [SMALL], objective="text_bytes", trees=str(tmp_path))
    first, once = play(env, legal(env, 3))
    compiled = []
    answers = legal(env, 3)
    again, told = play(env, lambda: (compiled.append(env._compiled.is_set()), answers())[1])
    assert (first, once) == (again, told)
    assert not any(compiled)
    assert told["compiled"] is True


def test_an_episode_that_is_left_adds_nothing(make, tmp_path):
    env = make("mlgo/InlineSize-v0", [SMALL], trees=str(tmp_path))
    env.reset()
    env.step(0)
    env.reset()
    env.close()
    assert not list(tmp_path.rglob("*.tree"))


def test_trees_that_contradict_the_compiler(make, tmp_path):
    """Another module's trees under this one's name."""
    env = make("mlgo/InlineSize-v0", INLINING, trees=str(tmp_path))
    play(env, lambda: 0, INLINING[0])
    (tree,) = tmp_path.rglob("*.tree")
    tree.rename(tree.with_name(f"{env._problem_of(INLINING[1]).sha256}.tree"))
    with pytest.raises(ReplayMismatch, match=r"lz/match\.c: .*delete .*\.tree"):
        play(env, lambda: 1, INLINING[1])


def test_what_trees_do_not_hold(make, tmp_path):
    """Answers that hardly repeat, and the decision of the heuristic."""
    with pytest.raises(ConfigError, match="regalloc-priority are continuous"):
        make("mlgo/RegallocPriority-v0", [SMALL], trees=str(tmp_path))
    observation, info = make("mlgo/InlineSize-v0", [SMALL], trees=str(tmp_path)).reset()
    assert "heuristic" not in info
    assert observation.keys() == make("mlgo/InlineSize-v0", [SMALL]).observation_space.spaces.keys()


def test_a_module_that_asks_nothing(make, bitcode, tmp_path):
    """No register to allocate, no channel, no tree; the same every time."""
    env = make("mlgo/RegallocEvict-v0", [str(bitcode("void f(void) {}"))], trees=str(tmp_path / "trees"))
    for _ in range(2):
        _, info = env.reset()
        assert "context" not in info
        _, reward, terminated, _, info = env.step(0)
        assert (reward, terminated, info["questions"], info["compiled"]) == (0.0, True, 0, True)
