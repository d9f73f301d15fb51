"""How much each question counts in cloning."""

from typing import Literal

import numpy as np

Weighting = Literal["question", "module", "sqrt"]

_MODULE_EXPONENT = {"question": 0.0, "sqrt": 0.5, "module": 1.0}


def question_weights(
    modules: np.ndarray,
    answers: np.ndarray,
    weighting: Weighting,
    balance: bool,
    module_weights: np.ndarray | None = None,
) -> np.ndarray | None:
    """Weights of questions, their mean 1, so that the step size keeps its meaning.

    A module of n questions has a total weight in proportion to n (``question``), to its square root (``sqrt``) or to
    nothing (``module``). Balancing then scales the questions of each answer so that all answers weigh the same.

    Args:
        modules: int64 [num_questions], number of each question's module, from 0.
        answers: [num_questions].
        weighting: what a module's total weight follows.
        balance: whether each kind of answer gets the same total weight.
        module_weights: float64 [num_modules], further factor of each module; 1 without it.

    Returns:
        float32 [num_questions]; None where all questions count the same.
    """
    if weighting == "question" and not balance and module_weights is None:
        return None
    if not len(answers):
        return np.zeros(0, np.float32)
    weights = (1.0 / np.bincount(modules)[modules]) ** _MODULE_EXPONENT[weighting]
    if module_weights is not None:
        weights = weights * module_weights[modules]
    if balance:
        _, kinds = np.unique(answers, return_inverse=True)
        weights = weights / np.bincount(kinds, weights)[kinds]
    return (weights / weights.mean()).astype(np.float32)
