"""Languages of a policy. No feature tells that of a module, so a policy of one language is asked about it alone."""

from typing import Any

from mlgo.base.languages import LANGUAGES
from mlgo.policy.stored import StoredPolicy


def languages_of(policy: StoredPolicy) -> tuple[str, ...]:
    """In which languages a policy decides: those that its training was held to, as its provenance tells, else all."""
    told: list[Any] = policy.origin.get("languages", [])
    return tuple(one for one in LANGUAGES if one in told) or LANGUAGES


def advisor_in(policy: StoredPolicy, language: str) -> StoredPolicy | None:
    """The policy, where modules in this language are its to decide; None where they are left to the heuristic."""
    return policy if language in languages_of(policy) else None
