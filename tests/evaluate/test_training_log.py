"""Compiles in the format of LLVM's training logs: read back by our parser, and as readers of others read them."""

import io
import json
import math
import struct
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from mlgo.base.types import TensorSpec
from mlgo.errors import ArtifactError
from mlgo.evaluate.logged import write_training_log
from mlgo.host.log import Context, Header, LogParser, Outcome, RawObservation
from mlgo.host.session import CompileResult, compile_under_advice
from mlgo.host.tasks.inline import random_inliner
from mlgo.host.tasks.task import Setting
from mlgo.objects.measures import get_measure
from mlgo.objects.remarks import SpillCosts
from tests.fakes.scores import scores

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
