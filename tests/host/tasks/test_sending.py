"""LLVM's own decision as a feature: with the real compiler, and where it is not told."""

import numpy as np
import pytest

from mlgo.deploy.export.form import asked_features
from mlgo.errors import ConfigError, PolicyError
from mlgo.evaluate import CompileHost, CompileJob
from mlgo.evaluate.worker import tree_key
from mlgo.host.session import compile_plain, compile_under_advice
from mlgo.host.tasks.task import get_task, settings_for_policy
from mlgo.pool.tree_store import ReplayStore
from tests.fakes.policies import linear_policy


@pytest.fixture
def telling(settings):
    return settings.model_copy(update={"tell_heuristic": True})


@pytest.fixture
def agreeing():
    """Inlines where the heuristic does: log(1 + 1) - 0.5 is above 0, log(1 + 0) - 0.5 is not."""
    return linear_policy("inline-size", ["inlining_default"], [1.0, -0.5])


@pytest.mark.parametrize("optimization", ["-Oz", "-O2"])
def test_a_policy_that_agrees_makes_the_heuristics_object(optimization, toolchain, task, telling, agreeing, sample):
    settings, module = telling.model_copy(update={"optimization": optimization}), sample("graph/paths.cpp")
    plain = compile_plain(toolchain, module, settings)
    result = compile_under_advice(toolchain, task, module, agreeing, settings, record=True)
    assert result.object_sha256 == plain.object_sha256
    assert 0 < np.count_nonzero(np.frombuffer(result.answers, np.int64)) < result.num_questions


def test_it_is_missing_where_nobody_asked_for_it(toolchain, task, settings, agreeing, sample):
    with pytest.raises(PolicyError, match=r"inlining_default.* compile.tell_heuristic"):
        compile_under_advice(toolchain, task, sample("graph/paths.cpp"), agreeing, settings)


def test_settings_follow_the_policy(settings, telling, task, agreeing):
    assert settings_for_policy(agreeing.features, task, settings) == telling
    assert settings_for_policy(("callee_users",), task, settings) == settings
    assert settings_for_policy(("callee_users",), task, telling) == telling


def test_trees_hold_it(toolchain, telling, agreeing, sample, tmp_path):
    """A compile that is known is not done again; trees of compiles without it are others."""
    task, module = get_task("inline-size"), sample("graph/paths.cpp")
    plain = telling.model_copy(update={"tell_heuristic": False})
    assert tree_key(toolchain, task, telling) != tree_key(toolchain, task, plain)
    trees = ReplayStore(tmp_path, tree_key(toolchain, task, telling))
    job = CompileJob("m", module, agreeing, sha256="5" * 64)
    with CompileHost(toolchain, task.name, telling, 1, trees) as host:
        first, again = (host.compile_all([job])[0].result for _ in range(2))
        assert (host.num_asked, host.num_compiled, host.hidden) == (2, 1, ())
    assert first.object_sha256 == again.object_sha256 != ""


def test_where_it_is_not_told(agreeing):
    with pytest.raises(ConfigError, match=r"compile.tell_heuristic: .* for task regalloc-evict; set it to false"):
        get_task("regalloc-evict").check_told(True)
    get_task("regalloc-evict").check_told(False)
    with pytest.raises(PolicyError, match=r"LLVM's own decision \(inlining_default, compile.tell_heuristic\)"):
        asked_features(agreeing)
