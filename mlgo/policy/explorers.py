"""The right way of exploring around each kind of policy."""

from mlgo.core.errors import PolicyError
from mlgo.policy.column_policy import ColumnPolicy
from mlgo.policy.exploring import ExploringAdvisor
from mlgo.policy.exploring_columns import ExploringColumnAdvisor
from mlgo.policy.exploring_priorities import ExploringPriorityAdvisor
from mlgo.policy.network_policy import NetworkPolicy
from mlgo.policy.policy import Policy
from mlgo.policy.priority_policy import PriorityPolicy
from mlgo.tasks import PureAdvisor


def exploring(policy: Policy, temperature: float, flip_share: float, seed: int) -> PureAdvisor:
    """An advisor that now and then answers otherwise than a policy.

    Args:
        policy: what is explored around.
        temperature: of the policy's answers; 0 takes its own.
        flip_share: probability of another answer after that.
        seed: chooses the luck.

    Raises:
        PolicyError: policies of this kind have no probabilities.
    """
    if isinstance(policy, NetworkPolicy):
        return ExploringAdvisor(policy, temperature, flip_share, seed)
    if isinstance(policy, ColumnPolicy):
        return ExploringColumnAdvisor(policy, temperature, flip_share, seed)
    if isinstance(policy, PriorityPolicy):
        return ExploringPriorityAdvisor(policy, temperature, flip_share, seed)
    raise PolicyError(f"no answers can be sampled from a policy of {policy.task}")
