"""PPO of Stable-Baselines3 learns which calls to inline for small code, on the sample corpus.

    make setup EXTRA=sb3
    .venv/bin/python examples/sb3_ppo_inline.py --steps 100000

Prints the mean reward on modules that it did not train on: of random answers, and of the policy's own before and after
training. The built-in heuristic is 0 by construction, 0.01 is one percent less text.
"""

import argparse
from collections.abc import Callable
from pathlib import Path
from statistics import fmean
from typing import Any

import gymnasium
import numpy as np
import torch
from stable_baselines3 import PPO

from mlgo.envs.vector import VectorObservation

SAMPLE = Path(__file__).parent.parent / "data" / "sample"


def modules(*projects: str) -> list[str]:
    """Sources of projects of the sample corpus."""
    return [str(path) for project in projects for path in sorted((SAMPLE / project).glob("*.c*"))]


def mean_reward(env: VectorObservation, names: list[str], act: Callable[[np.ndarray], Any]) -> float:
    """Mean over modules of an episode's reward, answers by ``act(observation)``."""
    totals = []
    for name in names:
        observation, _ = env.reset(options={"module": name})
        total, over = 0.0, False
        while not over:
            observation, reward, terminated, truncated, _ = env.step(act(observation))
            total, over = total + float(reward), terminated or truncated
        totals.append(total)
    return fmean(totals)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--steps", type=int, default=100_000, help="questions answered in training, at least")
    parser.add_argument("--seed", type=int, default=0)
    args = parser.parse_args()
    if args.steps < 2:
        parser.error("--steps must be 2 or more")
    torch.set_num_threads(1)  # faster for a small network, and sums do not depend on the number of cores

    train, held_out = modules("lz", "hashmap", "json", "matrix"), modules("calc", "geometry")
    training, testing = (VectorObservation(gymnasium.make("mlgo/InlineSize-v0", modules=m)) for m in (train, held_out))

    testing.action_space.seed(args.seed)
    random = mean_reward(testing, held_out, lambda _: testing.action_space.sample())

    # The only reward comes at the end and belongs to all answers alike, so nothing is discounted.
    learning = {"gamma": 1.0, "gae_lambda": 1.0, "n_steps": min(args.steps, 2048), "batch_size": 256}
    agent = PPO("MlpPolicy", training, seed=args.seed, device="cpu", **learning)

    def own(seen: np.ndarray) -> np.ndarray:
        return agent.predict(seen, deterministic=True)[0]

    before = mean_reward(testing, held_out, own)
    agent.learn(args.steps, progress_bar=True)
    after = mean_reward(testing, held_out, own)
    print(f"mean reward: random {random:+.4f}, untrained {before:+.4f}, after {args.steps} steps {after:+.4f}")


if __name__ == "__main__":
    main()
