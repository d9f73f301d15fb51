"""Register priority with the real compiler; what is expected comes from LLVM's sources and released compilers."""

from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
import pytest

from mlgo.host.log import Header
from mlgo.host.session import CompileResult, compile_plain, compile_under_advice
from mlgo.host.tasks.regalloc import LONGEST
from mlgo.host.tasks.task import ConstantAdvisor, RecordedAdvisor, Responder, Setting, get_task

TASK = get_task("regalloc-priority")


@pytest.fixture(scope="module")
def fast(settings):
    return settings.model_copy(update={"objective": "spill_cost", "optimization": "-O2"})


@pytest.fixture(scope="module")
def module(optimized) -> Path:
    """Bitcode with some spills."""
    return optimized(TASK, "matrix/lu.cpp")


@pytest.fixture(scope="module")
def queued(toolchain, fast, module) -> Callable[..., CompileResult]:
    return lambda advisor, **options: compile_under_advice(toolchain, TASK, module, advisor, fast, **options)


@dataclass(frozen=True)
class OutOfRangeAdvisor:
    """Answers that no unsigned integer can hold, in turn."""

    values: tuple[float, ...] = (np.nan, 1e30, -1.0, np.inf, -np.inf)

    def respond_to(self, header: Header) -> Responder:
        count = 0

        def respond(payload: bytes) -> bytes:
            nonlocal count
            count += 1
            return np.float32(self.values[count % len(self.values)]).tobytes()

        return respond


def test_bad_answers_are_repaired(queued, leaves_nothing):
    with leaves_nothing():
        result = queued(OutOfRangeAdvisor())
    assert result.num_questions > 100
    assert result.num_repaired_answers == result.num_questions
    sent = np.unique(np.frombuffer(result.answers, np.float32))
    assert sent.tolist() == [0.0, 2.0**24]


def test_weights_are_finite_and_counted(toolchain, fast, module, queued):
    """Without the guard the same observations come, infinite where it puts another number."""
    header = (guarded := queued(LONGEST, record=True)).header
    raw = compile_under_advice(toolchain, replace(TASK, guard=None), module, LONGEST, fast, record=True)
    weights = [
        np.frombuffer(one.observations, np.uint8).reshape(-1, header.payload_bytes)[:, header.offset("weight") :]
        for one in (guarded, raw)
    ]
    finite, sent = (np.ascontiguousarray(one[:, :4]).view(np.float32)[:, 0] for one in weights)
    unspillable = np.isinf(sent)
    assert unspillable.any()
    assert not np.isnan(sent).any()
    assert guarded.num_repaired_observations == unspillable.sum()
    assert (finite == np.where(unspillable, np.float32(1e6), sent)).all()
    assert finite[~unspillable].max() < 1e5


def test_priorities_change_the_code(toolchain, fast, module, queued):
    plain = compile_plain(toolchain, module, fast, task=TASK)
    longest, equal, drawn = (
        queued(advisor)
        for advisor in (LONGEST, ConstantAdvisor(0), TASK.references.advisors["random"](Setting(0, "x", 0.5, "")))
    )
    assert len({one.object_sha256 for one in (plain, longest, equal, drawn)}) == 4
    assert len({one.scores["spill_cost"] for one in (plain, longest, equal, drawn)}) == 4


def test_only_the_order_counts_down_to_integers(queued):
    """Whole numbers in the same order give the same code; the compiler drops what is behind the point."""
    first = queued(LONGEST)
    answers = np.frombuffer(first.answers, np.float32)
    ranks = np.unique(np.floor(answers), return_inverse=True)[1].astype(np.float32)
    assert len(np.unique(ranks)) > 50
    assert queued(RecordedAdvisor(ranks.tobytes())).object_sha256 == first.object_sha256
    below_the_point = (ranks / (ranks.max() + 1)).astype(np.float32)
    assert queued(RecordedAdvisor(below_the_point.tobytes() * 2)).object_sha256 == (
        queued(ConstantAdvisor(0)).object_sha256
    )
