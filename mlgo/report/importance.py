"""Permutation importance of each policy's features, on recorded questions of a split."""

from collections.abc import Sequence
from pathlib import Path

import pyarrow as pa
import pyarrow.compute as pc

from mlgo.base.artifacts import read_table
from mlgo.policy.importance import Importance, permutation_importance, recorded_questions
from mlgo.policy.stored import load_policy


def feature_importances(
    folder: Path, policies: Sequence[str], trace_path: Path, modules: pa.Table, split: str, seed: int
) -> dict[str, list[Importance]]:
    """Importances by policy; policies with the same features see the same questions.

    Args:
        modules: ``artifacts.MODULES``; tells which projects are in the split.
    """
    projects = set(modules.filter(pc.field("split") == split)["project"].to_pylist())
    trace = read_table(trace_path)
    found = {}
    for name in policies:
        policy = load_policy(folder / name)
        if not policy.actions.yes_or_no:  # dealing out one column's value anew asks what no compiler asks
            continue
        questions = recorded_questions(trace, projects, policy.normalisation.features, seed)
        found[name] = permutation_importance(policy, questions, seed)
    return found
