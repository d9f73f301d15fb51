"""Every form decides as the policy does, ties included."""

import numpy as np
import pyarrow as pa
import pytest

from mlgo.deploy.export import FORMS
from mlgo.deploy.export.form import recorded_questions
from mlgo.host.tasks.task import get_task
from mlgo.policy.vocabulary import values_of
from tests.deploy.export.cases import CASES, COLUMNS, TIES


@pytest.mark.parametrize(
    "task", [pytest.param(one, marks=pytest.mark.slow if one != "inline-size" else []) for one in CASES]
)
def test_decisions_are_the_policys_and_the_folder_is_replaced(task, export):
    policy, make_trace, *_ = CASES[task]
    exported = export(policy, make_trace())
    assert not list(exported.folder.glob(".*"))  # nothing is left beside it
    for form in FORMS:
        assert not (exported.folder / form / "old").exists()
        decisions = exported.decisions(form)
        parity = exported.compare(decisions)
        assert decisions.dtype == policy.actions.dtype
        assert (parity.questions, parity.mismatches) == (exported.trace.num_rows, 0)
        assert parity.ambiguous <= 3
        if policy.task == "inline-size":
            assert 100 < parity.inlined < exported.trace.num_rows - 100  # not a constant
        elif policy.task == "regalloc-evict":
            assert len(set(decisions.tolist())) == COLUMNS
            assert values_of(exported.trace, "mask")[np.arange(len(decisions)), decisions].all()
        else:
            assert len(set(decisions.tolist())) > 250


@pytest.mark.parametrize("task", ["regalloc-priority", pytest.param("regalloc-evict", marks=pytest.mark.slow)])
def test_numbers_that_are_not_finite_are_repaired(task, export):
    """The compiler itself sends them; the host's guard repairs them, a built-in model must do so, too."""
    policy, make_trace, *_ = CASES[task]
    trace, ((feature, value),) = make_trace(), get_task(task).not_finite.items()
    (row,) = trace.slice(0, 1).to_pylist()
    kept = row[feature][1:] if task == "regalloc-evict" else None
    numbers = (np.inf, np.nan, float(value), 0.5)
    rows = [row | {feature: number if kept is None else [number, *kept]} for number in numbers]
    exported = export(policy, pa.Table.from_pylist(rows, schema=trace.schema))
    for form in FORMS:
        infinite, nan, repaired, other = exported.decisions(form).tolist()
        assert infinite == nan == repaired
        assert task == "regalloc-evict" or other != repaired


@pytest.mark.parametrize("task", TIES)
def test_ties_are_decided_as_by_hand_and_by_the_policy(task, export):
    policy, trace, decisions = TIES[task]()
    asked = recorded_questions(trace, policy)
    logits = policy.logits(policy.actions.pack(np, asked, policy.normalisation.features))
    assert policy.actions.greedy(np, logits).tolist() == decisions.tolist()
    exported = export(policy, trace)
    assert {form: exported.decisions(form).tolist() for form in FORMS} == dict.fromkeys(FORMS, decisions.tolist())
