"""MaskablePPO of SB3-Contrib on an environment of choices, with the very network that our own policies have.

Needs the extra ``sb3``; importing this module imports PyTorch.
"""

from collections.abc import Callable
from itertools import pairwise
from typing import Any

import gymnasium
import numpy as np
import torch
from sb3_contrib import MaskablePPO
from sb3_contrib.common.maskable.policies import MaskableActorCriticPolicy
from stable_baselines3.common.callbacks import BaseCallback
from stable_baselines3.common.torch_layers import BaseFeaturesExtractor

from mlgo.jit.env import ChoiceEnv
from mlgo.policy.network import flatten


class ActionScores(BaseFeaturesExtractor):
    """Scores every action by one network, as `mlgo.jit.policy.ChoicePolicy` does, in the space of `ChoiceEnv`."""

    def __init__(self, space: gymnasium.spaces.Dict, hidden: tuple[int, ...]) -> None:
        num_candidates, num_features = space["candidates"].shape or (0, 0)
        num_figures = (space["unit"].shape or (0,))[0]
        super().__init__(space, num_candidates + 1)
        widths = (num_features + num_figures + 1, *hidden)
        layers: list[torch.nn.Module] = []
        for inputs, outputs in pairwise(widths):
            layers += [torch.nn.Linear(inputs, outputs), torch.nn.ReLU()]
        self.network = torch.nn.Sequential(*layers, torch.nn.Linear(widths[-1], 1))

    def forward(self, seen: dict[str, torch.Tensor]) -> torch.Tensor:
        """Scores of actions, [num, max_candidates + 1]; rows are those of `Observer.columns_of`."""
        candidates, unit = seen["candidates"], seen["unit"]
        stop = torch.zeros_like(candidates[:, :1])
        rows = torch.cat([candidates, stop], dim=1)
        is_stop = torch.zeros_like(rows[..., :1])
        is_stop[:, -1] = 1.0
        figures = unit[:, None].expand(-1, rows.shape[1], -1)
        return self.network(torch.cat([rows, figures, is_stop], dim=2))[..., 0]

    def weights(self) -> np.ndarray:
        """The network as `mlgo.policy.network.flatten` puts it, float32 [num_params]."""
        linear = [layer for layer in self.network if isinstance(layer, torch.nn.Linear)]
        return flatten([(one.weight.detach().numpy().T, one.bias.detach().numpy()) for one in linear])


class _ScoresAsLogits(MaskableActorCriticPolicy):
    """Takes the scores as they are, without another layer that would mix the actions."""

    def _build(self, lr_schedule: Any) -> None:
        super()._build(lr_schedule)
        self.action_net = torch.nn.Identity()


class _Results(BaseCallback):
    """Logs how finished episodes came out, as means since the last log; ``done`` is called with new steps."""

    def __init__(self, done: Callable[[int], object]) -> None:
        super().__init__()
        self._done = done

    def _on_step(self) -> bool:
        self._done(1)
        for info in self.locals["infos"]:
            if "final_score" not in info:
                continue
            final, heuristic, none = info["final_score"], info["heuristic_score"], info["no_cse_score"]
            figures = {
                "vs_heuristic": 1.0 - final / heuristic,
                "vs_no_cse": 1.0 - final / none,
                "better_or_worse": float(np.sign(heuristic - final)),
                "num_cse": info["num_performed"],
                "invalid_choices": info["invalid_actions"],
            }
            for name, value in figures.items():
                self.logger.record_mean(f"results/{name}", value)
        return True


def train_maskable_ppo(
    env: ChoiceEnv,
    steps: int,
    hidden: tuple[int, ...],
    seed: int,
    tensorboard: str | None,
    done: Callable[[int], object] = lambda steps: None,
) -> np.ndarray:
    """Train for so many actions at least; nothing is discounted: a reward at the end belongs to all choices alike.

    Args:
        seed: of weights, actions and units.
        tensorboard: folder of logs (``results/vs_heuristic``, ``results/vs_no_cse``, ``results/better_or_worse``,
            ``results/num_cse``, ``results/invalid_choices``, beside the library's own).
        done: called now and then with the steps done since.

    Returns:
        Weights of a `ChoicePolicy` with these hidden layers, float32 [num_params].
    """
    torch.set_num_threads(1)  # faster for a small network, and sums do not depend on the number of cores
    policy = {
        "features_extractor_class": ActionScores,
        "features_extractor_kwargs": {"hidden": hidden},
        "share_features_extractor": False,
        "net_arch": {"pi": [], "vf": [64]},
    }
    learning = {"gamma": 1.0, "gae_lambda": 1.0, "n_steps": min(max(2, steps), 512), "batch_size": 128}
    agent = MaskablePPO(
        _ScoresAsLogits, env, policy_kwargs=policy, seed=seed, device="cpu", tensorboard_log=tensorboard, **learning
    )
    agent.learn(steps, callback=_Results(done), tb_log_name="sb3")
    extractor = agent.policy.pi_features_extractor
    assert isinstance(extractor, ActionScores)
    return extractor.weights()
