"""Ids that work alone: on the sample corpus, with the compiler's own observation or a flat one."""

import os
import subprocess
import sys
import warnings

import gymnasium
import numpy as np
import pytest
from gymnasium.utils.env_checker import check_env

from mlgo.corpus.recipe import sample_files
from mlgo.envs import compile_environments, environment_id
from mlgo.errors import CorpusError
from tests.conftest import REPOSITORY
from tests.envs.conftest import finish


@pytest.fixture
def make_alone(made):
    def make(name, **arguments):
        made.append(gymnasium.make(name, **arguments))
        return made[-1]

    return make


def test_ids_follow_from_the_names_of_problems():
    assert environment_id("inline-size") == "mlgo/InlineSize-v0"
    assert environment_id("jit-cse", flat=True) == "mlgo/JitCseFlat-v0"
    inlining = ["mlgo/InlineSize-v0", "mlgo/InlineSpeed-v0"]
    assert compile_environments() == [*inlining, "mlgo/RegallocEvict-v0", "mlgo/RegallocPriority-v0"]
    registered = {name for name in gymnasium.registry if name.startswith("mlgo/")}
    problems = ("InlineSize", "InlineSpeed", "RegallocEvict", "RegallocPriority", "JitCse")
    assert registered == {f"mlgo/{name}{flat}-v0" for name in problems for flat in ("", "Flat")}


@pytest.mark.parametrize("name", compile_environments())
def test_an_id_alone_plays_the_sample_corpus(name, make_alone):
    env = make_alone(name)
    seen = set()
    for seed in (0, 1):
        options = {"module": "lz/match.c"} if seed else None
        rewards, terminated, info = finish(env, lambda *_: env.action_space.sample(), seed=seed, options=options)
        seen.add(info["module"])
        assert terminated
        assert np.isfinite(rewards[-1])
    assert seen <= set(sample_files())
    assert "lz/match.c" in seen


def test_the_sample_corpus_is_all_its_sources(monkeypatch):
    files = sample_files()
    assert len(files) > 20
    assert all(path.is_file() for path in files.values())
    assert list(files) == sorted(files)
    monkeypatch.setattr("mlgo.__file__", "/nonexistent/mlgo/__init__.py")
    with pytest.raises(CorpusError, match=r"not in /nonexistent/mlgo/sample; install mlgo anew"):
        sample_files()


@pytest.mark.slow
@pytest.mark.parametrize("name", [name.replace("-v0", "Flat-v0") for name in compile_environments()])
def test_a_flat_observation_passes_gymnasiums_own_checks(name, make_alone):
    env = make_alone(name)
    assert len(env.observation_space.shape) == 1
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)  # that it is wrapped
        check_env(env, skip_render_check=True)


def test_flatten_is_an_option_of_every_id(make_alone):
    flat, dictionary = (make_alone("mlgo/InlineSize-v0", flatten=flatten) for flatten in (True, False))
    same = make_alone("mlgo/InlineSizeFlat-v0")
    assert flat.observation_space == same.observation_space == gymnasium.spaces.Box(-5.0, 5.0, (38,), np.float32)
    assert isinstance(dictionary.observation_space, gymnasium.spaces.Dict)
    options = {"module": "json/parser.cpp"}
    assert flat.reset(options=options)[0].tolist() == same.reset(options=options)[0].tolist()


def test_an_id_with_its_package_needs_no_import():
    code = "import gymnasium; print(gymnasium.make('mlgo.envs:mlgo/InlineSizeFlat-v0').reset(seed=3)[0].shape)"
    environment = os.environ | {"PYTHONPATH": str(REPOSITORY)}
    run = subprocess.run([sys.executable, "-c", code], env=environment, capture_output=True, text=True, check=True)
    assert run.stdout == "(38,)\n"
