"""One decision of the compiler is one step, one compile is one episode."""

from collections.abc import Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import gymnasium
import numpy as np
from gymnasium.error import ResetNeeded

from mlgo.compiler.probe import probe_channel
from mlgo.compiler.session import CompileResult
from mlgo.compiler.toolchain import find_toolchain
from mlgo.config import CompileConfig
from mlgo.envs.episode import Ending, LiveCompile, Question
from mlgo.envs.modules import problems_of_corpus, problems_of_files
from mlgo.envs.rewards import EndGain, Reward
from mlgo.envs.spaces import Observation, action_space, observation_space, observed
from mlgo.errors import ConfigError
from mlgo.scratch import scratch_directory
from mlgo.tasks import get_task
from mlgo.tasks.regalloc_evict import MASK
from mlgo.tasks.reward import OFFSETS, relative_reward


class CompileEnv(gymnasium.Env[Observation, Any]):
    """A compile whose decisions an agent makes.

    The gain is relative, over the heuristic (`tasks.reward.relative_reward`); how it is handed out is the reward's
    affair. A compile that fails, whatever the reason, ends the episode as truncated, as if it had gained nothing, with
    ``info["error"]``.

    ``info`` holds ``module``, ``context`` (function or module that is asked about), ``question`` (number in the
    compile), ``heuristic`` (the built-in decision, for inlining), and at the end ``score`` and ``baseline``.

    Attributes:
        task: the decision problem.
        features: what is observed, with types and shapes.

    Args:
        task: name of the decision problem.
        modules: files to compile, bitcode or sources; or ``corpus`` and ``baseline``, folders that the pipeline made.
        split: of the corpus.
        objective: score that is minimised; the task's first if None.
        optimization: level.
        toolchain: ``auto`` or a clang.
        target: triple.
        reward: how answers are rewarded, see rewards.py.
        render_mode: None or ``ansi``.

    Raises:
        ConfigError: neither modules nor a corpus, or an objective that the task does not have.
        ToolchainError: the compiler offers no channel for the task.
    """

    metadata = {"render_modes": ["ansi"]}  # noqa: RUF012

    def __init__(
        self,
        task: str,
        modules: Sequence[str] = (),
        corpus: str | None = None,
        baseline: str | None = None,
        split: str = "train",
        objective: str | None = None,
        optimization: str = "-Oz",
        toolchain: str = "auto",
        target: str = "x86_64-linux-gnu",
        reward: Reward = EndGain(),  # noqa: B008
        render_mode: str | None = None,
    ) -> None:
        self.task = get_task(task)
        self._settings = CompileConfig(
            objective=objective or self.task.objectives[0],  # type: ignore[arg-type]
            optimization=optimization,  # type: ignore[arg-type]
            size_stop_factor=4.0,
            compile_timeout_s=120.0,
            max_memory_gb=8.0,
            answer_timeout_s=60.0,
            max_questions=1_000_000,
        )
        self.task.check_objective(self._settings.objective)
        if self._settings.objective == "dedup_bytes":
            raise ConfigError("objective: dedup_bytes depends on a project's other modules; choose text_bytes")
        if bool(modules) == bool(corpus and baseline):
            raise ConfigError("give either modules=[files], or corpus= and baseline=, folders that the pipeline made")
        self._toolchain = find_toolchain(toolchain, target)
        self._header = probe_channel(self._toolchain, self.task, self._settings)
        told = {self._toolchain.quirks.default_slot, *self.task.default_features} if self.task.default else set()
        self.features = observed(self._header, frozenset(told))
        self.observation_space = observation_space(self.features)  # type: ignore[assignment]
        self.action_space = action_space(self._header)
        self.reward, self.render_mode = reward, render_mode
        self._compile: LiveCompile | None = None
        self._scratch = ExitStack()
        folder = self._scratch.enter_context(scratch_directory())
        problems = (
            problems_of_files(modules, self._toolchain, self.task, self._settings, folder)
            if modules
            else problems_of_corpus(Path(corpus or ""), Path(baseline or ""), split, self._settings.objective, folder)
        )
        self._problems = {one.name: one for one in problems}
        self._problem = problems[0]
        self._event: Question | Ending | None = None
        self._see()
        self._given = 0.0
        self._lines: list[str] = []

    def reset(
        self, *, seed: int | None = None, options: dict[str, Any] | None = None
    ) -> tuple[Observation, dict[str, Any]]:
        """Begin a compile of ``options["module"]``, or of a module drawn from the environment's generator.

        Raises:
            ConfigError: an unknown module.
        """
        super().reset(seed=seed)
        self._stop()
        names = list(self._problems)
        name = (options or {}).get("module") or names[self.np_random.integers(len(names))]
        if name not in self._problems:
            raise ConfigError(f"options['module']: {name} is not among the {len(names)} modules of this environment")
        self._problem, self._lines, self._given = self._problems[name], [], 0.0
        self._compile = LiveCompile(self._toolchain, self.task, self._problem.bitcode, self._settings)
        self._event = self._compile.ask()
        return self._see()

    def step(self, action: Any) -> tuple[Observation, float, bool, bool, dict[str, Any]]:
        """Answer a question and wait for the next one, or for the end of the compile.

        Raises:
            ResetNeeded: there is no question to answer.
            ValueError: the action is not in the action space.
        """
        if self._compile is None or self._event is None:
            raise ResetNeeded("the episode has not begun or is over: call reset() first")
        if not self.action_space.contains(action):
            raise ValueError(f"action {action!r} is not in {self.action_space}")
        asked = self._observation if isinstance(self._event, Question) else None
        if isinstance(self._event, Question):
            self._note(action)
            assert self._header.advice is not None
            self._compile.answer(np.asarray(action, self._header.advice.dtype).tobytes())
            self._event = self._compile.ask()
        (observation, info), event, reward = self._see(), self._event, 0.0
        if asked is not None:
            following = observation if isinstance(event, Question) else None
            reward = self.reward.of_answer(asked, float(np.asarray(action).item()), following, self._problem.baseline)
            self._given += reward
        if isinstance(event, Question):
            return observation, reward, False, False, info
        reward += self.reward.at_the_end(self._gain(event), self._given)
        self._event = None
        return observation, reward, isinstance(event, CompileResult), not isinstance(event, CompileResult), info

    def action_masks(self) -> np.ndarray:
        """Which actions are legal now, bool [num_actions]; see MaskablePPO of sb3-contrib.

        Raises:
            AttributeError: any priority is legal.
        """
        if MASK in self._observation:
            legal: np.ndarray = self._observation[MASK].ravel() != 0
            return legal if legal.any() else np.ones_like(legal)
        if isinstance(self.action_space, gymnasium.spaces.Discrete):
            return np.ones(int(self.action_space.n), bool)
        raise AttributeError("actions of this task are numbers, of which none is masked")

    def render(self) -> str | None:
        """The episode so far as text, a line for each answer."""
        return "\n".join([f"{self._problem.name}, {len(self._lines)} answers", *self._lines])

    def close(self) -> None:
        """End the compile and remove what the environment made."""
        self._stop()
        self._scratch.close()

    def __del__(self) -> None:
        if hasattr(self, "_scratch"):  # not where a mistake of the user ended the constructor
            self.close()

    def _stop(self) -> None:
        if self._compile is not None:
            self._compile.close()
        self._compile = self._event = None

    def _see(self) -> tuple[Observation, dict[str, Any]]:
        """What is asked, all zeros when nothing is; and what to know beside it."""
        event, info = self._event, {"module": self._problem.name, "baseline": self._problem.baseline}
        if isinstance(event, Question):
            arrays = self._header.unpack(event.payload)
            self._observation = {spec.name: arrays[spec.name].copy() for spec in self.features}
            info |= {"context": event.context, "question": event.number}
            if self.task.default is not None:
                info["heuristic"] = int(arrays[self._toolchain.quirks.default_slot][0])
            return self._observation, info
        self._observation = {spec.name: np.zeros(spec.shape, spec.dtype) for spec in self.features}
        if isinstance(event, CompileResult):
            info |= {"score": float(getattr(event, self._settings.objective)), "questions": event.num_questions}
            info |= {"repaired_answers": event.num_repaired_answers, "object_sha256": event.object_sha256}
        elif event is not None:
            info["error"] = {"kind": event.kind, "message": str(event)}
        return self._observation, info

    def _gain(self, event: Ending) -> float:
        if not isinstance(event, CompileResult):
            return 0.0
        objective = self._settings.objective
        score, baseline = np.array(float(getattr(event, objective))), np.array(self._problem.baseline)
        return float(relative_reward(score, baseline, OFFSETS.get(objective, 0.0)))

    def _note(self, action: Any) -> None:
        assert isinstance(self._event, Question)
        if self.render_mode is not None:
            shown = float(action[0]) if isinstance(action, np.ndarray) and action.ndim else int(action)
            self._lines.append(f"{self._event.number:>6} {self._event.context}: {shown}")
