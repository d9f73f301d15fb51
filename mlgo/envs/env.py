"""One decision of the compiler is one step, one compile is one episode."""

import os
from array import array
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from pathlib import Path
from threading import Event
from typing import Any

import gymnasium
import numpy as np
from gymnasium.error import ResetNeeded

from mlgo.base.config import CompileConfig
from mlgo.base.scratch import scratch_directory
from mlgo.corpus.recipe import sample_files
from mlgo.envs import episode
from mlgo.envs.picture import draw_episode
from mlgo.envs.rewards import EndGain, Reward
from mlgo.errors import CompileError, ConfigError
from mlgo.evaluate.worker import is_discrete, tree_key
from mlgo.host.session import probe_channel
from mlgo.host.tasks.task import get_task
from mlgo.host.toolchain import find_toolchain
from mlgo.objects.measures import get_measure
from mlgo.pool.tree_store import ReplayStore


class CompileEnv(episode.HostingEnv):
    """A compile whose decisions an agent makes.

    The gain is relative, over the heuristic (`measures.relative_reward`), and 0 where the heuristic's score is 0, as of
    a module without code; how it is handed out is the reward's affair. A compile that fails, whatever the reason, ends
    the episode as truncated, as if it had gained nothing, with ``info["error"]``. Nothing that is observed, rewarded or
    told is infinite or NaN.

    ``info`` holds ``module``, ``context`` (function or module that is asked about), ``question`` (number in the
    compile), ``heuristic`` (the built-in decision, for inlining without trees), ``compiled`` (whether a compiler has
    been started), and at the end ``score`` and ``baseline``.

    Attributes:
        features: what is observed, with types and shapes.

    Args:
        modules: files to compile, bitcode or sources; or ``corpus`` and ``baseline``, folders that the pipeline made.
            Without either (None), all sources of the sample corpus.
        objective: score that is minimised; if None that of the baseline, or the task's first.
        optimization: level; if None that of the baseline, or ``-Oz`` for inlining and ``-O2`` for registers.
        toolchain: ``auto`` or a clang.
        render_mode: None, ``ansi`` or ``rgb_array``.
        settings: how modules are compiled, all of it; if None as the baseline was measured, or as config/config.yaml
            says.
        trees: folder of response trees, for example data/work/replay; what they know needs no compiler, and they learn
            what is compiled.
    """

    metadata = {"render_modes": ["ansi", "rgb_array"], "render_fps": 10}  # noqa: RUF012

    def __init__(
        self,
        task: str,
        modules: Sequence[str] | None = None,
        corpus: str | None = None,
        baseline: str | None = None,
        split: str = "train",
        objective: str | None = None,
        optimization: str | None = None,
        toolchain: str = "auto",
        target: str = "x86_64-linux-gnu",
        reward: Reward = EndGain(),  # noqa: B008
        render_mode: str | None = None,
        settings: CompileConfig | None = None,
        trees: str | None = None,
    ) -> None:
        if render_mode is not None and render_mode not in self.metadata["render_modes"]:
            raise ConfigError(f"render_mode: {render_mode} is none of {', '.join(self.metadata['render_modes'])}")
        files = None if modules is None else episode.named_files(modules)
        if bool(corpus) != bool(baseline) or (files and corpus):
            raise ConfigError("give either modules=[files], or corpus= and baseline=, folders that the pipeline made")
        self.task = get_task(task)
        self.settings = episode.choose_settings(
            self.task, Path(baseline) if baseline else None, settings, objective, optimization
        )
        self.toolchain = find_toolchain(toolchain, target)
        self.header = probe_channel(self.toolchain, self.task, self.settings)
        self._store: ReplayStore | None = None
        if trees is not None:
            assert self.header.advice is not None
            if not is_discrete(self.header.advice):
                raise ConfigError(f"trees: answers of task {task} are continuous and hardly repeat, so trees hold none")
            self._store = ReplayStore(Path(trees), tree_key(self.toolchain, self.task, self.settings))
        hides = self.task.default is not None and not self.settings.tell_heuristic
        hidden = {self.toolchain.quirks.default_slot, *self.task.default_features} if hides else set()
        self.features = tuple(spec for spec in self.header.features if spec.name not in hidden)
        self.observation_space = episode.observation_space(self.features)
        self.action_space = self.task.actions.gymnasium_space(gymnasium.spaces, self.header)
        self.reward, self.render_mode = reward, render_mode
        self._episode: episode.Episode | None = None
        self._scratch = ExitStack()
        folder = self._scratch.enter_context(scratch_directory())
        if corpus and baseline:
            paths, objective = (Path(corpus), Path(baseline)), self.settings.objective
            problems = episode.problems_of_corpus(*paths, split, self.toolchain, objective, folder)
            self._names = list(problems)
            self._problem_of: Callable[[str], episode.ModuleProblem] = problems.__getitem__
        else:
            known = sample_files() if files is None else files
            self._names = list(known)
            self._problem_of = episode.problems_of_files(known, self.toolchain, self.task, self.settings, folder)
            for name in files or ():  # what the user names must compile; of the sample, what is drawn will be
                self._problem_of(name)
        self._event: episode.Question | episode.Ending | None = None
        self._begin(self._problem_of(self._names[0]))
        self._see()

    def reset(
        self, *, seed: int | None = None, options: episode.Info | None = None
    ) -> tuple[episode.Observation, episode.Info]:
        """Begin a compile of ``options["module"]``, or of a module drawn from the environment's generator."""
        super().reset(seed=seed)
        self._stop()
        names = self._names
        name = os.fspath((options or {}).get("module") or names[self.np_random.integers(len(names))])
        if name not in names:
            raise ConfigError(f"options['module']: {name} is not among the {len(names)} modules of this environment")
        self._begin(self._problem_of(name))
        self._compiled, how = Event(), (self.toolchain, self.task)
        if self._store is not None:  # not told by a method: an environment that is dropped ends its compile at once
            self._episode = episode.recalled_compile(self._store, *how, self.problem, self.settings, self._compiled.set)
        else:
            self._compiled.set()
            shown = self.tells_heuristic
            self._episode = episode.live_compile(
                *how, self.problem.bitcode, self.settings, with_heuristic_feature=shown
            )
        self._go_on(self._episode, None)
        return self._see()

    def step(self, action: Any) -> tuple[episode.Observation, float, bool, bool, episode.Info]:
        """Answer a question and wait for the next one, or for the end of the compile.

        Raises:
            ValueError: the action is not in the action space.
        """
        if self._episode is None or self._event is None:
            raise ResetNeeded("the episode has not begun or is over: call reset() first")
        if not self.action_space.contains(action):
            raise ValueError(f"action {action!r} is not in {self.action_space}")
        asked = self._observation if isinstance(self._event, episode.Question) else None
        if isinstance(self._event, episode.Question):
            self._note(action)
            assert self.header.advice is not None
            self._go_on(self._episode, np.asarray(action, self.header.advice.dtype).tobytes())
        (observation, info), event, reward = self._see(), self._event, 0.0
        over, failed = not isinstance(event, episode.Question), isinstance(event, CompileError)
        if asked is not None:
            answer, following = float(np.asarray(action).item()), None if over else observation
            reward = self.reward.of_answer(asked, answer, following, self.problem.baseline)
            self._given += reward
        if not isinstance(event, episode.Question):
            measure, gain = get_measure(self.settings.objective), 0.0
            if not isinstance(event, CompileError) and self.problem.baseline + measure.offset:
                gain = float(measure.reward(np.array(event.score(measure.name)), np.array(self.problem.baseline)))
            reward += self.reward.at_the_end(gain, self._given)
            self._event = None
        self._rewards.append(reward)
        return observation, reward, over and not failed, failed, info

    def action_masks(self) -> np.ndarray:
        """Which actions are legal now, bool [num_actions]; see MaskablePPO of sb3-contrib."""
        if mask := self.task.actions.mask:
            legal: np.ndarray = self._observation[mask].ravel() != 0
            return legal if legal.any() else np.ones_like(legal)
        if isinstance(self.action_space, gymnasium.spaces.Discrete):
            return np.ones(int(self.action_space.n), bool)
        raise AttributeError("actions of this task are numbers, of which none is masked")

    def render(self) -> Any:
        """The episode so far: as text, a line for each answer, or as a picture, uint8 [height, width, 3].

        None where no ``render_mode`` was chosen.
        """
        if self.render_mode == "ansi":
            return "\n".join([f"{self.problem.name}, {len(self._lines)} answers", *self._lines])
        if self.render_mode == "rgb_array":
            return draw_episode(self.problem.name, np.array(self._answers), np.array(self._rewards))
        return None

    def close(self) -> None:
        """End the compile and remove what the environment made."""
        self._stop()
        self._scratch.close()
        super().close()

    def __del__(self) -> None:
        if hasattr(self, "_scratch"):  # not where a mistake of the user ended the constructor
            self.close()

    def _stop(self) -> None:
        if self._episode is not None:
            self._episode.close()
        self._episode = self._event = None

    def _go_on(self, talk: episode.Episode, answer: bytes | None) -> None:
        """Wait for the next question, or for the end of the compile."""
        self._event = None  # if what follows raises, the episode is over
        try:
            self._event = talk.send(answer)
        except StopIteration as end:
            self._event = end.value

    @property
    def tells_heuristic(self) -> bool:
        """Whether ``info`` holds the built-in decision; trees hold questions without it."""
        return self.task.default is not None and self._store is None

    def _begin(self, problem: episode.ModuleProblem) -> None:
        self.problem, self._given = problem, 0.0
        self._lines: list[str] = []
        self._answers, self._rewards = array("d"), array("d")

    def _see(self) -> tuple[episode.Observation, episode.Info]:
        """What is asked, all zeros when nothing is; and what to know beside it."""
        event, info = self._event, {"module": self.problem.name, "baseline": self.problem.baseline}
        if self._episode is not None:
            info["compiled"] = self._compiled.is_set()
        if isinstance(event, episode.Question):
            arrays = event.header.unpack(bytearray(event.payload))  # the agent's own
            self._observation = {spec.name: arrays[spec.name] for spec in self.features}
            info |= {"context": event.context, "question": event.number}
            if self.tells_heuristic:
                info["heuristic"] = int(arrays[self.toolchain.quirks.default_slot][0])
            return self._observation, info
        self._observation = {spec.name: np.zeros(spec.shape, spec.dtype) for spec in self.features}
        if isinstance(event, CompileError):
            info["error"] = {"kind": event.kind, "message": str(event)}
        elif event is not None:
            info |= {"score": event.score(self.settings.objective), "questions": event.num_questions}
            info["repaired_answers"] = event.num_repaired_answers
            info["object_sha256"] = event.object_sha256  # empty where trees know costs alone
        return self._observation, info

    def _note(self, action: Any) -> None:
        if self.render_mode is None:
            return
        assert isinstance(self._event, episode.Question)
        shown = float(action[0]) if isinstance(action, np.ndarray) and action.ndim else int(action)
        self._answers.append(shown)
        if self.render_mode == "ansi":
            self._lines.append(f"{self._event.number:>6} {self._event.context}: {shown}")
