"""Policies of compilers' heuristics, released by mlgo: folders that ``mlgo cc --policy`` takes, with their model cards.

This module is also the whole of the package ``mlgo-policies``, so it imports nothing of mlgo. Here ``policies`` is
``data/released`` of the checkout.
"""

import json
from pathlib import Path

FOLDER = Path(__file__).parent / "policies"
"""Holds a folder for each policy."""

INDEX = FOLDER / "index.json"
"""Names of all policies, the default one first."""


def names() -> list[str]:
    """Names of all policies, the default one first."""
    found: list[str] = json.loads(INDEX.read_text())
    return found


def path(name: str) -> Path:
    """Folder of a policy."""
    if name not in names():
        raise KeyError(name)
    return FOLDER / name


def default() -> Path:
    """Folder of the policy that is used if nobody names one."""
    return path(names()[0])
