"""Directions in which a generation looks."""

import numpy as np


def perturb(
    rng: np.random.Generator, pairs: int, num_params: int, scale: float, orthogonal: bool = False
) -> np.ndarray:
    """Draw Gaussian noise with standard deviation ``scale``: ``float64 [pairs, num_params]``.

    Args:
        rng: source of the noise.
        pairs: directions.
        num_params: dimensions.
        scale: standard deviation of each number.
        orthogonal: make directions orthogonal to each other, in groups of ``num_params`` when there are more.
    """
    if not orthogonal:
        return scale * rng.standard_normal((pairs, num_params))
    sizes = [min(num_params, pairs - first) for first in range(0, pairs, num_params)]
    return scale * np.concatenate([_orthogonal_group(rng, size, num_params) for size in sizes])


def _orthogonal_group(rng: np.random.Generator, size: int, num_params: int) -> np.ndarray:
    """Orthogonal rows, each of them distributed as a standard Gaussian vector: ``[size, num_params]``.

    Choromanski et al. 2018, "Structured Evolution with Compact Architectures for Scalable Policy Optimization". The
    signs are those of Mezzadri 2007, "How to Generate Random Matrices from the Classical Compact Groups": without
    them, the directions that come out of a QR decomposition are not uniform.
    """
    basis, triangle = np.linalg.qr(rng.standard_normal((num_params, size)))
    lengths = np.sqrt(rng.chisquare(num_params, size))
    return (basis * (np.sign(np.diag(triangle)) * lengths)).T
