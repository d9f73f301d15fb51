"""What a page says of its inputs: corpus, self-test, failures in training, features that decide, and provenance."""

from collections import Counter
from collections.abc import Mapping, Sequence
from operator import itemgetter
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from mlgo.base.artifacts import FAILURES, Row, read_table
from mlgo.base.files import canonical_json, file_sha256
from mlgo.compare.scores import SPLITS
from mlgo.compare.trainings import read_policy_record
from mlgo.errors import ArtifactError
from mlgo.host.process import without_folders
from mlgo.policy.importance import Importance, permutation_importance, sample_questions
from mlgo.policy.stored import load_policy
from mlgo.report.pages import Column, Table, count_column, text_column

Facts = dict[str, str]
"""Values by dotted name, as text."""


def describe_corpus(modules: pa.Table, summary: Any) -> Row:
    """Everything the page says about the corpus.

    Args:
        modules: ``artifacts.MODULES``.
        summary: ``corpus/summary.json``.

    Returns:
        The tables ``splits`` and ``projects``; number of modules left out by reason, ``skipped``; and bodies and
        instructions that two splits have in common, ``shared``, by ``"train/test"`` and so on.
    """
    try:
        counts = summary["bodies_shared_between_splits"]
        shared = {pair: (int(both["bodies"]), int(both["instructions"])) for pair, both in counts.items()}
    except (KeyError, TypeError, ValueError, AttributeError) as error:
        raise ArtifactError("the corpus summary does not count shared bodies; run the corpus stage again") from error
    splits, projects = [], []
    for split in SPLITS:
        members = modules.filter(pc.field("split") == split)
        splits.append(_counts(members) | {"split": split})
        for project in sorted(members["project"].unique().to_pylist()):
            of_project = _counts(members.filter(pc.field("project") == project))
            projects.append(of_project | {"split": split, "project": project})
    reasons = Counter(reason.split(":")[0] for reason in modules["skip_reason"].to_pylist() if reason)
    of_splits = ("split", "projects", "modules", "in C", "in C++", "left out", "functions", "instructions")
    of_projects = ("project", "split", "modules", "in C", "in C++", "left out", "instructions")
    shares = Column("in shared functions", lambda row, style: style.share(row["shared"]))
    licence = text_column("licence", itemgetter("licence"), wrap=True)
    return {
        "splits": Table([*map(_column, of_splits), shares], splits),
        "projects": Table([*map(_column, of_projects), shares, licence], projects),
        "skipped": sorted(reasons.items(), key=lambda item: (-item[1], item[0])),
        "shared": shared,
    }


def _column(title: str) -> Column:
    return (text_column if title in ("split", "project") else count_column)(title, itemgetter(title))


def _counts(modules: pa.Table) -> Row:
    """Figures of some modules by title; ``shared`` is the share of instructions in bodies that another split has."""
    used = modules.filter(pc.field("skip_reason") == "")
    in_c = len(used.filter(pc.field("language") == "c"))
    functions, instructions, shared = (
        pc.sum(used[name]).as_py() or 0 for name in ("num_functions", "num_instructions", "shared_instructions")
    )
    return {
        "projects": len(used["project"].unique()),
        "modules": len(used),
        "in C": in_c,
        "in C++": len(used) - in_c,
        "left out": len(modules) - len(used),
        "functions": functions,
        "instructions": instructions,
        "shared": shared / max(1, instructions),
        "licence": ", ".join(sorted(modules["licence"].unique().to_pylist())),
    }


def read_self_test(summary: Any) -> Row | None:
    """Does echoing the heuristic change nothing, by ``baseline/summary.json``?

    Returns:
        ``num_modules`` and ``num_passed``, and modules that are ``differing``, each with its cause; None where the task
        has no such test.
    """
    try:
        if summary["self_test_passed"] is None:
            return None
        differing = [(item["module"], without_folders(item["cause"])) for item in summary["self_test_failed"]]
        counts = {"num_modules": int(summary["modules"]), "num_passed": int(summary["self_test_passed"])}
        return {**counts, "differing": differing}
    except (KeyError, TypeError, ValueError) as error:
        raise ArtifactError("the baseline summary tells no self-test; run the baseline stage again") from error


def read_training_failures(folder: Path, policies: Sequence[str]) -> list[Row]:
    """Rows of ``artifacts.FAILURES`` with the policy's name, of all policies whose training compiles anything."""
    return [
        {"policy": name, **row, "reason": without_folders(row["reason"]), "left out": ("no", "yes")[row["quarantined"]]}
        for name in policies
        if (path := folder / name / "failures.parquet").exists()
        for row in read_table(path, FAILURES).to_pylist()
    ]


def feature_importances(
    folder: Path, policies: Sequence[str], trace_path: Path, modules: pa.Table, split: str, seed: int
) -> dict[str, list[Importance]]:
    """Importances by policy, on recorded questions of a split; policies with the same features see the same ones.

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
        questions = sample_questions(trace, projects, policy.normalisation.features, seed)
        found[name] = permutation_importance(policy, questions, seed)
    return found


def flatten(value: Any, prefix: str = "") -> Facts:
    """Turn nested mappings into dotted names; lists become JSON."""
    if isinstance(value, Mapping):
        nested = (flatten(item, f"{prefix}.{key}" if prefix else str(key)) for key, item in value.items())
        return {name: text for facts in nested for name, text in facts.items()}
    return {prefix: without_folders(value if isinstance(value, str) else canonical_json(value))}


def policy_facts(folder: Path, policies: Sequence[str], evaluation: Mapping[str, Any]) -> dict[str, Facts]:
    """Provenance of each policy; that of the evaluation knows the hash of the weights that were evaluated."""
    found = {}
    for name in policies:
        record = read_policy_record(folder / name / "policy.json")
        shape = {key: record[key] for key in ("task", "widths", "nodes", "features") if key in record}
        weights = evaluation.get("policies", {}).get(name, {}).get("policy_sha256", "unknown")
        found[name] = flatten({**record["provenance"], **shape, "weights_sha256": weights})
    return found


def input_hashes(paths: Mapping[str, Path]) -> Facts:
    """SHA-256 of the files the page is made from, by the name to show."""
    return {name: file_sha256(path) for name, path in paths.items()}
