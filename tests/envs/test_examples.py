"""The examples that train agents on environments, as a user runs them."""

import importlib.util
import re
import subprocess
import sys

import gymnasium
import pytest

import mlgo.envs  # noqa: F401
from tests.conftest import REPOSITORY, SAMPLE
from tests.envs.conftest import finish

OWN, INLINE, EVICT = "own_ppo_inline", "sb3_ppo_inline", "sb3_maskable_ppo_evict"
SB3 = pytest.mark.skipif(
    any(importlib.util.find_spec(name) is None for name in ("stable_baselines3", "sb3_contrib")),
    reason="Stable-Baselines3 is not installed; run make setup EXTRA=sb3",
)
ALL = [OWN, pytest.param(INLINE, marks=SB3), pytest.param(EVICT, marks=SB3)]


def started(name: str, *arguments: str) -> subprocess.CompletedProcess[str]:
    program = [sys.executable, str(REPOSITORY / "examples" / f"{name}.py"), *arguments]
    return subprocess.run(program, capture_output=True, text=True, timeout=280, check=False, cwd=REPOSITORY)


def run(name: str, steps: int, seed: int = 0) -> tuple[float, float, float]:
    """Mean reward of random answers, of the untrained and of the trained policy."""
    done = started(name, "--steps", str(steps), "--seed", str(seed))
    assert done.returncode == 0, done.stderr
    found = re.search(rf"^mean reward: random (\S+), untrained (\S+), after {steps} steps (\S+)$", done.stdout, re.M)
    assert found, done.stdout
    random, untrained, trained = map(float, found.groups())
    return random, untrained, trained


@pytest.mark.slow
def test_the_undecided_policy_of_our_own_never_inlines():
    """What it is said to earn is what never inlining costs on the modules that are held out."""
    held_out = [str(path) for name in ("calc", "geometry") for path in sorted((SAMPLE / name).glob("*.c*"))]
    env = gymnasium.make("mlgo/InlineSize-v0", modules=held_out).unwrapped
    costs = []
    for module in held_out:
        _, _, info = finish(env, lambda *_: 0, options={"module": module})
        costs.append(1.0 - info["score"] / info["baseline"])
    env.close()
    random, untrained, _ = run(OWN, 256)
    assert untrained == pytest.approx(sum(costs) / len(costs), abs=1e-4)
    assert random < untrained < 0.0


@pytest.mark.slow
@pytest.mark.parametrize("name", [INLINE, EVICT])
@SB3
def test_a_few_steps_with_stable_baselines(name):
    """Random answers are far worse than the heuristic, and than those that follow some rule."""
    random, _, trained = run(name, 256)
    assert random < -0.2
    assert random < trained < 0.1


def test_no_steps_are_a_mistake():
    done = started(OWN, "--steps", "1")
    assert (done.returncode, done.stderr.splitlines()[-1]) == (2, f"{OWN}.py: error: --steps must be 2 or more")


@pytest.mark.slow
@pytest.mark.parametrize("name", ALL)
def test_the_same_seed_gives_the_same_policy(name):
    first = run(name, 256, seed=1)
    assert run(name, 256, seed=1) == first
    assert run(name, 256, seed=2)[0] != first[0]


@pytest.mark.slow
@pytest.mark.parametrize(("name", "steps"), [(OWN, 50_000), pytest.param(INLINE, 30_000, marks=SB3)])
def test_it_learns(name, steps):
    """Better than random by a wide margin, and than the policy that it began with."""
    random, untrained, trained = run(name, steps)
    assert trained > random + 0.3
    assert trained > untrained
