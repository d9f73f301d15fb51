"""Faults that a real compiler cannot be made to show: a scripted one over the same FIFOs."""

import contextlib
import json
import resource
import signal
import time
import zlib

import numpy as np
import pytest

from mlgo.errors import (
    ChannelTimeout,
    CompileError,
    CompilerExit,
    CompileTimeout,
    ObjectError,
    PolicyError,
    ProtocolError,
    ToolchainError,
)
from mlgo.host.conversation import AnswerPrefix, KnownContext
from mlgo.host.session import compile_plain, compile_under_advice
from mlgo.host.tasks.task import ConstantAdvisor, EchoAdvisor
from mlgo.host.toolchain import Toolchain
from tests.conftest import all_end, processes_naming
from tests.fakes.elf import ALLOC, EXEC, PROGBITS, elf_object
from tests.fakes.policies import linear_policy

SLACK_S = 10.0
"""How late a deadline may be met on a busy machine; what hangs, hangs for ever."""

# Bytes of the protocol, written by hand.
SPEC = '{"name":"%s","type":"int64_t","port":0,"shape":[1]}'
HEADER = f'{{"features":[{SPEC % "a"},{SPEC % "b"}],"advice":{SPEC % "inlining_decision"}}}\n'
CONTEXT = '{"context":""}\n'
OBJECT = elf_object([(PROGBITS, ALLOC | EXEC, 10), (PROGBITS, ALLOC, 6)]).decode("latin-1")


def observation(number: int, a: int = 0, b: int = 0) -> str:
    tensors = np.array([a, b], "<i8").tobytes().decode("latin-1")
    return f'{{"observation":{number}}}\n{tensors}\n'


START = [["open"], ["send", HEADER], ["send", CONTEXT]]
FIRST = [["send", observation(0, 1, 2)], ["answer"]]
SECOND = [["send", observation(1, 3, 4)], ["answer"]]
END = [["object", OBJECT]]
FATAL, CAUSE = ["stderr", 1, "fatal error: broken\n"], ["stderr", 1, "the cause\n"]

CUTS = {
    "before the header": [["open"]],
    "before opening": [],
    "in the header": [["open"], ["send", HEADER[:40]]],
    "after the header": [["open"], ["send", HEADER]],
    "between questions": [*START, *FIRST],
    "in a tensor": [*START, *FIRST, ["send", observation(1, 3, 4)[:25]]],
    "before the line feed": [*START, *FIRST, ["send", observation(1, 3, 4)[:-1]]],
    "after the last answer": [*START, *FIRST, *SECOND],
    "after the object": [*START, *FIRST, *SECOND, *END],
}


@pytest.fixture
def run(fake, task, settings, tmp_path, leaves_nothing):
    """Let the fake do its steps under an advisor; nothing may stay behind, whatever happens."""

    def go(steps, advisor=None, known=None, **changes):
        module = tmp_path / "steps.json"
        module.write_text(json.dumps(steps))
        limits = settings.model_copy(update=changes)
        try:
            with leaves_nothing():
                try:
                    return compile_under_advice(
                        fake, task, module, advisor or ConstantAdvisor(1), limits, record=True, known=known
                    )
                except CompileError as error:
                    caught = error
            raise caught
        finally:
            assert not processes_naming(str(fake.binary))

    return go


def test_a_good_conversation(run, tmp_path):
    log = tmp_path / "answers"
    result = run([*START, *FIRST, *SECOND, ["log_answers", str(log)], *END], EchoAdvisor("b"))
    assert np.frombuffer(log.read_bytes(), np.int64).tolist() == [2, 4]  # what the compiler received
    assert result.answers == log.read_bytes()
    assert result.header.scalars(result.observations).tolist() == [[1, 2], [3, 4]]
    assert result.contexts == (("", 2),)
    assert (result.scores["exec_bytes"], result.scores["text_bytes"]) == (10, 16)


def test_bytes_may_come_in_any_pieces(run):
    text = HEADER + CONTEXT + observation(0, 10, 10)  # 10 is a line feed
    pieces = [["send", piece] for piece in text]
    result = run([["open"], *pieces, ["answer"], *SECOND, *END], EchoAdvisor("a"))
    assert np.frombuffer(result.answers, np.int64).tolist() == [10, 3]


OTHER = ["send", '{"context":"f"}\n']


@pytest.mark.parametrize(
    ("steps", "contexts"),
    [
        ([*START, *FIRST, OTHER, *FIRST, START[2], *SECOND, OTHER], (("", 1), ("f", 1), ("", 1), ("f", 0))),
        ([["open"], ["send", HEADER], *FIRST], (("", 1),)),
        ([*START, *FIRST, ["close"]], (("", 1),)),
    ],
    ids=["several", "no line", "closed early"],
)
def test_questions_are_counted_by_context(steps, contexts, run):
    assert run([*steps, *END]).contexts == contexts


@pytest.mark.parametrize("cut", CUTS)
def test_killed(cut, run):
    with pytest.raises(CompilerExit, match="signal 9"):
        run([*CUTS[cut], ["kill", signal.SIGKILL]])


