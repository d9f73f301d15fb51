"""The project's own PPO learns which calls to inline for small code, from an environment, on the sample corpus.

    .venv/bin/python examples/own_ppo_inline.py --steps 100000

Prints the mean reward on modules that it did not train on: of random answers, and of the policy's own before and after
training. The built-in heuristic is 0 by construction, 0.01 is one percent less text. The pipeline itself
(`scripts/train.py ppo`) compiles without an environment, in many processes.
"""

import argparse
from pathlib import Path

import gymnasium
import numpy as np
from tqdm import tqdm

from mlgo.base.config import load_config
from mlgo.base.seeding import generator
from mlgo.envs.vector import VectorObservation
from mlgo.host.actions import Binary, sigmoid
from mlgo.learn.base import SampledCompile, Trajectory
from mlgo.learn.ppo.loop import optimise
from mlgo.objects.measures import FAILED_REWARD
from mlgo.policy.network import Architecture, logits

ROOT = Path(__file__).parent.parent


def modules(*projects: str) -> list[str]:
    """Sources of projects of the sample corpus."""
    return [str(path) for project in projects for path in sorted((ROOT / "data" / "sample" / project).glob("*.c*"))]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--steps", type=int, default=100_000, help="questions answered in training, at least")
    parser.add_argument("--seed", type=int, default=0)
    args = parser.parse_args()
    if args.steps < 2:
        parser.error("--steps must be 2 or more")

    train, validation = modules("lz", "hashmap", "json", "matrix"), modules("codec", "graph")
    held_out = modules("calc", "geometry")
    env = VectorObservation(gymnasium.make("mlgo/InlineSize-v0", modules=[*train, *validation, *held_out]))
    assert env.observation_space.shape is not None
    linear = Architecture((*env.observation_space.shape, 1))
    undecided = np.zeros(linear.num_params, np.float32)  # any answer is as likely as the other
    num_questions = min(args.steps, 2048)
    # An environment does not say what became of each function, which the default baseline needs.
    settings = {"iterations": -(-args.steps // num_questions), "baseline": "siblings"}
    config = load_config(ROOT / "config" / "config.yaml").ppo.model_copy(update=settings)

    def episode(module: str, weights: np.ndarray, luck: np.random.Generator | None = None) -> Trajectory:
        """Answers are drawn with the policy's probabilities; they are its own without luck."""
        layers = linear.unflatten(weights)
        seen: list[np.ndarray] = []
        answers: list[int] = []
        observation, _ = env.reset(options={"module": module})
        over = False
        while not over:
            chance = sigmoid(float(logits(layers, observation)))
            seen.append(observation)
            answers.append(int((luck.random() if luck else 0.5) < chance))
            observation, reward, terminated, truncated, _ = env.step(answers[-1])
            over = terminated or truncated
        gain = FAILED_REWARD if truncated else float(reward)
        return Trajectory(module, np.array(seen), np.array(answers, np.uint8), gain)

    def collect(weights: np.ndarray, iteration: int) -> list[SampledCompile]:
        """Whole compiles of modules drawn at random, until they have asked enough."""
        luck, compiles, asked = generator(args.seed, "example", "train", iteration), [], 0
        while asked < num_questions:
            one = episode(train[luck.integers(len(train))], weights, luck)
            compiles.append(SampledCompile(one.reward, (one,)))
            asked += len(one.answers)
        return compiles

    def validate(weights: np.ndarray) -> np.ndarray:
        return np.array([episode(module, weights).reward for module in validation])

    luck = generator(args.seed, "example", "random")
    random = np.mean([episode(module, undecided, luck).reward for module in held_out])
    before = np.mean([episode(module, undecided).reward for module in held_out])
    with tqdm(total=config.iterations, unit="iteration", disable=None) as bar:
        state = optimise(
            undecided,
            linear,
            Binary(),
            collect,
            validate,
            config,
            args.seed,
            after_iteration=lambda state: bar.update(),
        )
    after = np.mean([episode(module, state.best).reward for module in held_out])
    print(f"mean reward: random {random:+.4f}, untrained {before:+.4f}, after {args.steps} steps {after:+.4f}")


if __name__ == "__main__":
    main()
