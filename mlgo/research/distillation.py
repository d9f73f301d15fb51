"""A decision tree that answers nearly as a policy does, small enough to be read.

A tree is fitted to the policy's answers to recorded questions (Craven and Shavlik, Extracting tree-structured
representations of trained networks, NIPS 1996). Each question counts by how far the policy is from another answer, so
leaves go where answers matter (Bastani et al., Verifiable reinforcement learning via policy extraction, NeurIPS 2018,
weigh by what a wrong answer loses; margins stand for that here).
"""

from collections.abc import Collection
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from mlgo.errors import TrainingError
from mlgo.host.actions import Observation
from mlgo.host.actions.space import check_features
from mlgo.policy.features import Unscaled
from mlgo.policy.policy import Policy
from mlgo.policy.stored import StoredPolicy
from mlgo.policy.tree import LARGEST, Branching, Tree

_CHUNK = 50_000
_SURE = 9.99
"""Largest logit of a leaf; two decimals are kept."""
_LEAST = 0.01


@dataclass(frozen=True)
class Taught:
    """Questions with what a policy and what the traced reference answer.

    Attributes:
        features: names of the columns.
        values: int64 [num_questions, num_features].
        logits: float32 [num_questions], the policy's; it says yes above 0.
        recorded: bool [num_questions], answers of the trace.
    """

    features: tuple[str, ...]
    values: np.ndarray
    logits: np.ndarray
    recorded: np.ndarray


@dataclass(frozen=True)
class Leaf:
    """What becomes of the questions that end at one leaf.

    Attributes:
        answer: of the tree, 1 for yes.
        questions: that end here.
        equal: share of them that the teacher answers alike; 1 without any.
    """

    answer: int
    questions: int
    equal: float


@dataclass(frozen=True)
class Agreement:
    """How often a tree and its teacher answer alike.

    Attributes:
        questions: that were compared.
        equal: share of equal answers.
        equal_by_margin: the same, each question counted by the teacher's margin.
        recorded_equal: share of the recorded answers that are equal to the teacher's.
        leaves: from the left of the tree to its right.
    """

    questions: int
    equal: float
    equal_by_margin: float
    recorded_equal: float
    leaves: list[Leaf]

    def record(self) -> dict[str, Any]:
        """As plain values."""
        return asdict(self)


def taught_questions(teacher: StoredPolicy, trace: pa.Table, projects: Collection[str]) -> Taught:
    """Ask a policy the recorded questions of some projects.

    Args:
        teacher: whose answers are yes or no.
        trace: ``artifacts.trace_schema`` rows.
        projects: whose questions are taken.
    """
    features = teacher.features
    check_features(features, trace.column_names, "the trace")
    rows = trace.filter(pc.is_in(trace["project"], value_set=pa.array(sorted(projects), pa.string())))
    if not rows.num_rows:
        raise TrainingError(f"the trace holds no question of {len(projects)} projects; take the trace of this corpus")
    values = np.column_stack([rows[name].to_numpy() for name in features])
    chunks = (values[start : start + _CHUNK] for start in range(0, len(values), _CHUNK))
    logits = np.concatenate([teacher.logits(Observation(chunk)) for chunk in chunks])
    return Taught(features, values, logits, rows["answer"].to_numpy() > 0)


def distil(taught: Taught, task: str, max_leaves: int, origin: dict[str, Any]) -> Policy:
    """Fit a tree; it asks about some of the features only.

    Leaves side by side with the same answer become one, so there may be fewer than asked for.

    Args:
        taught: what is imitated.
        task: of the teacher.
        max_leaves: at least 2.
        origin: provenance of the new policy.
    """
    from sklearn.tree import DecisionTreeClassifier  # takes a second, and no process that hosts compiles needs it

    answers = taught.logits > 0.0
    if answers.all() or not answers.any():
        raise TrainingError(f"the policy answers all {len(answers)} questions alike; there is nothing to distil")
    inputs = np.clip(taught.values, 1 - LARGEST, LARGEST - 1).astype(np.float32)
    fitted = DecisionTreeClassifier(criterion="entropy", max_leaf_nodes=max_leaves, random_state=0)
    fitted.fit(inputs, answers, sample_weight=np.abs(taught.logits))
    tree, columns = _pruned(fitted.tree_)
    if not columns.size:
        raise TrainingError(f"a tree of {max_leaves} leaves answers all questions alike; allow more leaves")
    scaling = Unscaled(tuple(taught.features[column] for column in columns))
    return Policy(task, scaling, Branching(len(columns), len(tree.value)), tree.flat(), origin)


def agreement(policy: Policy, taught: Taught) -> Agreement:
    """Compare a tree with its teacher on questions, which are best of projects that it was not fitted to."""
    tree, answers = policy.model, taught.logits > 0.0
    assert isinstance(tree, Tree)
    reached = tree.apply(taught.values[:, [taught.features.index(name) for name in policy.normalisation.features]])
    equal = (tree.value[reached] > 0.0) == answers
    leaves = []
    for leaf in tree.leaves:
        here = equal[reached == leaf]
        leaves.append(Leaf(int(tree.value[leaf] > 0.0), len(here), float(here.mean()) if len(here) else 1.0))
    return Agreement(
        len(equal),
        float(equal.mean()),
        float(np.average(equal, weights=np.abs(taught.logits))),
        float((taught.recorded == answers).mean()),
        leaves,
    )


def _pruned(fitted: Any) -> tuple[Tree, np.ndarray]:
    """Take over a tree of scikit-learn, in which children come after their parents; and the columns it asks about."""
    no, yes = fitted.value[:, 0, :].T * fitted.weighted_n_node_samples
    answer, left, right = yes > no, fitted.children_left.copy(), fitted.children_right
    for node in reversed(range(len(left))):
        if left[node] >= 0:
            low, high = left[node], right[node]
            if left[low] < 0 and left[high] < 0 and answer[low] == answer[high]:
                left[node] = -1
    order, waiting = [], [0]
    while waiting:
        node = waiting.pop()
        order.append(node)
        if left[node] >= 0:
            waiting += [right[node], left[node]]
    place = {node: number for number, node in enumerate(order)}
    nodes, inner = np.array(order), left[order] >= 0
    columns = np.unique(fitted.feature[nodes[inner]])
    tree = Tree(
        np.where(inner, np.searchsorted(columns, fitted.feature[nodes]), 0),
        np.where(inner, np.floor(fitted.threshold[nodes]), 0.0).astype(np.float32),
        np.array([place.get(left[node], place[node]) for node in order]),
        np.array([place[right[node]] if left[node] >= 0 else place[node] for node in order]),
        np.where(inner, 0.0, _logits(no[nodes], yes[nodes])).astype(np.float32),
    )
    return tree, columns


def _logits(no: np.ndarray, yes: np.ndarray) -> np.ndarray:
    """Log odds of weights [num], never 0, with two decimals so that they can be read; float64 [num]."""
    tiny = np.finfo(np.float64).tiny
    sizes = np.abs(np.log(np.maximum(yes, tiny)) - np.log(np.maximum(no, tiny)))
    return np.where(yes > no, 1.0, -1.0) * np.clip(np.round(sizes, 2), _LEAST, _SURE)
