"""Rewards of choices, episodes with drawn actions as proximal policy optimisation takes them, and their figures."""

from collections.abc import Sequence
from typing import Any

import numpy as np

from mlgo.jit.choices.compiler import Compiled, Outcome
from mlgo.jit.choices.rollout import Episode
from mlgo.jit.choices.stored import EligibleUnit
from mlgo.learn.sampled import Sampled, SampledCompile
from mlgo.objects.measures import relative_reward


def rewards_of(unit: EligibleUnit, outcomes: Sequence[Outcome]) -> np.ndarray:
    """Relative gains over the built-in heuristic, float64 [num_outcomes]; NaN where a compile failed."""
    scores = np.array([one.score if isinstance(one, Compiled) else np.nan for one in outcomes])
    return relative_reward(scores, np.array(unit.heuristic))


def sampled_compiles(unit: EligibleUnit, episodes: Sequence[Episode]) -> list[SampledCompile | None]:
    """Episodes of a unit with their rewards; None where a compile failed."""
    rewards = rewards_of(unit, [one.outcome for one in episodes]).tolist()
    return [
        None
        if np.isnan(reward)
        else SampledCompile(reward, (Sampled(unit.name, one.inputs, one.actions.astype(np.uint8), reward),))
        for one, reward in zip(episodes, rewards, strict=True)
    ]


def results(units: Sequence[EligibleUnit], outcomes: Sequence[Sequence[Outcome]]) -> dict[str, Any]:
    """What is watched during training, as means over the compiles that went well.

    Args:
        units: what was compiled.
        outcomes: of each unit.

    Returns:
        ``results/vs_heuristic`` and ``results/vs_no_cse``, gains over the two baselines; ``results/better`` and
        ``results/worse``, shares of episodes beside the heuristic; ``results/num_cse``; ``results/failed``, a
        share of all.
    """
    pairs = [
        (unit, one)
        for unit, of_unit in zip(units, outcomes, strict=True)
        for one in of_unit
        if isinstance(one, Compiled)
    ]
    num = sum(len(of_unit) for of_unit in outcomes)
    if not pairs:
        return {"results/failed": 1.0}
    scores = np.array([outcome.score for _, outcome in pairs])
    heuristic, none = (np.array([getattr(unit, way) for unit, _ in pairs]) for way in ("heuristic", "none"))
    return {
        "results/vs_heuristic": float(np.mean(relative_reward(scores, heuristic))),
        "results/vs_no_cse": float(np.mean(relative_reward(scores, none))),
        "results/better": float(np.mean(scores < heuristic)),
        "results/worse": float(np.mean(scores > heuristic)),
        "results/num_cse": float(np.mean([outcome.num_performed for _, outcome in pairs])),
        "results/failed": 1.0 - len(pairs) / num,
    }
