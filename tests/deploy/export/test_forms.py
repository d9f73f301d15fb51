"""Every form decides as the policy does, ties included."""

import numpy as np
import pytest

from mlgo.deploy.export import FORMS
from mlgo.deploy.export.form import recorded_questions
from mlgo.errors import PolicyError
from mlgo.policy.vocabulary import values_of
from tests.deploy.export.cases import CASES, COLUMNS, QUICK, TIES

BY_TASK = [pytest.param(task, marks=[] if task in QUICK else pytest.mark.slow) for task in CASES]


@pytest.fixture(scope="module", params=BY_TASK)
def exported(request, export):
    policy, make_trace, *_ = CASES[request.param]
    return export(policy, make_trace())


@pytest.mark.parametrize("form", FORMS)
def test_decisions_are_the_policys(exported, form):
    decisions = exported.decisions(form)
    parity = exported.compare(decisions)
    assert decisions.dtype == exported.policy.actions.dtype
    assert (parity.questions, parity.mismatches) == (exported.trace.num_rows, 0)
    assert parity.ambiguous <= 3
    if exported.policy.task == "inline-size":
        assert 100 < parity.inlined < exported.trace.num_rows - 100  # not a constant
    elif exported.policy.task == "regalloc-evict":
        assert len(set(decisions.tolist())) == COLUMNS
        assert values_of(exported.trace, "mask")[np.arange(len(decisions)), decisions].all()
    else:
        assert len(set(decisions.tolist())) > 250


@pytest.mark.parametrize("form", FORMS)
def test_a_wrong_decision_is_found(exported, form):
    decisions = exported.decisions(form).copy()
    if exported.policy.task == "inline-size":
        decisions[0] ^= 1
    elif exported.policy.task == "regalloc-evict":
        legal = np.flatnonzero(values_of(exported.trace, "mask")[7])
        decisions[7] = next(column for column in legal if column != decisions[7])
    else:
        decisions[7] *= 0.99
    with pytest.raises(PolicyError, match=f"differs from the policy in 1 of {len(decisions)} decisions"):
        exported.compare(decisions)


@pytest.mark.parametrize("form", FORMS)
def test_the_folder_is_replaced_and_nothing_is_left_beside_it(exported, form):
    assert not (exported.folder / form / "old").exists()
    assert not [path.name for path in exported.folder.iterdir() if path.name.startswith(".")]


@pytest.mark.parametrize("task", TIES)
def test_ties_are_decided_as_by_hand_and_by_the_policy(task, export):
    policy, trace, decisions = TIES[task]()
    asked = recorded_questions(trace, policy)
    logits = policy.logits(policy.actions.pack(np, asked, policy.normalisation.features))
    assert policy.actions.greedy(np, logits).tolist() == decisions.tolist()
    exported = export(policy, trace)
    assert {form: exported.decisions(form).tolist() for form in FORMS} == dict.fromkeys(FORMS, decisions.tolist())
