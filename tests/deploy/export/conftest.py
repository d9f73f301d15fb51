"""A policy written in some forms and asked by each, in a process that may import TensorFlow."""

from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest

from mlgo.deploy.export import FORMS
from mlgo.deploy.export.form import compare_decisions, recorded_questions
from mlgo.policy.policy import Policy
from tests.deploy.export.cases import LOADING, store

PROGRAM = """
import os
os.environ["MLGO_SHARED"] = sys.argv[2]
for name in sys.argv[3:]:
    form = ALL_FORMS[name]
    (folder / name).mkdir()
    (folder / name / "old").write_text("from an earlier export")
    form.write(policy, trace, folder / name)
    with form.opened(folder / name, policy) as ask:
        np.save(folder / f"{name}.npy", ask(recorded_questions(trace, policy)))
"""


@dataclass
class Exported:
    """A policy and what was made of it."""

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
    """Writes a policy in some forms and asks each of them; each run's if none are named."""
    shared = tmp_path_factory.mktemp("shared")

    def run(policy, trace, *forms):
        folder = store(policy, trace, tmp_path_factory.mktemp("export"))
        in_tensorflow(LOADING + PROGRAM, folder, shared, *(forms or FORMS))
        return Exported(folder, policy, trace)

    return run
