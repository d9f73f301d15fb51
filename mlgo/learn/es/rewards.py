"""Rewards of candidates on modules: one number for each candidate, and figures for the history."""

import numpy as np

_PERCENTILES = (5, 25, 50, 75, 95)
_OF_CANDIDATES = ("mean_reward", "max_reward", "min_reward", *(f"reward_p{q:02}" for q in _PERCENTILES))
_OF_MODULES = ("win_share", "regression_share", "mean_regression", "worst_regression")


def mean_over_common(rewards: np.ndarray) -> np.ndarray:
    """Mean reward of each candidate over the same modules for all.

    A module on which at least half of the candidates fail says more about itself than about them; it counts for none.
    A candidate that fails on another is left without a mean.

    Returns:
        float64 [num_candidates], NaN for failed candidates; all NaN when no module is left.
    """
    common = np.isnan(rewards).mean(axis=0) < 0.5
    if not common.any():
        return np.full(len(rewards), np.nan)
    return rewards[:, common].mean(axis=1)


def mean_improvement(rewards: np.ndarray) -> float:
    """Mean rise of the reward from a first to a second candidate, over the modules that the first compiles.

    Args:
        rewards: float64 [2, num_modules], NaN where a compile failed.
    """
    known = np.isfinite(rewards[0])
    return float((rewards[1] - rewards[0])[known].mean()) if known.any() else float("nan")


def reward_figures(rewards: np.ndarray, means: np.ndarray) -> dict[str, float | None]:
    """Figures of one generation; None where nothing compiled.

    ``*_reward`` and ``reward_p*`` (percentiles) are of candidates. ``win_share`` and ``regression_share`` are the
    shares of module rewards above and below 0; ``mean_regression`` and ``worst_regression`` are of those below 0, and 0
    when there are none.

    Args:
        rewards: float64 [num_candidates, num_modules], NaN where a compile failed.
        means: float64 [num_candidates], see `mean_over_common`.
    """
    means, rewards = means[np.isfinite(means)], rewards[np.isfinite(rewards)]
    figures: dict[str, float | None] = dict.fromkeys((*_OF_CANDIDATES, *_OF_MODULES))
    if means.size:
        values = [means.mean(), means.max(), means.min(), *np.percentile(means, _PERCENTILES)]
        figures.update(zip(_OF_CANDIDATES, map(float, values), strict=True))
    if rewards.size:
        worse = rewards[rewards < 0.0]
        ends = (worse.mean(), worse.min()) if worse.size else (0.0, 0.0)
        values = [(rewards > 0.0).mean(), worse.size / rewards.size, *ends]
        figures.update(zip(_OF_MODULES, map(float, values), strict=True))
    return figures
