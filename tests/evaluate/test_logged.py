"""Compiles logged, in our format and in that of LLVM's training logs, and done again, with the real compiler."""

import io
import json
import math
import struct
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from mlgo.base.artifacts import MODULES, PROJECT, write_rows
from mlgo.base.files import file_sha256
from mlgo.base.types import TensorSpec
from mlgo.errors import ArtifactError, CorpusError, ToolchainError
from mlgo.evaluate.logged import (
    LoggedEpisode,
    find_logged_bitcode,
    read_episode,
    replay_episode,
    write_episode,
    write_training_log,
)
from mlgo.host.log import Context, Header, LogParser, Outcome, RawObservation
from mlgo.host.session import CompileResult, compile_under_advice
from mlgo.host.tasks.inline import random_inliner
from mlgo.host.tasks.task import ConstantAdvisor, EchoAdvisor, Setting
from mlgo.objects.measures import get_measure
from mlgo.objects.remarks import SpillCosts
from tests.conftest import almost
from tests.fakes.scores import scores


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
    subject = "json/parser.cpp", file_sha256(source), source.read_bytes()
    asked = task.name, policy, "", toolchain.name, toolchain.sha256, toolchain.target
    return LoggedEpisode(*subject, *asked, settings, told, replace(result, seconds=0.0))


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
    difference, _ = replay_episode(toolchain, read, bitcode, object_path=tmp_path / "again.o")
    assert difference == ""
    assert file_sha256(tmp_path / "again.o") == episode.result.object_sha256


def test_a_tampered_answer_shows_at_the_next_question_that_differs(toolchain, episode, source):
    answers = answers_of(episode).copy()
    position = int(np.flatnonzero(answers)[0])
    answers[position] = 0
    found, result = replay_episode(toolchain, with_answers(episode, answers), source)
    assert result is None
    question, _, difference = found.partition(": ")
    assert int(question.removeprefix("question ")) > position
    assert " is " in difference
    assert ", logged " in difference


@pytest.fixture
def difference(toolchain, source):
    """How a compile that is done again differs from the logged one."""
    return lambda one, advisor=None: replay_episode(toolchain, one, source, advisor)[0]


def test_tampered_answers_without_observations(difference, episode):
    answers, bare = answers_of(episode).copy(), without_observations(episode)
    few, many = (difference(with_answers(bare, some)) for some in (answers[:-1], [*answers, 1]))
    assert few == f"the compiler asks a question after the {len(answers) - 1} of the log"
    assert many == f"the compiler asks only {len(answers)} of the {len(answers) + 1} questions of the log"
    answers[np.flatnonzero(answers)[-1]] = 0  # so late that nothing else is asked because of it, or a little
    found = difference(with_answers(bare, answers))
    assert "another object file" in found or "question" in found


def test_a_policy_is_held_against_the_record(difference, toolchain, episode):
    assert not difference(episode, EchoAdvisor(toolchain.quirks.default_slot))
    first = int(np.flatnonzero(answers_of(episode) != 0)[0])
    assert difference(episode, ConstantAdvisor(0)) == f"question {first}: answered 0, logged 1"


def test_luck_is_replayed(difference, toolchain, task, settings, source):
    lucky, unlucky = (random_inliner(Setting(seed, "m", 0.5, "")) for seed in (3, 4))
    result = compile_under_advice(toolchain, task, source, lucky, settings)
    episode = logged(toolchain, task, settings, source, "random:3", result, told=False)
    assert [bool(difference(episode, one)) for one in (None, lucky, unlucky)] == [False, False, True]


def test_another_object_or_other_sizes_after_the_same_answers_are_a_difference(difference, episode):
    result = episode.result
    other = replace(result, object_sha256=almost(result.object_sha256))
    smaller = replace(result, scores={**result.scores, "text_bytes": result.scores["text_bytes"] - 1})
    assert difference(replace(episode, result=other)).startswith("same answers, but another object file: ")
    assert "measures otherwise" in difference(replace(episode, result=smaller))


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


TEXT, SPILLS = get_measure("text_bytes"), get_measure("spill_cost")
HEADER = Header(
    (TensorSpec("size", np.dtype(np.int64), (1,)), TensorSpec("mask", np.dtype(np.uint8), (3,))),
    TensorSpec("decision", np.dtype(np.int64), (1,)),
)
FORMATS = {"int64_t": "q", "uint8_t": "B", "float": "f"}


def compiled(contexts, data: bytes, spills=None) -> CompileResult:
    """A compile of 777 bytes whose observations and answers are taken from the data."""
    count = sum(number for _, number in contexts)
    return CompileResult(
        scores(700, 777),
        "ab" * 32,
        0.1,
        header=HEADER,
        contexts=tuple(contexts),
        answers=np.arange(count, dtype=np.int64).tobytes(),
        observations=data[: count * HEADER.payload_bytes],
        spills=spills,
    )


def read_line_by_line(data: bytes) -> list[tuple]:
    """As readers of others do: a line, tensors by the lengths of the header, a line.

    Like LLVM's own reader this one takes for granted that a question follows each context, and a reward each question.
    """
    file, context, found = io.BytesIO(data), None, []
    header = json.loads(file.readline())
    assert set(header) == {"features", "score"}

    def tensor(spec):
        code = f"={math.prod(spec['shape'])}{FORMATS[spec['type']]}"
        return struct.unpack(code, file.read(struct.calcsize(code)))

    while line := file.readline():
        event = json.loads(line)
        if "context" in event:
            context, event = event["context"], json.loads(file.readline())
        tensors = [tensor(spec) for spec in header["features"]]
        assert file.readline() == b"\n"
        assert json.loads(file.readline())["outcome"] == event["observation"]
        found.append((context, event["observation"], tensors, *tensor(header["score"])))
        assert file.readline() == b"\n"
    return found


