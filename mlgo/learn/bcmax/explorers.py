"""Settings, and what a round explores with: references and earlier policies at first, then variants of the policy."""

from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Annotated, Literal

import numpy as np
from pydantic import AfterValidator, Field

from mlgo.base.config import Positive, PositiveFloat, Section, Share, unique
from mlgo.base.seeding import generator
from mlgo.errors import PolicyError
from mlgo.host.tasks.task import Advisor, get_task
from mlgo.policy.policy import ExploringAdvisor, Policy
from mlgo.policy.stored import load_policy


class BCMaxConfig(Section):
    """Behavioural cloning of the best known trajectory of each module, again and again (BC-Max)."""

    rounds: Annotated[int, Field(ge=0)]
    """Rounds of exploring, keeping what was best, and cloning it."""
    hidden: list[Positive]
    """Units of each hidden layer of the clone; where the start policy has other ones, it starts from fresh weights."""
    clone_epochs: Positive
    """Passes over the heuristic's own trajectories with which a clone from fresh weights begins."""
    flipped: Annotated[int, Field(ge=0)]
    """Variants per round that turn some of the current policy's answers around."""
    temperature: Annotated[float, Field(ge=0.0)]
    """Their logits are divided by this and answers drawn from the sigmoid; 0 keeps the policy's answers."""
    flip_share: Share
    """Probability that they turn an answer around."""
    perturbed: Annotated[int, Field(ge=0)]
    """Variants per round with noise on the current policy's weights."""
    perturbation: PositiveFloat
    """Standard deviation of that noise, relative to each layer's root mean square weight."""
    references: Annotated[list[Literal["never", "random"]], AfterValidator(unique)]
    """Reference advisors that are compiled once, before the first round; the heuristic is always known."""
    random_share: Share
    """Probability that the random reference inlines; the same question always gets the same answer."""
    policies: Annotated[list[str], AfterValidator(unique)]
    """Folders of earlier policies that are compiled once, before the first round."""
    modules: Positive
    """Training modules at most, sampled reproducibly; the same in all rounds."""
    max_questions: Positive
    """Modules with more questions under the heuristic are left out, of training and of validation."""
    weighting: Literal["question", "module", "sqrt"]
    """What a module's total weight follows, as in bc."""
    gain_weight: Annotated[float, Field(ge=0.0)]
    """Further weight of a module per percent that its best trajectory gains over the heuristic."""
    epochs: Positive
    """Passes over the best trajectories per round."""
    batch_size: Positive
    """Questions per gradient step."""
    learning_rate: PositiveFloat
    """Adam step size."""
    quarantine_after: Positive
    """A module is left out once this many of its compiles, and half of all of them, have failed."""
    validation_modules: Positive
    """Validation modules that each round is judged on, at most."""


def load_earlier(folders: Iterable[str], task: str) -> dict[str, Policy]:
    """Load the policies that the configuration names, by folder."""
    earlier = {folder: load_policy(Path(folder)) for folder in folders}
    for folder, policy in earlier.items():
        if policy.task != task:
            raise PolicyError(
                f"{folder}, named in bcmax.policies, is a policy for {policy.task}, the start policy for {task}"
            )
    return earlier


def explorers(
    policy: Policy, earlier: Mapping[str, Policy], config: BCMaxConfig, seed: int, number: int
) -> dict[str, Advisor]:
    """Advisors of a round, by name: at first the references and earlier policies, then variants of the policy.

    Flipped ones change single answers by chance. Perturbed ones answer by other weights, so they change their minds
    in the same way wherever questions are alike; a clone can follow that more easily. Each round has others.
    """
    if not number:
        own_seed = int(generator(seed, "bcmax", "random").integers(2**63))
        indifferent = policy.with_weights(np.zeros_like(policy.weights))
        references: dict[str, Advisor] = {
            "never": get_task(policy.task).references.passive,
            # Not `RandomAdvisor`, which looks at more than the observation: response trees cannot serve it.
            "random": ExploringAdvisor(indifferent, 0.0, config.random_share, own_seed),
        }
        return {**{name: references[name] for name in config.references}, **earlier}
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
    for part in policy.network().layer_slices():
        unit = np.sqrt(np.mean(weights[part] ** 2))
        weights[part] += scale * unit * rng.standard_normal(part.stop - part.start)
    return weights
