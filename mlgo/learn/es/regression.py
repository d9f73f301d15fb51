"""Linear regression in closed form."""

import numpy as np


def least_squares(features: np.ndarray, targets: np.ndarray) -> np.ndarray:
    """Coefficients ``float64 [num_features]`` of the best fit without intercept; the shortest of equally good ones.

    Args:
        features: float64 [num, num_features].
        targets: float64 [num].
    """
    return np.linalg.lstsq(features, targets)[0]


def ridge(features: np.ndarray, targets: np.ndarray, penalty: float) -> np.ndarray:
    """Minimise ``mean((features b - targets)^2) + penalty |b|^2`` (Hoerl and Kennard 1970), without intercept.

    Solved in as many unknowns as there are rows or columns, whichever are fewer.

    Args:
        features: float64 [num, num_features].
        targets: float64 [num].
        penalty: above 0.

    Returns:
        float64 [num_features].
    """
    num, num_features = features.shape
    if num < num_features:
        return features.T @ np.linalg.solve(features @ features.T + num * penalty * np.eye(num), targets)
    return np.linalg.solve(features.T @ features + num * penalty * np.eye(num_features), features.T @ targets)