def test_a_log_by_hand(tmp_path):
    data = struct.pack("<q3Bq3Bq3B", 5, 1, 0, 1, -6, 10, 34, 123, 7, 0, 0, 0)
    write_training_log(tmp_path / "log", compiled([("f", 1), ("none", 0), ("g", 1), ("f", 1)], data), TEXT)
    spec = '{"name":"%s","type":"%s","port":0,"shape":[%d]}'
    features = ",".join(
        [spec % ("size", "int64_t", 1), spec % ("mask", "uint8_t", 3), spec % ("decision", "int64_t", 1)]
    )
    score = spec % ("reward", "float", 1)
    questions = [
        (b"f", 0, struct.pack("<q3Bq", 5, 1, 0, 1, 0), 0.0),
        (b"g", 0, struct.pack("<q3Bq", -6, 10, 34, 123, 1), 0.0),
        (b"f", 1, struct.pack("<q3Bq", 7, 0, 0, 0, 2), 777.0),
    ]
    assert (tmp_path / "log").read_bytes() == f'{{"features":[{features}],"score":{score}}}\n'.encode() + b"".join(
        b'{"context":"%b"}\n{"observation":%d}\n%b\n{"outcome":%d}\n%b\n'
        % (context, number, payload, number, struct.pack("<f", reward))
        for context, number, payload, reward in questions
    )


def test_costs_of_functions_are_told_at_the_end_of_each(tmp_path):
    spills = (
        SpillCosts("f", 1, 2.5),
        SpillCosts("not asked about", 1, 7.0),
        SpillCosts("g", num_reloads=1, reloads_cost=2.0),
    )
    contexts = [("f", 2), ("g", 1), ("h", 1)]
    write_training_log(tmp_path / "log", compiled(contexts, bytes(44), spills), SPILLS)
    rewards = [(context, reward) for context, _, _, reward in read_line_by_line((tmp_path / "log").read_bytes())]
    assert rewards == [("f", 0.0), ("f", 2.5), ("g", 8.0), ("h", 0.0)]  # a load weighs 4


@settings(max_examples=60)
@given(
    contexts=st.lists(st.tuples(st.sampled_from(["", "f", 'q"\n', "g"]), st.integers(0, 3)), min_size=1), data=st.data()
)
def test_both_readers_get_what_was_written(tmp_path_factory, contexts, data):
    path = tmp_path_factory.mktemp("log") / "log"
    count = sum(number for _, number in contexts)
    observations = data.draw(st.binary(min_size=11 * count, max_size=11 * count))
    result = compiled(contexts, observations)
    if not count:
        with pytest.raises(ArtifactError, match="asked nothing"):
            write_training_log(path, result, TEXT)
        return
    write_training_log(path, result, TEXT)
    names = [name for name, number in contexts for _ in range(number)]
    found = read_line_by_line(path.read_bytes())
    assert [one[0] for one in found] == names
    assert [one[1] for one in found] == [names[:place].count(name) for place, name in enumerate(names)]
    assert b"".join(struct.pack("<q3B", *size, *mask) for _, _, (size, mask, _), _ in found) == observations
    assert [answer for _, _, (_, _, (answer,)), _ in found] == list(range(count))
    assert [one[3] for one in found] == [0.0] * (count - 1) + [777.0]
    events = LogParser().feed(path.read_bytes())
    assert [one.payload for one in events if type(one) is RawObservation] == [
        observations[11 * place : 11 * place + 11] + struct.pack("<q", place) for place in range(count)
    ]
    assert [one.payload for one in events if type(one) is Outcome] == [struct.pack("<f", one[3]) for one in found]
    assert {one.name for one in events if type(one) is Context} == set(names)


@pytest.mark.parametrize(
    ("result", "measure", "message"),
    [
        (compiled([("", 1)], bytes(11)), "dedup_bytes", "dedup_bytes of this compile is not known"),
        (replace(compiled([], b""), header=None), "text_bytes", "the compiler asked nothing"),
    ],
    ids=["score", "questions"],
)
def test_what_one_compile_does_not_tell(result, measure, message, tmp_path):
    with pytest.raises(ArtifactError, match=message):
        write_training_log(tmp_path / "log", result, get_measure(measure))


def test_the_real_compiler(toolchain, task, settings, sample, tmp_path):
    advisor = random_inliner(Setting(3, "m", 0.5, ""))
    result = compile_under_advice(toolchain, task, sample("json/parser.cpp"), advisor, settings, record=True)
    write_training_log(tmp_path / "log", result, TEXT)
    found = read_line_by_line((tmp_path / "log").read_bytes())
    assert len(found) == result.num_questions > 10
    expected = result.header.scalars(result.observations).tolist()
    assert [[value for (value,) in tensors[:-1]] for _, _, tensors, _ in found] == expected
    assert [tensors[-1][0] for _, _, tensors, _ in found] == np.frombuffer(result.answers, np.int64).tolist()
    assert found[-1][3] == result.scores["text_bytes"]
