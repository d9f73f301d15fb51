"""Where the numbers come from: compiler, settings, seeds and hashes, as pairs of name and value."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from mlgo.base.artifacts import read_provenance
from mlgo.base.files import canonical_json, file_sha256
from mlgo.compare.trainings import read_policy_record
from mlgo.host.process import without_folders

Facts = dict[str, str]
"""Values by dotted name, as text."""


def flatten(value: Any, prefix: str = "") -> Facts:
    """Turn nested mappings into dotted names; lists become JSON."""
    if isinstance(value, Mapping):
        nested = (flatten(item, f"{prefix}.{key}" if prefix else str(key)) for key, item in value.items())
        return {name: text for facts in nested for name, text in facts.items()}
    return {prefix: without_folders(value if isinstance(value, str) else canonical_json(value))}


def measurement_facts(scores: Path) -> Facts:
    """Compiler, target, flags and seed of the baseline, from its provenance."""
    return flatten(read_provenance(scores))


def policy_facts(folder: Path, policies: Sequence[str], evaluation: Mapping[str, Any]) -> dict[str, Facts]:
    """Provenance of each policy.

    Args:
        evaluation: provenance of the results, knows the hash of the weights that were evaluated.
    """
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