@pytest.mark.parametrize(
    ("cut", "error", "message", "limit"),
    [
        *((cut, ChannelTimeout, r"silent for 0\.4 s", "answer_timeout_s") for cut in CUTS),
        *((cut, CompileTimeout, r"0\.4 s", "compile_timeout_s") for cut in ("before the header", "in a tensor")),
        ("after the object", CompileTimeout, r"0\.4 s", "compile_timeout_s"),
    ],
)
def test_silence_ends_at_a_deadline(cut, error, message, limit, run):
    start = time.monotonic()
    with pytest.raises(error, match=message):
        run([*CUTS[cut], ["hang"]], **{limit: 0.4})
    assert 0.4 <= time.monotonic() - start < 0.4 + SLACK_S


@pytest.mark.timeout(20)
@pytest.mark.parametrize("step", ["flood_stderr", "flood_questions"])
def test_an_endlessly_busy_compiler_meets_its_deadline(step, run):
    start = time.monotonic()
    with pytest.raises(CompileTimeout):
        run([*START, [step]], compile_timeout_s=0.5, answer_timeout_s=0.5)
    assert time.monotonic() - start < 0.5 + SLACK_S


FLOATS = f'{{"features":[{SPEC % "a"},%s,%s],"advice":{SPEC % "inlining_decision"}}}\n' % (
    (SPEC % "x").replace("int64_t", "float"),
    (SPEC % "y").replace("int64_t", "double"),
)
UNUSUAL = [np.nan, np.inf, -np.inf, -0.0, 5e-324]


def float_steps() -> list:
    steps = [["open"], ["send", FLOATS], ["send", CONTEXT]]
    for number, value in enumerate(UNUSUAL):
        tensors = np.int64(number).tobytes() + np.float32(value).tobytes() + np.float64(value).tobytes()
        steps += [["send", f'{{"observation":{number}}}\n{tensors.decode("latin-1")}\n'], ["answer"]]
    return [*steps, *END]


def test_features_that_are_no_number_or_infinite_pass_unharmed(run):
    result = run(float_steps(), EchoAdvisor("a"))
    assert np.frombuffer(result.answers, np.int64).tolist() == list(range(len(UNUSUAL)))
    width = result.header.payload_bytes
    assert width == 20
    rows = [result.header.unpack(result.observations[i * width : (i + 1) * width]) for i in range(len(UNUSUAL))]
    for name, dtype in (("x", np.float32), ("y", np.float64)):
        seen = np.concatenate([row[name] for row in rows])
        assert seen.tobytes() == np.array(UNUSUAL, dtype).tobytes()  # to the bit: NaN equals nothing, 0 equals -0
    policy = linear_policy("inline-size", ["a"], [1.0, 1.0])  # a is 0, 1, 2 and so on: slog(a) + 1 is above 0
    assert run(float_steps(), policy).answers == np.ones(len(UNUSUAL), np.int64).tobytes()


@pytest.mark.parametrize("name", ["x", "y"])
def test_a_float_is_not_echoed_as_an_integer(name, run, leaves_nothing):
    with leaves_nothing(), pytest.raises(PolicyError, match=f"'{name}' cannot be echoed as int64"):
        run(float_steps(), EchoAdvisor(name))


# What else the parser of the log refuses, its own tests say.
BAD_TALKS = {
    "no advice": [["send", '{"features":[%s]}\n' % (SPEC % "a")]],
    "training log": [["send", f'{{"features":[{SPEC % "a"}],"score":{SPEC % "reward"}}}\n']],
    "surplus text between questions": [*START[1:], *FIRST, ["send", "warning: something\n"]],
    "outcome on a channel": [*START[1:], *FIRST, ["send", '{"outcome":0}\n' + 8 * "\0" + "\n"]],
    "second header": [*START[1:], ["send", HEADER]],
}


@pytest.mark.parametrize("kind", BAD_TALKS)
def test_bad_talks(kind, run):
    with pytest.raises(ProtocolError):
        run([["open"], *BAD_TALKS[kind], ["hang"]], answer_timeout_s=5.0)


@pytest.mark.parametrize(
    ("steps", "error", "message"),
    [
        ([["open"], ["send", observation(0)], ["hang"]], ProtocolError, None),
        ([*START, *FIRST, ["send", "surplus"], *END], ProtocolError, "middle of a message"),
        ([*CUTS["in a tensor"], *END], ProtocolError, "middle of a message"),
        (END, ProtocolError, "without opening the channel"),
        ([*START, *FIRST, FATAL, ["exit", 74]], CompilerExit, "status 74: fatal error: broken"),
        ([*START, FATAL, ["stderr", 50, "remark: noise\n"], ["exit", 1]], CompilerExit, "fatal error: broken"),
        ([*START, CAUSE, ["stderr", 50, "remark: noise\n"], ["exit", 1]], CompilerExit, "the cause"),
        *(
            ([*START, *FIRST, ["object", OBJECT[:size]]], ObjectError, None)
            for size in (0, 3, 63, 100, len(OBJECT) - 1)
        ),
        ([*START, *FIRST], ObjectError, "wrote no object"),
        ([*START, *FIRST, ["close"], ["hang"]], ChannelTimeout, None),
        ([*START, *FIRST, ["chatter", 0.1]], ChannelTimeout, None),
    ],
)
def test_compiles_that_end_too_early(steps, error, message, run):
    with pytest.raises(error, match=message):
        run(steps, answer_timeout_s=0.4 if error is ChannelTimeout else 20.0)


