"""Compiles logged and done again, with the real compiler."""

from dataclasses import replace

import numpy as np
import pytest

from mlgo.base.artifacts import MODULES, PROJECT, write_rows
from mlgo.base.files import file_sha256
from mlgo.errors import ArtifactError, CorpusError, ToolchainError
from mlgo.evaluate.logged import find_logged_bitcode, logged_episode, read_episode, replay_episode, write_episode
from mlgo.host.session import compile_under_advice
from mlgo.host.tasks.inline import random_inliner
from mlgo.host.tasks.task import ConstantAdvisor, EchoAdvisor, Setting
from tests.conftest import almost


@pytest.fixture(scope="module")
def source(sample):
    return sample("json/parser.cpp")


@pytest.fixture(scope="module")
def episode(toolchain, task, settings, source):
    """The heuristic's own compile, with all questions."""
    echo = EchoAdvisor(toolchain.quirks.default_slot)
    result = compile_under_advice(toolchain, task, source, echo, settings, with_heuristic_feature=True, record=True)
    return logged(toolchain, task, settings, source, "default", result, told=True)


def logged(toolchain, task, settings, source, policy, result, told):
    where, how = (toolchain, task.name, settings, "json/parser.cpp", source), {"with_heuristic_feature": told}
    return logged_episode(*where, (policy, ""), result, in_corpus=False, **how)


def without_observations(episode):
    return replace(episode, result=replace(episode.result, observations=b""))


def with_answers(episode, answers):
    """The same with other answers, as if someone had tampered with them."""
    data = np.asarray(answers, np.int64).tobytes()
    return replace(episode, result=replace(episode.result, answers=data, contexts=(("", len(answers)),)))


def answers_of(episode):
    return np.frombuffer(episode.result.answers, np.int64)


@pytest.mark.parametrize("observed", [True, False])
def test_written_read_and_done_again(toolchain, episode, observed, tmp_path):
    episode = episode if observed else without_observations(episode)
    write_episode(tmp_path / "a", episode)
    write_episode(tmp_path / "b", episode)
    assert (tmp_path / "a").read_bytes() == (tmp_path / "b").read_bytes()
    read = read_episode(tmp_path / "a")
    assert read == episode
    bitcode = find_logged_bitcode(read, tmp_path / "no-corpus", tmp_path / "bitcode")
    replay = replay_episode(toolchain, read, bitcode, object_path=tmp_path / "again.o")
    assert replay.difference == ""
    assert file_sha256(tmp_path / "again.o") == episode.result.object_sha256


def test_a_tampered_answer_shows_at_the_next_question_that_differs(toolchain, episode, source):
    answers = answers_of(episode).copy()
    position = int(np.flatnonzero(answers)[0])
    answers[position] = 0
    replay = replay_episode(toolchain, with_answers(episode, answers), source)
    assert replay.difference
    assert replay.result is None
    question, _, difference = replay.difference.partition(": ")
    assert int(question.removeprefix("question ")) > position
    assert " is " in difference
    assert ", logged " in difference


def test_a_tampered_answer_without_observations(toolchain, episode, source):
    answers = answers_of(episode).copy()
    answers[np.flatnonzero(answers)[-1]] = 0  # so late that nothing else is asked because of it, or a little
    replay = replay_episode(toolchain, without_observations(with_answers(episode, answers)), source)
    assert replay.difference
    assert "another object file" in replay.difference or "question" in replay.difference


def test_answers_too_few_and_too_many(toolchain, episode, source):
    answers = answers_of(episode)
    bare = without_observations(episode)
    few = replay_episode(toolchain, with_answers(bare, answers[:-1]), source)
    assert few.difference == f"the compiler asks a question after the {len(answers) - 1} of the log"
    many = replay_episode(toolchain, with_answers(bare, [*answers, 1]), source)
    assert many.difference == f"the compiler asks only {len(answers)} of the {len(answers) + 1} questions of the log"


def test_a_policy_is_held_against_the_record(toolchain, episode, source):
    echo = EchoAdvisor(toolchain.quirks.default_slot)
    assert not replay_episode(toolchain, episode, source, echo).difference
    first = int(np.flatnonzero(answers_of(episode) != 0)[0])
    assert replay_episode(toolchain, episode, source, ConstantAdvisor(0)).difference == (
        f"question {first}: answered 0, logged 1"
    )


