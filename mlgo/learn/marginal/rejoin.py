"""Members of trained policies joined anew: with another caution, or those of several trainings."""

from collections.abc import Mapping
from dataclasses import replace

import numpy as np

from mlgo.errors import PolicyError
from mlgo.learn.marginal.ensemble import heuristic_of, join, joint_shape, members_of
from mlgo.policy.features import Normalisation
from mlgo.policy.network import Architecture
from mlgo.policy.policy import Policy


def rejoin(policies: Mapping[str, Policy], caution: float) -> Policy:
    """Join all members of some policies. The first one's clone of the heuristic says where caution pulls to.

    Args:
        policies: by what to call them in messages; trained by ``marginal`` on modules.
        caution: as of `cautious`; 0 takes the mean.

    Returns:
        The joint policy, with the first one's provenance but for ``caution`` and ``members``.

    Raises:
        PolicyError: one was trained otherwise, they do not see a question alike, or caution is asked for and the first
            one holds no clone of the heuristic.
    """
    (name, first), *_ = policies.items()
    shape, num_members, before = _shape_of(name, first)
    if caution > 0.0 and before == 0.0:
        raise PolicyError(f"{name} was joined without caution, so it holds no clone of the heuristic; give caution 0")
    heuristic = heuristic_of(first.weights, shape, num_members) if caution > 0.0 else None
    members: list[np.ndarray] = []
    for other, policy in policies.items():
        its_shape, count, its_caution = _shape_of(other, policy)
        if its_shape != shape or policy.task != first.task or not _see_alike(policy, first):
            raise PolicyError(
                f"{other} and {name} differ in task, features, their scales, or hidden layers; join policies of one "
                "corpus and one configuration"
            )
        members += list(members_of(policy.weights, shape, count, its_caution))
    settings = {**first.origin["marginal"], "caution": caution, "members": len(members)}
    return replace(
        first,
        architecture=joint_shape(shape, len(members), caution),
        weights=join(members, shape, heuristic, caution),
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


def _shape_of(name: str, policy: Policy) -> tuple[Architecture, int, float]:
    """Layer widths of a member, how many there are, and the caution they are joined with.

    Raises:
        PolicyError: it is no joint network of members.
    """
    settings = policy.origin.get("marginal")
    if isinstance(settings, dict) and {"hidden", "members", "caution"} <= settings.keys():
        shape = Architecture((len(policy.features), *settings["hidden"], 1))
        count, caution = settings["members"], settings["caution"]
        if policy.architecture == joint_shape(shape, count, caution):
            return shape, count, caution
    raise PolicyError(f"{name} has no members to join; take a policy that marginal has trained on modules")
