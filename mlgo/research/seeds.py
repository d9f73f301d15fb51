"""Policies stand together as the seeds of a learner only if their trainings differ in the seed alone."""

from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from mlgo.base.files import read_json
from mlgo.base.names import PolicyName
from mlgo.errors import ArtifactError

_TITLES = {
    "corpus_sha256": "corpus",
    "scores_sha256": "baseline",
    "baseline_sha256": "baseline",
    "trace_sha256": "trace of questions",
    "labels_sha256": "table of labels",
    "effects_sha256": "table of effects",
    "vocabulary": "vocabulary",
    "compiler_sha256": "compiler",
    "compiler": "compiler",
    "target": "target",
    "languages": "set of languages",
    "compile": "way of compiling",
}
"""What trainings can follow from, by where a policy tells it: the cause before what follows from it."""

_SCALING = ("features", "unit", "centre", "scale")


def check_seeds(policies: Iterable[Path]) -> None:
    """Refuse seeds of a learner that were trained on different inputs.

    Args:
        policies: folders of those that are compared.

    Raises:
        ArtifactError: two seeds of a learner have another corpus, vocabulary or compiler; names both and the remedy.
    """
    first: dict[str, tuple[Path, Mapping[str, Any]]] = {}
    for folder in policies:
        found = _inputs(folder / "policy.json")
        known, expected = first.setdefault(PolicyName.of(folder.name).learner, (folder, found))
        for key, title in _TITLES.items():
            if found.get(key) != expected.get(key):
                raise ArtifactError(
                    f"{known.name} and {folder.name} were trained on different inputs: another {title} ({key}); seeds "
                    f"of a learner may differ in the seed alone, so delete {known} and {folder} and train both again"
                )


def _inputs(path: Path) -> dict[str, Any]:
    """What a training followed from, by the names of `_TITLES`."""
    record = read_json(path)
    if not isinstance(record, dict) or not isinstance(record.get("provenance"), dict):
        raise ArtifactError(f"{path} carries no provenance; train the policy again")
    vocabulary = {name: record[name] for name in _SCALING if name in record}
    return {name: record["provenance"][name] for name in _TITLES if name in record["provenance"]} | {
        "vocabulary": vocabulary
    }
