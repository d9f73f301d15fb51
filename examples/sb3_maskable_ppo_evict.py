"""MaskablePPO of SB3-Contrib learns whose register to free, on the sample corpus.

    make setup EXTRA=sb3
    .venv/bin/python examples/sb3_maskable_ppo_evict.py --steps 100000

Prints the mean reward on modules that it did not train on: of random legal columns, and of the policy's own before and
after training. The built-in heuristic is 0 by construction, 0.01 is one percent less spill cost.
"""

import argparse
from collections.abc import Callable
from pathlib import Path
from statistics import fmean
from typing import Any

import gymnasium
import numpy as np
import torch
from sb3_contrib import MaskablePPO
from sb3_contrib.common.maskable.policies import MaskableActorCriticPolicy
from stable_baselines3.common.torch_layers import BaseFeaturesExtractor

from mlgo.envs.vector import VectorObservation

SAMPLE = Path(__file__).parent.parent / "data" / "sample"


def modules(*projects: str) -> list[str]:
    """Sources of projects of the sample corpus."""
    return [str(path) for project in projects for path in sorted((SAMPLE / project).glob("*.c*"))]


class ColumnScores(BaseFeaturesExtractor):
    """One small network judges every column: what it learns of one holds for all 33.

    Args:
        space: of `VectorObservation`: features of columns, those of the question, the mask.
        num_columns: that may be chosen.
    """

    def __init__(self, space: gymnasium.spaces.Box, num_columns: int) -> None:
        super().__init__(space, num_columns)
        # Neither the mask nor what is left beside whole columns is a feature of a column.
        self._num_features, self._num_common = divmod(space.shape[0] - num_columns, num_columns)
        widths = (self._num_features + self._num_common, 32)
        self._judge = torch.nn.Sequential(torch.nn.Linear(*widths), torch.nn.ReLU(), torch.nn.Linear(widths[1], 1))

    def forward(self, vectors: torch.Tensor) -> torch.Tensor:
        """Scores of columns, [num, num_columns]."""
        split = self._num_features * self.features_dim
        columns = vectors[:, :split].reshape(-1, self._num_features, self.features_dim).transpose(1, 2)
        common = vectors[:, None, split : split + self._num_common].expand(-1, self.features_dim, -1)
        return self._judge(torch.cat([columns, common], dim=2))[..., 0]


class ColumnPolicy(MaskableActorCriticPolicy):
    """Takes the scores as logits, without another layer that mixes the columns."""

    def _build(self, lr_schedule: Any) -> None:
        super()._build(lr_schedule)
        self.action_net = torch.nn.Identity()


def mean_reward(env: VectorObservation, names: list[str], act: Callable[[np.ndarray, np.ndarray], Any]) -> float:
    """Mean over modules of an episode's reward, answers by ``act(observation, legal columns)``."""
    totals = []
    for name in names:
        observation, _ = env.reset(options={"module": name})
        total, over = 0.0, False
        while not over:
            observation, reward, terminated, truncated, _ = env.step(act(observation, env.action_masks()))
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

    train, held_out = modules("lz", "hashmap", "json", "codec", "graph"), modules("calc", "geometry")
    training, testing = (
        VectorObservation(gymnasium.make("mlgo/RegallocEvict-v0", modules=names)) for names in (train, held_out)
    )
    actions = testing.action_space
    assert isinstance(actions, gymnasium.spaces.Discrete)

    actions.seed(args.seed)
    random = mean_reward(testing, held_out, lambda _, legal: actions.sample(legal.astype(np.int8)))

    # The only reward comes at the end and belongs to all answers alike, so nothing is discounted.
    learning = {"gamma": 1.0, "gae_lambda": 1.0, "n_steps": min(args.steps, 2048), "batch_size": 256}
    policy = {
        "features_extractor_class": ColumnScores,
        "features_extractor_kwargs": {"num_columns": int(actions.n)},
        "share_features_extractor": False,
        "net_arch": {"pi": [], "vf": [64]},
    }
    agent = MaskablePPO(ColumnPolicy, training, policy_kwargs=policy, seed=args.seed, device="cpu", **learning)

    def own(seen: np.ndarray, legal: np.ndarray) -> np.ndarray:
        return agent.predict(seen, action_masks=legal, deterministic=True)[0]

    before = mean_reward(testing, held_out, own)
    agent.learn(args.steps, progress_bar=True)
    after = mean_reward(testing, held_out, own)
    print(f"mean reward: random {random:+.4f}, untrained {before:+.4f}, after {args.steps} steps {after:+.4f}")


if __name__ == "__main__":
    main()
