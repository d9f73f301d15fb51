"""Every form decides as the policy does, ties included. TensorFlow runs in a process of its own, as in tests/learn."""

from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from mlgo.core.errors import PolicyError
from mlgo.export.forms import FORMS
from mlgo.export.parity import compare_decisions
from mlgo.export.questions import recorded_questions
from mlgo.policy.policy import Policy
from mlgo.policy.stored import save_policy
from mlgo.policy.vocabulary import values_of
from tests.export.cases import CASES, COLUMNS, TIES

PROGRAM = """
import os, sys
from pathlib import Path
import numpy as np
import pyarrow.parquet as pq
from mlgo.export.forms import FORMS
from mlgo.export.questions import recorded_questions
from mlgo.policy.stored import load_policy

folder, os.environ["MLGO_SHARED"] = Path(sys.argv[1]), sys.argv[2]
policy, trace = load_policy(folder / "policy"), pq.read_table(folder / "trace.parquet")
for name, form in FORMS.items():
    (folder / name).mkdir()
    (folder / name / "old").write_text("from an earlier export")
    form.write(policy, trace, folder / name)
    with form.opened(folder / name, policy) as ask:
        np.save(folder / f"{name}.npy", ask(recorded_questions(trace, policy)))
"""
BY_TASK = [pytest.param(task, marks=[] if task == "inline-size" else pytest.mark.slow) for task in CASES]


@dataclass
class Exported:
    """A policy in all forms."""

    folder: Path
    policy: Policy
    trace: pa.Table

    def decisions(self, form):
        return np.load(self.folder / f"{form}.npy")

    def compare(self, decisions):
        asked, policy = recorded_questions(self.trace, self.policy), self.policy
        logits = policy.logits(policy.actions.pack(np, asked, policy.normalisation.features))
        return compare_decisions(policy.actions, logits, decisions)


@pytest.fixture(scope="module")
def export(tmp_path_factory, in_tensorflow):
    """Writes a policy in all forms and asks all of them."""
    shared = tmp_path_factory.mktemp("shared")

    def run(policy, trace):
        folder = tmp_path_factory.mktemp("export")
        save_policy(policy, folder / "policy")
        pq.write_table(trace, folder / "trace.parquet")
        in_tensorflow(PROGRAM, folder, shared)
        return Exported(folder, policy, trace)

    return run


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
