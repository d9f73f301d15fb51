"""Policies near the current one: among them is what improves upon it."""

import numpy as np

from mlgo.core.seeding import generator
from mlgo.learn.bcmax.config import BCMaxConfig
from mlgo.policy.exploring import ExploringAdvisor
from mlgo.policy.policy import Policy
from mlgo.problems.llvm.task import Advisor


def variants(policy: Policy, config: BCMaxConfig, seed: int, number: int) -> dict[str, Advisor]:
    """Advisors that explore around a policy in one round, by name.

    Flipped ones change single answers by chance. Perturbed ones answer by other weights, so they change their minds
    in the same way wherever questions are alike; a clone can follow that more easily.

    Args:
        policy: current policy.
        config: how many of each kind, and how far they stray.
        seed: root seed.
        number: of the round; each has other variants.
    """
    found: dict[str, Advisor] = {}
    for i in range(config.flipped):
        own_seed = int(generator(seed, "bcmax", "flip", number, i).integers(2**63))
        found[f"flipped-{i}"] = ExploringAdvisor(policy, config.temperature, config.flip_share, own_seed)
    for i in range(config.perturbed):
        rng = generator(seed, "bcmax", "perturb", number, i)
        found[f"perturbed-{i}"] = policy.with_weights(perturbed(policy, config.perturbation, rng))
    return found


def perturbed(policy: Policy, scale: float, rng: np.random.Generator) -> np.ndarray:
    """Add Gaussian noise in units of each layer's root mean square weight: ``float64 [num_params]``."""
    weights = policy.weights.astype(np.float64)
    for part in policy.architecture.layer_slices():
        unit = np.sqrt(np.mean(weights[part] ** 2))
        weights[part] += scale * unit * rng.standard_normal(part.stop - part.start)
    return weights
