"""Choosing eliminations as a Gymnasium environment: one candidate a step, one unit an episode."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, Literal

import numpy as np
from gymnasium import spaces
from gymnasium.error import ResetNeeded

from mlgo.base.config import SuperPmiConfig, parse_section
from mlgo.envs.episode import HostingEnv, Info, Observation
from mlgo.envs.picture import draw_episode
from mlgo.errors import ConfigError, CorpusError
from mlgo.jit.cache import CachedCompiler
from mlgo.jit.compiler import ChoiceCompiler, SuperPmiSpec, compile_each
from mlgo.jit.outcome import CompiledUnit, Failed
from mlgo.jit.process import LIMITS, SuperPmi
from mlgo.jit.state import RECORD, Choice, Observer, columns_for, skip_reason


class ChoiceReward:
    """A way to reward choices, here with nothing; scores are what is to be small."""

    def of_choice(self, before: float, after: float) -> float:
        """Reward of one more elimination, by the scores before and after it."""
        return 0.0

    def at_the_end(self, score: float, heuristic: float, none: float, num_chosen: int) -> float:
        """Reward of stopping."""
        return 0.0


@dataclass(frozen=True)
class StepChange(ChoiceReward):
    """The relative change of the score with each choice, as in the first such environment (leculver/jitml).

    Attributes:
        scale: ``reward = scale * (before - after) / before``.
    """

    scale: float = 5.0

    def of_choice(self, before: float, after: float) -> float:
        return self.scale * (before - after) / before if before else 0.0


@dataclass(frozen=True)
class ChoiceEndGain(ChoiceReward):
    """All at the end: the relative gain over the built-in heuristic.

    Attributes:
        scale: ``reward = scale * (heuristic - score) / heuristic``.
        loss_weight: losses count this many times.
        no_improvement: added where something was chosen, and the score is no better than with nothing chosen: for
            agents that should rather stop at once than waste eliminations.
    """

    scale: float = 1.0
    loss_weight: float = 1.0
    no_improvement: float = 0.0

    def at_the_end(self, score: float, heuristic: float, none: float, num_chosen: int) -> float:
        gain = self.scale * (heuristic - score) / heuristic if heuristic else 0.0
        wasted = self.no_improvement if num_chosen and score >= none else 0.0
        return (gain if gain >= 0.0 else self.loss_weight * gain) + wasted


Step = tuple[Observation, float, bool, bool, Info]

INVALID_PENALTY = -0.05
"""Reward of an action that is not allowed, and of a compile that fails (leculver/jitml)."""
INVALID_LIMIT = 20
"""So many invalid actions truncate an episode."""
_MAX_PICKS = 512


class ChoiceEnv(HostingEnv):
    """A unit whose eliminations an agent chooses, until it stops.

    Actions 0 to ``max_candidates - 1`` choose a candidate by its position, the last action stops. Observations are
    ``candidates`` (float32 [max_candidates, num_features] within 0 and 1; zeros where there is none) and ``unit``
    (float32 [len(RECORD)]); `features` names the first, ``state.RECORD`` the second.

    An action that is not allowed costs `INVALID_PENALTY` and changes nothing; `INVALID_LIMIT` of them truncate the
    episode. `action_masks` says which are allowed. A compile that fails truncates, with ``info["error"]``, and its unit
    is not drawn again.

    ``info`` holds ``unit``, ``action_is_valid``, ``invalid_actions``, ``chosen``, ``score`` (of the latest compile),
    ``previous_score``, ``total_reward``, and of the unit ``heuristic_score`` and ``no_cse_score``; at the end
    ``final_score``, ``num_performed`` and ``code_bytes``.

    Args:
        compiler: compiles units; the environment closes it.
        min_viable: units with fewer viable candidates are passed over.
        max_candidates: so are those with more candidates; 16 in the first such environment, at most 64.
        stop_at_once: whether stopping is allowed before anything is chosen; it was not in the first such environment.
        reward: how choices are rewarded.
        render_mode: None, ``ansi`` or ``rgb_array``.
    """

    metadata = {"render_modes": ["ansi", "rgb_array"], "render_fps": 4}  # noqa: RUF012

    def __init__(
        self,
        compiler: ChoiceCompiler,
        units: Sequence[str],
        min_viable: int = 3,
        max_candidates: int = 16,
        stop_at_once: bool = True,
        reward: ChoiceReward = StepChange(),
        render_mode: Literal["ansi", "rgb_array"] | None = None,
    ) -> None:
        if not 1 <= max_candidates <= 64:
            raise ConfigError(f"max_candidates is {max_candidates}; the JIT keeps at most 64, so take 1 to 64")
        if render_mode is not None and render_mode not in self.metadata["render_modes"]:
            raise ConfigError(f"render_mode: {render_mode} is none of {', '.join(self.metadata['render_modes'])}")
        if not 0 <= min_viable <= max_candidates:
            raise ConfigError(f"min_viable is {min_viable}; take 0 to max_candidates, {max_candidates}")
        self._compiler = CachedCompiler(compiler)
        self._units = list(units)
        self._min_viable, self._stop_at_once = min_viable, stop_at_once
        self.reward, self.render_mode = reward, render_mode
        self._dropped: dict[str, str] = {}
        self.observer = Observer(columns_for(self._feature_names()), max_candidates)
        shape = (max_candidates, len(self.observer.features))
        self.observation_space = spaces.Dict(
            {
                "candidates": spaces.Box(0.0, 1.0, shape, np.float32),
                "unit": spaces.Box(0.0, 1.0, (len(RECORD),), np.float32),
            }
        )
        self.action_space = spaces.Discrete(max_candidates + 1)
        self._choice: Choice | None = None
        self._unit, self._over = "", True
        self._lines: list[str] = []
        self._scores: list[float] = []
        self._rewards: list[float] = []

    @property
    def num_asked(self) -> int:
        """Outcomes asked for so far, known ones included."""
        return self._compiler.num_asked

    @property
    def features(self) -> tuple[str, ...]:
        """Names of what is seen of a candidate."""
        return self.observer.features

    def reset(self, *, seed: int | None = None, options: Info | None = None) -> tuple[Observation, Info]:
        """Begin with ``options["unit"]``, or with a unit drawn from the environment's generator; nothing is chosen."""
        super().reset(seed=seed)
        name = (options or {}).get("unit")
        if name is None:
            name = self._draw()
        elif name not in self._units:
            raise ConfigError(f"options['unit']: {name} is not among the {len(self._units)} units of this environment")
        elif reason := self._skip_reason(name):
            raise ConfigError(f"options['unit']: {name} cannot be chosen for: {reason}")
        self._unit = name
        none, heuristic = compile_each(self._compiler, name)
        assert isinstance(none, CompiledUnit)
        assert isinstance(heuristic, CompiledUnit)
        self._choice, self._heuristic = Choice(none, none), heuristic
        self._previous_score = none.score
        self._invalid, self._total, self._over = 0, 0.0, False
        self._scores, self._rewards = [none.score], [0.0]
        self._lines = [f"{name}: {none.score:g} without elimination, {heuristic.score:g} under the heuristic"]
        return self._observation(), self._info(valid=True)

    def step(self, action: np.int64) -> Step:
        """Choose a candidate, or stop."""
        if self._over or self._choice is None:
            raise ResetNeeded("the episode has not begun or is over: call reset() first")
        if not self.action_space.contains(action):
            raise ValueError(f"action {action!r} is not in {self.action_space}")
        if not self.action_masks()[action]:
            self._invalid += 1
            return self._given(INVALID_PENALTY, truncated=self._invalid >= INVALID_LIMIT, valid=False)
        if int(action) == self.observer.max_candidates:
            return self._finished(0.0)
        self._choice = choice = self._choice.choosing(int(action))
        outcome = self._compiler.outcome(self._unit, choice.chosen)
        if isinstance(outcome, Failed):
            self._dropped[self._unit] = outcome.kind
            step = self._given(INVALID_PENALTY, truncated=True)
            step[-1]["error"] = {"kind": outcome.kind, "message": outcome.message}
            return step
        self._previous_score, self._choice = choice.latest.score, replace(choice, latest=outcome)
        reward = self.reward.of_choice(self._previous_score, outcome.score)
        self._lines.append(
            f"{int(action):>4}: {outcome.score:g} ({outcome.num_performed} performed), reward {reward:+.4f}"
        )
        return self._given(reward) if self.observer.can_go_on(self._choice) else self._finished(reward)

    def action_masks(self) -> np.ndarray:
        """Which actions are allowed now, bool [max_candidates + 1]; see MaskablePPO of sb3-contrib."""
        if self._choice is None:
            return np.ones(self.observer.max_candidates + 1, bool)
        return self.observer.allowed(self._choice, stop=self._stop_at_once or bool(self._choice.chosen))

    def render(self) -> Any:
        """The episode so far, by ``render_mode``: text, a picture of scores and rewards (uint8 [h, w, 3]), or None."""
        if self.render_mode == "ansi":
            return "\n".join(self._lines)
        if self.render_mode == "rgb_array":
            return draw_episode(self._unit, np.array(self._scores), np.array(self._rewards), ("score", "step"))
        return None

    def close(self) -> None:
        """End the compiler."""
        if hasattr(self, "_compiler"):
            self._compiler.close()
        super().close()

    def __del__(self) -> None:
        self.close()

    def _finished(self, reward: float) -> Step:
        """What the whole choice earns."""
        assert self._choice is not None
        self._compiler.outcome(self._unit, self._choice.chosen)  # known, but counted as asked for
        score, none = self._choice.latest.score, self._choice.none.score
        reward += self.reward.at_the_end(score, self._heuristic.score, none, len(self._choice.chosen))
        self._lines.append(f"stop: {score:g}")
        return self._given(reward, terminated=True)

    def _given(self, reward: float, *, terminated: bool = False, truncated: bool = False, valid: bool = True) -> Step:
        assert self._choice is not None
        latest = self._choice.latest
        self._total += reward
        self._scores.append(latest.score)
        self._rewards.append(reward)
        self._over = terminated or truncated
        info = self._info(valid=valid)
        if terminated:
            info |= {"final_score": latest.score, "num_performed": latest.num_performed}
            info |= {"code_bytes": latest.code_bytes}
        return self._observation(), reward, terminated, truncated, info

    def _observation(self) -> Observation:
        assert self._choice is not None
        if len(self._choice.candidates) > self.observer.max_candidates:  # the compiler found more on the way
            return {name: np.zeros(space.shape, np.float32) for name, space in self.observation_space.items()}  # type: ignore[attr-defined]
        return {"candidates": self.observer.candidates(self._choice), "unit": self._choice.record()}

    def _info(self, *, valid: bool) -> Info:
        assert self._choice is not None
        return {
            "unit": self._unit,
            "chosen": self._choice.chosen,
            "action_is_valid": valid,
            "invalid_actions": self._invalid,
            "score": self._choice.latest.score,
            "previous_score": self._previous_score,
            "heuristic_score": self._heuristic.score,
            "no_cse_score": self._choice.none.score,
            "total_reward": self._total,
        }

    def _draw(self) -> str:
        """From all units, so that what earlier episodes found unfit does not change what a seed draws."""
        for _ in range(_MAX_PICKS):
            name = self._units[int(self.np_random.integers(len(self._units)))]
            reason = self._dropped.get(name) or self._skip_reason(name)
            if not reason:
                return name
            self._dropped[name] = reason
        reasons = sorted(set(self._dropped.values()))[:3]
        raise CorpusError(
            f"no eligible unit among {len(self._units)} in {_MAX_PICKS} draws: {'; '.join(reasons)}; name eligible "
            "units, or change min_viable and max_candidates"
        )

    def _skip_reason(self, name: str) -> str:
        none, heuristic = compile_each(self._compiler, name)
        return skip_reason(none, heuristic, self._min_viable, self.observer.max_candidates)

    def _feature_names(self) -> tuple[str, ...]:
        """Of the first unit that tells any."""
        failures = []
        for name in self._units[:_MAX_PICKS]:
            outcome = self._compiler.outcome(name, ())
            if not isinstance(outcome, CompiledUnit):
                failures.append(f"; {name} fails: {outcome.kind}, {outcome.message}")
            elif outcome.candidates.names:
                return outcome.candidates.names
        raise CorpusError(f"none of {len(self._units)} units has a candidate; name others{''.join(failures[:1])}")


_DEFAULTS: dict[str, Any] = {
    "core_root": None,
    "collection": None,
    "command": [],
    "jit": None,
    **{name: getattr(SuperPmi, name) for name in LIMITS},
}
_SAMPLE = {"max_methods": 1, "validation_share": 0.0, "test_share": 0.0}
"""Of no use here: an environment is given its units."""


def jit_cse(units: Sequence[str] = (), **options: Any) -> ChoiceEnv:
    """``mlgo/JitCse-v0``: methods of a SuperPMI collection under a Checked .NET JIT.

    Args:
        units: numbers of methods, as text; all of the collection without.
        options: those of `SuperPmiConfig` (by default those of config/config.yaml) but for what splits a collection,
            and those of `ChoiceEnv`.
    """
    given = {name: options.pop(name, value) for name, value in _DEFAULTS.items()}
    settings = parse_section(SuperPmiConfig, {**given, **_SAMPLE, "command": list(given["command"])}, "mlgo/JitCse-v0")
    spec = SuperPmiSpec.of(settings)
    spec.check()
    return ChoiceEnv(spec.open(), units or [name for name, _ in spec.baseline(no_cse=True)], **options)
