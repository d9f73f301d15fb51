"""Members of trained policies joined anew: with another caution, or those of several trainings."""

from collections.abc import Mapping
from dataclasses import replace

import numpy as np

from mlgo.core.errors import PolicyError
from mlgo.learn.marginal.caution import cautious, cautious_shape, heuristic_of, members_of
from mlgo.policy.features import Normalisation
from mlgo.policy.network import Architecture
from mlgo.policy.policy import Policy


def rejoin(policies: Mapping[str, Policy], caution: float) -> Policy:
    """Join all members of some policies. The first one's clone of the heuristic says where caution pulls to.

    Args:
        policies: by what to call them in messages; trained by ``marginal`` on modules.
        caution: as of `cautious`.

    Returns:
        The joint policy, with the first one's provenance but for ``caution`` and ``members``.

    Raises:
        PolicyError: one was trained otherwise, or they do not see a question alike.
    """
    (name, first), *_ = policies.items()
    shape, num_members = _shape_of(name, first)
    heuristic, members = heuristic_of(first.weights, shape, num_members), []
    for other, policy in policies.items():
        its_shape, count = _shape_of(other, policy)
        if its_shape != shape or policy.task != first.task or not _see_alike(policy, first):
            raise PolicyError(
                f"{other} and {name} differ in task, features, their scales, or hidden layers; join policies of one "
                "corpus and one configuration"
            )
        members += list(members_of(policy.weights, shape, count))
    settings = {**first.origin["marginal"], "caution": caution, "members": len(members)}
    return replace(
        first,
        architecture=cautious_shape(shape, len(members)),
        weights=cautious(members, shape, heuristic, caution),
        origin={**first.origin, "marginal": settings},
    )


def _see_alike(one: Policy, other: Policy) -> bool:
    """Whether both make the same inputs of a question."""
    return one.features == other.features and np.array_equal(_scales(one), _scales(other))


def _scales(policy: Policy) -> np.ndarray:
    """Centre, scale and unit of each feature."""
    scaling = policy.normalisation
    assert isinstance(scaling, Normalisation)  # as of every network
    unit = np.ones_like(scaling.scale) if scaling.unit is None else scaling.unit
    return np.stack([scaling.centre, scaling.scale, unit])


def _shape_of(name: str, policy: Policy) -> tuple[Architecture, int]:
    """Layer widths of a member, and how many there are.

    Raises:
        PolicyError: it is no joint network of members.
    """
    settings = policy.origin.get("marginal")
    if isinstance(settings, dict) and {"hidden", "members"} <= settings.keys():
        shape = Architecture((len(policy.features), *settings["hidden"], 1))
        if policy.architecture == cautious_shape(shape, settings["members"]):
            return shape, settings["members"]
    raise PolicyError(f"{name} has no members to join; take a policy that marginal has trained on modules")
