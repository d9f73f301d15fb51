"""Advisors without weights."""

import struct

import numpy as np
import pytest

from mlgo.base.types import TensorSpec
from mlgo.errors import PolicyError, ProtocolError
from mlgo.host.log import Header
from mlgo.host.tasks.inline import random_inliner
from mlgo.host.tasks.task import ConstantAdvisor, EchoAdvisor, RecordedAdvisor, Setting
from tests.host.actions.cases import answers

INT64, FLOAT = np.dtype(np.int64), np.dtype(np.float32)
HEADER = Header(
    (TensorSpec("a", INT64, (1,)), TensorSpec("wide", INT64, (2,)), TensorSpec("b", INT64, (1,))),
    TensorSpec("decision", INT64, (1,)),
)
PAYLOAD = np.array([11, 12, 13, 14], np.int64).tobytes()


def value(answer):
    assert len(answer) == 8
    return int(np.frombuffer(answer, np.int64)[0])


def test_echo():
    payloads = [PAYLOAD, np.array([-1, 0, 0, 2**40], np.int64).tobytes()]
    assert answers(EchoAdvisor("a"), HEADER, payloads) == [11, -1]
    assert answers(EchoAdvisor("b"), HEADER, payloads) == [14, 2**40]
    with pytest.raises(PolicyError, match="'wide'"):
        EchoAdvisor("wide").respond_to(HEADER)
    with pytest.raises(ProtocolError, match="'c'"):
        EchoAdvisor("c").respond_to(HEADER)
    with pytest.raises(PolicyError, match="float32"):
        EchoAdvisor("a").respond_to(Header(HEADER.features, TensorSpec("d", FLOAT, (1,))))


@pytest.mark.parametrize("constant", [0, 1, -1, 2**40])
def test_constant(constant):
    respond = ConstantAdvisor(constant).respond_to(HEADER)
    assert [value(respond(PAYLOAD)) for _ in range(3)] == [constant] * 3
    respond = ConstantAdvisor(constant).respond_to(Header(HEADER.features, TensorSpec("d", FLOAT, (1,))))
    assert respond(PAYLOAD) == struct.pack("<f", constant)  # in the header's type


def draws(advisor, count=1000):
    respond = advisor.respond_to(HEADER)
    return [value(respond(PAYLOAD)) for _ in range(count)]


def test_random():
    advisor = random_inliner(Setting(0, "m", 0.3, ""))
    assert draws(advisor) == draws(advisor)
    assert draws(advisor) != draws(random_inliner(Setting(1, "m", 0.3, "")))
    assert draws(advisor) != draws(random_inliner(Setting(0, "n", 0.3, "")))
    assert abs(np.mean(draws(advisor)) - 0.3) < 0.06  # 4 standard deviations
    assert set(draws(random_inliner(Setting(0, "m", 0.0, "")))) == {0}
    assert set(draws(random_inliner(Setting(0, "m", 1.0, "")))) == {1}


def test_recorded():
    advisor = RecordedAdvisor(np.array([5, 0, 7], np.int64).tobytes())
    for _ in range(2):  # every compile starts from the first answer
        respond = advisor.respond_to(HEADER)
        assert [value(respond(b"")) for _ in range(3)] == [5, 0, 7]
        with pytest.raises(PolicyError, match="only 3 answers"):
            respond(b"")


@pytest.mark.parametrize(
    "advisor", [EchoAdvisor("a"), ConstantAdvisor(1), random_inliner(Setting(0, "", 0.5, "")), RecordedAdvisor(b"")]
)
@pytest.mark.parametrize("advice", [None, TensorSpec("d", INT64, (2,))])
def test_only_single_numbers_can_be_answered(advisor, advice):
    with pytest.raises(PolicyError, match="single number"):
        advisor.respond_to(Header(HEADER.features, advice))