@pytest.mark.parametrize("length", [0, 4, 16])
def test_answers_of_the_wrong_length_are_refused(length, run, leaves_nothing):
    class Wrong:
        def respond_to(self, header):
            return lambda payload: bytes(length)

    with leaves_nothing(), pytest.raises(PolicyError, match=f"an answer of {length} bytes where 8 are due"):
        run([*START, *FIRST, *END], Wrong(), answer_timeout_s=20.0)


def test_a_compiler_that_does_not_read_its_answers(run):
    # The first 65536 bytes of answers fit into the pipe; a question more does not.
    questions = [["send", "".join(observation(i) for i in range(k, k + 100))] for k in range(0, 9000, 100)]
    with pytest.raises(CompileError, match="does not read its answers"):
        run([*START, *questions, ["hang"]], answer_timeout_s=5.0)


def test_a_hundred_megabytes_of_stderr(run):
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    lines = 100_000_000 // 8
    result = run([*START, ["stderr", lines, "warning\n"], *FIRST, ["stderr", lines // 10, "warning\n"], *END])
    assert result.num_questions == 1
    assert not result.truncated
    assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before < 10_000  # kilobytes


def test_the_size_stop_is_seen_in_any_part_of_stderr(run):
    remark = "remark: <unknown>:0:0: module size grew too much [-Rpass-missed=inline-ml]\n"
    noise = ["stderr", 40_000, "noise, "]
    assert run([*START, *FIRST, noise, ["stderr", 1, remark], noise, *END]).truncated
    halves = [["stderr", 1, "module size gr"], ["stderr", 1, "ew too much"]]
    assert run([*START, halves[0], *FIRST, halves[1], *END]).truncated
    assert not run([*START, halves[1], *FIRST, halves[0], *END]).truncated


def test_grandchildren_of_a_hanging_compiler_are_killed(run, tmp_path):
    with pytest.raises(ChannelTimeout):
        run([["spawn"], *START, ["hang"]], answer_timeout_s=0.4)
    assert all_end("sleep\x00300")


@pytest.mark.parametrize(
    ("steps", "error", "message"),
    [
        ([["hang"]], CompileTimeout, None),
        ([["stderr", 1, "error: no\n"], ["exit", 3]], CompilerExit, "status 3: error: no"),
        ([], ObjectError, "no object"),
    ],
)
def test_plain_compiles_are_bounded_too(steps, error, message, fake, settings, tmp_path, leaves_nothing):
    (module := tmp_path / "steps.json").write_text(json.dumps(steps))
    limits = settings.model_copy(update={"compile_timeout_s": 0.4} if error is CompileTimeout else {})
    with leaves_nothing(), pytest.raises(error, match=message):
        compile_plain(fake, module, limits)


def test_a_compiler_that_has_vanished(fake, task, settings, tmp_path, leaves_nothing):
    gone = Toolchain(tmp_path / "gone", False, (22, 1, 8), fake.target)
    with leaves_nothing(), pytest.raises(ToolchainError, match="cannot start"):
        compile_under_advice(gone, task, tmp_path / "m", ConstantAdvisor(1), settings)


def test_a_full_object_is_stored_only_on_success(fake, task, settings, tmp_path):
    module, kept = tmp_path / "steps.json", tmp_path / "kept.o"
    for text, expected in ((OBJECT[:-1], pytest.raises(ObjectError)), (OBJECT, contextlib.nullcontext())):
        assert not kept.exists()
        module.write_text(json.dumps([*START, *FIRST, ["object", text]]))
        with expected:
            compile_under_advice(fake, task, module, ConstantAdvisor(1), settings, object_path=kept)
    assert kept.read_bytes() == OBJECT.encode("latin-1")


def test_a_known_question_that_comes_in_one_piece_with_its_context(run, tmp_path):
    """It follows an unknown one, so its answer could not be sent before; no other message makes the host send it."""
    question = np.array([5, 6], "<i8").tobytes()
    seven = (7).to_bytes(8, "little")
    path = AnswerPrefix((KnownContext("f", (), b""), KnownContext("g", (zlib.crc32(question),), seven, is_whole=True)))
    both = [["send", '{"context":"g"}\n' + observation(0, 5, 6)], ["answer"]]
    talk = [OTHER, *FIRST, *both, ["log_answers", str(tmp_path / "answers")]]
    result = run([["open"], ["send", HEADER], *talk, *END], ConstantAdvisor(1), path, answer_timeout_s=5.0)
    expected = (1).to_bytes(8, "little") + seven
    assert (result.answers, (tmp_path / "answers").read_bytes()) == (expected, expected)
    assert result.contexts == (("f", 1), ("g", 1))
    assert result.observations == np.array([1, 2], "<i8").tobytes()
