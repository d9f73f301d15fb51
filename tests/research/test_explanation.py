"""Departures from the heuristic taken back, with the real compiler, on modules small enough to do it by hand."""

from dataclasses import dataclass, replace

import numpy as np
import pyarrow as pa
import pytest

from mlgo.base.artifacts import RESULTS
from mlgo.corpus.store import Module
from mlgo.errors import ArtifactError
from mlgo.evaluate import CompileHost
from mlgo.host.session import compile_under_advice
from mlgo.host.tasks.task import EchoAdvisor, RecordedAdvisor
from mlgo.host.toolchain import Quirks
from mlgo.policy.features import Normalisation
from mlgo.policy.network import Architecture
from mlgo.policy.policy import Policy
from mlgo.research.commands.explain import SHOWN_FEATURES, Regression, explain_regressions, worst_regressions
from tests.evaluate.test_headroom import ONE_FLIP

MODULE = Module("p", "m.c", "c", "test", "a" * 64)


@dataclass(frozen=True)
class HidingQuirks(Quirks):
    """A compiler of which the default must be asked for apart, as of LLVM 17 to 20."""

    @property
    def default_hides_a_feature(self):
        return True


@pytest.fixture
def always(task):
    """Inlines everything, the surer the fewer calls there are in the module."""
    scaling = Normalisation(("edge_count",), np.zeros(1, np.float32), np.ones(1, np.float32))
    return Policy(task.name, scaling, Architecture((1, 1)), np.array([-1, 10], np.float32))


@pytest.mark.parametrize("quirks", [Quirks(), HidingQuirks()])
def test_each_flip_is_the_compile_with_that_answer(toolchain, task, settings, bitcode, always, quirks):
    path = bitcode(ONE_FLIP)

    def compiled(advisor, **options):
        return compile_under_advice(toolchain, task, path, advisor, settings, **options)

    heuristic = compiled(EchoAdvisor(toolchain.quirks.default_slot), with_heuristic_feature=True)
    policy = compiled(always)
    regression = Regression(MODULE, heuristic.scores["text_bytes"], policy.scores["text_bytes"])
    assert policy.scores["text_bytes"] > heuristic.scores["text_bytes"]
    with CompileHost(toolchain, task.name, settings, 1) as host:

        def explained(regression, max_flips):
            bitcodes = {MODULE.key: path}
            return explain_regressions(host, task, quirks, always, [regression], bitcodes, "text_bytes", max_flips)

        (found,), (one,) = explained(regression, 20), explained(regression, 1)
        with pytest.raises(ArtifactError, match="run the evaluate stage again"):
            explained(replace(regression, policy_bytes=policy.scores["text_bytes"] + 1), 1)
    # The heuristic inlines the only call of ``once`` and none of the three of ``often``; but once two of these are
    # inlined, the third is the only call left, and it would do as the policy does.
    assert (found.num_questions, found.num_differing, len(found.flips)) == (4, 2, 2)
    assert {(flip.policy_answer, flip.heuristic_answer, flip.times) for flip in found.flips} == {(1, 0, 1)}

    def change(*questions):
        answers = np.ones(4, np.int64)
        answers[list(questions)] = 0
        return compiled(RecordedAdvisor(answers.tobytes())).scores["text_bytes"] - policy.scores["text_bytes"]

    # The calls of ``often`` in g, h and k are questions 0, 2 and 3. When h's is not inlined, k's looks just like it,
    # and the flip holds for both.
    assert {flip.question: flip.change_bytes for flip in found.flips} == {0: change(0), 2: change(2, 3)}
    for flip in found.flips:
        assert tuple(flip.features) == SHOWN_FEATURES
        assert 10 - np.log1p(99) < flip.logit < 10
    changes = [flip.change_bytes for flip in found.flips]
    assert changes == sorted(changes)
    # With g's call refused, the module has not grown, so h's question is not the one of the flip, and the policy
    # inlines; k's then looks as h's did.
    assert found.together_bytes == change(0, 3)
    assert len({flip.logit for flip in found.flips}) == 2
    surest = max(found.flips, key=lambda flip: flip.logit)
    assert one.flips == (surest,)
    assert one.together_bytes == surest.change_bytes


def results(*rows):
    names = ("module", "policy", "seed", "split", "text_bytes", "baseline_text_bytes", "failure")
    rest = {"project": "p", "language": "c", "exec_bytes": 1, "baseline_exec_bytes": 1, "num_questions": 1}
    more = {"num_inlined": 0, "truncated": False, "message": ""}
    records = [{**rest, **more, **dict(zip(names, row, strict=True))} for row in rows]
    return pa.Table.from_pylist(records, RESULTS.remove_metadata())


def test_the_worst_come_first():
    table = results(
        ("a.c", "es", 0, "test", 110, 100, ""),
        ("b.c", "es", 0, "test", 1050, 1000, ""),
        ("c.c", "es", 0, "test", 100, 100, ""),  # as large as under the heuristic
        ("d.c", "es", 0, "test", None, 100, "timeout"),
        ("e.c", "es", 0, "train", 900, 100, ""),
        ("f.c", "bc", 0, "test", 900, 100, ""),
        ("g.c", "es", 0, "test", 240, 200, ""),
    )
    modules = [Module("p", f"{name}.c", "c", "test", "") for name in "abcdefg"]

    def names(count, policy="es-s0", split="test"):
        worst = worst_regressions(table, modules, policy, split, "text_bytes", count)
        return [one.module.name for one in worst]

    assert names(5) == ["g.c", "a.c", "b.c"]
    assert names(1) == ["g.c"]
    assert names(5, "bc-s0") == ["f.c"]
    assert worst_regressions(table, modules, "es-s0", "train", "exec_bytes", 5) == []
    with pytest.raises(ArtifactError, match=r"no modules of ppo-s0 on test; it holds: bc-s0 on test, es-s0 on test"):
        names(5, "ppo-s0")
    with pytest.raises(ArtifactError, match=r"p/g.c was evaluated, but is not in the corpus"):
        worst_regressions(table, modules[:6], "es-s0", "test", "text_bytes", 1)
