"""`mlgo distill`: a decision tree that one can read, in place of a policy's network."""

import argparse
from collections.abc import Collection
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from mlgo.base.artifacts import provenance, provenance_in, read_table
from mlgo.base.files import file_sha256, write_record
from mlgo.base.names import PolicyName
from mlgo.base.output import check_output
from mlgo.base.packages import require
from mlgo.base.scratch import scratch_directory
from mlgo.base.seeding import sample
from mlgo.cli.program import add_command, add_options, say
from mlgo.corpus.store import load_modules
from mlgo.deploy.drivers import policy_folder
from mlgo.deploy.export.cpp import Cpp, tree_function
from mlgo.deploy.export.form import PARITY_QUESTIONS, check_form
from mlgo.errors import ConfigError, CorpusError, TrainingError
from mlgo.host.actions import Binary, Observation, check_features
from mlgo.policy.features import Unscaled
from mlgo.policy.policy import Policy
from mlgo.policy.stored import StoredPolicy, load_stored, model_sha256, save_policy
from mlgo.policy.tree import LARGEST, Branching, Tree

_CHUNK = 50_000
_LEAST, _SURE = 0.01, 9.99
"""Size of a leaf's logit, never 0; two decimals are kept, so that it can be read."""


@dataclass(frozen=True)
class Taught:
    """Questions with what a policy and what the traced reference answer."""

    features: tuple[str, ...]
    values: np.ndarray  # int64 [num_questions, num_features]
    logits: np.ndarray  # float32 [num_questions], the policy's; it says yes above 0
    recorded: np.ndarray  # bool [num_questions], answers of the trace


@dataclass(frozen=True)
class Leaf:
    """What becomes of the questions that end at one leaf; ``equal`` is the share that the teacher answers alike."""

    answer: int
    questions: int
    equal: float


@dataclass(frozen=True)
class Agreement:
    """How often a tree and its teacher answer alike."""

    questions: int
    equal: float
    equal_by_margin: float  # share of equal answers, each question counted by the teacher's margin
    recorded_equal: float  # share of the recorded answers that are equal to the teacher's
    leaves: list[Leaf]  # from the left of the tree to its right


