"""`mlgo compile --log` and `mlgo replay episode`: a compile done again, from the shell."""

import json
from dataclasses import replace

import numpy as np
import pytest

from mlgo.evaluate.logged import read_episode, write_episode
from mlgo.policy.features import Normalisation
from mlgo.policy.network import Architecture
from mlgo.policy.policy import Policy
from mlgo.policy.stored import save_policy

PARSER = "data/sample/json/parser.cpp"


@pytest.fixture(scope="module")
def episode(mlgo, tmp_path_factory):
    path = tmp_path_factory.mktemp("log") / "parser.episode"
    run = mlgo("compile", PARSER, "--log", path, "--log-observations")
    assert (run.returncode, run.stderr) == (0, "")
    return path


def test_the_same_again(mlgo, episode, tmp_path):
    run = mlgo("replay", "episode", episode, "--json", "-o", tmp_path / "parser.o")
    assert (run.returncode, run.stderr) == (0, "")
    record = json.loads(run.stdout)
    assert (record["verdict"], record["difference"]) == ("equal", "")
    assert record["object_sha256"] == record["logged_object_sha256"]
    assert (record["policy"], record["compared"]) == ("default", "observations and answers")
    assert (tmp_path / "parser.o").exists()
    assert mlgo("replay", "episode", episode, "--policy", "default").returncode == 0


def test_a_tampered_answer(mlgo, episode, tmp_path):
    logged = read_episode(episode)
    answers = np.frombuffer(logged.result.answers, np.int64).copy()
    answers[0] ^= 1
    write_episode(tmp_path / "bad", replace(logged, result=replace(logged.result, answers=answers.tobytes())))
    run = mlgo("replay", "episode", tmp_path / "bad")
    assert (run.returncode, run.stderr) == (1, "")
    lines = dict(line.split(maxsplit=1) for line in run.stdout.splitlines())
    assert lines["verdict"] == "different"
    assert lines["difference"].startswith("question ")


def test_a_policy_with_other_weights_or_another_task(mlgo, tmp_path):
    scaling = Normalisation(("callsite_cost",), np.zeros(1, np.float32), np.ones(1, np.float32))
    policy = Policy("inline-size", scaling, Architecture((1, 1)), np.array([0, 1], np.float32))
    folder, log = tmp_path / "policy", tmp_path / "log"
    save_policy(policy, folder)
    assert mlgo("compile", "data/sample/lz/match.c", "--policy", folder, "--log", log).returncode == 0
    assert mlgo("replay", "episode", log, "--policy", folder).returncode == 0
    save_policy(policy.with_weights(np.array([0, -1])), folder)
    run = mlgo("replay", "episode", log, "--policy", folder)
    assert (run.returncode, run.stdout) == (1, "")
    assert run.stderr == f"error: the episode was logged under policy policy with other weights, not {folder}\n"
    save_policy(Policy("regalloc-evict", scaling, Architecture((3, 1)), np.zeros(4, np.float32)), folder)
    assert "was trained for task regalloc-evict" in mlgo("replay", "episode", log, "--policy", folder).stderr
    assert "logged under policy policy, not never" in mlgo("replay", "episode", log, "--policy", "never").stderr


def test_errors_are_one_line(mlgo, episode, tmp_path):
    write_episode(tmp_path / "task", replace(read_episode(episode), task="regalloc"))
    write_episode(tmp_path / "corpus", replace(read_episode(episode), bitcode=None))
    write_episode(tmp_path / "clang", replace(read_episode(episode), compiler="clang 17.0.6"))
    (tmp_path / "text").write_text("hello\n")
    for name, message in [
        ("none", "is missing; log a compile"),
        ("task", "unknown task 'regalloc'"),
        ("corpus", "name the right folder with --corpus"),
        ("clang", "was logged with clang 17.0.6"),
        ("text", "is not a readable Parquet file"),
    ]:
        run = mlgo("replay", "episode", tmp_path / name, "--corpus", tmp_path)
        assert (run.returncode, run.stdout, run.stderr.count("\n")) == (1, "", 1)
        assert run.stderr.startswith("error: ")
        assert message in run.stderr


def test_observations_go_into_a_log(mlgo):
    run = mlgo("compile", PARSER, "--log-observations")
    assert (run.returncode, run.stdout) == (1, "")
    assert run.stderr == "error: --log-observations says what --log FILE holds; give that option, too\n"


def test_help_has_an_example(mlgo):
    assert "mlgo replay episode lapi.episode" in mlgo("replay", "episode", "--help").stdout