def test_luck_is_replayed(toolchain, task, settings, source):
    result = compile_under_advice(toolchain, task, source, random_inliner(Setting(3, "m", 0.5, "")), settings)
    episode = logged(toolchain, task, settings, source, "random:3", result, told=False)
    assert not replay_episode(toolchain, episode, source).difference
    assert not replay_episode(toolchain, episode, source, random_inliner(Setting(3, "m", 0.5, ""))).difference
    assert replay_episode(toolchain, episode, source, random_inliner(Setting(4, "m", 0.5, ""))).difference


def test_another_object_or_other_sizes_after_the_same_answers_are_a_difference(toolchain, episode, source):
    result = episode.result
    other = replace(result, object_sha256=almost(result.object_sha256))
    smaller = replace(result, scores={**result.scores, "text_bytes": result.scores["text_bytes"] - 1})
    differences = [
        replay_episode(toolchain, replace(episode, result=one), source).difference for one in (other, smaller)
    ]
    assert differences[0].startswith("same answers, but another object file: ")
    assert "measures otherwise" in differences[1]


def test_other_compilers_are_refused(toolchain, episode, source):
    with pytest.raises(ToolchainError, match=r"was logged with clang 17.0.6, this is ziglang clang"):
        replay_episode(toolchain, replace(episode, compiler="clang 17.0.6"), source)
    with pytest.raises(ToolchainError, match="another build of ziglang clang"):
        replay_episode(toolchain, replace(episode, compiler_sha256=almost(toolchain.sha256)), source)


def test_bitcode_of_the_corpus(episode, source, tmp_path):
    in_corpus = replace(episode, bitcode=None)
    corpus, folder = tmp_path / "corpus", tmp_path / "bitcode"
    with pytest.raises(CorpusError, match="corpus does not hold; name the right folder with --corpus"):
        find_logged_bitcode(in_corpus, corpus, folder)
    key = {"project": "json", "module": "parser.cpp", "language": "c++", "licence": "MIT", "skip_reason": ""}
    counted = ("bitcode_bytes", "num_functions", "num_instructions", "shared_functions", "shared_instructions")
    numbers = dict.fromkeys(counted, 1)
    row = {**key, **numbers, "split": "test", "bitcode_sha256": episode.bitcode_sha256}
    shard = {**key, "ir_sha256": "", "bitcode": source.read_bytes(), "function_hashes": [], "function_sizes": []}
    write_rows(corpus / "modules.parquet", [row], MODULES, {})
    write_rows(corpus / "projects" / "json.parquet", [shard], PROJECT, {})
    assert find_logged_bitcode(in_corpus, corpus, folder).read_bytes() == source.read_bytes()
    write_rows(corpus / "modules.parquet", [{**row, "bitcode_sha256": "0" * 64}], MODULES, {})
    with pytest.raises(CorpusError, match="it has other bitcode of that name"):
        find_logged_bitcode(in_corpus, corpus, folder)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda one: replace(one, bitcode=b"other"), "the bitcode does not have the hash"),
        (lambda one: replace(one, bitcode_sha256=almost(one.bitcode_sha256)), "the bitcode does not have the hash"),
        (lambda one: replace(one, result=replace(one.result, answers=b"1234567")), "7 bytes of answers of 8 bytes"),
        (lambda one: replace(one, result=replace(one.result, observations=b"1")), "1 bytes of observations for"),
    ],
)
def test_contradictions_are_damage(episode, change, message, tmp_path):
    write_episode(tmp_path / "file", change(episode))
    with pytest.raises(ArtifactError, match=message):
        read_episode(tmp_path / "file")


def test_damaged_and_foreign_files(episode, tmp_path):
    path = tmp_path / "file"
    with pytest.raises(ArtifactError, match="log a compile with: mlgo compile MODULE --log FILE"):
        read_episode(path)
    write_episode(path, episode)
    path.write_bytes(path.read_bytes()[:-20])
    with pytest.raises(ArtifactError, match="not a readable Parquet file"):
        read_episode(path)
    write_rows(path, [], MODULES, {})
    with pytest.raises(ArtifactError, match="has no column 'bitcode'"):
        read_episode(path)
