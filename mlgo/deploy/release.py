"""A release: the files of a policy, its forms and what was checked of them, read once and held together."""

import hashlib
import re
from collections import ChainMap
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from mlgo.base.files import file_sha256, json_text, read_json
from mlgo.base.names import PolicyName
from mlgo.errors import ArtifactError, ConfigError, PolicyError
from mlgo.policy.policy import Policy
from mlgo.policy.stored import load_policy

Json = dict[str, Any]
"""An object of JSON."""

CARD, PAGE, PARITY = "card.json", "README.md", "parity.json"
"""Facts about a release, the same as a page, and what was checked of its forms."""

POLICY_FILES = ("policy.json", "weights.npy")
"""Files of a policy; ``parity.json`` has their hashes."""

_STAMP = ".snakemake_timestamp"
"""File that Snakemake leaves in folders that rules make."""

_VERSION = re.compile(  # the grammar of semver.org 2.0.0
    r"(0|[1-9]\d*)\.(0|[1-9]\d*)\.(0|[1-9]\d*)"
    r"(-(0|[1-9]\d*|\d*[A-Za-z-][0-9A-Za-z-]*)(\.(0|[1-9]\d*|\d*[A-Za-z-][0-9A-Za-z-]*))*)?"
    r"(\+[0-9A-Za-z-]+(\.[0-9A-Za-z-]+)*)?",
    re.ASCII,
)


@dataclass(frozen=True)
class Release:
    """A policy with its forms."""

    policy: Policy  # as it was read
    name: PolicyName  # of the policy
    parity: Mapping[str, Json]  # what was checked of each form, by name
    files: Mapping[str, bytes]  # content by path, without card and page
    card: Json | None  # what was written down of these files; None where there is no card


def read_release(policy: Path, exported: Path, forms: Sequence[str] | None = None) -> Release:
    """Read a policy and what was exported of it.

    Args:
        policy: its folder.
        exported: folder with a folder for each form, ``parity.json`` and perhaps a card; may be the same.
        forms: those that are wanted; None for all that there are.
    """
    found, name = load_policy(policy), PolicyName.of(policy.resolve().name)
    parity = _checked_forms(exported, policy_hashes(policy))
    if unknown := sorted(set(forms or ()) - set(parity)):
        raise ConfigError(f"{exported} has no {', '.join(unknown)}; it has {', '.join(parity)}")
    files = {file: (policy / file).read_bytes() for file in POLICY_FILES}
    by_form = {
        form: {f"{form}/{file}": (exported / form / file).read_bytes() for file in one["files"]}
        for form, one in parity.items()
    }
    card = read_json(exported / CARD) if (exported / CARD).exists() else None
    if card is not None:
        check_card(card, ChainMap({PARITY: (exported / PARITY).read_bytes()}, files, *by_form.values()), exported)
    kept = {form: one for form, one in parity.items() if forms is None or form in forms}
    files[PARITY] = json_text(kept).encode()
    for form in kept:
        files |= by_form[form]
    return Release(found, name, kept, dict(sorted(files.items())), card)


def policy_hashes(folder: Path) -> dict[str, str]:
    """SHA-256 of each file of a policy."""
    return {name: file_sha256(folder / name) for name in POLICY_FILES}


def find_policies(folder: Path) -> list[Path]:
    """A policy's folder itself, or the policies in a folder of them, by name."""
    if (folder / POLICY_FILES[0]).is_file():
        return [folder]
    found = sorted(path.parent for path in folder.glob(f"*/{POLICY_FILES[0]}"))
    if not found:
        raise ArtifactError(
            f"{folder} holds no policy and no folder of one; name a folder like data/policies/marginal-s0"
        )
    return found


def check_version(version: str) -> str:
    """A semantic version, as it was given."""
    if not _VERSION.fullmatch(version):
        raise ConfigError(f"--version {version}: not a semantic version like 1.2.0; see semver.org")
    return version


def hashes(files: Mapping[str, bytes]) -> dict[str, Json]:
    """Size in bytes and SHA-256 of each file, sorted by path."""
    return {
        path: {"bytes": len(data), "sha256": hashlib.sha256(data).hexdigest()} for path, data in sorted(files.items())
    }


def check_card(card: Any, files: Mapping[str, bytes], place: Path) -> None:
    """Compare files with what their card says of them; the card's page need not be among them."""
    said = card.get("files") if isinstance(card, dict) else None
    if not isinstance(said, dict):
        raise ArtifactError(f"{place}: {CARD} is no card; write it again: scripts/describe_policy.py")
    found = hashes({path: data for path, data in files.items() if path != CARD})
    for path in sorted({*said, *found} - ({PAGE} - set(found))):
        if said.get(path) != found.get(path):
            what = "is missing" if path not in found else "is not in the card" if path not in said else "has changed"
            raise ArtifactError(
                f"{place}: {path} {what} since {CARD} was written; write it again: scripts/describe_policy.py"
            )


def _checked_forms(exported: Path, policy: Mapping[str, str]) -> dict[str, Json]:
    """Checks of each form, by name: every form was checked, and is of this policy."""
    if not (exported / PARITY).is_file():
        raise ArtifactError(f"{exported} has no {PARITY}; export the policy first: scripts/export_policy.py")
    parity = read_json(exported / PARITY)
    if not isinstance(parity, dict) or not parity or not all(isinstance(one, dict) for one in parity.values()):
        raise ArtifactError(f"{exported / PARITY} tells of no form; export the policy again")
    if unchecked := sorted({path.name for path in exported.iterdir() if path.is_dir()} - set(parity)):
        raise ArtifactError(f"{exported}: nothing was checked of {', '.join(unchecked)}; export the policy again")
    for form, one in parity.items():
        _check(exported / form, one, policy)
    return parity


def _check(folder: Path, parity: Json, policy: Mapping[str, str]) -> None:
    """Refuse a form that was not shown to decide as this policy."""
    if not parity.get("questions") or parity.get("mismatches") != 0:
        raise PolicyError(
            f"{folder} differs from its policy in {parity.get('mismatches', 'unknown')} of "
            f"{parity.get('questions', 'unknown')} decisions; export the policy again"
        )
    if parity.get("policy") != policy:
        raise PolicyError(f"{folder} was made of another policy than this one; export the policy again")
    said = parity.get("files")
    there = [path for path in folder.rglob("*") if path.is_file() and path.name != _STAMP]
    found = {path.relative_to(folder).as_posix(): file_sha256(path) for path in there}
    if not said or said != found:
        raise ArtifactError(f"files in {folder} are not those that were checked; export the policy again")
