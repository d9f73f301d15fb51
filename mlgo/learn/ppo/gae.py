"""Generalized advantage estimation: Schulman et al. 2016, "High-Dimensional Continuous Control Using GAE"."""

import numpy as np


def terminal_advantages(values: np.ndarray, reward: float, gamma: float, gae_lambda: float) -> np.ndarray:
    """Advantages of an episode whose only reward comes at its end.

    ``A_t = d_t + gamma lambda A_(t+1)``, ``d_t = r_t + gamma V_(t+1) - V_t``; nothing follows the last step. With gamma
    and lambda 1 this is ``reward - V_t``.

    Args:
        values: float [num_steps], what the value network expects at each step.
        reward: reward of the last step.
        gamma: discount of a step.
        gae_lambda: 0 trusts the values, 1 the reward alone.

    Returns:
        float64 [num_steps].
    """
    advantages = np.empty(len(values))
    advantage, received, following = 0.0, reward, 0.0
    for step in reversed(range(len(values))):
        surprise = received + gamma * following - values[step]
        advantage = surprise + gamma * gae_lambda * advantage
        advantages[step] = advantage
        received, following = 0.0, float(values[step])
    return advantages