def taught_questions(teacher: StoredPolicy, trace: pa.Table, projects: Collection[str]) -> Taught:
    """Ask a policy, whose answers are yes or no, the questions of some projects in a trace."""
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

    It is fitted to the policy's answers to recorded questions (Craven and Shavlik, Extracting tree-structured
    representations of trained networks, NIPS 1996). Each question counts by how far the policy is from another answer,
    so leaves go where answers matter (Bastani et al., Verifiable reinforcement learning via policy extraction, NeurIPS
    2018, weigh by what a wrong answer loses; margins stand for that here). Leaves side by side with the same answer
    become one, so there may be fewer than asked for.

    Args:
        taught: what is imitated.
        task: of the teacher.
        max_leaves: at least 2.
        origin: provenance of the new policy.
    """
    require("mlgo distill", "distill")
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
    odds = np.abs(np.diff(np.log(np.maximum([no[nodes], yes[nodes]], np.finfo(np.float64).tiny)), axis=0)[0])
    logits = np.where(answer[nodes], 1.0, -1.0) * np.clip(np.round(odds, 2), _LEAST, _SURE)
    tree = Tree(
        np.where(inner, np.searchsorted(columns, fitted.feature[nodes]), 0),
        np.where(inner, np.floor(fitted.threshold[nodes]), 0.0).astype(np.float32),
        np.array([place.get(left[node], place[node]) for node in order]),
        np.array([place[right[node]] if left[node] >= 0 else place[node] for node in order]),
        np.where(inner, 0.0, logits).astype(np.float32),
    )
    return tree, columns


_SPLITS = ("train", "validation")
"""Of projects that are fitted, and of those held out."""


def add_parser(commands: Any) -> None:
    parser = add_command(commands, "distill", run)
    parser.add_argument("policy", type=policy_folder, help="a policy's folder or name; its answers are yes or no")
    add_options(parser, "--trace")
    parser.add_argument(
        "--corpus",
        type=Path,
        default=Path("data/corpus"),
        metavar="DIR",
        help="says which projects are fitted ({}) and which are held out ({}) (default: %(default)s)".format(*_SPLITS),
    )
    parser.add_argument("--leaves", type=_leaves, default=24, metavar="N", help="at most (default: %(default)s)")
    parser.add_argument(
        "-o", "--output", type=Path, required=True, metavar="DIR", help="folder for the tree, called NAME-sSEED"
    )
    add_options(parser, "--json")


def run(args: argparse.Namespace) -> None:
    """Fit a small decision tree to a policy and print it as C++.

    mlgo distill data/policies/marginal-s0 -o data/policies/tree-s0
    mlgo distill data/released/marginal-s0 --leaves 64 -o data/policies/tree64-s0 --json
    mlgo distill data/policies/marginal-s0 --corpus other/corpus --trace other/baseline/trace.parquet -o tree-s0
    then: mlgo evaluate --policy data/policies/tree-s0 --corpus data/corpus --split validation
    """
    PolicyName.of(args.output.resolve().name)
    check_output(args.output, ("policy.json", "weights.npy", "agreement.json", "cpp"), "policy.json")
    teacher, trace = load_stored(args.policy, Binary), read_table(args.trace)
    if (task := provenance_in(args.trace, trace.schema).get("task", teacher.task)) != teacher.task:
        raise ConfigError(f"{args.trace} is of task {task!r}, not of {teacher.task!r}; take the trace of such a run")
    fitted, held_out = ({one.project for one in load_modules(args.corpus, splits=[split])} for split in _SPLITS)
    for split, projects in zip(_SPLITS, (fitted, held_out), strict=True):
        if not projects:
            raise CorpusError(
                f"{args.corpus} has no project in the split {split}; distill needs some to fit and some to compare"
            )
    origin = provenance(
        algorithm="distill",
        leaves=args.leaves,
        teacher=args.policy.resolve().name,
        teacher_sha256=model_sha256(args.policy),
        trace_sha256=file_sha256(args.trace),
        **({"languages": told} if (told := teacher.origin.get("languages")) else {}),
        fitted=sorted(fitted),
    )
    taught = taught_questions(teacher, trace, fitted)
    policy = distil(taught, teacher.task, args.leaves, origin)
    on_fitted, on_held_out = agreement(policy, taught), agreement(policy, taught_questions(teacher, trace, held_out))
    policy = replace(policy, origin={**origin, "equal_held_out": round(on_held_out.equal, 4)})
    asked = trace.filter(pc.is_in(trace["project"], value_set=pa.array(sorted(held_out), pa.string())))
    parity = _write(policy, asked, args.output)
    compared = {"fitted": asdict(on_fitted), "held_out": asdict(on_held_out)}
    record = {"features": list(policy.normalisation.features), **compared, "parity": parity}
    write_record(args.output / "agreement.json", record)
    text = "\n".join([tree_function(policy, trace), *_sentences(on_fitted, on_held_out, len(held_out))])
    say(args, {"policy": str(args.output), **record}, text)


def _write(policy: Policy, asked: pa.Table, output: Path) -> dict[str, Any]:
    """Write the policy and its C++, if the compiled class decides as the policy on some recorded questions."""
    rows = asked.take(sample(range(asked.num_rows), PARITY_QUESTIONS, 0, "parity"))
    with scratch_directory() as folder:
        Cpp().write(policy, rows, folder / "cpp")
        parity = asdict(check_form(Cpp(), folder / "cpp", policy, rows))
    save_policy(policy, output)
    Cpp().write(policy, rows, output / "cpp")
    return parity


def _sentences(fitted: Agreement, held_out: Agreement, num_projects: int) -> list[str]:
    leaves = [
        f"leaf {number:<3} {'yes' if leaf.answer else 'no':<4} {leaf.questions / held_out.questions:7.2%} of the "
        f"questions, {leaf.equal:7.2%} of them as the policy"
        for number, leaf in enumerate(held_out.leaves)
    ]
    return [
        f"decisions as the policy's: {held_out.equal:.2%} of {held_out.questions:,} questions of {num_projects} "
        f"projects held out, {held_out.equal_by_margin:.2%} if each counts by the policy's margin; {fitted.equal:.2%} "
        f"of {fitted.questions:,} questions of those fitted",
        f"the recorded answers, for comparison: {held_out.recorded_equal:.2%} of those held out",
        *leaves,
    ]


def _leaves(text: str) -> int:
    value = int(text)
    if value < 2:
        raise argparse.ArgumentTypeError(f"{text} leaves make no tree; give at least 2")
    return value
