"""Linear regression without intercept, by scikit-learn.

The penalties have the scale of the mean squared error, so they mean the same for any number of rows. scikit-learn
divides its losses otherwise and is imported when a regression is asked for, not before.
"""

import warnings

import numpy as np

_LASSO_TOLERANCE = 1e-8  # of the mean square of the targets; some hundred passes where a penalty chooses anything
_LASSO_MAX_PASSES = 10_000


def least_squares(features: np.ndarray, targets: np.ndarray) -> np.ndarray:
    """Coefficients ``float64 [num_features]`` of the best fit; the shortest of equally good ones.

    Args:
        features: float64 [num, num_features].
        targets: float64 [num].
    """
    from sklearn.linear_model import LinearRegression

    return LinearRegression(fit_intercept=False).fit(features, targets).coef_


def ridge(features: np.ndarray, targets: np.ndarray, penalty: float) -> np.ndarray:
    """Minimise ``mean((features b - targets)^2) + penalty |b|^2`` (Hoerl and Kennard 1970).

    Args:
        features: float64 [num, num_features].
        targets: float64 [num].
        penalty: above 0.

    Returns:
        float64 [num_features].
    """
    from sklearn.linear_model import Ridge

    # Its loss is the sum of squares. By SVD, for tiny penalties: normal equations square the condition number.
    return Ridge(len(features) * penalty, fit_intercept=False, solver="svd").fit(features, targets).coef_


def lasso(features: np.ndarray, targets: np.ndarray, penalty: float) -> np.ndarray:
    """Minimise ``mean((features b - targets)^2) + penalty sum(|b|)`` (Tibshirani 1996).

    All coefficients are 0 from a penalty of ``2 max |mean(feature target)|`` on. Of equally good solutions, which more
    features than rows may have, it gives the one that descent along the features in order finds from zeros. With very
    small penalties that descent is slow; it ends after a bounded number of passes, a gradient with fewer digits.

    Args:
        features: float64 [num, num_features].
        targets: float64 [num].
        penalty: above 0.

    Returns:
        float64 [num_features].
    """
    from sklearn.exceptions import ConvergenceWarning
    from sklearn.linear_model import Lasso

    # Its loss is half the mean of squares.
    model = Lasso(
        penalty / 2, fit_intercept=False, tol=_LASSO_TOLERANCE, max_iter=_LASSO_MAX_PASSES, selection="cyclic"
    )
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        return model.fit(features, targets).coef_
