"""Policies on disk, as saved and with an edited description."""

import json
from pathlib import Path

from mlgo.base.files import read_record
from mlgo.policy.policy import Policy
from mlgo.policy.stored import load_policy, save_policy


def saved_twice(policy: Policy, folder: Path) -> Policy:
    """The policy as read from a folder; written again, it has the same bytes."""
    save_policy(policy, folder / "one")
    again = load_policy(folder / "one")
    save_policy(again, folder / "two")
    for name in ("policy.json", "weights.npy"):
        assert (folder / "one" / name).read_bytes() == (folder / "two" / name).read_bytes()
    assert (again.task, again.architecture, again.origin) == (policy.task, policy.architecture, policy.origin)
    return again


def edited(policy: Policy, folder: Path, **changes: object) -> None:
    """Save a policy, and change what its description says; without hashes, as earlier versions wrote it."""
    save_policy(policy, folder)
    path = folder / "policy.json"
    record = read_record(path) | changes
    del record["weights_sha256"]
    path.write_text(json.dumps(record))
